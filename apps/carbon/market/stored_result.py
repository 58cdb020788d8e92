"""Market-based totals in the form in which they are stored: lines of a year without hours. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, astuple, dataclass
from typing import Any

from apps.carbon.figures.energy import Figure
from apps.carbon.market.choices import Exclusion, MarketRule, VolumeProfile
from apps.carbon.market.records import (
    COVERED,
    Line,
    Matching,
    Rate,
    ZoneRates,
)


@dataclass(frozen=True)
class YearLine:
    """All lines of a zone with one rule, instrument, volume profile and rate.

    ``emission_ug`` includes ``upstream_ug``. ``emission_ug`` None: the factor is missing.
    ``upstream_ug`` None: unknown, so the line is not comparable with the location-based figure.
    """

    zone: str
    rule: MarketRule
    instrument_id: int | None
    profile: VolumeProfile
    ug_per_kwh: int | None
    periods: int
    energy_mj: int
    emission_ug: int | None
    upstream_ug: int | None


@dataclass(frozen=True)
class YearResult:
    """The totals of a year. ``location`` and ``rates`` are by zone."""

    lines: tuple[YearLine, ...]
    location: Mapping[str, Figure]
    rates: Mapping[str, ZoneRates]
    used_mj: Mapping[int, int]
    available_mj: Mapping[int, int]
    excluded: Mapping[int, Exclusion]

    @property
    def energy_mj(self) -> int:
        """Return the facility energy."""
        return sum(line.energy_mj for line in self.lines)

    @property
    def emission_ug(self) -> int:
        """Return the market-based emissions of the energy with a factor."""
        return sum(line.emission_ug or 0 for line in self.lines)

    @property
    def covered_mj(self) -> int:
        """Return the energy covered by instruments."""
        return sum(line.energy_mj for line in self.lines if line.rule in COVERED)

    @property
    def missing_mj(self) -> int:
        """Return the energy without a factor."""
        return sum(line.energy_mj for line in self.lines if line.emission_ug is None)

    @property
    def incomparable_mj(self) -> int:
        """Return the energy with a factor whose upstream emissions are unknown."""
        return sum(
            line.energy_mj
            for line in self.lines
            if line.emission_ug is not None and line.upstream_ug is None
        )

    @property
    def location_ug(self) -> int:
        """Return the location-based emissions of the same hours."""
        return sum(figure.emission_ug for figure in self.location.values())

    @property
    def location_missing_mj(self) -> int:
        """Return the energy without a location-based factor, before PUE."""
        return sum(figure.without_factor_mj for figure in self.location.values())


def sum_year(
    matching: Matching, location: Mapping[str, Figure], rates: Mapping[str, ZoneRates]
) -> YearResult:
    """Return the lines of a matching summed over its hours. Their sums are those of all lines."""
    groups: dict[tuple[Any, ...], list[Line]] = {}
    for line in matching.lines:
        key = (
            line.zone, line.rule, line.instrument_id, line.profile, line.ug_per_kwh,
            line.emission_ug is None, line.upstream_ug is None,
        )  # fmt: skip
        groups.setdefault(key, []).append(line)
    return YearResult(
        tuple(_year_line(lines) for lines in groups.values()),
        location,
        rates,
        matching.used_mj,
        matching.available_mj,
        matching.excluded,
    )


def _year_line(lines: list[Line]) -> YearLine:
    first = lines[0]
    upstream_ug = _sum(line.upstream_ug for line in lines)
    direct_ug = _sum(line.emission_ug for line in lines)
    return YearLine(
        first.zone,
        first.rule,
        first.instrument_id,
        first.profile,
        first.ug_per_kwh,
        len(lines),
        sum(line.energy_mj for line in lines),
        None if direct_ug is None else direct_ug + (upstream_ug or 0),
        upstream_ug,
    )


def _sum(values: Iterable[int | None]) -> int | None:
    """Return the sum of values that are all known or all unknown."""
    known = list[int]()
    for value in values:
        if value is None:
            return None
        known.append(value)
    return sum(known)


def result_as_json(result: YearResult) -> dict[str, Any]:
    """Return a result as JSON."""
    return {
        "lines": [list(astuple(line)) for line in result.lines],
        "location": {zone: asdict(figure) for zone, figure in result.location.items()},
        "rates": {zone: asdict(rates) for zone, rates in result.rates.items()},
        "used_mj": {str(pk): mj for pk, mj in result.used_mj.items()},
        "available_mj": {str(pk): mj for pk, mj in result.available_mj.items()},
        "excluded": {str(pk): reason.value for pk, reason in result.excluded.items()},
    }


def result_from_json(values: Mapping[str, Any]) -> YearResult:
    """Return the result of :func:`result_as_json`."""
    return YearResult(
        tuple(
            YearLine(zone, MarketRule(rule), instrument, VolumeProfile(profile), *numbers)
            for zone, rule, instrument, profile, *numbers in values["lines"]
        ),
        {zone: Figure(**figure) for zone, figure in values["location"].items()},
        {zone: _rates(rates) for zone, rates in values["rates"].items()},
        {int(pk): mj for pk, mj in values["used_mj"].items()},
        {int(pk): mj for pk, mj in values["available_mj"].items()},
        {int(pk): Exclusion(reason) for pk, reason in values["excluded"].items()},
    )


def _rates(values: Mapping[str, Any]) -> ZoneRates:
    residual_mix, fossil, grid = (
        Rate(**values[name]) if values[name] is not None else None
        for name in ("residual_mix", "fossil", "grid")
    )
    return ZoneRates(residual_mix, fossil, grid, values["upstream_ug_per_kwh"])
