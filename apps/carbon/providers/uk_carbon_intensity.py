"""Carbon Intensity API of the National Energy System Operator: Great Britain, half hours. Pure.

Its factors are direct: emissions of generation and grid losses, without upstream. A response can
start with the half hour before the requested one.
"""

from typing import Any

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
    parse_time,
    printable,
    without_contradictions,
)
from apps.carbon.providers.shape import NUMBER_OR_NULL, TEXT, Shape
from apps.core.units import US_PER_S

NAME = "uk_carbon_intensity"
MAX_DAYS = 14
_HALF_HOUR_US = 1800 * US_PER_S
_SHAPE: Shape = {
    "data": [
        {
            "from": TEXT,
            "to": TEXT,
            "intensity": {"forecast": NUMBER_OR_NULL, "actual": NUMBER_OR_NULL, "index": TEXT},
        }
    ]
}


def range_path(zone: str, basis: str, start_us: int, end_us: int) -> str:
    """Return the path of the half hours ``[start_us, end_us)``."""
    return f"/intensity/{iso_text(start_us)}/{iso_text(end_us)}"


def shape(value: Any) -> Shape:
    """Return the documented shape of a response."""
    return _SHAPE


def parse(body: bytes, zone: str, basis: str) -> Readings:
    """Return the readings of a response. Raises ProviderError."""
    value = object_of(parse_json(body))
    if "data" not in value and "error" in value:
        raise ProviderError(f"The provider reports: {error_text(value)}")
    items = list_of(value, "data")
    if not items:
        raise ProviderError("The response has no half hours.", is_empty=True)
    readings = Readings()
    for item in items:
        _add(readings, item, zone, basis)
    return without_contradictions(readings)


def error_text(value: dict[str, Any]) -> str:
    """Return the message of an error response."""
    error = value.get("error")
    return printable(error.get("message") if isinstance(error, dict) else error, MAX_MESSAGE)


def _add(readings: Readings, item: Any, zone: str, basis: str) -> None:
    intensity = item.get("intensity") if isinstance(item, dict) else None
    if not isinstance(intensity, dict):
        readings.refuse("?", "it is not an object with “intensity”")
        return
    start = item.get("from")
    start_us, end_us = parse_time(start), parse_time(item.get("to"))
    if start_us is None or end_us is None:
        readings.refuse(start, "“from” or “to” is not a time with a time zone")
        return
    if end_us - start_us != _HALF_HOUR_US or start_us % _HALF_HOUR_US:
        readings.refuse(start, "it is not a half hour")
        return
    actual, forecast = intensity.get("actual"), intensity.get("forecast")
    try:
        if actual is not None:
            ug: int | None = parse_intensity(actual)
            kind = Kind.ACTUAL
        else:
            ug = None if forecast is None else parse_intensity(forecast)
            kind = Kind.FORECAST
    except ValueError as error:
        readings.refuse(start, str(error))
        return
    readings.accepted.append(IntensityReading(zone, start_us, end_us, ug, kind, NAME, basis))
