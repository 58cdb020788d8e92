"""Files of attachments: recognised by their content, stored under names that the server chooses,
readable by their owner only.
"""

import errno
import os
import re
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from uuid import UUID

from apps.assets.choices import MediaType
from apps.core.errors import InvalidInput, LabCarbonError, TooLarge
from apps.core.text import replace_unstorable

MAX_BYTES = 10_000_000
EXTENSIONS = {
    MediaType.PDF: (".pdf",),
    MediaType.PNG: (".png",),
    MediaType.JPEG: (".jpg", ".jpeg"),
}
_PNG = b"\x89PNG\r\n\x1a\n"
_MAX_NAME = 150
# Control characters, and those that change the direction of the text that follows.
_INVISIBLE = re.compile("[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]")
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
PATTERN = "*/*.attachment"
_PARTIAL = ".partial"


class StorageProblem(LabCarbonError):
    """A file that cannot be written or read on the server's disk."""

    status = 503
    code = "storage_unavailable"


class StorageFull(StorageProblem):
    status = 507
    code = "storage_full"


def recognise(content: bytes) -> MediaType:
    """Return the type of a file by its first bytes. Raises InvalidInput, TooLarge."""
    if len(content) > MAX_BYTES:
        raise TooLarge(
            f"The file is larger than {MAX_BYTES // 1_000_000} MB.",
            field="file",
            hint="Attach a smaller file, such as a scan of lower resolution.",
        )
    if re.match(rb"%PDF-\d\.\d", content):
        return MediaType.PDF
    if content.startswith(_PNG) and content[12:16] == b"IHDR":
        return MediaType.PNG
    if content.startswith(b"\xff\xd8\xff"):
        return MediaType.JPEG
    raise InvalidInput(
        "The file is empty." if not content else "The file is not a PDF, PNG or JPEG.",
        field="file",
        hint="The content of the file counts, not its name. Export it as PDF.",
    )


def download_name(text: str, media_type: MediaType) -> str:
    """Return the name of a file for its download: without folders and invisible characters, with
    an extension of its type.
    """
    name = _INVISIBLE.sub("", str(replace_unstorable(text)))
    name = re.split(r"[/\\]", name)[-1].strip().rstrip(".")
    extensions = EXTENSIONS[media_type]
    stem, dot, suffix = name.rpartition(".")
    if f"{dot}{suffix}".lower() not in extensions:
        stem, suffix = name, extensions[0][1:]
    return f"{stem.strip(' .')[:_MAX_NAME] or 'attachment'}.{suffix}"


def file_of(uuid: UUID, content: bytes) -> str:
    """Return the name below the folder: a random part, and a digest of the content, by which a
    backup verifies the file.
    """
    return f"{uuid.hex[:2]}/{uuid.hex}-{sha256(content).hexdigest()[:32]}.attachment"


def write_file(folder: Path, name: str, content: bytes) -> None:
    """Write a new file completely, or not at all. Raises StorageProblem."""
    path = folder / name
    partial = path.with_name(f".{path.name}{_PARTIAL}")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        partial.rename(path)
        _sync_folder(path.parent)
    except OSError as error:
        with suppress(OSError):  # the daily job removes it
            partial.unlink(missing_ok=True)
        raise _problem(error) from error


def _problem(error: OSError) -> StorageProblem:
    if error.errno in _FULL:
        return StorageFull(
            "The disk of the server is full. The file was not stored.",
            field="file",
            hint="Ask the administrator of the server for space, then attach the file again.",
        )
    return StorageProblem(
        f"The server cannot write the file: {error.strerror}. It was not stored.",
        field="file",
        hint="The administrator of the server must give it write access to its data directory.",
    )


def read_file(folder: Path, name: str, digest: str) -> bytes:
    """Return the content of a file. Raises StorageProblem if it is missing or changed."""
    try:
        content = (folder / name).read_bytes()
    except OSError as error:
        raise StorageProblem(
            f"The file of this attachment cannot be read: {error.strerror}.",
            hint="The administrator of the server can copy it from a backup to attachments/.",
        ) from error
    if sha256(content).hexdigest() != digest:
        raise StorageProblem(
            "The file of this attachment is damaged: its checksum differs.",
            hint="The administrator of the server can copy it from a backup to attachments/.",
        )
    return content


def delete_file(folder: Path, name: str) -> None:
    """Delete a file. A missing file is no error."""
    (folder / name).unlink(missing_ok=True)


def stored_files(folder: Path, before_s: float) -> list[str]:
    """Return the names of the files that were last changed before a Unix time, unfinished ones
    included.
    """
    paths = [*folder.glob(PATTERN), *folder.glob(f"*/.*{_PARTIAL}")]
    return [
        str(path.relative_to(folder))
        for path in paths
        if path.is_file() and path.stat().st_mtime < before_s
    ]


def _sync_folder(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    with suppress(OSError):  # some file systems cannot sync a folder
        os.fsync(descriptor)
    os.close(descriptor)
