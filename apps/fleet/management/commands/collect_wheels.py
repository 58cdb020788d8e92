"""Collect the files that nodes install from the address /install/."""

import os
import shutil
import subprocess
import sys
import tempfile
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from apps.fleet.install.wheels import MANIFEST, UNIT_FILES, read_manifest, write_manifest

LOCK = Path("requirements", "collector.txt")
_EPOCH = "315532800"  # 1980: the same sources become the same wheel


class Command(BaseCommand):
    help = (
        "Build the collector's wheel and download what it needs, by the hashes of "
        "requirements/collector.txt. Run it in a clone of the project, after each upgrade."
    )
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--pip", metavar="PROGRAM", help="the pip to use (default: that of this environment)"
        )
        parser.add_argument(
            "--source",
            type=Path,
            default=settings.BASE_DIR,
            metavar="FOLDER",
            help="the clone with the collector (default: this one)",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        source: Path = options["source"]
        folder: Path = settings.WHEELS_DIR
        needed = [source / "collector" / "pyproject.toml", source / LOCK]
        needed += [source / "deploy" / name for name in UNIT_FILES]
        missing = [str(path) for path in needed if not path.is_file()]
        if missing:
            raise CommandError(
                f"{', '.join(missing)} not found. Name a clone of the project: --source FOLDER"
            )
        pip = (
            [options["pip"], "--python", sys.executable]
            if options["pip"]
            else [sys.executable, "-m", "pip"]
        )
        with tempfile.TemporaryDirectory(prefix="labcarbon-wheels-") as work:
            requirements = _collect(pip, source, Path(work))
            _publish(Path(work), folder, requirements)
        for file in read_manifest(folder):
            self.stdout.write(f"{file.sha256}  {file.name}")


def _collect(pip: list[str], source: Path, work: Path) -> dict[str, str]:
    """Put all files into ``work``. Return {file name: requirement}."""
    quiet = ["--quiet", "--disable-pip-version-check"]
    _run(
        [
            *pip, "download", *quiet, "--require-hashes", "--no-deps", "--only-binary", ":all:",
            "--dest", str(work), "--requirement", str(source / LOCK),
        ]
    )  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="labcarbon-collector-") as copy:
        shutil.copytree(  # a build leaves files in its folder
            source / "collector",
            copy,
            dirs_exist_ok=True,
            ignore=shutil.ignore_patterns("__pycache__", "*.egg-info", "build"),
        )
        _run(
            [
                *pip, "wheel", *quiet, "--no-deps", "--no-build-isolation", "--no-index",
                "--wheel-dir", str(work), copy,
            ]
        )  # fmt: skip
    requirements = {path.name: _requirement(path.name) for path in work.glob("*.whl")}
    bound = [name for name in requirements if not name.endswith("-none-any.whl")]
    if bound:
        raise CommandError(
            f"{', '.join(bound)} works on one platform only. Nodes may have another one."
        )
    for name in UNIT_FILES:
        shutil.copyfile(source / "deploy" / name, work / name)
    return requirements | dict.fromkeys(UNIT_FILES, "")


def _requirement(wheel: str) -> str:
    name, version = wheel.split("-")[:2]
    return f"{name.replace('_', '-')}=={version}"


def _run(command: list[str]) -> None:
    done = subprocess.run(
        command,
        env={**os.environ, "SOURCE_DATE_EPOCH": _EPOCH, "PYTHONWARNINGS": "ignore"},
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise CommandError(f"{' '.join(command[:6])} … failed:\n{done.stdout}{done.stderr}".strip())


def _publish(work: Path, folder: Path, requirements: dict[str, str]) -> None:
    """Move the files to their folder. The manifest is replaced last; what it does not list is
    deleted.
    """
    write_manifest(work, requirements)
    folder.mkdir(parents=True, exist_ok=True)
    for name in (*sorted(requirements), MANIFEST):
        partial = folder / f".{name}.partial"
        shutil.copyfile(work / name, partial)
        partial.chmod(0o644)
        partial.replace(folder / name)
    for path in folder.iterdir():
        if path.name not in {*requirements, MANIFEST}:
            path.unlink()
