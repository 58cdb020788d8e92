"""Format of archived windows, version 1 (docs/archive-format.md). Pure.

A file contains a header and blocks. A block contains windows of one device and epoch, as columns,
with its own SHA-256, so that it can be read by its offset. It contains ids, never names.
"""

import json
import struct
import sys
import zlib
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from hashlib import sha256
from operator import attrgetter
from typing import Any

VERSION = 1
BLOCK_MAGIC = b"LCW1"
COLUMNS = (
    "sequence",
    "batch_id",
    "gap_us",
    "length_us",
    "energy_mj",
    "has_counter_start",
    "has_counter_end",
    "counter_gap",
    "counter_rest",
    "measurement",
    "energy_quality",
    "share_quality",
    "placement_quality",
    "flags",
    "clock_shift_us",
    "has_util_mean_pm",
    "util_mean_pm",
    "has_util_max_pm",
    "util_max_pm",
    "has_mem_mean_mib",
    "mem_mean_mib",
    "has_mem_max_mib",
    "mem_max_mib",
    "has_processes",
    "processes",
    "digest",
    "shares",
)
SHARE_COLUMNS = ("consumer_id", "share_mj")
_NULLABLE = ("util_mean_pm", "util_max_pm", "mem_mean_mib", "mem_max_mib", "processes")
_PLAIN = (
    "batch_id",
    "energy_mj",
    "measurement",
    "energy_quality",
    "share_quality",
    "placement_quality",
    "flags",
    "clock_shift_us",
)
_HEAD = struct.Struct("<4sII")
_DIGEST_BYTES = 32
_MASK = 2**64 - 1
_SIGN = 2**63


class FormatError(Exception):
    """Bytes that are not a block of this format."""


@dataclass(frozen=True, slots=True)
class ArchivedWindow:
    """A stored window. ``shares``: (consumer id, mJ)."""

    epoch_id: int
    sequence: int
    device_id: int
    node_id: int
    batch_id: int
    start_us: int
    end_us: int
    energy_mj: int
    counter_start: int | None
    counter_end: int | None
    measurement: int
    energy_quality: int
    share_quality: int
    placement_quality: int
    flags: int
    clock_shift_us: int
    util_mean_pm: int | None
    util_max_pm: int | None
    mem_mean_mib: int | None
    mem_max_mib: int | None
    processes: int | None
    digest: int
    shares: tuple[tuple[int, int], ...]


_all_values = attrgetter(*(field.name for field in fields(ArchivedWindow)))


def file_header() -> bytes:
    """Return the first line of a file: it describes the columns of its blocks."""
    description = {
        "format": "LabCarbon energy windows",
        "version": VERSION,
        "columns": COLUMNS,
        "share_columns": SHARE_COLUMNS,
    }
    return json.dumps(description, separators=(",", ":")).encode() + b"\n"


def sorted_windows(windows: Iterable[ArchivedWindow]) -> list[ArchivedWindow]:
    """Return windows in the order of the archive."""
    return sorted(windows, key=lambda window: (window.start_us, window.epoch_id, window.sequence))


def windows_sha256(windows: Iterable[ArchivedWindow]) -> bytes:
    """Return the SHA-256 of all values of windows, in the order of the archive."""
    digest = sha256()
    for window in sorted_windows(windows):
        digest.update(repr(_all_values(window)).encode())
        digest.update(b"\n")
    return digest.digest()


def encode_block(windows: Sequence[ArchivedWindow]) -> bytes:
    """Return the block of windows of one device, node and epoch, in the order of the archive."""
    first = windows[0]
    columns = _columns(windows)
    shares = [share for window in windows for share in window.shares]
    columns["consumer_id"] = [consumer for consumer, _ in shares]
    columns["share_mj"] = list(_share_rests(windows))
    packed = [_pack(columns[name]) for name in (*COLUMNS, *SHARE_COLUMNS)]
    header = json.dumps(
        {
            "device": first.device_id,
            "node": first.node_id,
            "epoch": first.epoch_id,
            "windows": len(windows),
            "shares": len(shares),
            "widths": [width for width, _ in packed],
        },
        separators=(",", ":"),
    ).encode()
    body = zlib.compress(b"".join(planes for _, planes in packed), 6)
    content = _HEAD.pack(BLOCK_MAGIC, len(header), len(body)) + header + body
    return content + sha256(content).digest()


def decode_block(block: bytes) -> list[ArchivedWindow]:
    """Return the windows of a block. Raises FormatError unless it is complete and unchanged."""
    content, digest = block[:-_DIGEST_BYTES], block[-_DIGEST_BYTES:]
    if len(content) < _HEAD.size or sha256(content).digest() != digest:
        raise FormatError("its checksum differs")
    magic, header_bytes, body_bytes = _HEAD.unpack_from(content)
    if magic != BLOCK_MAGIC or len(content) != _HEAD.size + header_bytes + body_bytes:
        raise FormatError("it is of another version")
    header = json.loads(content[_HEAD.size : _HEAD.size + header_bytes])
    body = zlib.decompress(content[_HEAD.size + header_bytes :])
    columns: dict[str, list[int]] = {}
    at = 0
    for name, width in zip((*COLUMNS, *SHARE_COLUMNS), header["widths"], strict=True):
        count = header["shares"] if name in SHARE_COLUMNS else header["windows"]
        columns[name] = _unpack(width, body[at : at + width * count], count)
        at += width * count
    return list(_windows(header, columns))


def _columns(windows: Sequence[ArchivedWindow]) -> dict[str, list[int]]:
    columns: dict[str, list[int]] = {
        name: [getattr(window, name) for window in windows] for name in ("sequence", *_PLAIN)
    }
    for name in _NULLABLE:
        values = [getattr(window, name) for window in windows]
        columns[f"has_{name}"] = [int(value is not None) for value in values]
        columns[name] = [value or 0 for value in values]
    columns["digest"] = [window.digest for window in windows]
    columns["shares"] = [len(window.shares) for window in windows]
    columns["length_us"] = [window.end_us - window.start_us for window in windows]
    columns["has_counter_start"] = [int(window.counter_start is not None) for window in windows]
    columns["has_counter_end"] = [int(window.counter_end is not None) for window in windows]
    gaps, counter_gaps, counter_rests = [], [], []
    time_us = counter = 0
    for window in windows:
        gaps.append(window.start_us - time_us)
        time_us = window.end_us
        start = counter if window.counter_start is None else window.counter_start
        counter_gaps.append(start - counter)
        predicted = start + window.energy_mj
        counter = predicted if window.counter_end is None else window.counter_end
        counter_rests.append(counter - predicted)
    columns["gap_us"], columns["counter_gap"], columns["counter_rest"] = (
        gaps,
        counter_gaps,
        counter_rests,
    )
    return columns


def _windows(header: dict[str, int], columns: dict[str, list[int]]) -> Iterator[ArchivedWindow]:
    shares = iter(zip(columns["consumer_id"], columns["share_mj"], strict=True))
    time_us = counter = 0
    for i in range(header["windows"]):
        energy_mj = columns["energy_mj"][i]
        start_us = _signed(time_us + columns["gap_us"][i])
        time_us = _signed(start_us + columns["length_us"][i])
        start = _signed(counter + columns["counter_gap"][i])
        counter = _signed(start + energy_mj + columns["counter_rest"][i])
        values: dict[str, Any] = {name: columns[name][i] for name in _PLAIN}
        for name in _NULLABLE:
            values[name] = columns[name][i] if columns[f"has_{name}"][i] else None
        yield ArchivedWindow(
            epoch_id=header["epoch"],
            device_id=header["device"],
            node_id=header["node"],
            sequence=columns["sequence"][i],
            start_us=start_us,
            end_us=time_us,
            counter_start=start if columns["has_counter_start"][i] else None,
            counter_end=counter if columns["has_counter_end"][i] else None,
            digest=columns["digest"][i],
            shares=_window_shares(shares, columns["shares"][i], energy_mj),
            **values,
        )


def _share_rests(windows: Sequence[ArchivedWindow]) -> Iterator[int]:
    """Yield the energies of shares; of the last share of a window, what the others leave over."""
    for window in windows:
        rest_mj = window.energy_mj
        for i, (_, part_mj) in enumerate(window.shares, 1):
            yield part_mj - rest_mj if i == len(window.shares) else part_mj
            rest_mj -= part_mj


def _window_shares(
    shares: Iterator[tuple[int, int]], count: int, energy_mj: int
) -> tuple[tuple[int, int], ...]:
    parts = []
    rest_mj = energy_mj
    for i in range(1, count + 1):
        consumer, part_mj = next(shares)
        if i == count:
            part_mj = _signed(part_mj + rest_mj)
        parts.append((consumer, part_mj))
        rest_mj -= part_mj
    return tuple(parts)


def _signed(value: int) -> int:
    """Return a value modulo 2^64 as a signed integer."""
    value &= _MASK
    return value - 2 * _SIGN if value >= _SIGN else value


def _pack(values: Sequence[int]) -> tuple[int, bytes]:
    """Return differences in zigzag form as byte planes, lowest first, with the number of planes."""
    differences = array("Q")
    previous = 0
    for value in values:
        step = _signed(value - previous)
        differences.append((step << 1 ^ step >> 63) & _MASK)
        previous = value
    width = (max(differences, default=0).bit_length() + 7) // 8
    if sys.byteorder == "big":
        differences.byteswap()
    planes = differences.tobytes()
    return width, b"".join(planes[i::8] for i in range(width))


def _unpack(width: int, planes: bytes, count: int) -> list[int]:
    rows = bytearray(8 * count)
    for i in range(width):
        rows[i::8] = planes[i * count : (i + 1) * count]
    differences = array("Q", bytes(rows))
    if sys.byteorder == "big":
        differences.byteswap()
    values = []
    value = 0
    for difference in differences:
        value = _signed(value + (difference >> 1 ^ -(difference & 1)))
        values.append(value)
    return values
