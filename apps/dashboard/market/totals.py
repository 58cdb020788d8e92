"""Market-based totals for pages that show them beside the location-based one."""

from dataclasses import dataclass, replace

from apps.carbon.market.choices import RuleEdition
from apps.dashboard.figures import Projected, estimated
from apps.dashboard.formatting import percent

_EMISSION = "emission_ug"


@dataclass(frozen=True)
class MarketTotal:
    """The total of a rule edition. ``covered``: percent of the energy covered by instruments.
    ``without_factor`` None: all energy has a rate.
    """

    edition: RuleEdition
    ug: int
    emission: Projected
    covered: str
    without_factor: Projected | None

    @property
    def is_draft(self) -> bool:
        return self.edition == RuleEdition.SCOPE2_DRAFT_2025


def market_total(
    edition: RuleEdition, *, energy_mj: int, emission_ug: int, covered_mj: int, without_mj: int
) -> MarketTotal:
    """Return a total: at least its emissions if energy has no rate, unknown if none has one."""
    emission = estimated(emission_ug, _EMISSION, at_least=bool(without_mj))
    if without_mj == energy_mj != 0:
        emission = replace(emission, missing="unknown")
    return MarketTotal(
        edition=edition,
        ug=emission_ug,
        emission=emission,
        covered=percent(covered_mj, energy_mj),
        without_factor=estimated(without_mj) if without_mj else None,
    )
