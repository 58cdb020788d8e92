"""Electricity Maps, API version 3: carbon intensity of a zone, with a token. Pure.

- ``past-range``: at most 10 days of hours in a request.
- ``history``: the last 24 hours, for plans without ``past-range``. A plan without it gets 401.
- The API locates the caller's IP if it does not know the zone: ``disableCallerLookup``, and the
  zone of the response is verified.
"""

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
    parse_time,
    printable,
    without_contradictions,
)
from apps.carbon.providers.shape import BOOLEAN, NUMBER_OR_NULL, TEXT, TEXT_OR_NULL, Shape
from apps.core.units import US_PER_S

NAME = "electricity_maps"
MAX_DAYS = 10
_STEP_S = {"5_minutes": 300, "15_minutes": 900, "hourly": 3600}
_ITEM = {
    "zone?": TEXT,
    "carbonIntensity": NUMBER_OR_NULL,
    "datetime": TEXT,
    "updatedAt?": TEXT,
    "createdAt?": TEXT,
    "emissionFactorType?": TEXT,
    "isEstimated?": BOOLEAN,
    "estimationMethod?": TEXT_OR_NULL,
    "temporalGranularity?": TEXT,
    "flowTraced?": BOOLEAN,
}
_LISTS = ("data", "history", "forecast")


def range_path(zone: str, basis: str, start_us: int, end_us: int) -> str:
    """Return path and query of the hours ``[start_us, end_us)``."""
    return "/v3/carbon-intensity/past-range?" + urlencode(
        {
            "zone": zone,
            "start": iso_text(start_us),
            "end": iso_text(end_us),
            "temporalGranularity": "hourly",
            "emissionFactorType": basis,
            "disableCallerLookup": "true",
        }
    )


def recent_path(zone: str, basis: str) -> str:
    """Return path and query of the last 24 hours."""
    return "/v3/carbon-intensity/history?" + urlencode(
        {
            "zone": zone,
            "temporalGranularity": "hourly",
            "emissionFactorType": basis,
            "disableCallerLookup": "true",
        }
    )


def forecast_path(zone: str, basis: str, start_us: int, end_us: int) -> str:
    """Return path and query of the next 72 hours: the API chooses the start."""
    return "/v3/carbon-intensity/forecast?" + urlencode(
        {
            "zone": zone,
            "horizonHours": "72",
            "temporalGranularity": "hourly",
            "emissionFactorType": basis,
            "disableCallerLookup": "true",
        }
    )


def headers(token: str) -> dict[str, str]:
    """Return the headers of a request."""
    return {"auth-token": token}


def shape(value: Any) -> Shape:
    """Return the documented shape of a response: that of past-range, history or forecast."""
    name = _list_name(value) or "data"
    return {
        "zone": TEXT,
        name: [_ITEM],
        "updatedAt?": TEXT,
        "temporalGranularity?": TEXT,
        "aggregationPeriod?": TEXT,
    }


def parse(body: bytes, zone: str, basis: str) -> Readings:
    """Return the readings of a response of ``zone``. Raises ProviderError."""
    value = object_of(parse_json(body))
    name = _list_name(value)
    if name is None and ("error" in value or "message" in value):
        raise ProviderError(f"The provider reports: {error_text(value)}")
    items = list_of(value, name or "data")
    if value.get("zone") != zone:
        raise ProviderError(
            f"The response is of zone {printable(value.get('zone'))} instead of {zone}."
        )
    if not items:
        raise ProviderError(f"The response has no hours of zone {zone}.", is_empty=True)
    readings = Readings()
    for item in items:
        _add(readings, item, zone, basis, is_forecast=name == "forecast")
    return without_contradictions(readings)


def error_text(value: dict[str, Any]) -> str:
    """Return the message of an error response."""
    return printable(value.get("message") or value.get("error"), MAX_MESSAGE)


def _list_name(value: Any) -> str | None:
    if not isinstance(value, dict):
        return None
    return next((name for name in _LISTS if name in value), None)


def _add(readings: Readings, item: Any, zone: str, basis: str, *, is_forecast: bool) -> None:
    if not isinstance(item, dict):
        readings.refuse("?", "it is not an object")
        return
    start = item.get("datetime")
    start_us = parse_time(start)
    step_s = _STEP_S.get(str(item.get("temporalGranularity", "hourly")))
    if start_us is None:
        readings.refuse(start, "“datetime” is not a time with a time zone")
    elif item.get("zone", zone) != zone:
        readings.refuse(start, f"it is of zone {printable(item.get('zone'))}")
    elif item.get("emissionFactorType", basis) != basis:
        readings.refuse(start, f"its basis is {printable(item['emissionFactorType'])}")
    elif step_s is None:
        readings.refuse(start, f"its duration is {printable(item['temporalGranularity'])}")
    else:
        try:
            value = item.get("carbonIntensity")
            ug = None if value is None else parse_intensity(value)
        except ValueError as error:
            readings.refuse(start, str(error))
            return
        kind = Kind.ACTUAL if item.get("isEstimated") is False else Kind.ESTIMATED
        readings.accepted.append(
            IntensityReading(
                zone,
                start_us,
                start_us + step_s * US_PER_S,
                ug,
                Kind.FORECAST if is_forecast else kind,
                NAME,
                basis,
            )
        )
