"""Patterns of device keys, and values of dated facts over time. Pure."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from apps.fleet.choices import DeviceKind

T = TypeVar("T")

_UUID = r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
_FORMS = {
    DeviceKind.GPU: re.compile(r"gpu:[\w.\-/]{4,120}\Z", re.ASCII),
    DeviceKind.MIG: re.compile(r"mig:[\w.\-/]{4,120}\Z", re.ASCII),
    **{
        kind: re.compile(rf"{kind.value}:(?P<node>{_UUID})/[\w.\-]{{1,80}}\Z", re.ASCII)
        for kind in (DeviceKind.CPU, DeviceKind.DRAM, DeviceKind.METER, DeviceKind.STORAGE)
    },
}


def device_kind(key: str, node_uuid: str) -> DeviceKind | None:
    """Return the kind of a device key. None for an unknown pattern or a device of another node
    than ``node_uuid``.
    """
    for kind, form in _FORMS.items():
        match = form.match(key)
        if match:
            owner = match.groupdict().get("node")
            return kind if owner is None or owner.lower() == node_uuid.lower() else None
    return None


def dated_intervals(history: Sequence[tuple[int, T]]) -> list[tuple[int, int | None, T]]:
    """Return a history of (from_hour, value) as (from_hour, to_hour, value): disjoint, without
    gaps, the last one open.

    Each value is valid until the next. The first value is valid from hour 0.
    """
    ordered = sorted(history, key=lambda fact: fact[0])
    begins = [0, *(hour for hour, _ in ordered[1:]), None]
    return [(begins[i] or 0, begins[i + 1], value) for i, (_, value) in enumerate(ordered)]


def value_at(history: Sequence[tuple[int, T]], hour: int) -> T | None:
    """Return the value in ``hour``, None for an empty history."""
    for start, end, value in dated_intervals(history):
        if start <= hour and (end is None or hour < end):
            return value
    return None


def started_value_at(history: Sequence[tuple[int, T]], hour: int) -> T | None:
    """Return the value in ``hour`` of a history that is unknown before its first value."""
    begun = [(start, value) for start, value in history if start <= hour]
    return value_at(begun, hour)


@dataclass(frozen=True)
class SiteFacts:
    """Dated facts of a lab as (from_hour, value): site ids by node id, zones and PUE (ppm) by
    site id.
    """

    placements: Mapping[int, Sequence[tuple[int, int]]]
    zones: Mapping[int, Sequence[tuple[int, str]]]
    pues: Mapping[int, Sequence[tuple[int, int]]]
