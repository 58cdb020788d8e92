"""Figures of all metrics: one integer, and the amount that is missing from it."""

from dataclasses import dataclass, field
from typing import Any

from apps.accounts.models import Lab
from apps.carbon.figures.embodied import GROUPS as HARDWARE_GROUPS
from apps.carbon.figures.embodied import Coverage, Embodied, coverage, embodied, embodied_by
from apps.carbon.figures.energy import PUBLIC_GROUPS, Figure, figure, figures_by
from apps.carbon.figures.figure_query import (
    COST,
    HARDWARE_CONSUMERS,
    HARDWARE_METRICS,
    HARDWARE_OF,
    USE_CONSUMERS,
    FigureQuery,
)
from apps.carbon.figures.scopes import EMBODIED, LEASED, WASTE, roles_within
from apps.core.errors import InvalidInput

TOGETHER_GROUPS = frozenset({"charge", "project"})


@dataclass(frozen=True)
class CombinedFigure:
    """A figure with its parts: ``use`` (energy ledger) and ``hardware`` (asset ledgers).

    A part that the metric does not use is empty. ``coverage`` None: the query contains no hardware.
    An asset without a figure is missing, which is not zero.
    """

    query: FigureQuery
    use: Figure = field(default_factory=Figure)
    hardware: Embodied = field(default_factory=Embodied)
    coverage: Coverage | None = None

    @property
    def value(self) -> int:
        metric = self.query.metric
        if metric in HARDWARE_OF:
            return self.use.emission_ug + self.hardware.embodied_ug
        return self.hardware.embodied_ug if metric in HARDWARE_METRICS else self.use.value(metric)

    @property
    def entries(self) -> int:
        return self.use.entries + self.hardware.entries

    @property
    def without_factor_mj(self) -> int:
        """Return the energy without an emission factor, if the query is for emissions."""
        return (
            self.use.without_factor_mj if self.query.metric in ("emission_ug", *HARDWARE_OF) else 0
        )

    @property
    def without_price_mj(self) -> int:
        """Return the energy without a price in the currency, if the query is for a cost."""
        return self.use.without_price_mj if self.query.metric == COST else 0


def split_query(query: FigureQuery) -> tuple[FigureQuery | None, FigureQuery | None]:
    """Return the queries of use and of hardware. None: the query has no such part."""
    if query.metric in HARDWARE_METRICS:
        return None, query
    if query.metric not in HARDWARE_OF:
        return query, None
    of_use = query.subject_kind != "asset" and query.consumer in ("", *USE_CONSUMERS)
    of_hardware = query.consumer in ("", *HARDWARE_CONSUMERS) and (
        not query.scope or bool(roles_within(query.profile, query.scope, (EMBODIED, WASTE, LEASED)))
    )
    return (
        query.replace(metric="emission_ug") if of_use else None,
        query.replace(metric=HARDWARE_OF[query.metric]) if of_hardware else None,
    )


def answer(lab: Lab, query: FigureQuery, now: int) -> CombinedFigure:
    """Return the figure of ``query``."""
    use, hardware = split_query(query)
    return CombinedFigure(
        query,
        figure(lab, use) if use else Figure(),
        embodied(lab, hardware, now) if hardware else Embodied(),
        coverage(lab, hardware, now) if hardware else None,
    )


def groups_of(metric: str) -> frozenset[str]:
    """Return the groups that a metric supports."""
    if metric in HARDWARE_OF:
        return TOGETHER_GROUPS
    return frozenset(HARDWARE_GROUPS) if metric in HARDWARE_METRICS else PUBLIC_GROUPS


def group_figures(lab: Lab, query: FigureQuery, group: str, now: int) -> dict[Any, int]:
    """Return the parts of a figure by group. They sum to it exactly.

    Raises InvalidInput for a group that the metric does not support.
    """
    known = groups_of(query.metric)
    if group not in known:
        raise InvalidInput(
            f"{group!r} is no group.",
            field="group_by",
            hint=f"Use one of {', '.join(sorted(known))}.",
        )
    use, hardware = split_query(query)
    found: dict[Any, int] = {}
    if use:
        for (key,), part in figures_by(lab, use, [group]).items():
            found[key] = found.get(key, 0) + part.value(use.metric)
    if hardware:
        for (key,), charged in embodied_by(lab, hardware, [group], now).items():
            found[key] = found.get(key, 0) + charged.embodied_ug
    return found
