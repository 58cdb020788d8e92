"""Reads of use by charged party and node in two periods, for the parts of a change."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from apps.accounts.models import Lab
from apps.carbon.change.parts import OWN_LINES, USED, Place, Use
from apps.carbon.choices import Resolution
from apps.carbon.figures.energy import Figure, figures_by, sum_figures
from apps.carbon.figures.figure_query import FigureQuery
from apps.carbon.models import EmissionFactor
from apps.energy.models import IdleShare

_GROUPS = ("charge", "node", "factor", "pue")
_BY_TIME = (Resolution.HOURLY_ACTUAL, Resolution.HOURLY_ESTIMATED, Resolution.MONTHLY)
_Groups = dict[tuple[Any, ...], Figure]


@dataclass(frozen=True)
class PlaceUses:
    """The uses of a period: figures by place and factor."""

    parts: Mapping[tuple[Place, int | None], Figure]

    @property
    def whole(self) -> Figure:
        return sum_figures(self.parts.values()) if self.parts else Figure()

    def by_charge(self) -> dict[str, Figure]:
        """Return {charged party: figure}."""
        figures: dict[str, list[Figure]] = defaultdict(list)
        for (place, _), figure in self.parts.items():
            figures[place.charge].append(figure)
        return {charge: sum_figures(parts) for charge, parts in figures.items()}

    @property
    def factor_ids(self) -> set[int]:
        return {factor for _, factor in self.parts if factor is not None}


def place_uses(lab: Lab, query: FigureQuery) -> PlaceUses:
    """Return the uses of a query of the lab or of a project. At most three queries."""
    groups = figures_by(lab, query, _GROUPS)
    shared: _Groups = {}
    if IdleShare.objects.filter(
        lab=lab, from_hour__lt=query.to_hour, to_hour__gt=query.from_hour
    ).exists():
        shared = figures_by(lab, query.replace(consumer="idle_share"), _GROUPS)
    parts: dict[tuple[Place, int | None], list[Figure]] = defaultdict(list)
    for key, figure in groups.items():
        charge, node, factor, _ = key
        idle = shared.get(key, Figure())
        if idle.entries:
            parts[Place(charge, "idle", node), factor].append(idle)
        if figure.entries > idle.entries:
            parts[Place(charge, _kind(charge), node), factor].append(_without(figure, idle))
    return PlaceUses({key: sum_figures(figures) for key, figures in parts.items()})


def _kind(charge: str) -> str:
    return charge[1:] if charge[1:] in OWN_LINES and charge.startswith("~") else USED


def _without(figure: Figure, part: Figure) -> Figure:
    names = Figure.__dataclass_fields__
    return Figure(**{name: getattr(figure, name) - getattr(part, name) for name in names})


def uses_by_place(uses: PlaceUses, metric: str, series_of: Mapping[int, str]) -> dict[Place, Use]:
    """Return {place: use}, whose amounts are energy or emissions. Emissions need a factor for all
    energy.
    """
    result: dict[Place, Use] = {}
    for (place, factor), figure in uses.parts.items():
        if metric == "energy_mj":
            use = Use(figure.entries, figure.energy_mj, 0, figure.energy_mj)
        else:
            name = series_of.get(factor, "") if factor is not None else ""
            facility_mj, amount = figure.facility_energy_mj, figure.emission_ug
            use = Use(
                figure.entries, figure.energy_mj, facility_mj, amount, {name: (facility_mj, amount)}
            )
        result[place] = result[place] + use if place in result else use
    return result


def series_names(factor_ids: Iterable[int]) -> dict[int, str]:
    """Return {factor id: its series}. Hourly and monthly factors of a zone are one series each,
    any other factor is its own. One query.
    """
    factors = EmissionFactor.objects.in_bulk(set(factor_ids))
    return {pk: _series(factor) for pk, factor in factors.items()}


def _series(factor: EmissionFactor) -> str:
    if factor.resolution not in _BY_TIME:
        return str(factor.pk)
    resolution = "monthly" if factor.resolution == Resolution.MONTHLY else "hourly"
    return f"{resolution} {factor.zone} {factor.lab_id or ''}"
