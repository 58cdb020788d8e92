"""The trash: a private folder beside the moved content, on the same file system.

``<folder>/.labcarbon-trash/<plan>/<item>``. A move is one rename(2): at any time the content has
exactly one of its two names.
"""

from __future__ import annotations

import json
import os
import stat
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta, timezone
from typing import Any, Dict, Iterator, List, Optional, Sequence

from labcarbon_collect.cleanup.client import CleanupItem, CleanupPlan
from labcarbon_collect.cleanup.safe_paths import (
    FOLDER_FLAGS,
    ItemBlocked,
    exists,
    open_file,
    rename_exclusive,
    sync_folder,
)

TRASH = ".labcarbon-trash"


def slot_path(path: str, plan: str, number: int) -> str:
    """Return the path of an item in the trash."""
    return f"{os.path.dirname(path).rstrip('/')}/{TRASH}/{plan}/{number}"


@contextmanager
def open_trash(folder: int, plan: str, *, create: bool = False) -> Iterator[int]:
    """Open the trash of a plan in a folder. Yields its descriptor, -1 if there is none. Raises
    ItemBlocked if it is not private.
    """
    outer = _open_private(folder, TRASH, create=create)
    inner = -1
    try:
        inner = outer if outer < 0 else _open_private(outer, plan, create=create)
        yield inner
    finally:
        for descriptor in {inner, outer} - {-1}:
            os.close(descriptor)


def trash_location(folder: int, trash: int) -> List[int]:
    """Return numbers that identify a trash: device and inode of its folder, and its own inode.
    Another folder may be visible at the same path while its disk is unmounted.
    """
    status = os.fstat(folder)
    return [status.st_dev, status.st_ino, os.fstat(trash).st_ino]


def is_same_trash(location: Optional[Sequence[int]], folder: int, trash: int) -> bool:
    """Return whether this is the recorded trash, so that missing content is really missing.

    A device may get another number after a reboot; then the inode of the trash is enough.
    ``location`` None: unknown, any trash matches.
    """
    if not location or (trash >= 0 and location[2] == os.fstat(trash).st_ino):
        return trash >= 0
    status = os.fstat(folder)
    return list(location[:2]) == [status.st_dev, status.st_ino]


def remove_if_empty(folder: int, plan: str) -> None:
    """Remove the trash of a plan, and the trash folder, if they are empty."""
    with suppress(OSError, ItemBlocked):
        outer = _open_private(folder, TRASH, create=False)
        if outer >= 0:
            try:
                with suppress(FileNotFoundError):
                    os.rmdir(plan, dir_fd=outer)
            finally:
                os.close(outer)
            os.rmdir(TRASH, dir_fd=folder)


def write_json(folder: int, name: str, content: Any) -> None:
    """Write JSON to a file in a private folder, flushed to disk. Raises OSError."""
    descriptor = os.open(
        name,
        os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC,
        0o644,
        dir_fd=folder,
    )
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        json.dump(content, file, indent=1 if isinstance(content, dict) else None)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())
    sync_folder(folder)


def remove_sidecars(trash: int, number: int) -> None:
    """Remove the files beside an item that left the trash."""
    for name in (f"{number}.list", f"{number}.tombstone"):  # .list files: of earlier versions
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=trash)


def read_json(folder: int, name: str, max_bytes: int = 1 << 16) -> Dict[str, Any]:
    """Return a small JSON object of a file, {} if it is missing or something else."""
    try:
        with os.fdopen(open_file(folder, name), encoding="utf-8") as file:
            value = json.loads(file.read(max_bytes))
    except (OSError, ValueError, ItemBlocked, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _open_private(folder: int, name: str, *, create: bool) -> int:
    """Open a private folder of this user. ``create``: create it if needed. Returns -1 if there is
    none.
    """
    if create and not exists(folder, name):
        try:
            with suppress(FileExistsError):
                os.mkdir(name, 0o700, dir_fd=folder)
            sync_folder(folder)
        except OSError as error:
            raise ItemBlocked(
                f"the trash folder beside it cannot be created: {error.strerror}"
            ) from error
    try:
        descriptor = os.open(name, FOLDER_FLAGS, dir_fd=folder)
    except FileNotFoundError:
        return -1
    except OSError as error:
        raise ItemBlocked(
            f"the trash beside it ({name}) cannot be opened as a folder: {error.strerror}"
        ) from error
    status = os.fstat(descriptor)
    reason = ""
    if status.st_uid != os.geteuid():
        reason = f"belongs to uid {status.st_uid}, and this is uid {os.geteuid()}"
    elif stat.S_IMODE(status.st_mode) & 0o077:
        reason = "is accessible to others: check its content, then chmod 700"
    elif status.st_dev != os.fstat(folder).st_dev:
        reason = "is another file system"
    if reason:
        os.close(descriptor)
        raise ItemBlocked(f"the trash beside it ({name}) {reason}")
    return descriptor


TOMBSTONE_SUFFIX = ".labcarbon-tombstone.json"
_MAX_NAME_BYTES = 255


def tombstone_content(
    plan: CleanupPlan, item: CleanupItem, *, by: str, page: str, moved_us: int, deleted_us: int = 0
) -> Dict[str, Any]:
    """Return the content of a tombstone. ``deleted_us`` 0: the item can still be restored."""
    moved_at = datetime.fromtimestamp(moved_us // 1_000_000, tz=timezone.utc)
    tombstone: Dict[str, Any] = {
        "labcarbon": "tombstone",
        "plan": plan.uuid,
        "line": item.number,
        "page": page,
        "path": item.path,
        "name": item.name,
        "form": item.form,
        "digest": item.digest,
        "bytes": item.bytes,
        "files": item.files,
        "why": item.retention_class,
        "approved_by": plan.approved_by,
        "approved_at": plan.approved_at,
        "moved_by": by,
        "moved_at": moved_at.isoformat(),
    }
    if deleted_us:
        deleted_at = datetime.fromtimestamp(deleted_us // 1_000_000, tz=timezone.utc)
        return {**tombstone, "state": "deleted", "deleted_at": deleted_at.isoformat()}
    return {
        **tombstone,
        "state": "in the trash",
        "lies_at": slot_path(item.path, plan.uuid, item.number),
        "until_at_least": (moved_at + timedelta(days=plan.trash_days)).isoformat(),
        "bring_back": f"labcarbon-collect apply-plan {plan.uuid} --restore {item.number}",
    }


def write_tombstone(folder: int, trash: int, tombstone: Dict[str, Any]) -> str:
    """Write a tombstone at the path of a moved item, replacing an earlier one of the same item.
    Returns its name.

    Never replaces another file: then the name contains the plan's number. Raises ItemBlocked if no
    name is free, and OSError.
    """
    temporary_name = f"{tombstone['line']}.tombstone"
    write_json(trash, temporary_name, tombstone)
    for name in _tombstone_names(tombstone):
        if _is_tombstone_of(read_json(folder, name), tombstone):
            os.rename(temporary_name, name, src_dir_fd=trash, dst_dir_fd=folder)
        else:
            try:
                rename_exclusive(trash, temporary_name, folder, name)
            except FileExistsError:
                continue
        sync_folder(folder)
        return name
    os.unlink(temporary_name, dir_fd=trash)
    raise ItemBlocked("no tombstone could be written: both of its names are taken")


def remove_tombstone(folder: int, tombstone: Dict[str, Any]) -> None:
    """Remove the tombstone of a restored item. Raises OSError."""
    for name in _tombstone_names(tombstone):
        if _is_tombstone_of(read_json(folder, name), tombstone):
            os.unlink(name, dir_fd=folder)
    sync_folder(folder)


def _tombstone_names(tombstone: Dict[str, Any]) -> tuple[str, str]:
    name = os.fsencode(os.path.basename(tombstone["path"]))
    numbered_suffix = f".{tombstone['plan'][:8]}-{tombstone['line']}{TOMBSTONE_SUFFIX}"
    return (
        os.fsdecode(name[: _MAX_NAME_BYTES - len(TOMBSTONE_SUFFIX)]) + TOMBSTONE_SUFFIX,
        os.fsdecode(name[: _MAX_NAME_BYTES - len(numbered_suffix)]) + numbered_suffix,
    )


def _is_tombstone_of(content: Dict[str, Any], tombstone: Dict[str, Any]) -> bool:
    return all(content.get(key) == tombstone[key] for key in ("labcarbon", "plan", "line", "path"))
