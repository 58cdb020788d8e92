"""Fetch the forecast of a provider: advice on when to run a job. No figure uses it.

A failure changes no factor and no schedule. The last forecast stays, until it is too old
(:func:`provider_forecast`).
"""

from collections.abc import Sequence

from django.db import transaction

from apps.accounts.models import Lab
from apps.carbon.providers.models import ForecastHour, GridProvider
from apps.carbon.providers.readings import ProviderError, whole_hours
from apps.carbon.providers.services import connection_of
from apps.core.clock import now_us
from apps.core.units import US_PER_HOUR, hour_of

HORIZON_HOURS = 72
MAX_AGE_US = 24 * US_PER_HOUR


def fetch_forecast(row: GridProvider) -> None:
    """Replace the forecast of a provider whose last request succeeded, or record why there is
    none. Never raises for a failure of the provider.
    """
    if row.problem or row.removed_us is not None:
        return
    now = now_us()
    first_hour = hour_of(now)
    end_hour = first_hour + HORIZON_HOURS
    try:
        connection = connection_of(row)
        if connection.provider.web is None:
            return
        body = connection.fetch_forecast(first_hour * US_PER_HOUR, end_hour * US_PER_HOUR)
        hours = whole_hours(connection.parse(body).accepted, end_hour=end_hour)
    except ProviderError as error:
        problem, values = error.message[:400], dict[int, int]()
    else:
        values = {
            hour: ug_per_kwh
            for hour, ug_per_kwh in {**hours.estimated, **hours.actual}.items()
            if hour >= first_hour
        }
        problem = "" if values else "The response has no coming hours."
    with transaction.atomic():
        current = GridProvider.objects.select_for_update().filter(pk=row.pk, removed_us=None)
        if not current.update(forecast_problem=problem) or problem:
            return
        ForecastHour.objects.filter(provider=row).delete()
        ForecastHour.objects.bulk_create(
            ForecastHour(
                provider=row,
                basis=connection.basis,
                hour=hour,
                ug_per_kwh=ug_per_kwh,
                fetched_us=now,
            )
            for hour, ug_per_kwh in sorted(values.items())
        )


def provider_forecast(
    lab: Lab, zones: Sequence[str], from_hour: int, to_hour: int, now: int
) -> dict[int, int]:
    """Return {hour: µg per kWh} of the forecast of the first of ``zones`` that has one, on the
    lab's basis and not older than a day. One query.
    """
    rows = ForecastHour.objects.filter(
        provider__lab=lab,
        provider__zone__in=zones,
        provider__enabled=True,
        provider__removed_us=None,
        basis=lab.basis,
        hour__gte=from_hour,
        hour__lt=to_hour,
        fetched_us__gte=now - MAX_AGE_US,
    ).values_list("provider__zone", "hour", "ug_per_kwh")
    by_zone: dict[str, dict[int, int]] = {}
    for zone, hour, ug_per_kwh in rows:
        by_zone.setdefault(zone, {})[hour] = ug_per_kwh
    return next((by_zone[zone] for zone in zones if zone in by_zone), {})
