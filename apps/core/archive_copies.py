"""Copies of the archive of windows and of attachments, for ``manage.py backup`` and ``manage.py
restore``.

Their files are never changed, so that a copy only needs the files that it does not have yet. Their
names contain a digest of their content.
"""

import os
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from django.db import connection

from apps.core.backup import BackupError, sha256_of

_DIGEST_DIGITS = 32


@dataclass(frozen=True)
class FileStore:
    """A folder of files. ``query``: names of the files of an existing ``table``."""

    title: str
    pattern: str
    table: str
    query: str
    folder: str = ""  # in the copy, '' for the copy itself


WINDOWS = FileStore(
    "archived windows",
    "*/*.windows",
    "ingest_sealedblock",
    "SELECT DISTINCT file FROM ingest_sealedblock ORDER BY file",
)
ATTACHMENTS = FileStore(
    "attachments",
    "*/*.attachment",
    "assets_attachment",
    "SELECT file FROM assets_attachment WHERE deleted_us IS NULL ORDER BY file",
    "attachments",
)
_DELETED = "SELECT file FROM assets_attachment WHERE deleted_us IS NOT NULL ORDER BY file"


def archive_size(folder: Path, store: FileStore = WINDOWS) -> tuple[int, int]:
    """Return the number of files of a store, and their bytes."""
    sizes = [path.stat().st_size for path in folder.glob(store.pattern)]
    return len(sizes), sum(sizes)


def copy_archive(source: Path, target: Path, store: FileStore = WINDOWS) -> tuple[int, int]:
    """Copy the files that ``target`` does not have, and read them back. Returns the number of new
    files and of all files. Raises BackupError, after all others are copied, if a file is damaged.
    """
    paths = sorted(source.glob(store.pattern))
    copied = 0
    problems = []
    for path in paths:
        copy = target / path.relative_to(source)
        try:
            if not copy.exists():
                problem = _copy_file(path, copy)
                copied += not problem
            elif copy.stat().st_size != path.stat().st_size:
                problem = f"{copy} differs from {path}. Move it away, and try again."
            else:
                continue
        except OSError as error:
            raise BackupError(f"{path} cannot be copied to {copy}: {error.strerror}.") from error
        if problem:
            problems.append(problem)
    if problems:
        raise BackupError(
            f"{len(problems)} of {len(paths)} files of {store.title} are not copied. The first: "
            f"{problems[0]}"
        )
    return copied, len(paths)


def _copy_file(path: Path, copy: Path) -> str:
    """Copy a file. Return the problem of a file that is not copied, else ''."""
    content = path.read_bytes()
    if sha256(content).hexdigest()[:_DIGEST_DIGITS] != path.stem.rpartition("-")[2]:
        return f"{path} is damaged. Replace it by a copy from another backup of the archive."
    copy.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    partial = copy.with_name(f".{copy.name}.partial-{os.getpid()}")
    partial.unlink(missing_ok=True)
    try:
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if sha256_of(partial) != sha256(content).hexdigest():
            return f"The copy of {path} differs from it. Check the disk of {copy.parent}."
        partial.rename(copy)
    finally:
        partial.unlink(missing_ok=True)
    return ""


def erase_deleted_copies(target: Path) -> int:
    """Erase the copies of attachments that the database names as deleted. Return their number."""
    copies = [target / name for name in _names(ATTACHMENTS, _DELETED)]
    existing = [copy for copy in copies if copy.is_file()]
    for copy in existing:
        try:
            copy.unlink()
        except OSError as error:
            raise BackupError(f"{copy} cannot be erased: {error.strerror}.") from error
    return len(existing)


def _names(store: FileStore, query: str) -> list[str]:
    if store.table not in connection.introspection.table_names():  # a backup of earlier versions
        return []
    with connection.cursor() as cursor:
        cursor.execute(query)
        return [str(name) for (name,) in cursor.fetchall()]


def missing_files(folder: Path, store: FileStore = WINDOWS) -> tuple[list[str], int]:
    """Return the files that the database names and ``folder`` does not contain, and the number of
    all that it names.
    """
    names = _names(store, store.query)
    return [name for name in names if not (folder / name).is_file()], len(names)
