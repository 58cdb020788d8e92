"""What is about to be done and what was done, line by line, on disk before the next step.

A file of JSON lines in the collector's private folder, one file per plan. The last entry of a line says where it stands.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Dict

# Where a line stands. What is about to be done ends in -ing: a kill may have come before or behind it.
MOVING, TRASHED = "moving", "trashed"  # at_us of TRASHED: since when it lies there
RESTORING, RESTORED = "restoring", "restored"
DELETING, DELETED = "deleting", "deleted"
REFUSED = "refused"  # left where it was
HELD = "held"  # not what was approved, and cannot go back: something else has its name. Nobody deletes it but a person


class Journal:
    """The journal of a plan. ``last``: the last entry of each line."""

    def __init__(self, folder: Path, plan: str) -> None:
        """Read it, if it is there. Raises OSError."""
        self.path = folder / f"{plan}.jsonl"
        self.last: Dict[int, Dict[str, Any]] = {}
        self._open = -1
        try:
            content = self.path.read_bytes()
        except FileNotFoundError:
            content = b""
        self._is_torn = bool(content) and not content.endswith(b"\n")
        for row in content.split(b"\n"):
            self._take(row)

    def state(self, line: int) -> str:
        """Where a line stands; empty where nothing was begun."""
        return str(self.last.get(line, {}).get("state", ""))

    def at_us(self, line: int) -> int:
        """When it came there, µs UTC."""
        return int(self.last.get(line, {}).get("at_us", 0))

    def word(self, line: int) -> str:
        """Why, where there is a reason."""
        return str(self.last.get(line, {}).get("word", ""))

    def note(self, line: int, state: str, *, at_us: int, **facts: Any) -> None:
        """Add an entry; it is on disk when we return. Raises OSError."""
        entry = {"line": line, "state": state, "at_us": at_us, **facts}
        content = json.dumps(entry).encode("ascii") + b"\n"
        if self._open < 0:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
            self._open = os.open(self.path, flags, 0o600)
            _on_disk(self.path.parent)
        if self._is_torn:
            content, self._is_torn = b"\n" + content, False
        _write(self._open, content)
        os.fsync(self._open)
        self.last[line] = entry

    def close(self) -> None:
        """Let go of the file."""
        if self._open >= 0:
            os.close(self._open)
            self._open = -1

    def _take(self, row: bytes) -> None:
        """A line that a kill cut off was never acted on: it is left out."""
        try:
            entry = json.loads(row)
            line, _, _ = int(entry["line"]), str(entry["state"]), int(entry["at_us"])
        except (ValueError, TypeError, KeyError):
            return
        self.last[line] = entry


def _write(opened: int, content: bytes) -> None:
    left = memoryview(content)
    while left:
        left = left[os.write(opened, left) :]


def _on_disk(folder: Path) -> None:
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
