"""The files of the install address, from the packages of this environment: no test needs a package
registry.
"""

import base64
import hashlib
import os
import subprocess
import sys
import zipfile
from importlib.metadata import distribution
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_GENERATED = frozenset({"RECORD", "INSTALLER", "REQUESTED", "direct_url.json"})
NEEDED = ("nvidia-ml-py", "rfc8785", "pip")


def _record_row(name: str, content: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    return f"{name},sha256={digest},{len(content)}\n"


def repack(project: str, folder: Path) -> Path:
    """Write the wheel of an installed, pure project."""
    installed = distribution(project)
    contents = {
        str(path): path.locate().read_bytes()  # type: ignore[attr-defined]
        for path in installed.files or ()
        if ".." not in path.parts
        and "__pycache__" not in path.parts
        and path.name not in _GENERATED
    }
    info = next(name.split("/")[0] for name in contents if name.endswith(".dist-info/METADATA"))
    rows = "".join(_record_row(name, content) for name, content in contents.items())
    contents[f"{info}/RECORD"] = f"{rows}{info}/RECORD,,\n".encode()
    wheel = folder / f"{info.removesuffix('.dist-info')}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, content in contents.items():
            archive.writestr(name, content)
    return wheel


def local_clone(folder: Path) -> Path:
    """Return a folder like a clone, whose lock names wheels of this environment."""
    (folder / "requirements").mkdir(parents=True)
    (folder / "collector").symlink_to(ROOT / "collector")
    (folder / "deploy").symlink_to(ROOT / "deploy")
    packages = folder / "packages"
    packages.mkdir()
    lines = []
    for project in NEEDED:
        wheel = repack(project, packages)
        name, version = wheel.name.split("-")[:2]
        digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
        lines.append(f"{name}=={version} --hash=sha256:{digest}\n")
    (folder / "requirements" / "collector.txt").write_text("".join(lines), encoding="ascii")
    return folder


def collect(clone: Path, wheels: Path, data: Path) -> subprocess.CompletedProcess[str]:
    """Run ``manage.py collect_wheels`` without any registry."""
    return subprocess.run(
        [sys.executable, "manage.py", "collect_wheels", "--source", str(clone)],
        cwd=ROOT,
        env={
            **os.environ,
            "LABCARBON_DATA": str(data),
            "LABCARBON_WHEELS": str(wheels),
            "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": str(clone / "packages"),
        },
        capture_output=True,
        text=True,
        timeout=120,
    )
