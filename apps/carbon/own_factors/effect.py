"""Effect of a change of factors on the sites of a lab, without the change."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from django.db import transaction

from apps.accounts import audit
from apps.accounts.models import Lab
from apps.carbon.edition_changes import months_of
from apps.carbon.factors import factors_of_zones, hourly_series_of
from apps.carbon.figures.factor_spans import PeriodFactor
from apps.carbon.models import HourFactor
from apps.carbon.own_factors.hour_changes import Interval, ZoneValues, changed_hours, intersect
from apps.core.intervals import hull, merge_intervals
from apps.core.sql import fetch_rows
from apps.core.units import END_HOUR
from apps.fleet.dated_facts import SiteFacts, dated_intervals
from apps.fleet.selectors import site_facts_of


@dataclass(frozen=True)
class SiteEffect:
    """A site whose emissions change in some months (as 2026-01) of the lab's time zone."""

    site_id: int
    zones: tuple[str, ...]
    months: tuple[str, ...]


@dataclass(frozen=True)
class Effect:
    """Sites whose emissions change. ``span``: from the first to the last hour, None for none."""

    sites: tuple[SiteEffect, ...]
    span: Interval | None


def effect_of(lab: Lab, write: Callable[[], object]) -> Effect:
    """Return the effect of ``write``, which is run and rolled back.

    An hour without energy is not listed, nor one whose value stays.
    """
    places = site_facts_of(lab)
    energy = _energy_by_site(lab, places)
    total = hull(interval for intervals in energy.values() for interval in intervals)
    if total is None:
        return Effect((), None)
    zones = {zone for site_id in energy for _, zone in places.zones.get(site_id, ())}
    with transaction.atomic():
        audit.hold(lab)
        before = _values(lab, zones, total)
        write()
        after = _values(lab, zones, total)
        transaction.set_rollback(True)
    changed = {zone: changed_hours(before[zone], after[zone], *total) for zone in zones}
    return _by_site(lab, places, energy, changed)


def _by_site(
    lab: Lab,
    places: SiteFacts,
    energy: Mapping[int, list[Interval]],
    changed: Mapping[str, list[Interval]],
) -> Effect:
    sites: list[SiteEffect] = []
    spans: list[Interval] = []
    for site_id, with_energy in sorted(energy.items()):
        zones: list[str] = []
        months: set[str] = set()
        for start, end, zone in dated_intervals(places.zones.get(site_id, ())):
            used = intersect(with_energy, [(start, END_HOUR if end is None else end)])
            parts = intersect(used, changed[zone])
            if parts:
                zones.append(zone)
                spans += parts
                months |= {month.name for part in parts for month in months_of(lab, *part)}
        if months:
            sites.append(SiteEffect(site_id, tuple(dict.fromkeys(zones)), tuple(sorted(months))))
    return Effect(tuple(sites), hull(spans))


def _energy_by_site(lab: Lab, places: SiteFacts) -> dict[int, list[Interval]]:
    """Return {site id: intervals from the first to the last energy of its nodes}. One query."""
    rows = fetch_rows(
        "SELECT node_id, MIN(hour) AS first, MAX(hour) AS last FROM energy_ledgerentry "
        "WHERE lab_id = %s GROUP BY node_id",
        [lab.pk],
    )
    by_site: dict[int, list[Interval]] = {}
    for row in rows:
        for start, end, site_id in dated_intervals(places.placements.get(row["node_id"], ())):
            until = row["last"] + 1 if end is None else min(end, row["last"] + 1)
            if max(start, row["first"]) < until:
                by_site.setdefault(site_id, []).append((max(start, row["first"]), until))
    return {site_id: list(merge_intervals(parts)) for site_id, parts in by_site.items()}


def _values(lab: Lab, zones: set[str], span: Interval) -> dict[str, ZoneValues]:
    """Return the values of zones on the lab's basis. One query for each hourly series."""
    series_of = hourly_series_of(lab, zones)
    hours = {
        series_id: dict(
            HourFactor.objects.filter(
                series=series_id,
                superseded_us__isnull=True,
                hour__gte=span[0],
                hour__lt=span[1],
            ).values_list("hour", "ug_per_kwh")
        )
        for series_id in set(series_of.values())
    }
    return {
        zone: ZoneValues(
            [PeriodFactor(factor.pk, factor.year, factor.month) for factor in factors],
            {factor.pk: factor.ug_per_kwh for factor in factors if factor.ug_per_kwh is not None},
            hours.get(series_of.get(zone, 0), {}),
        )
        for zone, factors in factors_of_zones(lab, zones).items()
    }
