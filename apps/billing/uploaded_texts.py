"""The unpacked texts of an uploaded export: CSV, JSON, gzip, or a ZIP of them. Bounded, streamed.

Pure but for the reading of its parts.
"""

import gzip
import io
import lzma
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import BinaryIO, TextIO

from apps.core.errors import InvalidInput, TooLarge

PART_BYTES = 1 << 20
MAX_UNPACKED_BYTES = 2 << 30
MAX_MEMBERS = 200
_GZIP, _ZIP = b"\x1f\x8b", b"PK\x03\x04"
_OTHERS = {
    b"PAR1": "a Parquet file",
    b"\xd0\xcf\x11\xe0": "an old Excel workbook",
    b"%PDF": "a PDF",
}


class PartsFile(io.RawIOBase):
    """A file that is stored in parts of ``PART_BYTES``. ``read_part(i)`` returns one."""

    def __init__(self, size: int, read_part: Callable[[int], bytes]) -> None:
        self._size, self._read_part = size, read_part
        self._at, self._index, self._part = 0, -1, b""

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = max(0, base + offset)
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: "memoryview | bytearray") -> int:  # type: ignore[override]
        if self._at >= self._size:
            return 0
        index, begin = divmod(self._at, PART_BYTES)
        if index != self._index:
            self._index, self._part = index, self._read_part(index)
        data = self._part[begin : begin + len(buffer)]
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)


class _Counted(io.RawIOBase):
    """An unpacked stream that ends with an error beyond the limit of all files together."""

    def __init__(self, stream: BinaryIO, budget: list[int], tick: Callable[[], None]) -> None:
        self._stream, self._budget, self._tick = stream, budget, tick

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "memoryview | bytearray") -> int:  # type: ignore[override]
        self._tick()
        try:
            data = self._stream.read(len(buffer))
        except (EOFError, OSError, zlib.error, lzma.LZMAError, zipfile.BadZipFile) as error:
            raise InvalidInput(
                "The compressed file is damaged or incomplete.",
                field="file",
                hint="Download the export again.",
            ) from error
        self._budget[0] -= len(data)
        if self._budget[0] < 0:
            raise TooLarge(
                f"The export is larger than {MAX_UNPACKED_BYTES >> 30} GiB unpacked.",
                field="file",
                hint="Export one month or one account at a time.",
            )
        buffer[: len(data)] = data
        return len(data)


def text_files(
    raw: BinaryIO, name: str, budget: list[int], tick: Callable[[], None]
) -> Iterator[tuple[str, TextIO]]:
    """Yield name and text of each file in an upload. ``budget``: bytes left of the whole upload.
    ``tick`` is called before each part is unpacked.

    Raises InvalidInput, TooLarge; the texts raise them as they are read.
    """
    begin = raw.read(4)
    raw.seek(0)
    for mark, what in _OTHERS.items():
        if begin.startswith(mark):
            raise InvalidInput(
                f"{name} is {what}.", field="file", hint="Export it as CSV, with or without gzip."
            )
    if begin.startswith(_ZIP):
        yield from _members(raw, name, budget, tick)
        return
    is_gzip = begin.startswith(_GZIP)
    with _text(gzip.GzipFile(fileobj=raw) if is_gzip else raw, budget, tick) as text:  # type: ignore[arg-type]
        yield name, text


def _members(
    raw: BinaryIO, name: str, budget: list[int], tick: Callable[[], None]
) -> Iterator[tuple[str, TextIO]]:
    try:
        archive = zipfile.ZipFile(raw)
    except (zipfile.BadZipFile, NotImplementedError, OSError, ValueError) as error:
        raise InvalidInput(f"{name} is no complete ZIP file.", field="file") from error
    members = [each for each in archive.infolist() if not each.is_dir()]
    members = [each for each in members if not each.filename.startswith("__MACOSX/")]
    if any(each.filename.startswith(("xl/", "[Content_Types]")) for each in members):
        raise InvalidInput(
            f"{name} is a workbook.",
            field="file",
            hint="Upload the export as its provider wrote it.",
        )
    if not 0 < len(members) <= MAX_MEMBERS:
        raise InvalidInput(
            f"{name} contains {len(members)} files.",
            field="file",
            hint=f"Upload a ZIP of 1 to {MAX_MEMBERS} CSV files.",
        )
    for member in members:
        if member.flag_bits & 1:
            raise InvalidInput(f"{name} is encrypted.", field="file", hint="Unpack it first.")
        try:
            stream = archive.open(member)
        except (zipfile.BadZipFile, NotImplementedError, RuntimeError) as error:
            raise InvalidInput(
                f"{member.filename[:80]} cannot be unpacked.", field="file"
            ) from error
        with stream, _text(stream, budget, tick) as text:  # type: ignore[arg-type]
            yield member.filename, text


@contextmanager
def _text(stream: BinaryIO, budget: list[int], tick: Callable[[], None]) -> Iterator[TextIO]:
    counted = io.BufferedReader(_Counted(stream, budget, tick), buffer_size=1 << 16)
    yield io.TextIOWrapper(counted, encoding="utf-8-sig", newline="")
