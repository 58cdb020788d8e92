"""The trash: a folder beside what went, on the same file system, that nobody but its owner can open.

``<folder>/.labcarbon-trash/<plan>/<line>``. Moving there is one rename(2): at any moment a thing has one of its two names.
"""

from __future__ import annotations

import json
import os
import stat
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta, timezone
from typing import Any, Dict, Iterator, List, Optional, Sequence

from labcarbon_collect.cleanup.client import Line, Plan
from labcarbon_collect.cleanup.safe_paths import FOLDER, Stays, lies, move_anew, on_disk, open_file

TRASH = ".labcarbon-trash"


def slot_path(path: str, plan: str, line: int) -> str:
    """Where a line of a plan lies once it went."""
    return f"{os.path.dirname(path).rstrip('/')}/{TRASH}/{plan}/{line}"


@contextmanager
def trash_in(folder: int, plan: str, *, make: bool = False) -> Iterator[int]:
    """Open a plan's trash in a folder; yields its descriptor, -1 where there is none. Raises Stays where it is not ours."""
    outer = _ours(folder, TRASH, make=make)
    inner = -1
    try:
        inner = outer if outer < 0 else _ours(outer, plan, make=make)
        yield inner
    finally:
        for opened in {inner, outer} - {-1}:
            os.close(opened)


def place_of(folder: int, trash: int) -> List[int]:
    """What tells a trash from one that lies at the same path while its disk is away: device and inode of its folder, and its
    own inode."""
    about = os.fstat(folder)
    return [about.st_dev, about.st_ino, os.fstat(trash).st_ino]


def is_there(place: Optional[Sequence[int]], folder: int, trash: int) -> bool:
    """Whether this is the place that was noted, so that what does not lie in its trash is gone. A device may have another
    number after a restart: then the trash's inode is enough. ``place`` None: nobody knows, and any trash will do."""
    if not place or (trash >= 0 and place[2] == os.fstat(trash).st_ino):
        return trash >= 0
    about = os.fstat(folder)
    return list(place[:2]) == [about.st_dev, about.st_ino]


def clear_away(folder: int, plan: str) -> None:
    """Remove a plan's trash, and the trash, where nothing lies in them any more."""
    with suppress(OSError, Stays):
        outer = _ours(folder, TRASH, make=False)
        if outer >= 0:
            try:
                with suppress(FileNotFoundError):
                    os.rmdir(plan, dir_fd=outer)
            finally:
                os.close(outer)
            os.rmdir(TRASH, dir_fd=folder)


def write_into(folder: int, name: str, content: Any) -> None:
    """Write JSON under a name in a folder of ours, on disk when we return. Raises OSError."""
    opened = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644, dir_fd=folder)
    with os.fdopen(opened, "w", encoding="ascii") as file:
        json.dump(content, file, indent=1 if isinstance(content, dict) else None)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())
    on_disk(folder)


def forget(trash: int, line: int) -> None:
    """Remove what was kept beside a line that is not in the trash any more."""
    for name in (f"{line}.list", f"{line}.tombstone"):  # lists: of earlier versions
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=trash)


def read_json(folder: int, name: str, most_bytes: int = 1 << 16) -> Dict[str, Any]:
    """A small JSON object in a folder, {} where there is none or it is something else."""
    try:
        with os.fdopen(open_file(folder, name), encoding="utf-8") as file:
            found = json.loads(file.read(most_bytes))
    except (OSError, ValueError, Stays, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _ours(folder: int, name: str, *, make: bool) -> int:
    """Open a folder of ours that nobody else can look into, made if that is wanted; -1 where there is none."""
    if make and not lies(folder, name):
        try:
            with suppress(FileExistsError):
                os.mkdir(name, 0o700, dir_fd=folder)
            on_disk(folder)
        except OSError as error:
            raise Stays(f"no trash can be made beside it: {error.strerror}") from error
    try:
        opened = os.open(name, FOLDER, dir_fd=folder)
    except FileNotFoundError:
        return -1
    except OSError as error:
        raise Stays(f"the trash beside it ({name}) is no folder that we can open: {error.strerror}") from error
    about = os.fstat(opened)
    why = ""
    if about.st_uid != os.geteuid():
        why = f"belongs to uid {about.st_uid}, and this is uid {os.geteuid()}"
    elif stat.S_IMODE(about.st_mode) & 0o077:
        why = "can be opened by others: chmod 700 it once you know what lies in it"
    elif about.st_dev != os.fstat(folder).st_dev:
        why = "is another file system"
    if why:
        os.close(opened)
        raise Stays(f"the trash beside it ({name}) {why}")
    return opened


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
