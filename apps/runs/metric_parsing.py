"""Parsing of metric points: ``{"points": [[name, step, value, at], …]}``. Pure."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

import msgspec

from apps.core.errors import InvalidInput
from apps.core.intervals import datetime_to_us
from apps.core.text import is_unstorable
from apps.core.units import INT64_MAX
from apps.runs.bulk_parsing import EARLIEST_US, LATEST_US

MAX_POINTS = 10_000
SPECIAL_VALUES = {
    "nan": "NaN",
    "inf": "Infinity",
    "infinity": "Infinity",
    "+inf": "Infinity",
    "+infinity": "Infinity",
    "-inf": "-Infinity",
    "-infinity": "-Infinity",
}

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
Step = Annotated[int, msgspec.Meta(ge=-INT64_MAX, le=INT64_MAX)]
Moment = Annotated[datetime, msgspec.Meta(tz=True)]


class PointsIn(msgspec.Struct, forbid_unknown_fields=True):
    """The body of POST runs/<uuid>/metrics/."""

    points: Annotated[
        list[tuple[Name, Step, float | str, Moment | None]], msgspec.Meta(max_length=MAX_POINTS)
    ]


@dataclass(frozen=True, slots=True)
class Point:
    """One value of a metric at a step. ``value`` None: not finite, see ``special_value``."""

    step: int
    at_us: int
    value: float | None
    special_value: str = ""


_BODY = msgspec.json.Decoder(PointsIn)


def parse_points(body: bytes, *, now: int) -> dict[str, list[Point]]:
    """Return points by metric, in the given order. A repeated step replaces the value. A missing
    time is ``now``.

    Raises InvalidInput that names the point.
    """
    try:
        rows = _BODY.decode(body)
    except msgspec.ValidationError as error:
        text, _, where = str(error).partition(" - at `$.")
        raise InvalidInput(f"{text}.", field=where.strip("`") or "points", hint=_SHAPE) from error
    except (msgspec.DecodeError, RecursionError) as error:
        raise InvalidInput("The body must be JSON.", code="parse_error", hint=_SHAPE) from error
    by_metric: dict[str, dict[int, Point]] = {}
    for number, (name, step, value, at) in enumerate(rows.points):
        point = _point(number, step, value, now if at is None else datetime_to_us(at))
        by_metric.setdefault(name, {})[step] = point
    for name in by_metric:
        if is_unstorable(name):
            raise InvalidInput(
                f"The metric {name[:50]!r} has an invalid character.", field="points"
            )
    return {name: list(points.values()) for name, points in by_metric.items()}


def as_points(values: Iterable[tuple[int, int, float]]) -> list[Point]:
    """Return points from (step, µs UTC, value) of trackers; any float is allowed."""
    return [
        _point(number, step, value, at_us) for number, (step, at_us, value) in enumerate(values)
    ]


_SHAPE = '{"points": [["loss", 100, 0.25, "2026-11-02T08:00:00Z"], ["loss", 200, "NaN", null]]}'


def _point(number: int, step: int, value: float | str, at_us: int) -> Point:
    if not EARLIEST_US <= at_us <= LATEST_US:
        raise InvalidInput("The time is out of range.", field=f"points[{number}][3]")
    if isinstance(value, str):
        special_value = SPECIAL_VALUES.get(value.lower())
        if special_value is None:
            raise InvalidInput(
                f"{value[:40]!r} is not a value.",
                field=f"points[{number}][2]",
                hint="A value is a number, NaN, Infinity or -Infinity.",
            )
        return Point(step, at_us, None, special_value)
    if not math.isfinite(value):
        return Point(
            step,
            at_us,
            None,
            "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity",
        )
    return Point(step, at_us, value)
