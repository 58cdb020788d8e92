"""Readings of grid intensity from the response of a provider, and whole UTC hours of them. Pure.

Figures are exact: JSON numbers are read as decimals, and an hour is the mean of its parts weighted
by their duration, rounded half up once.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation
from enum import StrEnum
from typing import Any

from apps.carbon.factor_files import MAX_G_PER_KWH
from apps.core.intervals import datetime_to_us
from apps.core.units import UG_PER_G, US_PER_HOUR, US_PER_S

MAX_READINGS = 20_000
MAX_MESSAGE = 200
_US_PER_MINUTE = 60 * US_PER_S
_UNPRINTABLE = re.compile(r"[^ -~\u00a0-\ud7ff]")


class Kind(StrEnum):
    """How a reading was obtained."""

    ACTUAL = "actual"
    ESTIMATED = "estimated"
    FORECAST = "forecast"


class ProviderError(Exception):
    """A response without readings. ``message``: a sentence for the page. ``wait_s``: the requested
    delay. ``status``: of the response, 0 if there is none. ``is_empty``: the provider has no
    values for these hours.
    """

    def __init__(
        self, message: str, *, wait_s: int = 0, status: int = 0, is_empty: bool = False
    ) -> None:
        super().__init__(message)
        self.message = message
        self.wait_s = wait_s
        self.status = status
        self.is_empty = is_empty


@dataclass(frozen=True)
class IntensityReading:
    """The intensity of a zone over ``[start_us, end_us)``. ``ug_per_kwh`` None: the provider has
    no value.
    """

    zone: str
    start_us: int
    end_us: int
    ug_per_kwh: int | None
    kind: Kind
    provider: str
    basis: str


@dataclass(frozen=True)
class RefusedReading:
    """A reading that is not used. ``start``: as in the response."""

    start: str
    reason: str

    def __str__(self) -> str:
        return f"{self.start}: {self.reason}"


@dataclass
class Readings:
    """The readings of a response, by start."""

    accepted: list[IntensityReading] = field(default_factory=list)
    refused: list[RefusedReading] = field(default_factory=list)

    def refuse(self, start: object, reason: str) -> None:
        """Add a refused reading."""
        self.refused.append(RefusedReading(printable(start), reason))


@dataclass(frozen=True)
class HourValues:
    """µg CO2e per kWh of whole UTC hours. An hour is in one of both."""

    actual: Mapping[int, int]
    estimated: Mapping[int, int]


def parse_json(body: bytes) -> Any:
    """Return a JSON value with numbers as decimals; NaN and infinities as text. Raises
    ProviderError.
    """
    try:
        return json.loads(body, parse_float=_number, parse_int=_number, parse_constant=str)
    except (ValueError, RecursionError) as error:
        raise ProviderError("The response is not JSON.") from error


def _number(text: str) -> Decimal | str:
    try:
        return Decimal(text)
    except InvalidOperation:  # an exponent beyond those of decimals
        return text


def object_of(value: Any, name: str = "The response") -> dict[str, Any]:
    """Return a JSON object. Raises ProviderError."""
    if not isinstance(value, dict):
        raise ProviderError(f"{name} is {type_name(value)} instead of an object.")
    return value


def list_of(value: Mapping[str, Any], name: str) -> list[Any]:
    """Return the list under ``name``. Raises ProviderError."""
    found = value.get(name)
    if not isinstance(found, list):
        state = "missing" if name not in value else f"{type_name(found)} instead of a list"
        raise ProviderError(f"“{name}” of the response is {state}.")
    if len(found) > MAX_READINGS:
        raise ProviderError(f"The response has more than {MAX_READINGS} values.")
    return found


def type_name(value: Any) -> str:
    """Return the type of a JSON value for people."""
    for types, name in (
        (bool, "true or false"),
        (Decimal | int, "a number"),
        (str, "a text"),
        (list, "a list"),
        (dict, "an object"),
    ):
        if isinstance(value, types):
            return name
    return "null"


def parse_time(value: Any) -> int | None:
    """Return an ISO 8601 time with a time zone in µs since 1970 UTC. None for anything else."""
    if not isinstance(value, str) or len(value) > 40:
        return None
    try:
        moment = datetime.fromisoformat(value)
        return datetime_to_us(moment) if moment.tzinfo is not None else None
    except (ValueError, OverflowError):
        return None


def parse_intensity(value: Any) -> int:
    """Return g per kWh as µg per kWh, rounded half up. Raises ValueError with the reason for
    anything that is not a number above 0 and up to 1500.
    """
    if isinstance(value, bool) or not isinstance(value, Decimal):
        raise ValueError(f"{printable(value)!r} is not a number")
    if not value.is_finite() or not 0 < value <= MAX_G_PER_KWH:
        raise ValueError(f"{printable(value)} g/kWh is outside 0 to {MAX_G_PER_KWH}")
    ug = int((value * UG_PER_G).to_integral_value(ROUND_HALF_UP))
    if ug == 0:
        raise ValueError(f"{printable(value)} g/kWh rounds to 0")
    return ug


def printable(value: object, limit: int = 60) -> str:
    """Return a value of a response as a short text."""
    text = "null" if value is None else str(value)
    return _UNPRINTABLE.sub("?", text[:limit]) + ("…" if len(text) > limit else "")


def without_contradictions(readings: Readings) -> Readings:
    """Return readings by start, each once. All readings of a start with different values are
    refused.
    """
    by_start: dict[int, list[IntensityReading]] = {}
    for reading in readings.accepted:
        by_start.setdefault(reading.start_us, []).append(reading)
    unique = Readings(refused=readings.refused)
    for start_us, same in sorted(by_start.items()):
        if all(reading == same[0] for reading in same):
            unique.accepted.append(same[0])
        else:
            unique.refuse(iso_text(start_us), "it occurs several times with different values")
    return unique


def iso_text(time_us: int) -> str:
    """Return µs since 1970 as an ISO time of the minute, UTC."""
    minutes = time_us // _US_PER_MINUTE
    try:
        moment = datetime.fromtimestamp(minutes * 60, tz=UTC)
    except (ValueError, OverflowError, OSError):
        return str(time_us)
    return f"{moment:%Y-%m-%dT%H:%MZ}"


def whole_hours(readings: Iterable[IntensityReading], *, end_hour: int) -> HourValues:
    """Return the hours before ``end_hour`` that readings with values cover without a gap or an
    overlap.

    An hour is actual if all its readings are; otherwise it is estimated, also from a forecast.
    """
    parts: dict[int, list[tuple[int, int, int, Kind]]] = {}
    for reading in readings:
        if reading.ug_per_kwh is not None:
            for hour, start_us, end_us in _hour_parts(reading, end_hour):
                parts.setdefault(hour, []).append(
                    (start_us, end_us, reading.ug_per_kwh, reading.kind)
                )
    actual: dict[int, int] = {}
    estimated: dict[int, int] = {}
    for hour, pieces in sorted(parts.items()):
        pieces.sort()
        if not _is_complete(hour, pieces):
            continue
        weighted = sum((end_us - start_us) * ug for start_us, end_us, ug, _ in pieces)
        is_actual = all(kind == Kind.ACTUAL for *_, kind in pieces)
        mean = (2 * weighted + US_PER_HOUR) // (2 * US_PER_HOUR)
        (actual if is_actual else estimated)[hour] = mean
    return HourValues(actual, estimated)


def _hour_parts(reading: IntensityReading, end_hour: int) -> Iterator[tuple[int, int, int]]:
    first = reading.start_us // US_PER_HOUR
    last = min(-(-reading.end_us // US_PER_HOUR), end_hour)
    for hour in range(first, last):
        yield (
            hour,
            max(reading.start_us, hour * US_PER_HOUR),
            min(reading.end_us, (hour + 1) * US_PER_HOUR),
        )


def _is_complete(hour: int, pieces: list[tuple[int, int, int, Kind]]) -> bool:
    edge_us = hour * US_PER_HOUR
    for start_us, end_us, _, _ in pieces:
        if start_us != edge_us:
            return False
        edge_us = end_us
    return edge_us == (hour + 1) * US_PER_HOUR
