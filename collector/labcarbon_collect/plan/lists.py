"""What a folder held whose deletion was begun, kept beside the journal until it is gone: a deletion that was interrupted
deletes that and nothing else. A file needs none: it is there as it was, or gone.

Not in the trash: that may lie on the full disk which a deletion is to make room on. Earlier versions kept it there.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path

from labcarbon_collect.cleanup.journal import Journal
from labcarbon_collect.cleanup.safe_paths import FOLDER, Stays, lies, open_file
from labcarbon_collect.cleanup.trash import write_into
from labcarbon_collect.plan.listing import File, Listing

_MOST_BYTES = 1 << 30


def keep_list(journal: Journal, line: int, listing: Listing) -> None:
    """Keep what is to be deleted, on disk when we return. Raises Stays."""
    files = [[os.fsdecode(f.name), f.inode, f.size, f.mtime_ns, f.ctime_ns] for f in listing.files]
    folders = [[os.fsdecode(path), inode] for path, inode in listing.folders]
    path = _path(journal, line)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        beside = os.open(path.parent, FOLDER)
        try:
            write_into(beside, path.name, [listing.form, files, folders])
        finally:
            os.close(beside)
    except OSError as error:
        raise Stays(f"the list of what it holds cannot be kept in {path.parent}: {error.strerror}") from error


def kept_list(journal: Journal, trash: int, line: int) -> Listing:
    """What was to be deleted. Raises Stays where it cannot be told."""
    path, old = _path(journal, line), f"{line}.list"
    try:
        is_old = not path.exists() and lies(trash, old)
        with os.fdopen(open_file(trash, old), encoding="ascii") if is_old else path.open(encoding="ascii") as file:
            form, files, folders = json.loads(file.read(_MOST_BYTES))
        return Listing(
            str(form), 0, [File(os.fsencode(f[0]), *map(int, f[1:])) for f in files],
            [(os.fsencode(path), int(inode)) for path, inode in folders],
        )  # fmt: skip
    except (OSError, ValueError, TypeError, IndexError) as error:
        why = f"its deletion was begun, and the list of what it held ({path}) is damaged: delete by hand what is left of it"
        raise Stays(why) from error


def forget_list(journal: Journal, line: int) -> None:
    """It is deleted, or back. Raises OSError."""
    with suppress(FileNotFoundError):
        _path(journal, line).unlink()


def _path(journal: Journal, line: int) -> Path:
    return journal.path.with_suffix(f".{line}.list")
