"""Energy-Charts of Fraunhofer ISE: CO2 equivalents of a country, parallel lists by time. Pure.

The response states no duration: it is the smallest distance of two times, which must be 15, 30 or
60 minutes. Where a time is missing, the hour is incomplete.
"""

import itertools
from decimal import Decimal
from typing import Any
from urllib.parse import urlencode

from apps.carbon.providers.readings import (
    MAX_MESSAGE,
    IntensityReading,
    Kind,
    ProviderError,
    Readings,
    iso_text,
    list_of,
    object_of,
    parse_intensity,
    parse_json,
    printable,
    without_contradictions,
)
from apps.carbon.providers.shape import BOOLEAN, NUMBER, NUMBER_OR_NULL, Shape
from apps.core.units import US_PER_S

NAME = "energy_charts"
MAX_DAYS = 10
_STEPS_S = (900, 1800, 3600)
_MAX_UNIX_S = 10**11
_SHAPE: Shape = {
    "unix_seconds": [NUMBER],
    "co2eq": [NUMBER_OR_NULL],
    "co2eq_forecast": [NUMBER_OR_NULL],
    "deprecated?": BOOLEAN,
}


def range_path(zone: str, basis: str, start_us: int, end_us: int) -> str:
    """Return path and query of ``[start_us, end_us)``."""
    query = {"country": zone, "start": iso_text(start_us), "end": iso_text(end_us)}
    return f"/co2eq?{urlencode(query)}"


def shape(value: Any) -> Shape:
    """Return the documented shape of a response."""
    return _SHAPE


def parse(body: bytes, zone: str, basis: str) -> Readings:
    """Return the readings of a response. Raises ProviderError."""
    value = object_of(parse_json(body))
    if "unix_seconds" not in value and {"detail", "message", "error"} & set(value):
        raise ProviderError(f"The provider reports: {error_text(value)}")
    times, actual = list_of(value, "unix_seconds"), list_of(value, "co2eq")
    forecast = list_of(value, "co2eq_forecast")
    if not times:
        raise ProviderError(f"The response has no values of {zone}.", is_empty=True)
    if not len(times) == len(actual) == len(forecast):
        raise ProviderError(
            f"The lists of the response have {len(times)}, {len(actual)} and {len(forecast)} "
            "values instead of as many."
        )
    step_s = _step_s(times)
    readings = Readings()
    for time, measured, predicted in zip(times, actual, forecast, strict=True):
        start_s = _unix_s(time)
        if start_s is None:
            readings.refuse(time, "it is not a time in seconds since 1970")
            continue
        start_us = start_s * US_PER_S
        if start_s % step_s:
            readings.refuse(iso_text(start_us), f"it is no multiple of {step_s // 60} minutes")
            continue
        value, kind = (
            (measured, Kind.ACTUAL) if measured is not None else (predicted, Kind.FORECAST)
        )
        try:
            ug = None if value is None else parse_intensity(value)
        except ValueError as error:
            readings.refuse(iso_text(start_us), str(error))
            continue
        readings.accepted.append(
            IntensityReading(zone, start_us, start_us + step_s * US_PER_S, ug, kind, NAME, basis)
        )
    return without_contradictions(readings)


def error_text(value: dict[str, Any]) -> str:
    """Return the message of an error response."""
    detail = value.get("detail") or value.get("message") or value.get("error")
    if isinstance(detail, list) and detail and isinstance(detail[0], dict):
        detail = detail[0].get("msg")
    return printable(detail, MAX_MESSAGE)


def _unix_s(time: Any) -> int | None:
    if not isinstance(time, Decimal) or not time.is_finite() or abs(time) > _MAX_UNIX_S:
        return None
    return int(time) if time == time.to_integral_value() else None


def _step_s(times: list[Any]) -> int:
    """Return the duration of a value in seconds. Raises ProviderError."""
    seconds = sorted({start for time in times if (start := _unix_s(time)) is not None})
    steps = [after - before for before, after in itertools.pairwise(seconds)]
    if not steps or min(steps) not in _STEPS_S:
        raise ProviderError(
            "The duration of the values is unknown: their times are not 15, 30 or 60 minutes apart."
        )
    return min(steps)
