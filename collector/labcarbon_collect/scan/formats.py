"""Recognises files by their first and last bytes and their names. Never opens a pickle and never
unpacks an archive.
"""

from __future__ import annotations

import re
from typing import Any, Callable, Dict, Optional

from labcarbon_collect.scan import safetensors
from labcarbon_collect.scan.description import (
    CHECKPOINT,
    DATASET,
    LOG,
    MODEL,
    OTHER,
    Description,
    InvalidFormat,
    clean_facts,
    kind_and_step,
)
from labcarbon_collect.scan.safetensors import ReadAt

HEAD_BYTES = 4096
_KERAS_HEAD_BYTES = 64 << 10
# torch.save before 1.6: pickle protocol 2, then the magic number 0x1950a86a20f9469cfc6c as a long
# (torch/serialization.py).
_LEGACY_TORCH = b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19."
_ZIP, _ZIP_END, _ZIP_END_BYTES, _ZIP_COMMENT = b"PK\x03\x04", b"PK\x05\x06", 22, 65535
_HDF5, _KERAS_MARKERS = b"\x89HDF\r\n\x1a\n", (b"keras_version", b"model_config", b"layer_names")
# The index of a TensorFlow checkpoint is an SSTable.
_SSTABLE_END = bytes.fromhex("db4775248b80fb57")
_TENSORFLOW_DATA = re.compile(r"\.data-\d{5}-of-\d{5}$")
TFRECORD_NAME = re.compile(r"\.tfrecords?(?:-\d{5}-of-\d{5})?(?:\.gz)?$", re.IGNORECASE)
_GZIP, _CRC32C, _CRC_MASK = b"\x1f\x8b", 0x82F63B78, 0xA282EAD8
NUMBERED_TAR = re.compile(r"^(.*?)(\d{3,})\.tar$")
_MAX_TENSORS = 1 << 32
_GGUF_STRING = 8
_ONNX_SECOND_FIELDS = (0x12, 0x1A, 0x22, 0x2A, 0x32, 0x3A, 0x42)  # other fields of ModelProto
Recogniser = Callable[[str, int, bytes, ReadAt], Optional[Description]]


def recognise_file(
    name: str, size: int, head: bytes, read_at: ReadAt, *, is_numbered: bool = False
) -> Optional[Description]:
    """Describe a file. Returns None if its format is unknown.

    ``head``: its first bytes, up to HEAD_BYTES. ``read_at`` reads others. ``is_numbered``: it
    belongs to a numbered series. Raises InvalidFormat if the file has a signature but violates the
    format.
    """
    for recognise in (_recognise_magic, _recognise_tensorflow, _recognise_ending):
        description = recognise(name, size, head, read_at)
        if description is not None:
            return description
    if is_numbered and NUMBERED_TAR.match(name) and head[257:262] == b"ustar":
        return Description(DATASET, "webdataset")
    return None


def _recognise_magic(name: str, size: int, head: bytes, read_at: ReadAt) -> Optional[Description]:
    lowered = name.lower()
    if head.startswith(_ZIP):
        return _describe_zip(lowered, size, head, read_at)
    if lowered.endswith(".safetensors"):
        return safetensors.describe(name, size, read_at)
    if head.startswith(_LEGACY_TORCH):
        return _describe_weights("torch", name)
    if head.startswith(b"GGUF"):
        return _describe_gguf(head)
    if head.startswith(_HDF5) and lowered.endswith((".h5", ".hdf5", ".keras")):
        return _describe_hdf5(lowered, read_at(0, _KERAS_HEAD_BYTES))
    if head.startswith(b"PAR1"):
        if size < 12 or read_at(size - 4, 4) not in (b"PAR1", b"PARE"):
            raise InvalidFormat("truncated Parquet file: its end marker is missing")
        return Description(DATASET, "parquet")
    if head.startswith(b"\x93NUMPY"):
        return Description(DATASET, "npy")
    if head.startswith(b"ARROW1"):
        return Description(DATASET, "arrow")
    return _recognise_unnamed_safetensors(name, size, head, read_at)


def _recognise_unnamed_safetensors(
    name: str, size: int, head: bytes, read_at: ReadAt
) -> Optional[Description]:
    """Recognise safetensors without file extension, such as blobs of a cache. A file that only
    resembles the format is ignored.
    """
    if not safetensors.is_likely(head):
        return None
    try:
        return safetensors.describe(name, size, read_at)
    except InvalidFormat:
        return None


def _recognise_tensorflow(
    name: str, size: int, head: bytes, read_at: ReadAt
) -> Optional[Description]:
    if _TENSORFLOW_DATA.search(name):
        return Description(CHECKPOINT, "tensorflow")
    if TFRECORD_NAME.search(name):
        is_framed = size >= 16 and head[8:12] == _length_checksum(head[:8])
        return Description(DATASET, "tfrecord") if is_framed or head.startswith(_GZIP) else None
    if name.endswith(".index") and size >= 48 and read_at(size - 8, 8) == _SSTABLE_END:
        return Description(CHECKPOINT, "tensorflow")
    return None


def _length_checksum(length: bytes) -> bytes:
    """Return the masked CRC32C with which TensorFlow protects the length of a record."""
    crc = 0xFFFFFFFF
    for byte in length:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (_CRC32C if crc & 1 else 0)
    crc ^= 0xFFFFFFFF
    return ((((crc >> 15) | (crc << 17)) + _CRC_MASK) & 0xFFFFFFFF).to_bytes(4, "little")


def _recognise_ending(name: str, size: int, head: bytes, read_at: ReadAt) -> Optional[Description]:
    if name.lower().endswith(".onnx"):
        return _describe_onnx(name, head)
    if "events.out.tfevents." in name and 12 <= int.from_bytes(head[:8], "little") + 16 <= size:
        return Description(LOG, "tfevents")
    return None


def _describe_weights(format_name: str, name: str, **facts: Any) -> Description:
    kind, step_facts = kind_and_step(name)
    return Description(kind, format_name, clean_facts([*step_facts.items(), *facts.items()]))


def _describe_zip(lowered: str, size: int, head: bytes, read_at: ReadAt) -> Optional[Description]:
    """Recognise a zip by the name of its first file, which is part of the header. A Keras archive
    also needs config.json in its directory.
    """
    first_name = head[30 : 30 + int.from_bytes(head[26:28], "little")].decode("utf-8", "replace")
    is_torch = first_name.endswith(("/data.pkl", "/version", "/constants.pkl"))
    is_keras = lowered.endswith(".keras")
    if not (is_torch or is_keras or first_name.endswith(".npy")):
        return None
    end = _read_zip_end(size, read_at)
    if is_torch:
        is_lightning = lowered.endswith(".ckpt") and ("epoch=" in lowered or "step=" in lowered)
        return _describe_weights("lightning" if is_lightning else "torch", lowered)
    if is_keras:
        directory = read_at(
            int.from_bytes(end[16:20], "little"),
            min(int.from_bytes(end[12:16], "little"), _KERAS_HEAD_BYTES),
        )
        return Description(MODEL, "keras") if b"config.json" in directory else None
    return Description(DATASET, "npz")


def _read_zip_end(size: int, read_at: ReadAt) -> bytes:
    """Return the end record of a zip. Raises InvalidFormat if it is missing, as in a truncated
    file.
    """
    tail = read_at(max(0, size - _ZIP_END_BYTES), _ZIP_END_BYTES)
    if not tail.startswith(_ZIP_END):
        tail = read_at(max(0, size - _ZIP_END_BYTES - _ZIP_COMMENT), _ZIP_END_BYTES + _ZIP_COMMENT)
        tail = tail[tail.rfind(_ZIP_END) :] if _ZIP_END in tail else b""
    if len(tail) < _ZIP_END_BYTES:
        raise InvalidFormat("truncated zip archive: its end record is missing")
    return tail


def _describe_hdf5(lowered: str, head: bytes) -> Description:
    if lowered.endswith((".keras", ".weights.h5")) or any(
        marker in head for marker in _KERAS_MARKERS
    ):
        return _describe_weights("keras", lowered)
    return Description(OTHER, "hdf5")


def _describe_gguf(head: bytes) -> Description:
    """Read version, number of tensors, and the architecture if it is the first key, as usual."""
    version, tensors = int.from_bytes(head[4:8], "little"), int.from_bytes(head[8:16], "little")
    if len(head) < 24 or not 1 <= version <= 64 or tensors > _MAX_TENSORS:
        raise InvalidFormat(f"invalid GGUF header: version {version}, {tensors} tensors")
    facts: Dict[str, Any] = {"tensors": tensors}
    length = int.from_bytes(head[24:32], "little")
    if head[32 : 32 + length] == b"general.architecture":
        offset = 32 + length
        if int.from_bytes(head[offset : offset + 4], "little") == _GGUF_STRING:
            text_bytes = min(int.from_bytes(head[offset + 4 : offset + 12], "little"), 100)
            facts["architecture"] = head[offset + 12 : offset + 12 + text_bytes].decode(
                "utf-8", "replace"
            )
    return Description(MODEL, "gguf", clean_facts(facts.items()))


def _describe_onnx(name: str, head: bytes) -> Optional[Description]:
    """Recognise a ModelProto: field 1 (IR version), then another field."""
    if (
        len(head) < 3
        or head[0] != 0x08
        or not 1 <= head[1] < 0x80
        or head[2] not in _ONNX_SECOND_FIELDS
    ):
        raise InvalidFormat("named as ONNX, but not an ONNX file")
    facts: Dict[str, Any] = {"ir_version": head[1]}
    if head[2] == 0x12 and head[3] < 0x80:
        facts["producer"] = head[4 : 4 + head[3]].decode("utf-8", "replace")
    return Description(kind_and_step(name)[0], "onnx", clean_facts(facts.items()))
