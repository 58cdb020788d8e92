"""Reads the header of a safetensors file: eight bytes of length, then JSON. The tensors are not
read.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from typing import Any, Callable, Dict, List, Tuple

from labcarbon_collect.scan.description import (
    CHECKPOINT,
    Description,
    InvalidFormat,
    clean_facts,
    kind_and_step,
)

MAX_HEADER_BYTES = 100_000_000  # limit of the format (safetensors, README "Format")
MAX_PARSED_BYTES = 16 << 20  # A longer header is not parsed: its JSON would need too much memory.
_MIN_HEADER_BYTES = 2
_REPORTED_METADATA = (
    "format",
    "license",
    "base_model",
    "modelspec.architecture",
    "modelspec.title",
)
_OPTIMIZER_NAMES = ("optimizer.", "exp_avg", "optim_state")
_parse_lock = threading.Lock()
ReadAt = Callable[[int, int], bytes]  # (offset, length) → bytes of the file


def is_likely(head: bytes) -> bool:
    """Return whether a file may start with such a header."""
    return head[8:9] == b"{" and 0 < int.from_bytes(head[:8], "little") < 1 << 40


def describe(name: str, size: int, read_at: ReadAt) -> Description:
    """Describe a file by its header. Raises InvalidFormat if the header violates the format or
    exceeds the file.
    """
    prefix = read_at(0, 9)
    length = int.from_bytes(prefix[:8], "little")
    if len(prefix) < 9 or length < _MIN_HEADER_BYTES:
        raise InvalidFormat("truncated safetensors header")
    if length > MAX_HEADER_BYTES:
        raise InvalidFormat(
            f"invalid safetensors header: {length} bytes, the maximum is {MAX_HEADER_BYTES}"
        )
    if 8 + length > size:
        raise InvalidFormat(f"invalid safetensors header: {length} bytes in a file of {size} bytes")
    if prefix[8:9] != b"{":
        raise InvalidFormat("invalid safetensors header: not a JSON object")
    kind, facts = kind_and_step(name)
    if length > MAX_PARSED_BYTES:
        return Description(kind, "safetensors", facts, payload_offset=8 + length)
    with _parse_lock:
        header = _parse_header(read_at(8, length))
    summary = _Header(header, size - 8 - length)
    if summary.has_optimizer:
        kind = CHECKPOINT
    metadata = [
        (name, summary.metadata[name]) for name in _REPORTED_METADATA if name in summary.metadata
    ]
    licence = next((str(value) for name, value in metadata if name == "license"), "")[:100]
    return Description(
        kind,
        "safetensors",
        clean_facts([*facts.items(), *summary.facts(), *metadata]),
        licence,
        8 + length,
    )


class _Header:
    """Totals over the tensors of a header."""

    def __init__(self, pairs: List[Tuple[str, Any]], payload_bytes: int) -> None:
        self.metadata: Dict[str, Any] = {}
        self.tensors = self.parameters = 0
        self.dtypes: Counter[str] = Counter()
        self.has_optimizer = False
        for name, value in pairs:
            if name == "__metadata__":
                self.metadata = {
                    key: text for key, text in _require_pairs(value) if isinstance(text, str)
                }
            else:
                self._add_tensor(name, value, payload_bytes)

    def _add_tensor(self, name: str, value: Any, payload_bytes: int) -> None:
        if not isinstance(value, tuple):
            raise InvalidFormat("invalid safetensors header: malformed tensor")
        dtype, parameters, start, end = value
        if not 0 <= start <= end <= payload_bytes:
            raise InvalidFormat(
                f"invalid safetensors header: {end} bytes of tensors, {payload_bytes} in the file"
            )
        self.tensors += 1
        self.parameters += parameters
        self.dtypes[dtype] += 1
        self.has_optimizer = self.has_optimizer or any(word in name for word in _OPTIMIZER_NAMES)

    def facts(self) -> List[Tuple[str, Any]]:
        dtypes = ", ".join(f"{name} {count}" for name, count in self.dtypes.most_common(8))
        return [("tensors", self.tensors), ("parameters", self.parameters), ("dtypes", dtypes)]


def _parse_header(content: bytes) -> List[Tuple[str, Any]]:
    """Parse the header into pairs. A tensor becomes (dtype, parameters, start, end), so that a long
    header needs little memory.
    """
    try:
        pairs = json.loads(content, object_pairs_hook=_parse_tensor)
    except (ValueError, RecursionError) as error:
        raise InvalidFormat("invalid safetensors header: not JSON") from error
    return _require_pairs(pairs)


def _parse_tensor(pairs: List[Tuple[str, Any]]) -> Any:
    if len(pairs) != 3:
        return pairs
    fields = dict(pairs)
    dtype, shape, offsets = fields.get("dtype"), fields.get("shape"), fields.get("data_offsets")
    if (
        not isinstance(dtype, str)
        or not isinstance(shape, list)
        or not isinstance(offsets, list)
        or len(offsets) != 2
    ):
        return pairs
    if (
        not all(type(number) is int and number >= 0 for number in (*shape, *offsets))
        or len(shape) > 64
    ):
        return pairs
    parameters = 1
    for number in shape:
        parameters = min(parameters * number, 1 << 63)
    return dtype[:16], parameters, offsets[0], offsets[1]


def _require_pairs(value: Any) -> List[Tuple[str, Any]]:
    if not isinstance(value, list):
        raise InvalidFormat("invalid safetensors header: not a JSON object")
    return value
