"""In what runs differ: their fingerprints part by part, side by side. Pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol


class Alike(StrEnum):
    """How the runs of one line compare. SEEMS: the same by names, sizes and times, contents were not read."""

    DIFFERS = "differs"
    UNKNOWN = "unknown"
    SEEMS = "seems"
    SAME = "same"


class Printed(Protocol):
    """A fingerprint, as far as it is compared: '' and None are unknown (docs/fingerprint.md)."""

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
    """One thing that is compared. ``cells``: what each run has, None where nobody told."""

    part: str
    name: str
    cells: list[str | None]
    alike: Alike


def differences(prints: Sequence[Printed | None]) -> list[Line]:
    """Return the lines of a comparison: entry, code, parameters, data, start, seeds, environment, hardware.

    What each run has but nobody may be told is shown by the beginning of its hash, so that equal ones can be seen.
    """
    return [
        *_entry(prints),
        _code(prints),
        *_named("params", prints, lambda each: each.params),
        _contents("data", prints, lambda each: (each.data, each.data_weak), _data_text),
        _contents("start", prints, lambda each: (each.start, each.start_weak), lambda each: each.start_name),
        *(_named("seeds", prints, lambda each: each.seeds) or [_no_seeds(prints)]),
        *_told("environment", prints, lambda each: each.environment),
        *_told("hardware", prints, lambda each: each.hardware),
    ]


def hidden(digest: str) -> str:
    """Return what stands for a value that may not be told: the beginning of its hash."""
    return f"#{digest[:6]}"


def said(value: Any) -> str:
    """Return a parameter's value as it is shown: JSON's words, text without quotes."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return str(value)


def value_text(each: Printed, name: str, digest: str) -> str:
    """Return a parameter or seed of a run as it is shown."""
    return said(each.told[name]) if name in each.told else hidden(digest)


def code_text(each: Printed) -> str:
    """Return a state of code in words; '' where nothing is known of it."""
    if each.commit:
        return each.commit[:10] + (" with changes" if each.dirty else "")
    return hidden(each.code) if each.code else ""


def _entry(prints: Sequence[Printed | None]) -> list[Line]:
    names = [each.entry_name or None if each else None for each in prints]
    return [Line("entry", "", names, _alike(names))] if any(names) else []


def _code(prints: Sequence[Printed | None]) -> Line:
    alike = _alike([each.code or None if each else None for each in prints])
    normal = [each.code_normal or None if each else None for each in prints]
    name = "but for comments and format the same" if alike == Alike.DIFFERS and _alike(normal) == Alike.SAME else ""
    return Line("code", name, [code_text(each) or None if each else None for each in prints], alike)


def _named(part: str, prints: Sequence[Printed | None], get: Callable[[Printed], Mapping[str, str] | None]) -> list[Line]:
    """Compare by hash. A name that a run did not give, though its parameters are known, is a difference."""
    held = [get(each) if each else None for each in prints]
    lines = []
    for name in sorted({name for each in held for name in each or {}}):
        hashes = [None if each is None else each.get(name, "") for each in held]
        cells = [
            None if each is None or found is None else value_text(each, name, found[name]) if name in found else "–"
            for each, found in zip(prints, held, strict=True)
        ]
        lines.append(Line(part, name, cells, _alike(hashes)))
    return lines


def _no_seeds(prints: Sequence[Printed | None]) -> Line:
    cells = ["unset" if each and each.seeds is not None else None for each in prints]
    return Line("seeds", "", cells, _alike(cells))


def _contents(
    part: str, prints: Sequence[Printed | None], hashes: Callable[[Printed], tuple[str, str]], text: Callable[[Printed], str]
) -> Line:
    """Compare by content where that is known of all; else by names, sizes and times."""
    verified = [hashes(each)[0] or None if each else None for each in prints]
    weak = [hashes(each)[1] or hashes(each)[0] or None if each else None for each in prints]
    alike = _alike(verified)
    if alike == Alike.UNKNOWN:
        by_weak = _alike(weak)
        # Contents that differ differ, whatever else is known; names and times that differ may hold the same contents.
        alike = Alike.SEEMS if by_weak == Alike.SAME else Alike.UNKNOWN
    cells = [
        None if each is None or key is None else text(each) or hidden(key) for each, key in zip(prints, weak, strict=True)
    ]
    return Line(part, "", cells, alike)


def _data_text(each: Printed) -> str:
    return ", ".join(f"{item['role']}: {item['name']}" for item in each.data_items if item.get("role") and item.get("name"))


def _told(part: str, prints: Sequence[Printed | None], get: Callable[[Printed], Mapping[str, Any]]) -> list[Line]:
    held = [get(each) if each else {} for each in prints]
    names = sorted({name for each in held for name in each})
    cells = {name: [said(each[name]) if name in each else None for each in held] for name in names}
    return [Line(part, name, cells[name], _alike(cells[name])) for name in names]


def _alike(values: Sequence[str | None]) -> Alike:
    known = {value for value in values if value is not None}
    if len(known) > 1:
        return Alike.DIFFERS
    return Alike.UNKNOWN if None in values else Alike.SAME
