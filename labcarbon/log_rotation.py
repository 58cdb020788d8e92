"""Limits the size of the log files of `make run`, which its processes write through open files."""

import shutil
from pathlib import Path

MAX_BYTES = 10 << 20


def rotate(path: Path, *, max_bytes: int = MAX_BYTES) -> bool:
    """Move the content of a large log file to ``<name>.1``, which is replaced. Returns whether it
    was large.

    Processes append to the file, so they continue at its new end. What they write between copying
    and truncating, some microseconds, is lost.
    """
    try:
        if path.stat().st_size <= max_bytes:
            return False
    except FileNotFoundError:
        return False
    partial = path.with_name(f"{path.name}.partial")
    with path.open("r+b") as source, partial.open("wb") as target:
        shutil.copyfileobj(source, target, 1 << 20)
        target.flush()
        source.truncate(0)
    partial.replace(path.with_name(f"{path.name}.1"))
    return True


def rotate_all(folder: Path) -> None:
    """Rotate each ``*.log`` of a folder."""
    for path in sorted(folder.glob("*.log")):
        rotate(path)
