"""The preview of a file of own factors, as JSON."""

from collections.abc import Iterable
from typing import Any

from apps.accounts.models import Lab
from apps.carbon.factor_files import FileFactor, HourlyFactor, LoadedFactor
from apps.carbon.factors import factors_of_zones
from apps.carbon.figures.factor_spans import (
    PeriodFactor,
    factor_for_hour,
    factor_for_year,
    month_start_hour,
)
from apps.carbon.models import EmissionFactor
from apps.carbon.own_factors.difference import OwnDifference
from apps.carbon.own_factors.effect import Effect
from apps.carbon.own_factors.parsing import OwnTable

MAX_LISTED = 200
_UNUSUAL = 10  # a value that differs by this ratio is marked

Before = dict[tuple[str, str], list[EmissionFactor]]


def summary_of(
    lab: Lab, table: OwnTable, difference: OwnDifference, effect: Effect
) -> dict[str, Any]:
    """Return counts, the first rows of each outcome, and the sites that are priced again."""
    periods = difference.periods
    before = _applied(lab, [*periods.new, *(factor for _, factor in periods.changed)])
    rows = [_row(factor, None, before) for factor in periods.new]
    rows += [_row(factor, old, before) for old, factor in periods.changed]
    rows.sort(key=lambda row: (not row["is_unusual"], row["zone"], row["basis"], row["period"]))
    listed: list[FileFactor | HourlyFactor] = [*table.factors, *table.hours]
    return {
        "counts": {**difference.counts, "wrong": len(table.bad_rows)},
        "zones": sorted({row.zone for row in listed}),
        "bases": sorted({row.basis for row in listed}),
        "rows": rows[:MAX_LISTED],
        "unusual": sum(row["is_unusual"] for row in rows),
        "more": max(0, len(rows) - MAX_LISTED),
        "hours": _hours(difference),
        "bad_rows": [
            {"line": row.line, "reason": row.reason} for row in table.bad_rows[:MAX_LISTED]
        ],
        "sites": sites_json(effect),
        "digest": difference.digest(),
    }


def sites_json(effect: Effect) -> list[dict[str, Any]]:
    """Return the sites whose emissions change as JSON."""
    return [
        {"site": each.site_id, "zones": list(each.zones), "months": list(each.months)}
        for each in effect.sites
    ]


def _applied(lab: Lab, factors: Iterable[FileFactor]) -> Before:
    """Return {(zone, basis): factors} that apply before the file. Two queries at most."""
    zones: dict[str, set[str]] = {}
    for factor in factors:
        zones.setdefault(factor.basis, set()).add(factor.zone)
    return {
        (zone, basis): listed
        for basis, codes in zones.items()
        for zone, listed in factors_of_zones(lab, codes, basis).items()
    }


def _row(factor: FileFactor, old: LoadedFactor | None, before: Before) -> dict[str, Any]:
    """Return a new or changed factor with the one that applies now."""
    listed = {each.pk: each for each in before[factor.zone, factor.basis]}
    periods = [PeriodFactor(each.pk, each.year, each.month) for each in listed.values()]
    chosen = (
        factor_for_hour(periods, month_start_hour(factor.year, factor.month))
        if factor.month
        else factor_for_year(periods, factor.year)
    )
    applied = listed[chosen.factor_id] if chosen else None
    value = old.factor.ug_per_kwh if old else applied.ug_per_kwh if applied else None
    is_unusual = value is not None and not (
        value < _UNUSUAL * factor.ug_per_kwh and factor.ug_per_kwh < _UNUSUAL * value
    )
    return {
        "zone": factor.zone,
        "zone_name": factor.zone_name,
        "basis": factor.basis,
        "resolution": factor.resolution,
        "period": factor.period,
        "ug_per_kwh": factor.ug_per_kwh,
        "before_ug": value,
        "before": "your lab" if old else applied.name if applied else "",
        "is_changed": old is not None,
        "is_unusual": is_unusual,
        "source": factor.source,
        "licence": factor.licence,
    }


def _hours(difference: OwnDifference) -> list[dict[str, Any]]:
    """Return the hours to be written by zone and source."""
    return [
        {
            **group._asdict(),
            "number": len(hours),
            "changed": len(difference.hours.changed.get(group, ())),
            "first_hour": min(hours),
            "last_hour": max(hours),
            "low_ug": min(hours.values()),
            "high_ug": max(hours.values()),
        }
        for group, hours in difference.hours.written.items()
    ][:MAX_LISTED]
