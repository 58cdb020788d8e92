"""The market-based totals of a statement, in words."""

from collections.abc import Iterable
from dataclasses import dataclass

from apps.carbon.market.choices import RuleEdition
from apps.dashboard.market.totals import MarketTotal, market_total
from apps.reports.market_totals import (
    COVERED_ENERGY,
    EMISSION,
    ENERGY,
    INCLUDED,
    NOT_COMPUTED,
    OTHER_PERIOD,
    OUTDATED,
    WITHOUT_FACTOR,
    state_of,
    subject_of,
)
from apps.reports.rows import Lines, Row

_REASONS = {
    OTHER_PERIOD: "none: only a calendar year has market-based totals",
    NOT_COMPUTED: "none: the totals of the year were not computed yet",
    OUTDATED: "none: the stored totals of the year were outdated",
    "": "none: the period was closed before statements had market-based totals",
}


@dataclass(frozen=True)
class MarketPart:
    """The totals by rule edition. ``reason``: why there is none, and ``state`` its key."""

    totals: list[MarketTotal]
    state: str
    reason: str


def market_part(rows: Iterable[Row], lines: Lines) -> MarketPart:
    """Return the market-based totals among the rows of a statement."""
    state = state_of(rows)
    if state != INCLUDED:
        return MarketPart([], state, _REASONS[state])
    return MarketPart([_total(edition, lines) for edition in RuleEdition], state, "")


def _total(edition: RuleEdition, lines: Lines) -> MarketTotal:
    energy_mj, emission_ug, covered_mj, without_mj = (
        lines.value(subject_of(edition), metric) or 0
        for metric in (ENERGY, EMISSION, COVERED_ENERGY, WITHOUT_FACTOR)
    )
    return market_total(
        edition,
        energy_mj=energy_mj,
        emission_ug=emission_ug,
        covered_mj=covered_mj,
        without_mj=without_mj,
    )
