"""Input and output of matching: contractual instruments, rates of zones, and lines. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from apps.carbon.market.choices import (
    Exclusion,
    Granularity,
    InstrumentKind,
    MarketRule,
    RuleEdition,
    VolumeProfile,
)

Part = tuple[int, int, int]  # [from_hour, to_hour), mJ


@dataclass(frozen=True)
class MatchingYear:
    """Whole UTC hours ``[from_hour, to_hour)`` of a calendar year. ``months``: the first hours of
    its months.
    """

    from_hour: int
    to_hour: int
    months: tuple[int, ...]

    def edges(self, granularity: Granularity) -> list[int]:
        """Return the first hours of the matching periods, and the end."""
        if granularity == Granularity.HOUR:
            return list(range(self.from_hour, self.to_hour + 1))
        starts = self.months if granularity == Granularity.MONTH else (self.from_hour,)
        return [*starts, self.to_hour]


@dataclass(frozen=True)
class ContractualInstrument:
    """An instrument as matched.

    - ``market``: zones whose consumption it can cover, with all zones inside them.
    - ``boundary``: zones from which delivery is possible under the draft, in the same way. Empty:
      unknown.
    - ``parts``: its volume by time, in order and without overlap.
    - ``volumes_by``: the period of each part; a year is the vintage.
    - ``is_unlimited``: a tariff for all consumption of ``parts``.
    """

    instrument_id: int
    kind: InstrumentKind
    market: frozenset[str]
    boundary: frozenset[str]
    granularity: Granularity
    parts: Sequence[Part]
    volumes_by: Granularity
    ug_per_kwh: int
    is_unlimited: bool = False


@dataclass(frozen=True)
class Rate:
    """A factor and its year. ``instrument_id`` None: it is no instrument."""

    ug_per_kwh: int
    instrument_id: int | None
    year: int


@dataclass(frozen=True)
class ZoneRates:
    """Factors of a zone. ``None``: missing, which is not 0.

    - ``residual_mix``, ``fossil``: direct.
    - ``grid``: average of the year on the lab's basis.
    - ``upstream_ug_per_kwh``: lifecycle − direct, added to direct rates. 0 on the direct basis.
    """

    residual_mix: Rate | None = None
    fossil: Rate | None = None
    grid: Rate | None = None
    upstream_ug_per_kwh: int | None = 0


@dataclass(frozen=True, slots=True)
class Line:
    """Energy of one zone and matching period with one rule.

    ``emission_ug`` None: the factor is missing. ``upstream_ug`` None: it is not known, so the line
    is not comparable with a location-based figure on the lifecycle basis.
    """

    zone: str
    from_hour: int
    to_hour: int
    rule: MarketRule
    instrument_id: int | None
    profile: VolumeProfile
    energy_mj: int
    ug_per_kwh: int | None
    emission_ug: int | None
    upstream_ug: int | None


@dataclass(frozen=True)
class Matching:
    """Result of matching. ``used_mj``: use of each instrument in the year. ``available_mj``: volume
    of each in the year, without those that have no limit. ``excluded``: instruments that cannot
    cover anything, and why.
    """

    edition: RuleEdition
    lines: Sequence[Line]
    used_mj: Mapping[int, int]
    available_mj: Mapping[int, int]
    excluded: Mapping[int, Exclusion]

    def totals(self, zone: str | None = None) -> "Totals":
        """Return the sums of all lines, or of those of a zone."""
        lines = [line for line in self.lines if zone is None or line.zone == zone]
        return sum_lines(lines)


@dataclass(frozen=True)
class Totals:
    """Sums of lines. ``emission_ug`` includes ``upstream_ug``.

    - ``covered_mj``: of certificates, contracts and supplier rates.
    - ``missing_mj``: without emissions. ``incomparable_mj``: without upstream emissions.
    - ``by_rule``: energy by rule.
    """

    energy_mj: int
    covered_mj: int
    missing_mj: int
    incomparable_mj: int
    emission_ug: int
    upstream_ug: int
    by_rule: Mapping[MarketRule, int]

    @property
    def is_comparable(self) -> bool:
        """Return whether all energy with a factor also has its upstream emissions."""
        return self.incomparable_mj == 0

    @property
    def covered_ppm(self) -> int | None:
        """Return the covered share of the energy, None without energy."""
        return self.covered_mj * 1_000_000 // self.energy_mj if self.energy_mj > 0 else None


COVERED = (MarketRule.CERTIFICATE, MarketRule.CONTRACT, MarketRule.SUPPLIER_RATE)


def sum_lines(lines: Sequence[Line]) -> Totals:
    """Return the sums of lines."""
    by_rule: dict[MarketRule, int] = {}
    for line in lines:
        by_rule[line.rule] = by_rule.get(line.rule, 0) + line.energy_mj
    upstream_ug = sum(line.upstream_ug or 0 for line in lines)
    return Totals(
        energy_mj=sum(by_rule.values()),
        covered_mj=sum(by_rule.get(rule, 0) for rule in COVERED),
        missing_mj=by_rule.get(MarketRule.MISSING_FACTOR, 0),
        incomparable_mj=sum(
            line.energy_mj
            for line in lines
            if line.emission_ug is not None and line.upstream_ug is None
        ),
        emission_ug=sum(line.emission_ug or 0 for line in lines) + upstream_ug,
        upstream_ug=upstream_ug,
        by_rule=by_rule,
    )
