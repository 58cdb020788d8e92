"""Offline run folders of W&B, and their records as W&B's own ``wandb leet inspect`` prints them."""

from __future__ import annotations

import importlib.metadata
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, Iterator, List, Sequence, Tuple

PREFIX = "offline-run-"
INSTALL_HINT = f"install it beside the collector: {sys.executable} -m pip install 'wandb>=0.31'"
_MINIMUM = (0, 31)
_CORRUPT = "skipped corrupt data"
# No address of W&B is contacted: neither for runs nor for reports of errors.
_OFFLINE = {"WANDB_MODE": "offline", "WANDB_ERROR_REPORTING": "false", "WANDB_SILENT": "true"}


class ReaderMissing(Exception):
    """W&B's package cannot read run folders here. The text says what to install."""


class UnreadableFolder(Exception):
    """A folder is no complete offline run. The text has the reason."""


@dataclass(frozen=True)
class OfflineFolder:
    """A folder ``offline-run-<time>-<id>`` with its transaction log."""

    path: Path
    log: Path

    @property
    def run_id(self) -> str:
        return self.log.name[len("run-") : -len(".wandb")]

    def state(self) -> List[Any]:
        """Return path, size and time of change, by which a changed folder is recognised."""
        status = self.log.stat()
        return [str(self.log), status.st_size, status.st_mtime_ns]


def check_reader() -> str:
    """Return the version of W&B's package. Raises ReaderMissing."""
    try:
        version = importlib.metadata.version("wandb")
    except importlib.metadata.PackageNotFoundError as error:
        raise ReaderMissing(f"W&B's package is not installed; {INSTALL_HINT}") from error
    numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
    if numbers < _MINIMUM:
        raise ReaderMissing(f"W&B's package {version} is too old; {INSTALL_HINT}")
    return version


def find_folders(roots: Sequence[Path]) -> Tuple[List[OfflineFolder], List[Tuple[Path, str]]]:
    """Return the offline runs at and below the roots, oldest first, and the folders without a
    log, with the reason. Symbolic links are not followed.
    """
    folders: Dict[Path, OfflineFolder] = {}
    broken: List[Tuple[Path, str]] = []
    for root in roots:
        for path in _candidates(root.resolve(), broken):
            logs = sorted(path.glob("run-*.wandb"))
            if len(logs) == 1 and logs[0].is_file():
                folders[path] = OfflineFolder(path, logs[0])
            else:
                broken.append((path, f"{len(logs)} files run-*.wandb instead of one"))
    return sorted(folders.values(), key=lambda folder: folder.path.name), broken


def read_records(folder: OfflineFolder) -> Iterator[Dict[str, Any]]:
    """Yield the records of a log in order. Raises UnreadableFolder, at the end for corrupt data."""
    command = [sys.executable, "-m", "wandb", "leet", "inspect", "--json", str(folder.log)]
    # A folder named wandb in the current folder would replace the package.
    with (
        tempfile.TemporaryFile() as errors,
        subprocess.Popen(
            command,
            cwd="/",
            env={**os.environ, **_OFFLINE},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
        ) as process,
    ):
        assert process.stdout is not None
        try:
            for line in process.stdout:
                yield _parse_record(line)
            code = process.wait()
        finally:
            if process.poll() is None:
                process.kill()
        errors.seek(0)
        text = errors.read().decode("utf-8", "replace").strip()
    reason = text.splitlines()[-1][:300] if text else ""
    if code != 0:
        raise UnreadableFolder(f"wandb leet inspect ended with {code}: {reason}")
    if _CORRUPT in text:
        raise UnreadableFolder(f"the log is damaged: {reason}")


def _candidates(root: Path, broken: List[Tuple[Path, str]]) -> Iterator[Path]:
    def note(error: OSError) -> None:
        broken.append((Path(error.filename or root), error.strerror or str(error)))

    if root.name.startswith(PREFIX):
        yield root
        return
    for folder, names, _ in os.walk(root, onerror=note):
        found = [name for name in names if name.startswith(PREFIX)]
        for name in sorted(found):
            yield Path(folder, name)
        names[:] = [name for name in names if name not in found]


def _parse_record(line: bytes) -> Dict[str, Any]:
    try:
        record = json.loads(line)
    except ValueError as error:
        raise UnreadableFolder("wandb leet inspect printed a line that is not JSON") from error
    if not isinstance(record, dict) or not isinstance(record.get("type"), str):
        raise UnreadableFolder("wandb leet inspect printed a record without a type")
    return record
