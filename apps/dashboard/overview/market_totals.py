"""Market-based totals of a calendar year on the overview, beside the location-based figure."""

from dataclasses import dataclass

from apps.accounts.models import Lab
from apps.carbon.market.current_totals import current_totals
from apps.dashboard.figures import Projected, estimated
from apps.dashboard.market.totals import MarketTotal, market_total
from apps.dashboard.periods import Period


@dataclass(frozen=True)
class MarketTotals:
    """The totals of ``year`` up to ``until_hour``, with the location-based figure of the same
    hours.
    """

    year: int
    until_hour: int
    is_complete: bool
    totals: list[MarketTotal]
    location: Projected


def market_totals_of(lab: Lab, period: Period, now: int) -> MarketTotals | None:
    """Return the market-based totals of a calendar year, None for another period and while they
    are not up to date. At most one query.
    """
    if period.unit != "year":
        return None
    year = period.first_day.year
    current = current_totals(lab, year, now)
    if current is None:
        return None
    until_hour, results = current
    first = next(iter(results.values()))
    if not first.lines:
        return None
    return MarketTotals(
        year=year,
        until_hour=until_hour,
        is_complete=period.is_whole_unit and until_hour == period.to_hour,
        totals=[
            market_total(
                edition,
                energy_mj=result.energy_mj,
                emission_ug=result.emission_ug,
                covered_mj=result.covered_mj,
                without_mj=result.missing_mj,
            )
            for edition, result in results.items()
        ],
        location=estimated(
            first.location_ug, "emission_ug", at_least=bool(first.location_missing_mj)
        ),
    )
