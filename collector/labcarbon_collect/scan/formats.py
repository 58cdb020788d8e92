"""Files known by their first bytes, their last and their names. Pickles are never opened, archives never unpacked."""

from __future__ import annotations

import re
from typing import Any, Callable, Dict, Optional

from labcarbon_collect.scan import safetensors
from labcarbon_collect.scan.description import CHECKPOINT, DATASET, LOG, MODEL, OTHER, About, Broken, by_name, storable
from labcarbon_collect.scan.safetensors import At

HEAD_BYTES = 4096
_KERAS_HEAD_BYTES = 64 << 10
# torch.save until 1.6: protocol 2, then its magic number 0x1950a86a20f9469cfc6c as a long (torch/serialization.py).
_LEGACY_TORCH = b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19."
_ZIP, _ZIP_END, _ZIP_END_BYTES, _ZIP_COMMENT = b"PK\x03\x04", b"PK\x05\x06", 22, 65535
_HDF5, _KERAS_MARKS = b"\x89HDF\r\n\x1a\n", (b"keras_version", b"model_config", b"layer_names")
_SSTABLE_END = bytes.fromhex("db4775248b80fb57")  # a TensorFlow checkpoint's index is an SSTable
_TENSORFLOW_DATA = re.compile(r"\.data-\d{5}-of-\d{5}$")
NUMBERED_TAR = re.compile(r"^(.*?)(\d{3,})\.tar$")
_MOST_TENSORS = 1 << 32
_GGUF_TEXT = 8
_ONNX_NEXT = (0x12, 0x1A, 0x22, 0x2A, 0x32, 0x3A, 0x42)  # further fields of its ModelProto
Recogniser = Callable[[str, int, bytes, At], Optional[About]]


def recognised(name: str, size: int, head: bytes, at: At, *, of_run: bool = False) -> Optional[About]:
    """What a file is; None where it is of no format known here.

    ``head``: its first bytes, up to HEAD_BYTES; ``at`` reads others; ``of_run``: it is one of several numbered alike.
    Raises Broken for a file that says it is of a format and cannot be.
    """
    for recognise in (_by_magic, _tensorflow, _by_ending):
        found = recognise(name, size, head, at)
        if found is not None:
            return found
    if of_run and NUMBERED_TAR.match(name) and head[257:262] == b"ustar":
        return About(DATASET, "webdataset")
    return None


def _by_magic(name: str, size: int, head: bytes, at: At) -> Optional[About]:
    low = name.lower()
    if head.startswith(_ZIP):
        return _zip(low, size, head, at)
    if low.endswith(".safetensors"):
        return safetensors.about(name, size, at)
    if head.startswith(_LEGACY_TORCH):
        return _weights("torch", name)
    if head.startswith(b"GGUF"):
        return _gguf(head)
    if head.startswith(_HDF5) and low.endswith((".h5", ".hdf5", ".keras")):
        return _hdf5(low, at(0, _KERAS_HEAD_BYTES))
    if head.startswith(b"PAR1"):
        if size < 12 or at(size - 4, 4) not in (b"PAR1", b"PARE"):
            raise Broken("it begins as Parquet and does not end so: it is cut off")
        return About(DATASET, "parquet")
    if head.startswith(b"\x93NUMPY"):
        return About(DATASET, "npy")
    if head.startswith(b"ARROW1"):
        return About(DATASET, "arrow")
    return _unnamed_safetensors(name, size, head, at)


def _unnamed_safetensors(name: str, size: int, head: bytes, at: At) -> Optional[About]:
    """A blob of a cache has no ending; one that only looks alike is nothing."""
    if not safetensors.is_likely(head):
        return None
    try:
        return safetensors.about(name, size, at)
    except Broken:
        return None


def _tensorflow(name: str, size: int, head: bytes, at: At) -> Optional[About]:
    if _TENSORFLOW_DATA.search(name):
        return About(CHECKPOINT, "tensorflow")
    if name.endswith(".index") and size >= 48 and at(size - 8, 8) == _SSTABLE_END:
        return About(CHECKPOINT, "tensorflow")
    return None


def _by_ending(name: str, size: int, head: bytes, at: At) -> Optional[About]:
    if name.lower().endswith(".onnx"):
        return _onnx(name, head)
    if "events.out.tfevents." in name and 12 <= int.from_bytes(head[:8], "little") + 16 <= size:
        return About(LOG, "tfevents")
    return None


def _weights(form: str, name: str, **facts: Any) -> About:
    kind, told = by_name(name)
    return About(kind, form, storable([*told.items(), *facts.items()]))


def _zip(low: str, size: int, head: bytes, at: At) -> Optional[About]:
    """By the name of the first file in it, which stands in its header; Keras also by a config.json in its list."""
    first = head[30 : 30 + int.from_bytes(head[26:28], "little")].decode("utf-8", "replace")
    is_torch = first.endswith(("/data.pkl", "/version", "/constants.pkl"))
    is_keras = low.endswith(".keras")
    if not (is_torch or is_keras or first.endswith(".npy")):
        return None
    end = _zip_end(size, at)
    if is_torch:
        lightning = low.endswith(".ckpt") and ("epoch=" in low or "step=" in low)
        return _weights("lightning" if lightning else "torch", low)
    if is_keras:
        listed = at(int.from_bytes(end[16:20], "little"), min(int.from_bytes(end[12:16], "little"), _KERAS_HEAD_BYTES))
        return About(MODEL, "keras") if b"config.json" in listed else None
    return About(DATASET, "npz")


def _zip_end(size: int, at: At) -> bytes:
    """The record that ends a zip. Raises Broken where there is none, as in a file whose writing was cut short."""
    last = at(max(0, size - _ZIP_END_BYTES), _ZIP_END_BYTES)
    if not last.startswith(_ZIP_END):
        last = at(max(0, size - _ZIP_END_BYTES - _ZIP_COMMENT), _ZIP_END_BYTES + _ZIP_COMMENT)
        last = last[last.rfind(_ZIP_END) :] if _ZIP_END in last else b""
    if len(last) < _ZIP_END_BYTES:
        raise Broken("it begins as a zip and does not end so: it is cut off")
    return last


def _hdf5(low: str, head: bytes) -> About:
    if low.endswith((".keras", ".weights.h5")) or any(mark in head for mark in _KERAS_MARKS):
        return _weights("keras", low)
    return About(OTHER, "hdf5")


def _gguf(head: bytes) -> About:
    """Its first words: version, how many tensors, and the architecture where that is the first key, as it is by habit."""
    version, tensors = int.from_bytes(head[4:8], "little"), int.from_bytes(head[8:16], "little")
    if len(head) < 24 or not 1 <= version <= 64 or tensors > _MOST_TENSORS:
        raise Broken(f"its GGUF header tells of version {version} and {tensors} tensors")
    facts: Dict[str, Any] = {"tensors": tensors}
    length = int.from_bytes(head[24:32], "little")
    if head[32 : 32 + length] == b"general.architecture":
        at = 32 + length
        if int.from_bytes(head[at : at + 4], "little") == _GGUF_TEXT:
            long = min(int.from_bytes(head[at + 4 : at + 12], "little"), 100)
            facts["architecture"] = head[at + 12 : at + 12 + long].decode("utf-8", "replace")
    return About(MODEL, "gguf", storable(facts.items()))


def _onnx(name: str, head: bytes) -> Optional[About]:
    """A ModelProto: field 1, the version of the format, then another of its fields."""
    if len(head) < 3 or head[0] != 0x08 or not 1 <= head[1] < 0x80 or head[2] not in _ONNX_NEXT:
        raise Broken("it is named as ONNX and does not begin so")
    facts: Dict[str, Any] = {"ir_version": head[1]}
    if head[2] == 0x12 and head[3] < 0x80:
        facts["producer"] = head[4 : 4 + head[3]].decode("utf-8", "replace")
    return About(by_name(name)[0], "onnx", storable(facts.items()))
