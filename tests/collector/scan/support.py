"""A folder to scan, a machine that scans it, and tiny files of real formats made by hand."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import time
import zipfile
from io import BytesIO
from pathlib import Path
from typing import Any

from tests.collector.collector_process import Collector

LEGACY_TORCH = b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19."


def safetensors(seed: int = 1, *, header: Any = None, cut: int = 0, **metadata: str) -> bytes:
    """Two tensors of ``seed``s."""
    told = {
        "__metadata__": {"format": "pt", **metadata},
        "a.weight": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]},
        "a.bias": {"dtype": "F16", "shape": [4], "data_offsets": [24, 32]},
    }
    text = json.dumps(told if header is None else header).encode()
    content = struct.pack("<Q", len(text)) + text + bytes([seed]) * 32
    return content[: len(content) - cut]


def zipped(*names: str, content: bytes = b"x") -> bytes:
    """A zip of files, the same bytes whenever it is made."""
    out = BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as file:
        for name in names:
            file.writestr(zipfile.ZipInfo(name), content)
    return out.getvalue()


def torch(seed: int = 1) -> bytes:
    """As torch.save writes: a pickle that must never be opened, then the tensors."""
    return zipped(
        "archive/data.pkl",
        "archive/data/0",
        "archive/version",
        content=b"cos\nsystem\n" + bytes([seed]),
    )


def gguf(tensors: int = 3, version: int = 3) -> bytes:
    key = b"general.architecture"
    return (
        b"GGUF"
        + struct.pack("<IQQ", version, tensors, 1)
        + struct.pack("<Q", len(key))
        + key
        + struct.pack("<IQ", 8, 5)
        + b"llama"
    )


def tar() -> bytes:
    head = bytearray(512)
    head[257:263] = b"ustar\0"
    return bytes(head)


# Masked CRC32C of the 8 bytes of a length. The files of TensorBoard begin with that of 24.
_LENGTH_CRC = {10: b"\xae\xa3\xbf\x3a", 24: b'\xa3\x7fK"'}


def tfrecord(seed: int = 1, length: int = 24) -> bytes:
    """One record as TensorFlow writes it: length, its checksum, data, their checksum."""
    return struct.pack("<Q", length) + _LENGTH_CRC[length] + bytes([seed]) * length + bytes(4)


SSTABLE = bytes(48) + bytes.fromhex("db4775248b80fb57")
ONNX = b"\x08\x08\x12\x07pytorch\x3a\x00"
PARQUET = b"PAR1" + bytes(8) + b"PAR1"
NPY = b"\x93NUMPY\x01\x00" + bytes(20)
KERAS_H5 = b"\x89HDF\r\n\x1a\n" + bytes(88) + b"keras_version" + bytes(40)


class Disk:
    """A folder that a machine scans. What is put there looks as if it had been there for long."""

    def __init__(self, root: Path, machine: Collector) -> None:
        root.mkdir(parents=True, exist_ok=True)
        self.root, self.machine = root, machine

    def put(self, name: str, content: bytes) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return path

    def settle(self) -> None:
        """Wait until a scan may trust the times of what was just written."""
        time.sleep(2.1)

    def scan(self, *options: str, **more: Any) -> subprocess.CompletedProcess[str]:
        return self.machine.call("scan", *options, str(self.root), **more)

    @property
    def state(self) -> Path:
        return self.machine.home / "scan.db"


def rewritten(path: Path, content: bytes) -> None:
    """Other content under the same size and time of change."""
    before = path.stat()
    assert len(content) == before.st_size
    path.write_bytes(content)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
