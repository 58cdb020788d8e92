"""Uploaded model files: stored in a temporary file, and refused where their first bytes are not of
an ONNX model.
"""

import re
import tempfile
from collections.abc import Sequence
from typing import IO, Any

from apps.core.errors import InvalidInput, TooLarge
from apps.planner.model_files.operators import Shape

MAX_FILE_BYTES = 64 << 20
_CHUNK_BYTES = 1 << 20
_MAX_INPUTS = 50
_INPUT = re.compile(r"(.{1,200}?)=([0-9]{1,12}(?:x[0-9]{1,12}){0,15})", re.DOTALL)
_ARCHIVES = {
    b"PK": "a ZIP archive, such as a checkpoint of PyTorch",
    b"\x1f\x8b": "a gzip file",
    b"BZh": "a bzip2 file",
    b"\xfd7zXZ": "an XZ file",
    b"7z\xbc\xaf": "a 7-Zip archive",
    b"\x28\xb5\x2f\xfd": "a Zstandard file",
    b"\x89HDF": "an HDF5 file",
    b"\x80": "a Python pickle",
}
# First bytes of a ModelProto: the keys of its fields (onnx.proto), without the largest numbers.
_FIRST_BYTES = frozenset(b"\x08\x12\x1a\x22\x28\x32\x3a\x42\x72\xa2\xca\xd2")


def store_upload(stream: Any) -> IO[bytes]:
    """Return a temporary file with the bytes of ``stream``. Raises InvalidInput, TooLarge."""
    file = tempfile.TemporaryFile()  # noqa: SIM115 - the caller closes it
    try:
        size = 0
        while chunk := stream.read(min(_CHUNK_BYTES, MAX_FILE_BYTES + 1 - size)):
            if not size:
                _check_start(chunk)
            file.write(chunk)
            size += len(chunk)
            if size > MAX_FILE_BYTES:
                raise TooLarge(
                    f"A model file is at most {MAX_FILE_BYTES >> 20} MiB.",
                    field="file",
                    hint="Upload the graph only: labcarbon-collect plan --onnx FILE.",
                )
        if not size:
            raise InvalidInput("The file is empty.", field="file", hint="Send an ONNX file.")
        file.flush()
    except BaseException:
        file.close()
        raise
    return file


def parse_inputs(texts: Sequence[str]) -> dict[str, Shape]:
    """Return the shapes of inputs in texts such as ``name=1x3x224x224``. Raises InvalidInput."""
    shapes: dict[str, Shape] = {}
    for text in texts:
        match = _INPUT.fullmatch(text)
        sizes = tuple(map(int, match[2].split("x"))) if match else ()
        if match is None or 0 in sizes or match[1] in shapes or len(texts) > _MAX_INPUTS:
            raise InvalidInput(
                "A shape of an input is not valid, or is given twice.",
                field="input",
                hint="Write name=1x3x224x224: sizes above 0, once per input.",
            )
        shapes[match[1]] = sizes
    return shapes


def _check_start(chunk: bytes) -> None:
    for start, description in _ARCHIVES.items():
        if chunk.startswith(start):
            raise InvalidInput(
                f"The file is {description}, not ONNX.",
                field="file",
                hint="Export the model to ONNX, and upload that file as it is.",
            )
    if chunk[0] not in _FIRST_BYTES:
        raise InvalidInput(
            "The file is no ONNX model.", field="file", hint="Export the model to ONNX."
        )
