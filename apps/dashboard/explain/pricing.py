"""Factors and PUE of a figure with the energy under each, and the uncertainty of the result."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from apps.accounts.models import Lab
from apps.carbon.figures.energy import Figure, figures_by
from apps.carbon.figures.figure_query import FigureQuery
from apps.carbon.meter_errors import FACTOR_ERROR_PPM
from apps.carbon.models import DeclaredRange, EmissionFactor
from apps.core.units import MJ_PER_KWH, PPM
from apps.dashboard.figures import total
from apps.dashboard.formatting import (
    Part,
    Range,
    factor_value,
    format_value,
    uncertainty,
    unit_for,
)
from apps.ingest.choices import EnergyQuality

_MAX_LISTED_RUNS = 500
_DECLARED = EnergyQuality.DECLARED.name
PRICING_GROUPS = ("quality", "charge", "factor", "pue")


@dataclass(frozen=True)
class Priced:
    """The part of a figure under one factor and PUE. Factor None: emissions unknown. PUE None:
    site unknown.
    """

    factor: EmissionFactor | None
    pue_ppm: int | None
    figure: Figure


@dataclass(frozen=True)
class Pricing:
    """All parts of a figure, largest energy first, and its energy by quality."""

    parts: list[Priced]
    by_quality: dict[str, Figure]
    range: Range
    query: FigureQuery

    @property
    def factors(self) -> list[EmissionFactor]:
        """Return the distinct factors, in the order of their energy."""
        return list({part.factor.pk: part.factor for part in self.parts if part.factor}.values())

    def mean_ug_per_kwh(self, factor: EmissionFactor) -> int:
        """Return the emissions per facility energy of the parts with a factor, 0 without energy."""
        whole = total(part.figure for part in self.parts if part.factor == factor)
        mj = whole.facility_energy_mj
        return whole.emission_ug * MJ_PER_KWH // mj if mj > 0 else 0

    @property
    def whole(self) -> Figure:
        return total(part.figure for part in self.parts)

    @property
    def range_text(self) -> str:
        """Return the range in the unit of its high end: '303–335 kg CO₂e', '' for no
        uncertainty that the unit can show.
        """
        if self.range.high <= 0 or self.range.low == self.range.high:
            return ""
        unit = unit_for(self.query.metric, [self.range.high], currency=self.query.currency)
        low, high = (format_value(value, unit) for value in (self.range.low, self.range.high))
        return "" if low == high else f"{low}–{high} {unit.name}"


def _error(
    part: Figure,
    meter: str,
    factor: EmissionFactor | None,
    metric: str,
    declared: DeclaredRange | None = None,
) -> Part:
    value = part.value(metric)
    energy = (declared.energy_low_ppm, declared.energy_high_ppm) if declared else None
    if metric != "emission_ug" or factor is None:
        return Part(value, meter, meter_ppm=energy)
    low, high = factor_error_ppm(factor)
    if declared and declared.factor_low_ppm is not None and declared.factor_high_ppm is not None:
        low, high = declared.factor_low_ppm, declared.factor_high_ppm
    return Part(value, meter, factor.pk, low, high, energy)


def factor_error_ppm(factor: EmissionFactor) -> tuple[int, int]:
    """Return how far the low and high of a factor are from it, in parts per million."""
    ug, low, high = factor.ug_per_kwh, factor.low_ug_per_kwh, factor.high_ug_per_kwh
    if ug is None or low is None or high is None:
        return FACTOR_ERROR_PPM, FACTOR_ERROR_PPM
    return (ug - low) * PPM // ug, (high - ug) * PPM // ug


def pricing_of(lab: Lab, query: FigureQuery) -> Pricing:
    """Return the pricing of ``query``. Two queries, and two more for declared energy."""
    return pricing_from(lab, query, figures_by(lab, query, PRICING_GROUPS))


def pricing_from(
    lab: Lab, query: FigureQuery, figures: Mapping[tuple[Any, ...], Figure]
) -> Pricing:
    """Return the pricing of ``query`` from its figures by quality, charge, factor and PUE. One
    query, and two more for declared energy.
    """
    factors = EmissionFactor.objects.in_bulk(
        {factor for _, _, factor, _ in figures if factor is not None}
    )
    priced: dict[tuple[int | None, int | None], list[Figure]] = defaultdict(list)
    qualities: dict[str, list[Figure]] = defaultdict(list)
    errors = []
    for (quality, charge, factor_id, pue_ppm), part in figures.items():
        name = EnergyQuality(quality).name
        priced[factor_id, pue_ppm].append(part)
        qualities[name].append(part)
        if name != _DECLARED:
            meter = "OVERHEAD" if charge == "~overhead" else name
            factor = factors.get(factor_id) if factor_id else None
            errors.append(_error(part, meter, factor, query.metric))
    if _DECLARED in qualities:
        errors += _declared_errors(lab, query, factors)
    parts = [
        Priced(factors.get(factor) if factor else None, pue_ppm, total(group))
        for (factor, pue_ppm), group in priced.items()
    ]
    return Pricing(
        parts=sorted(parts, key=lambda part: -part.figure.energy_mj),
        by_quality={
            name: total(qualities[name]) for name in EnergyQuality.names if name in qualities
        },
        range=uncertainty(errors),
        query=query,
    )


def _declared_errors(
    lab: Lab, query: FigureQuery, factors: Mapping[int, EmissionFactor]
) -> list[Part]:
    """Return the declared parts of a figure, each with the range of its run. Two queries."""
    figures = figures_by(lab, query.replace(quality=_DECLARED), ["run", "factor"])
    rows = DeclaredRange.objects.filter(run__lab=lab).select_related("run")
    runs = {run for run, _ in figures if run}
    if len(runs) <= _MAX_LISTED_RUNS:
        rows = rows.filter(run__uuid__in=runs)
    ranges = {str(stored.run.uuid): stored for stored in rows}
    return [
        _error(
            part,
            _DECLARED,
            factors.get(factor_id) if factor_id else None,
            query.metric,
            ranges.get(run or ""),
        )
        for (run, factor_id), part in figures.items()
    ]


def factor_text(factor: EmissionFactor) -> str:
    """Return a factor as text: 'Germany 2025, 330 g/kWh, edition 1'."""
    return f"{factor.name}, {factor_value(factor.ug_per_kwh)}, edition {factor.edition}"
