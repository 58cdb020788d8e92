"""Rows of the market-based totals of a period: those that are stored and up to date."""

from collections.abc import Mapping
from datetime import datetime
from zoneinfo import ZoneInfo

from apps.accounts.models import Lab
from apps.carbon.market.choices import RuleEdition
from apps.carbon.market.market_years import StoredYear, stored_years
from apps.carbon.market.selectors import matching_year
from apps.reports.market_totals import (
    INCLUDED,
    NOT_COMPUTED,
    OTHER_PERIOD,
    OUTDATED,
    state_row,
    total_rows,
)
from apps.reports.rows import Row


def calendar_year(lab: Lab, from_hour: int, to_hour: int) -> int | None:
    """Return the year of the lab with exactly these hours, None for another period."""
    year = datetime.fromtimestamp(from_hour * 3600, tz=ZoneInfo(lab.time_zone)).year
    hours = matching_year(lab, year)
    return year if (hours.from_hour, hours.to_hour) == (from_hour, to_hour) else None


def market_rows(lab: Lab, from_hour: int, to_hour: int, now: int) -> list[Row]:
    """Return the fact whether a period has market-based totals, and the totals if it has."""
    year = calendar_year(lab, from_hour, to_hour)
    if year is None:
        return [state_row(OTHER_PERIOD)]
    stored = stored_years(lab, year, now)
    if len(stored) < len(RuleEdition):
        return [state_row(NOT_COMPUTED)]
    if not _covers(stored, from_hour, to_hour):
        return [state_row(OUTDATED)]
    results = {edition: each.result for edition, each in stored.items()}
    return [state_row(INCLUDED), *total_rows(results, lab.basis)]


def _covers(stored: Mapping[RuleEdition, StoredYear], from_hour: int, to_hour: int) -> bool:
    return not any(
        each.is_stale or (each.from_hour, each.until_hour) != (from_hour, to_hour)
        for each in stored.values()
    )
