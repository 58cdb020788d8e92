"""Market-based totals of calendar years: compute what is missing or stale, and read."""

import time
from dataclasses import dataclass
from datetime import datetime
from zoneinfo import ZoneInfo

from apps.accounts.models import Lab
from apps.carbon.choices import RollupKind
from apps.carbon.market.choices import RuleEdition
from apps.carbon.market.matching import match
from apps.carbon.market.models import MarketYear
from apps.carbon.market.selectors import contractual_instruments_of, matching_year
from apps.carbon.market.stored_result import (
    YearResult,
    result_as_json,
    result_from_json,
    sum_year,
)
from apps.carbon.market.year_inputs import YearInputs, use_by_zone, year_inputs, zone_rates
from apps.carbon.models import RolledDay
from apps.core.units import US_PER_S
from apps.fleet.zones import zone_chain

_MOST_S = 30  # per job, before the last year: half of its lease


@dataclass(frozen=True)
class StoredYear:
    """Stored totals. ``is_stale``: their inputs have changed."""

    edition: RuleEdition
    from_hour: int
    until_hour: int
    computed_us: int
    is_stale: bool
    result: YearResult


def years_of(lab: Lab, now: int) -> list[int]:
    """Return the calendar years with use that is rolled up, and the current one, latest first."""
    zone = ZoneInfo(lab.time_zone)
    first = (
        RolledDay.objects.filter(lab=lab, what=RollupKind.USE)
        .order_by("from_hour")
        .values_list("from_hour", flat=True)
        .first()
    )
    current = datetime.fromtimestamp(now // US_PER_S, tz=zone).year
    if first is None:
        return [current]
    return list(range(current, datetime.fromtimestamp(first * 3600, tz=zone).year - 1, -1))


def has_use(lab: Lab, year: int) -> bool:
    """Return whether use of a year is rolled up, on any basis."""
    hours = matching_year(lab, year)
    rolled = RolledDay.objects.filter(
        lab=lab,
        what=RollupKind.USE,
        from_hour__lt=hours.to_hour,
        to_hour__gt=hours.from_hour,
    )
    return rolled.exists()


def compute_years(*, lab: Lab, now: int) -> bool:
    """Compute the missing and stale years of a lab. Return whether none is left.

    A year with hours that are not rolled up is left out: the job runs again after the rollup.
    """
    until = time.monotonic() + _MOST_S
    for year in years_of(lab, now):
        inputs = year_inputs(lab, year, now)
        if inputs is None or _is_current(lab, year, inputs):
            continue
        if time.monotonic() > until:
            return False
        _compute(lab, year, inputs, now)
    return True


def _is_current(lab: Lab, year: int, inputs: YearInputs) -> bool:
    rows = MarketYear.objects.filter(lab=lab, year=year, fingerprint=inputs.fingerprint)
    return rows.count() == len(RuleEdition)


def _compute(lab: Lab, year: int, inputs: YearInputs, now: int) -> None:
    """Compute and store a year under all rule editions.

    A change of the inputs meanwhile gives them another fingerprint, so the stored one is stale.
    """
    uses = use_by_zone(lab, inputs.year.from_hour, inputs.until_hour)
    rates = zone_rates(lab, uses, year)
    instruments = contractual_instruments_of(lab, inputs.year)
    location = {zone: use.location for zone, use in uses.items()}
    rows = list[MarketYear]()
    for edition in RuleEdition:
        matching = match(
            edition=edition,
            year=inputs.year,
            consumption={zone: use.hours for zone, use in uses.items()},
            instruments=instruments,
            rates=rates,
            chain=zone_chain,
        )
        rows.append(
            MarketYear(
                lab=lab,
                year=year,
                edition=edition,
                from_hour=inputs.year.from_hour,
                until_hour=inputs.until_hour,
                fingerprint=inputs.fingerprint,
                result=result_as_json(sum_year(matching, location, rates)),
                computed_us=now,
            )
        )
    MarketYear.objects.bulk_create(
        rows,
        update_conflicts=True,
        unique_fields=["lab", "year", "edition"],
        update_fields=["from_hour", "until_hour", "fingerprint", "result", "computed_us"],
    )


def stored_years(lab: Lab, year: int, now: int) -> dict[RuleEdition, StoredYear]:
    """Return the stored totals of a year by rule edition, empty before the first computation. They
    are stale if an input has changed, which includes another current day.
    """
    rows = list(MarketYear.objects.filter(lab=lab, year=year))
    inputs = year_inputs(lab, year, now) if rows else None
    found = {
        RuleEdition(row.edition): StoredYear(
            RuleEdition(row.edition),
            row.from_hour,
            row.until_hour,
            row.computed_us,
            inputs is None or inputs.fingerprint != row.fingerprint,
            result_from_json(row.result),
        )
        for row in rows
    }
    return {edition: found[edition] for edition in RuleEdition if edition in found}
