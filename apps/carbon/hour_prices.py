"""Derive the electricity prices of sites by hour, from tariffs and files of hourly prices.

The ledger joins them as it joins factors by hour. Hours are written for some weeks ahead; a daily
job extends them. An hour without any has the flat price of its site, or none.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple
from zoneinfo import ZoneInfo

from apps.accounts.models import Lab
from apps.carbon.choices import RollupKind
from apps.carbon.models import HourPrice
from apps.carbon.rollups.writer import mark_stale
from apps.core.intervals import merge_intervals
from apps.core.units import END_HOUR, hour_of
from apps.fleet.choices import PriceKind
from apps.fleet.models import SitePrice
from apps.fleet.selectors import active_prices
from apps.fleet.tariffs import Tariff, hours_of

DAYS_AHEAD = 35
_BATCH = 1000
_MOST_SPANS = 50
_DAY = 24


class PriceOfHour(NamedTuple):
    """The id of the price of an hour, and its value in millionths per kWh."""

    price_id: int
    ucurrency_per_kwh: int


def end_of_prices(now: int) -> int:
    """Return the hour until which prices are written: energy is never later than the present."""
    return hour_of(now) + DAYS_AHEAD * _DAY


def derive_hour_prices(lab: Lab, now: int) -> set[int]:
    """Write the prices by hour of all sites of a lab. Return the ids of the sites with any.

    Only changed hours are written, and the rollups of their days become stale.
    """
    after = hours_with_prices(active_prices(lab).order_by("pk"), 0, end_of_prices(now))
    stored = HourPrice.objects.filter(site__lab=lab)
    for site_id in {*after, *stored.values_list("site_id", flat=True).distinct()}:
        _write(lab, site_id, after.get(site_id, {}))
    return {site_id for site_id, hours in after.items() if hours}


def hours_with_prices(
    prices: Iterable[SitePrice], from_hour: int, to_hour: int
) -> dict[int, dict[int, PriceOfHour]]:
    """Return {site id: {hour: its price}} of ``[from_hour, to_hour)``, without flat prices.

    Files of hourly prices precede tariffs, later files (``prices`` are in their order) precede
    earlier ones.
    """
    dated: dict[int, list[SitePrice]] = {}
    files: dict[int, list[SitePrice]] = {}
    for price in prices:
        group = files if price.kind == PriceKind.HOURLY else dated
        group.setdefault(price.site_id, []).append(price)
    found = {
        site_id: _hours_of_tariffs(history, from_hour, to_hour)
        for site_id, history in dated.items()
    }
    for site_id, rows in files.items():
        hours = found.setdefault(site_id, {})
        for row in rows:
            of_file = row.hours.filter(hour__gte=from_hour, hour__lt=to_hour)
            values = of_file.values_list("hour", "ucurrency_per_kwh")
            hours.update({hour: PriceOfHour(row.pk, value) for hour, value in values})
    return {site_id: hours for site_id, hours in found.items() if hours}


def _hours_of_tariffs(
    history: Iterable[SitePrice], from_hour: int, to_hour: int
) -> dict[int, PriceOfHour]:
    """Return the prices of the tariffs of a site, each until its next price."""
    ordered = sorted(history, key=lambda price: price.from_hour)
    ends = [*(price.from_hour for price in ordered[1:]), END_HOUR]
    hours: dict[int, PriceOfHour] = {}
    for price, until in zip(ordered, ends, strict=True):
        if price.kind == PriceKind.TARIFF:
            tariff = Tariff(tuple(price.content["week"]), price.content["text"])
            zone = ZoneInfo(price.content["time_zone"])
            start, end = max(price.from_hour, from_hour), min(until, to_hour)
            for hour, value in hours_of(tariff, zone, start, end):
                hours[hour] = PriceOfHour(price.pk, value)
    return hours


def _write(lab: Lab, site_id: int, after: Mapping[int, PriceOfHour]) -> None:
    """Write the difference to the stored hours of a site."""
    rows = HourPrice.objects.filter(site_id=site_id)
    stored = {
        hour: (pk, PriceOfHour(price_id, value))
        for pk, hour, price_id, value in rows.values_list(
            "pk", "hour", "price_id", "ucurrency_per_kwh"
        )
    }
    gone = [pk for hour, (pk, price) in stored.items() if after.get(hour) != price]
    new = [hour for hour, price in after.items() if hour not in stored or stored[hour][1] != price]
    if not gone and not new:
        return
    for start in range(0, len(gone), _BATCH):
        rows.filter(pk__in=gone[start : start + _BATCH]).delete()
    HourPrice.objects.bulk_create(
        [HourPrice(site_id=site_id, hour=hour, **after[hour]._asdict()) for hour in sorted(new)],
        batch_size=_BATCH,
    )
    deleted = {hour for hour, (_, price) in stored.items() if after.get(hour) != price}
    for from_hour, to_hour in _spans(sorted({*new, *deleted})):
        mark_stale(lab=lab, what=RollupKind.USE, from_hour=from_hour, to_hour=to_hour)


def _spans(hours: list[int]) -> list[tuple[int, int]]:
    """Return intervals that contain all hours: those less than a day apart are joined. Beyond a
    number of intervals, one contains all.
    """
    extended = merge_intervals((hour, hour + _DAY + 1) for hour in hours)
    merged = [(start, end - _DAY) for start, end in extended]
    return merged if len(merged) <= _MOST_SPANS else [(merged[0][0], merged[-1][1])]
