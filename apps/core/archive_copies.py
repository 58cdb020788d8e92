"""Copies of the archive of windows, for ``manage.py backup`` and ``manage.py restore``.

Its files are never changed, so that a copy only needs the files that it does not have yet.
"""

import os
from pathlib import Path

from apps.core.backup import BackupError, sha256_of

_PATTERN = "*/*.windows"


def archive_size(folder: Path) -> tuple[int, int]:
    """Return the number of files of an archive, and their bytes."""
    sizes = [path.stat().st_size for path in folder.glob(_PATTERN)]
    return len(sizes), sum(sizes)


def copy_archive(source: Path, target: Path) -> tuple[int, int]:
    """Copy the files that ``target`` does not have, and read them back. Returns the number of new
    files and of all files.
    """
    paths = sorted(source.glob(_PATTERN))
    copied = 0
    for path in paths:
        copy = target / path.relative_to(source)
        if copy.exists():
            if copy.stat().st_size != path.stat().st_size:
                raise BackupError(f"{copy} differs from {path}. Move it away, and try again.")
            continue
        copy.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _copy_file(path, copy)
        copied += 1
    return copied, len(paths)


def _copy_file(path: Path, copy: Path) -> None:
    partial = copy.with_name(f".{copy.name}.partial-{os.getpid()}")
    partial.unlink(missing_ok=True)
    try:
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(path.read_bytes())
            file.flush()
            os.fsync(file.fileno())
        if sha256_of(partial) != sha256_of(path):
            raise BackupError(f"The copy of {path} differs from it. Check the disk.")
        partial.rename(copy)
    except OSError as error:
        raise BackupError(f"{path} cannot be copied to {copy}: {error.strerror}.") from error
    finally:
        partial.unlink(missing_ok=True)
