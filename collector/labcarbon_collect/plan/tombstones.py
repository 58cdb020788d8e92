"""What is left in the place of what went: a small file that says what it was, why it went, and how it comes back."""

from __future__ import annotations

import os
from datetime import datetime, timedelta, timezone
from typing import Any, Dict

from labcarbon_collect.cleanup.client import Line, Plan
from labcarbon_collect.cleanup.safe_paths import Stays, on_disk
from labcarbon_collect.cleanup.trash import read_json, slot_path, write_into
from labcarbon_collect.plan.noreplace import move_anew

SUFFIX = ".labcarbon-tombstone.json"
_LONGEST = 255


def tombstone(plan: Plan, line: Line, *, by: str, page: str, moved_us: int, deleted_us: int = 0) -> Dict[str, Any]:
    """What a tombstone says. ``deleted_us`` 0: it can still come back."""
    moved = datetime.fromtimestamp(moved_us // 1_000_000, tz=timezone.utc)
    said: Dict[str, Any] = {
        "labcarbon": "tombstone", "plan": plan.uuid, "line": line.number, "page": page, "path": line.path,
        "name": line.name, "form": line.form, "digest": line.digest, "bytes": line.bytes, "files": line.files,
        "why": line.kept, "approved_by": plan.approved_by, "approved_at": plan.approved_at,
        "moved_by": by, "moved_at": moved.isoformat(),
    }  # fmt: skip
    if deleted_us:
        deleted = datetime.fromtimestamp(deleted_us // 1_000_000, tz=timezone.utc)
        return {**said, "state": "deleted", "deleted_at": deleted.isoformat()}
    return {
        **said, "state": "in the trash", "lies_at": slot_path(line.path, plan.uuid, line.number),
        "until_at_least": (moved + timedelta(days=plan.trash_days)).isoformat(),
        "bring_back": f"labcarbon-collect apply-plan {plan.uuid} --restore {line.number}",
    }  # fmt: skip


def put(folder: int, trash: int, said: Dict[str, Any]) -> str:
    """Put a tombstone in the place of what went, in place of an earlier one of the same line; return its name.

    Another file's name is never taken: then the plan's number is in it. Raises Stays where none can be put, and OSError.
    """
    fresh = f"{said['line']}.tombstone"
    write_into(trash, fresh, said)
    for name in _names(said):
        if _is_of(read_json(folder, name), said):
            os.rename(fresh, name, src_dir_fd=trash, dst_dir_fd=folder)
        else:
            try:
                move_anew(trash, fresh, folder, name)
            except FileExistsError:
                continue
        on_disk(folder)
        return name
    os.unlink(fresh, dir_fd=trash)
    raise Stays("its tombstone has no place: other files have both of its names")


def take_away(folder: int, said: Dict[str, Any]) -> None:
    """Remove the tombstone of what came back. Raises OSError."""
    for name in _names(said):
        if _is_of(read_json(folder, name), said):
            os.unlink(name, dir_fd=folder)
    on_disk(folder)


def _names(said: Dict[str, Any]) -> tuple[str, str]:
    name = os.fsencode(os.path.basename(said["path"]))
    number = f".{said['plan'][:8]}-{said['line']}{SUFFIX}"
    return (
        os.fsdecode(name[: _LONGEST - len(SUFFIX)]) + SUFFIX,
        os.fsdecode(name[: _LONGEST - len(number)]) + number,
    )


def _is_of(found: Dict[str, Any], said: Dict[str, Any]) -> bool:
    return all(found.get(key) == said[key] for key in ("labcarbon", "plan", "line", "path"))
