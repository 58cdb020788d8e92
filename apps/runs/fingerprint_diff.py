"""Comparison of fingerprints, part by part. Pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol


class Comparison(StrEnum):
    """Result of the comparison of one row. SEEMS: equal by names, sizes and times; contents were
    not read.
    """

    DIFFERS = "differs"
    UNKNOWN = "unknown"
    SEEMS = "seems"
    SAME = "same"


class FingerprintParts(Protocol):
    """The compared parts of a fingerprint: '' and None are unknown (docs/fingerprint.md)."""

    entry_name: str
    code: str
    code_normal: str
    commit: str
    dirty: bool | None
    params: Mapping[str, str] | None
    told: Mapping[str, Any]
    seeds: Mapping[str, str] | None
    data: str
    data_weak: str
    data_items: Sequence[Mapping[str, Any]]
    start: str
    start_weak: str
    start_name: str
    environment: Mapping[str, Any]
    hardware: Mapping[str, Any]


@dataclass(frozen=True)
class Line:
    """One compared item. ``cells``: the value of each run, None where unknown."""

    part: str
    name: str
    cells: list[str | None]
    alike: Comparison


def compare_fingerprints(prints: Sequence[FingerprintParts | None]) -> list[Line]:
    """Return the rows of a comparison: entry, code, parameters, data, start, seeds, environment,
    hardware.

    A value that is not stored is displayed as the start of its hash, so that equal values can be
    recognised.
    """
    return [
        *_entry(prints),
        _code(prints),
        *_compare_hashes("params", prints, lambda parts: parts.params),
        _contents("data", prints, lambda parts: (parts.data, parts.data_weak), _data_text),
        _contents(
            "start",
            prints,
            lambda parts: (parts.start, parts.start_weak),
            lambda parts: parts.start_name,
        ),
        *(_compare_hashes("seeds", prints, lambda parts: parts.seeds) or [_no_seeds(prints)]),
        *_compare_values("environment", prints, lambda parts: parts.environment),
        *_compare_values("hardware", prints, lambda parts: parts.hardware),
    ]


def hash_label(digest: str) -> str:
    """Return the start of a hash, displayed instead of a value that is not stored."""
    return f"#{digest[:6]}"


def format_value(value: Any) -> str:
    """Return a parameter value as displayed: JSON literals, text without quotes."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return str(value)


def value_text(parts: FingerprintParts, name: str, digest: str) -> str:
    """Return a parameter or seed of a run as displayed."""
    return format_value(parts.told[name]) if name in parts.told else hash_label(digest)


def commit_text(parts: FingerprintParts) -> str:
    """Return the commit of a code state, or '' if unknown."""
    return parts.commit[:10] + (" with changes" if parts.commit and parts.dirty else "")


def code_text(parts: FingerprintParts) -> str:
    """Return the code hash and the commit of a code state, or '' if both are unknown."""
    commit = f"commit {commit_text(parts)}" if parts.commit else ""
    return ", ".join(filter(None, (hash_label(parts.code) if parts.code else "", commit)))


def _entry(prints: Sequence[FingerprintParts | None]) -> list[Line]:
    names = [parts.entry_name or None if parts else None for parts in prints]
    return [Line("entry", "", names, _compare(names))] if any(names) else []


def _code(prints: Sequence[FingerprintParts | None]) -> Line:
    alike = _compare([parts.code or None if parts else None for parts in prints])
    normal = [parts.code_normal or None if parts else None for parts in prints]
    name = (
        "but for comments and format the same"
        if alike == Comparison.DIFFERS and _compare(normal) == Comparison.SAME
        else ""
    )
    return Line(
        "code", name, [code_text(parts) or None if parts else None for parts in prints], alike
    )


def _compare_hashes(
    part: str,
    prints: Sequence[FingerprintParts | None],
    get: Callable[[FingerprintParts], Mapping[str, str] | None],
) -> list[Line]:
    """Compare by hash. A missing name is a difference if the parameters of the run are known."""
    hash_maps = [get(parts) if parts else None for parts in prints]
    lines = []
    for name in sorted({name for parts in hash_maps for name in parts or {}}):
        hashes = [None if parts is None else parts.get(name, "") for parts in hash_maps]
        cells = [
            None
            if parts is None or hash_map is None
            else value_text(parts, name, hash_map[name])
            if name in hash_map
            else "–"
            for parts, hash_map in zip(prints, hash_maps, strict=True)
        ]
        lines.append(Line(part, name, cells, _compare(hashes)))
    return lines


def _no_seeds(prints: Sequence[FingerprintParts | None]) -> Line:
    cells = ["unset" if parts and parts.seeds is not None else None for parts in prints]
    return Line("seeds", "", cells, _compare(cells))


def _contents(
    part: str,
    prints: Sequence[FingerprintParts | None],
    hashes: Callable[[FingerprintParts], tuple[str, str]],
    text: Callable[[FingerprintParts], str],
) -> Line:
    """Compare by content if it is known for all runs, else by names, sizes and times."""
    verified = [hashes(parts)[0] or None if parts else None for parts in prints]
    weak = [hashes(parts)[1] or hashes(parts)[0] or None if parts else None for parts in prints]
    alike = _compare(verified)
    if alike == Comparison.UNKNOWN:
        by_weak = _compare(weak)
        # Contents that differ differ, whatever else is known; names and times that differ may hold
        # the same contents.
        alike = Comparison.SEEMS if by_weak == Comparison.SAME else Comparison.UNKNOWN
    cells = [
        None if parts is None or key is None else text(parts) or hash_label(key)
        for parts, key in zip(prints, weak, strict=True)
    ]
    return Line(part, "", cells, alike)


def _data_text(parts: FingerprintParts) -> str:
    return ", ".join(
        f"{item['role']}: {item['name']}"
        for item in parts.data_items
        if item.get("role") and item.get("name")
    )


def _compare_values(
    part: str,
    prints: Sequence[FingerprintParts | None],
    get: Callable[[FingerprintParts], Mapping[str, Any]],
) -> list[Line]:
    value_maps = [get(values) if values else {} for values in prints]
    names = sorted({name for values in value_maps for name in values})
    cells = {
        name: [format_value(values[name]) if name in values else None for values in value_maps]
        for name in names
    }
    return [Line(part, name, cells[name], _compare(cells[name])) for name in names]


def _compare(values: Sequence[str | None]) -> Comparison:
    distinct = {value for value in values if value is not None}
    if len(distinct) > 1:
        return Comparison.DIFFERS
    return Comparison.UNKNOWN if None in values else Comparison.SAME
