"""Reads protocol buffers from a file, field by field, without reading what is not needed."""

from __future__ import annotations

from typing import BinaryIO, Iterator, NamedTuple, Tuple

_WINDOW_BYTES = 64 << 10
_MAX_VARINT_BYTES = 10
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
_FIXED_BYTES = {FIXED64: 8, FIXED32: 4}


class DamagedFile(Exception):
    """The bytes are no protocol buffer, or end early."""


class Field(NamedTuple):
    """One field of a message. Its content is in the file from ``start`` to ``end``."""

    number: int
    kind: int  # VARINT, FIXED64, BYTES or FIXED32
    start: int
    end: int


class ProtobufReader:
    """Fields of messages in a file of ``size`` bytes. ``max_fields`` limits all that are read."""

    def __init__(self, file: BinaryIO, size: int, *, max_fields: int) -> None:
        self._file, self._remaining_fields = file, max_fields
        self.size = size
        self._window, self._window_start = b"", 0

    def fields(self, start: int, end: int) -> Iterator[Field]:
        """Yield the fields of the message between two positions. Raises DamagedFile."""
        position = start
        while position < end:
            key, position = self.varint(position, end)
            number, kind = key >> 3, key & 7
            if kind == BYTES:
                length, position = self.varint(position, end)
            elif kind == VARINT:
                length = self.varint(position, end)[1] - position
            elif kind in _FIXED_BYTES:
                length = _FIXED_BYTES[kind]
            else:
                raise DamagedFile("a field has an unknown type")
            if number == 0 or length > end - position:
                raise DamagedFile("a field is longer than its message")
            self._remaining_fields -= 1
            if self._remaining_fields < 0:
                raise DamagedFile("there are too many fields")
            yield Field(number, kind, position, position + length)
            position += length

    def varint(self, position: int, end: int) -> Tuple[int, int]:
        """Return the number at a position, and the position after it. Raises DamagedFile."""
        value = 0
        for index in range(_MAX_VARINT_BYTES):
            if position + index >= end:
                break
            byte = self._byte(position + index)
            value |= (byte & 127) << 7 * index
            if byte < 128:
                return value, position + index + 1
        raise DamagedFile("a number does not end")

    def content(self, field: Field) -> bytes:
        """Return the bytes of a field. Raises DamagedFile."""
        first = field.start - self._window_start
        last = field.end - self._window_start
        if first >= 0 and last <= len(self._window):
            return self._window[first:last]
        self._file.seek(field.start)
        content = self._file.read(field.end - field.start)
        if len(content) < field.end - field.start:
            raise DamagedFile("it ends early")
        return content

    def _byte(self, position: int) -> int:
        index = position - self._window_start
        if not 0 <= index < len(self._window):
            self._file.seek(position)
            self._window, self._window_start, index = self._file.read(_WINDOW_BYTES), position, 0
            if not self._window:
                raise DamagedFile("it ends early")
        return self._window[index]


def encode_varint(number: int) -> bytes:
    """Return a number of 0 or more as a protocol buffer has it."""
    content = bytearray()
    while number > 127:
        content.append(number & 127 | 128)
        number >>= 7
    content.append(number)
    return bytes(content)
