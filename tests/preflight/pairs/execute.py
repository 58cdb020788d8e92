"""Executes the runs of a pair and derives its truth from what they print.

A run prints ``RESULT <digest> seed <number>``, or ``unseeded`` in place of the seed, or
``deterministic`` if it uses no random numbers. If the seeds of two runs differ, or one has none,
both are executed once more with Python's random numbers fixed: equal results then prove that the
work is equal.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.preflight.pairs.model import Framework, Pair, RunSpec, Truth

ROOT = Path(__file__).parent
# MLflow takes seconds to import. Its scripts log to it only where it is installed, so their pairs
# run without it; a test compares a run with MLflow and one without.
PYTHON_FOLDERS = {"hydra": "pairs/bin", "notebook": "pairs/bin"}
TIMEOUT_S = 120
RESULT = re.compile(r"^RESULT ([0-9a-f]+) (seed -?\d+|unseeded|deterministic)$", re.MULTILINE)
CONFIG_SUFFIXES = (".yaml", ".yml", ".json", ".toml", ".env", ".ini")
DATA_SUFFIXES = (".csv", ".txt", ".jsonl", ".db")


class RunFailedError(Exception):
    """A run ended with an error, or printed no result line."""


@dataclass(frozen=True)
class Started:
    """A run whose files are written: what remains is to start the command."""

    folder: Path
    command: tuple[str, ...]
    environ: dict[str, str]


@dataclass(frozen=True)
class Result:
    """``lines``: (digest, seed) of each result line, sorted, so that the order of the parts of a
    sweep is no difference. ``data_known``: each data file that was read is named.
    """

    lines: tuple[tuple[str, str], ...]
    data_known: bool

    @property
    def digests(self) -> list[str]:
        return sorted(digest for digest, _ in self.lines)

    @property
    def seeds(self) -> list[str]:
        return sorted(seed for _, seed in self.lines)

    @property
    def seed_known(self) -> bool:
        return all(seed.startswith("seed ") for seed in self.seeds)


def python_folder(framework: Framework, *, with_mlflow: bool = False) -> Path:
    """Return the folder of the interpreter that has what ``framework`` needs."""
    name = "mlflow/bin" if with_mlflow else PYTHON_FOLDERS.get(framework, "bin")
    folder = Path(sys.prefix) / name
    if not (folder / "python").exists():
        raise FileNotFoundError(f"{folder} has no python: run `make environments`")
    return folder


def locate(root: Path, spec: RunSpec, path: str) -> Path:
    """Return the absolute path of a file of ``spec``. It must be in ``root``."""
    base = root / "home" if path.startswith("~/") else root / spec.folder
    located = (base / path.removeprefix("~/")).resolve()
    if not located.is_relative_to(root):
        raise ValueError(f"{path} is outside of the root")
    return located


def materialise(spec: RunSpec, root: Path, python: Path) -> Started:
    """Write the files of a run below ``root``, which must be empty. ``python``: the folder of the
    interpreter that runs it.
    """
    root = root.resolve()
    (root / "home").mkdir()
    for path, text in spec.files.items():
        target = locate(root, spec, path)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
        if text.startswith("#!"):
            target.chmod(0o755)
    folder = root / spec.folder
    search = f"{ROOT / 'programs'}:{python}:/usr/bin:/bin"
    environ = {
        "PATH": search,
        "HOME": str(root / "home"),
        "LANG": "C.UTF-8",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    values = {key: value.replace("{root}", str(root)) for key, value in spec.environ.items()}
    command = tuple(word.replace("{root}", str(root)) for word in spec.command)
    if spec.git is not None:
        _commit(spec, folder, environ)
    return Started(folder, command, {**environ, **values})


def _commit(spec: RunSpec, folder: Path, environ: dict[str, str]) -> None:
    """Commit the state that ``spec.git`` describes, then restore the files of the run."""
    assert spec.git is not None
    for path, text in spec.git.files.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if text is None:
            target.unlink()
        else:
            target.write_text(text, encoding="utf-8")
    author = ["-c", "user.name=Researcher", "-c", "user.email=researcher@example.org"]
    for arguments in (
        ["init", "--quiet"],
        ["add", "--all"],
        [*author, "commit", "--quiet", "--no-gpg-sign", "-m", spec.git.message],
    ):
        subprocess.run(["git", *arguments], cwd=folder, env=environ, check=True)
    for path in spec.git.files:
        if path in spec.files:
            (folder / path).write_text(spec.files[path], encoding="utf-8")
        else:
            (folder / path).unlink()


def execute(
    spec: RunSpec,
    framework: Framework,
    *,
    fixed_random: bool = False,
    with_mlflow: bool = False,
) -> Result:
    """Execute a run in a temporary folder. ``fixed_random``: each seed has the same effect.
    ``with_mlflow``: by an interpreter that has MLflow.
    """
    python = python_folder(framework, with_mlflow=with_mlflow)
    with tempfile.TemporaryDirectory(prefix="pair-") as temporary:
        root = Path(temporary).resolve()
        started = materialise(spec, root, python)
        opened = root / "opened-files"
        observed = {
            "PYTHONPATH": str(ROOT / "observer"),
            "PAIR_OPENED_FILES": str(opened),
            "PAIR_FIXED_RANDOM": "1" if fixed_random else "",
        }
        completed = subprocess.run(
            started.command,
            cwd=started.folder,
            env={**started.environ, **observed},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
        )
        output = completed.stdout + completed.stderr
        lines = RESULT.findall(output)
        if completed.returncode or not lines:
            raise RunFailedError(f"{spec.command} ended with {completed.returncode}:\n{output}")
        files = [Path(line) for line in opened.read_text(encoding="utf-8").splitlines()]
        known = is_data_named(started, [path for path in files if path.is_relative_to(root)])
        return Result(tuple(sorted(lines)), known)


def is_data_named(started: Started, opened: Sequence[Path]) -> bool:
    """Return whether each data file in ``opened`` is named, or is in a folder that is named."""
    configs = [
        path for path in opened if path.suffix in CONFIG_SUFFIXES or path.name in CONFIG_SUFFIXES
    ]
    named = set(_named_paths(started, configs))
    return all(
        path in named or any(parent in named for parent in path.parents)
        for path in opened
        if path.suffix in DATA_SUFFIXES
    )


def _named_paths(started: Started, configs: Sequence[Path]) -> Iterator[Path]:
    texts = [(started.folder, " ".join(started.command))]
    texts += [(started.folder, value) for name, value in started.environ.items() if name != "HOME"]
    for path in configs:
        if path.exists():
            text = re.sub(r'["\w]+:(?=\s)', " ", path.read_text(encoding="utf-8"))  # without keys
            texts += [(path.parent, text), (started.folder, text)]
    root = {started.folder, *started.folder.parents}
    for folder, text in texts:
        for word in re.split(r"[\s=:,;\"'{}\[\]]+", text):
            word = word.replace("~", started.environ["HOME"], 1) if word.startswith("~/") else word
            if word and len(word) < 200:
                path = Path(os.path.normpath(folder / word))
                if path not in root:
                    yield path


def executed_truth(pair: Pair, left: Result, right: Result) -> Truth:
    """Return the truth that the results prove."""
    if left.seeds == right.seeds and "unseeded" not in left.seeds:
        return "same" if left.lines == right.lines else "different"
    fixed_left = execute(pair.left, pair.framework, fixed_random=True)
    fixed_right = execute(pair.right, pair.framework, fixed_random=True)
    if fixed_left.digests != fixed_right.digests:
        return "different"
    return "same" if left.digests == right.digests else "replicate"
