"""The graph of an ONNX file without its weights, texts and metadata.

The file is walked field by field (onnx.proto, https://onnx.ai/onnx/repo-docs/IR.html): the numbers
of the weights are skipped and not read, so a file of any size needs little memory.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, List, Mapping, Tuple

from labcarbon_collect.errors import CommandError
from labcarbon_collect.plan.model_files.protobuf import (
    BYTES,
    VARINT,
    DamagedFile,
    Field,
    ProtobufReader,
    encode_varint,
)

MAX_GRAPH_BYTES = 64 << 20  # that the server reads
MAX_FIELDS = 5_000_000
MAX_DEPTH = 16
KEPT_ELEMENTS = 1024  # of integers, which can be shapes
_INTEGERS = (6, 7)  # TensorProto.INT32, INT64
_DIMS, _DATA_TYPE = 1, 2
_ARCHIVES: Mapping[bytes, str] = {
    b"PK": "a ZIP archive, such as a checkpoint of PyTorch",
    b"\x1f\x8b": "a gzip file",
    b"\x80": "a Python pickle",
    b"\x89HDF": "an HDF5 file",
}
# Message → field number → message of its content, "" if it is copied as it is. All other fields
# are left out: documentation, metadata, training, references to other files.
_FIELDS: Mapping[str, Mapping[int, str]] = {
    "model": {1: "", 7: "graph", 8: "", 25: "function"},
    "graph": {1: "node", 2: "", 5: "tensor", 11: "value", 12: "value", 13: "value", 15: "sparse"},
    "function": {
        1: "", 4: "", 5: "", 6: "", 7: "node", 9: "", 10: "", 11: "attribute", 12: "value", 13: "",
    },
    "node": {1: "", 2: "", 3: "", 4: "", 5: "attribute", 7: "", 8: ""},
    "attribute": {
        1: "", 2: "", 3: "", 4: "", 5: "tensor", 6: "graph", 7: "", 8: "", 9: "", 10: "tensor",
        11: "graph", 14: "", 15: "", 20: "", 21: "", 22: "sparse", 23: "sparse",
    },
    "value": {1: "", 2: ""},
    "sparse": {1: "tensor", 2: "tensor", 3: ""},
    "tensor": {1: "", 2: "", 8: ""},
    "integers": {1: "", 2: "", 5: "", 7: "", 8: "", 9: ""},  # a tensor with its numbers
}  # fmt: skip


@dataclass(frozen=True)
class Graph:
    """``content``: an ONNX model without weights. ``file_bytes``: size of the file."""

    content: bytes
    file_bytes: int


def read_graph(path: Path) -> Graph:
    """Return the graph of an ONNX file, which is not changed. Raises CommandError."""
    try:
        with open(path, "rb", opener=_open_without_waiting) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise CommandError(f"{path} is no file. Choose an ONNX file")
            _check_start(path, file)
            return Graph(_strip(path, file, status.st_size), status.st_size)
    except OSError as error:
        raise CommandError(f"{path} cannot be read: {error.strerror or error}") from error


def _open_without_waiting(path: str, flags: int) -> int:
    """Open a path. A named pipe without a writer is no reason to wait."""
    return os.open(path, flags | os.O_NONBLOCK)


def _check_start(path: Path, file: BinaryIO) -> None:
    start = file.read(8)
    for first_bytes, description in _ARCHIVES.items():
        if start.startswith(first_bytes):
            raise CommandError(
                f"{path} is {description}, not ONNX. Export the model to ONNX, or use its code: "
                "labcarbon-collect plan --model"
            )


def _strip(path: Path, file: BinaryIO, size: int) -> bytes:
    copy = _Copy(ProtobufReader(file, size, max_fields=MAX_FIELDS))
    try:
        content = copy.message("model", 0, size)
    except DamagedFile as error:
        raise CommandError(
            f"{path} is no ONNX model, or is damaged: {error}. Export the model to ONNX again"
        ) from error
    except _TooLarge as error:
        raise CommandError(
            f"The graph of {path} has more than {MAX_GRAPH_BYTES >> 20} MiB without its weights. "
            "Plan a smaller part of the model, or use its code: labcarbon-collect plan --model"
        ) from error
    if not copy.has_graph or not copy.has_version:
        raise CommandError(f"{path} contains no ONNX graph. Export the model to ONNX")
    return content


class _TooLarge(Exception):
    """More than the server reads."""


class _Copy:
    """Copies a model without what ``_FIELDS`` does not list."""

    def __init__(self, reader: ProtobufReader) -> None:
        self._reader, self._remaining_bytes, self._depth = reader, MAX_GRAPH_BYTES, 0
        self.has_graph = self.has_version = False

    def message(self, name: str, start: int, end: int) -> bytes:
        """Return the copy of a message. Raises DamagedFile, _TooLarge."""
        if name == "tensor" and self._has_shape_integers(start, end):
            name = "integers"
        if name == "graph":
            self._depth += 1
            if self._depth > MAX_DEPTH:
                raise DamagedFile(f"graphs are nested deeper than {MAX_DEPTH} levels")
        if name == "model":
            self._note(start, end)
        parts: List[bytes] = []
        for field in self._reader.fields(start, end):
            inner = _FIELDS[name].get(field.number)
            if inner is not None:
                parts.extend(self._field(field, inner))
        if name == "graph":
            self._depth -= 1
        return b"".join(parts)

    def _field(self, field: Field, inner: str) -> Tuple[bytes, ...]:
        key = encode_varint(field.number << 3 | field.kind)
        if field.kind != BYTES:
            content = self._content(field)
            return (key, content)
        if not inner:
            content = self._content(field)
        else:
            content = self.message(inner, field.start, field.end)
        return (key, encode_varint(len(content)), content)

    def _content(self, field: Field) -> bytes:
        self._remaining_bytes -= field.end - field.start + 2
        if self._remaining_bytes < 0:
            raise _TooLarge
        return self._reader.content(field)

    def _note(self, start: int, end: int) -> None:
        for field in self._reader.fields(start, end):
            self.has_version = self.has_version or (field.number, field.kind) == (1, VARINT)
            self.has_graph = self.has_graph or (field.number, field.kind) == (7, BYTES)

    def _has_shape_integers(self, start: int, end: int) -> bool:
        """Whether a tensor has few integers: shape inference needs their numbers."""
        data_type, elements = 0, 1
        for field in self._reader.fields(start, end):
            if (field.number, field.kind) == (_DATA_TYPE, VARINT):
                data_type = self._reader.varint(field.start, field.end)[0]
            elif field.number == _DIMS and field.kind in (VARINT, BYTES):
                position = field.start
                while position < field.end:
                    size, position = self._reader.varint(position, field.end)
                    elements = min(elements * size, 1 << 64)
        return data_type in _INTEGERS and elements <= KEPT_ELEMENTS
