"""The folder of files that nodes install: the collector, what it needs, and its units.

``manage.py collect_wheels`` fills it. ``manifest.json`` lists the files with their digests.
"""

import hashlib
import json
import re
from dataclasses import dataclass
from pathlib import Path

MANIFEST = "manifest.json"
UNIT_FILES = (
    "labcarbon-collect.service",
    "labcarbon.sysusers.conf",
    "labcarbon.tmpfiles.conf",
)
_FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")


class WheelsMissing(Exception):
    """The folder has no files that can be installed. The text states the reason."""


@dataclass(frozen=True)
class InstallFile:
    """A file of the folder. ``requirement``: such as ``rfc8785==0.1.4``, '' for other files."""

    name: str
    sha256: str
    size: int
    requirement: str

    @property
    def project(self) -> str:
        return self.requirement.partition("==")[0]


def read_manifest(folder: Path) -> list[InstallFile]:
    """Return the files of the folder, by name. Raises WheelsMissing."""
    try:
        content = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        files = [InstallFile(**row) for row in content["files"]]
    except FileNotFoundError as error:
        raise WheelsMissing(f"The collector's files are not in {folder}.") from error
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise WheelsMissing(f"{folder / MANIFEST} is not readable.") from error
    for file in files:
        path = folder / file.name
        if not _FILE_NAME.fullmatch(file.name) or not path.is_file():
            raise WheelsMissing(f"{path} is missing.")
        if path.stat().st_size != file.size:
            raise WheelsMissing(f"{path} is not complete.")
    projects = {file.project for file in files}
    if not {"labcarbon-collect", "pip"} <= projects:
        raise WheelsMissing(f"The collector's wheel is not in {folder}.")
    return sorted(files, key=lambda file: file.name)


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_manifest(folder: Path, requirements: dict[str, str]) -> None:
    """Write the manifest of a folder. ``requirements``: {file name: requirement}, '' for none."""
    files = [
        {
            "name": name,
            "sha256": file_digest(folder / name),
            "size": (folder / name).stat().st_size,
            "requirement": requirement,
        }
        for name, requirement in sorted(requirements.items())
    ]
    text = json.dumps({"files": files}, indent=1) + "\n"
    (folder / MANIFEST).write_text(text, encoding="utf-8")
