"""Files of archived windows: written once, never changed, readable by their owner only."""

import os
import re
from collections.abc import Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from apps.core.errors import LabCarbonError
from apps.ingest import archive
from apps.ingest.archive import ArchivedWindow

_NAME = re.compile(r"\d{4}-\d{2}/\d{4}-\d{2}-\d{2}-[0-9a-f]{32}\.windows")
_PARTIAL = re.compile(r"\..+\.windows\.partial-\d+")
RESTORE_HINT = (
    "Copy the file from a backup of the archive into the folder `archive` of the data directory."
)


class ArchiveProblem(LabCarbonError):
    """A file of the archive that cannot be read. Its windows exist, but cannot be shown now."""

    status = 503
    code = "archive_unreadable"


def write_file(folder: Path, day: str, blocks: Sequence[bytes]) -> tuple[str, list[int]]:
    """Write blocks to a new file and read it back. Return its name and the offsets of the blocks.

    ``day``: of the first windows, as ``2025-10-21``. The name contains a digest of the content, so
    that a repetition finds its own file. Nothing is replaced.
    """
    content = bytearray(archive.file_header())
    offsets = []
    for block in blocks:
        offsets.append(len(content))
        content += block
    name = f"{day[:7]}/{day}-{sha256(content).hexdigest()[:32]}.windows"
    path = folder / name
    for parent in (folder, path.parent):
        if not parent.is_dir():
            parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            _sync_folder(parent.parent)
    if not path.exists():
        partial = path.with_name(f".{path.name}.partial-{os.getpid()}")
        partial.unlink(missing_ok=True)
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        partial.rename(path)
        _sync_folder(path.parent)
    if path.read_bytes() != content:
        raise ArchiveProblem(
            f"The archive file {name} differs from what was written.",
            hint="Check the disk. Move the file away, and run manage.py seal_windows again.",
        )
    return name, offsets


def read_block(
    folder: Path, name: str, offset: int, length: int, digest: bytes
) -> list[ArchivedWindow]:
    """Return the windows of a block. Raises ArchiveProblem if it is missing or changed."""
    if not _NAME.fullmatch(name):
        raise _damaged(name, "its name is invalid")
    try:
        with (folder / name).open("rb") as file:
            file.seek(offset)
            block = file.read(length)
    except FileNotFoundError as error:
        raise ArchiveProblem(f"The archive file {name} is missing.", hint=RESTORE_HINT) from error
    except OSError as error:
        raise ArchiveProblem(
            f"The archive file {name} cannot be read: {error.strerror}.", hint=RESTORE_HINT
        ) from error
    if sha256(block).digest() != digest:
        raise _damaged(name, "the checksum of a block differs")
    try:
        return archive.decode_block(block)
    except archive.FormatError as error:
        raise _damaged(name, str(error)) from error


def _damaged(name: str, reason: str) -> ArchiveProblem:
    return ArchiveProblem(f"The archive file {name} is damaged: {reason}.", hint=RESTORE_HINT)


def remove_partial_files(folder: Path) -> None:
    """Remove unfinished files of processes that no longer run on this machine."""
    for path in folder.glob("*/.*.windows.partial-*"):
        pid = int(path.name.rpartition("-")[2])
        if _PARTIAL.fullmatch(path.name) and not _is_alive(pid):
            path.unlink(missing_ok=True)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _sync_folder(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    with suppress(OSError):  # some file systems cannot sync a folder
        os.fsync(descriptor)
    os.close(descriptor)
