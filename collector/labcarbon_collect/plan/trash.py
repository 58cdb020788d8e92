"""The trash: a folder beside what went, on the same file system, that nobody but its owner can open.

``<folder>/.labcarbon-trash/<plan>/<line>``. Moving there is one rename(2): at any moment a thing has one of its two names.
"""

from __future__ import annotations

import json
import os
import stat
from contextlib import contextmanager, suppress
from typing import Any, Dict, Iterator

from labcarbon_collect.plan.content import File, Listing
from labcarbon_collect.plan.places import FOLDER, Stays, lies, on_disk, open_file

TRASH = ".labcarbon-trash"
_MOST_LISTED_BYTES = 1 << 30


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


def write_into(trash: int, name: str, content: Any) -> None:
    """Write JSON under a name in the trash, on disk when we return. Raises OSError."""
    opened = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644, dir_fd=trash)
    with os.fdopen(opened, "w", encoding="ascii") as file:
        json.dump(content, file, indent=1 if isinstance(content, dict) else None)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())
    on_disk(trash)


def keep_listing(trash: int, line: int, listing: Listing) -> None:
    """Keep what is to be deleted, so that a deletion that was interrupted deletes that and nothing else. Raises OSError."""
    files = [[os.fsdecode(f.name), f.inode, f.size, f.mtime_ns, f.ctime_ns] for f in listing.files]
    folders = [[os.fsdecode(path), inode] for path, inode in listing.folders]
    write_into(trash, f"{line}.list", [listing.form, files, folders])


def kept_listing(trash: int, line: int, device: int) -> Listing:
    """What was to be deleted. Raises Stays where it cannot be told."""
    name = f"{line}.list"
    try:
        with os.fdopen(open_file(trash, name), encoding="ascii") as file:
            form, files, folders = json.loads(file.read(_MOST_LISTED_BYTES))
        return Listing(
            str(form), device, [File(os.fsencode(f[0]), *map(int, f[1:])) for f in files],
            [(os.fsencode(path), int(inode)) for path, inode in folders],
        )  # fmt: skip
    except (OSError, ValueError, TypeError, IndexError) as error:
        raise Stays("its deletion was begun, and the list of what it held is damaged") from error


def forget(trash: int, line: int) -> None:
    """Remove what was kept beside a line that is not in the trash any more."""
    for name in (f"{line}.list", f"{line}.tombstone"):
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
