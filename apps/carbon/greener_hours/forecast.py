"""Reads of the coming grid intensity of a zone, and the start with the least of it.

Advice on when to run a job. No figure uses it.
"""

from dataclasses import dataclass
from zoneinfo import ZoneInfo

from apps.accounts.models import Lab
from apps.carbon.choices import IntensitySource
from apps.carbon.factors import hourly_series_of
from apps.carbon.greener_hours.starts import (
    PAST_DAYS,
    Start,
    greenest_start,
    start_at,
    usual_intensity,
)
from apps.carbon.models import HourFactor
from apps.carbon.providers.forecasts import provider_forecast
from apps.fleet.zones import zone_chain


@dataclass(frozen=True)
class HourIntensity:
    """The expected intensity of a coming UTC hour."""

    hour: int
    ug_per_kwh: int
    source: IntensitySource


@dataclass(frozen=True)
class GreenerHours:
    """The expected intensity of the coming hours of a zone, and the greenest start of a job.

    ``now``: a start in the current hour. ``best``: the greenest start; None if no start has all its
    hours.
    """

    zone: str
    hours: list[HourIntensity]
    now: Start | None
    best: Start | None

    def sources_of(self, start: Start, duration_hours: int) -> list[IntensitySource]:
        """Return the different sources of the hours of a job."""
        hours = range(start.hour, start.hour + duration_hours)
        return sorted({each.source for each in self.hours if each.hour in hours})


def expected_intensity(
    lab: Lab, zone: str, from_hour: int, to_hour: int, now: int
) -> list[HourIntensity]:
    """Return the expected intensity of ``[from_hour, to_hour)``: the forecast of the zone's
    provider, else the mean of the last 28 days by weekday and hour of the lab's time zone. Unknown
    hours are left out. Three queries.
    """
    chain = zone_chain(zone)
    hours = range(from_hour, to_hour)
    forecast = provider_forecast(lab, chain, from_hour, to_hour, now)
    series_id = hourly_series_of(lab, [zone]).get(zone)
    past: dict[int, int] = {}
    if series_id is not None:
        rows = HourFactor.objects.filter(
            series_id=series_id,
            superseded_us__isnull=True,
            hour__gte=from_hour - PAST_DAYS * 24,
            hour__lt=from_hour,
        )
        past = dict(rows.values_list("hour", "ug_per_kwh"))
    usual = usual_intensity(past, hours, ZoneInfo(lab.time_zone))
    return [
        HourIntensity(hour, forecast[hour], IntensitySource.FORECAST)
        if hour in forecast
        else HourIntensity(hour, usual[hour], IntensitySource.USUAL)
        for hour in hours
        if hour in forecast or hour in usual
    ]


def greener_hours(
    lab: Lab, zone: str, *, first_hour: int, last_hour: int, duration_hours: int, now: int
) -> GreenerHours:
    """Return the expected intensity from ``first_hour`` until a job that starts in ``last_hour``
    ends, and its greenest start.
    """
    hours = expected_intensity(lab, zone, first_hour, last_hour + duration_hours, now)
    intensity = {each.hour: each.ug_per_kwh for each in hours}
    return GreenerHours(
        zone,
        hours,
        now=start_at(intensity, first_hour, duration_hours),
        best=greenest_start(
            intensity,
            first_hour=first_hour,
            last_hour=last_hour,
            duration_hours=duration_hours,
        ),
    )
