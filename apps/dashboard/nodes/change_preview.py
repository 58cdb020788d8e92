"""Effect of a change of site facts on emissions, calculated before the change is saved."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from django.db import transaction

from apps.accounts.models import Lab
from apps.carbon.factors import first_hour_of, priced_with, zone_factors
from apps.carbon.figures.energy import Figure, figures_by
from apps.carbon.figures.factor_spans import Span, changes, clipped, spans_by_node
from apps.carbon.figures.figure_query import FigureQuery
from apps.carbon.models import EmissionFactor
from apps.core.intervals import merge_intervals
from apps.core.units import END_HOUR, US_PER_HOUR, hour_of
from apps.dashboard.figures import (
    Projected,
    Quantity,
    Units,
    column_units,
    projected,
    quantity,
    total,
)
from apps.dashboard.formatting import factor_value, pue
from apps.fleet.dated_facts import SiteFacts
from apps.fleet.models import Node
from apps.fleet.selectors import site_facts_of

Priced = tuple[int, int | None, int | None]  # PUE, factor, hourly series


@dataclass(frozen=True)
class PriceChange:
    """A period whose energy gets another factor or PUE. ``to_us`` None: open."""

    from_us: int
    to_us: int | None
    before: str
    after: str


@dataclass(frozen=True)
class EffectRow:
    """Emissions of a node since the first affected hour: before and after the change."""

    node: Node
    before: Quantity
    after: Projected


@dataclass(frozen=True)
class Effect:
    """The effect of a change. No ``prices``: no hour gets another PUE or factor. No ``rows``: no
    energy is affected.
    """

    prices: list[PriceChange]
    since_us: int
    rows: list[EffectRow]
    units: Units
    sum_before: Projected | None
    sum_after: Projected | None


def site_facts_after(lab: Lab, change: Callable[[], object]) -> SiteFacts:
    """Return the lab's site facts after ``change``, which is rolled back. Its errors are raised."""
    with transaction.atomic():
        change()
        after = site_facts_of(lab)
        transaction.set_rollback(True)
    return after


def effect_of(*, lab: Lab, after: SiteFacts, now: int) -> Effect:
    """Return the effect of the site facts ``after``. The number of queries does not depend on
    the number of rows.
    """
    before = site_facts_of(lab)
    factors = zone_factors(lab, before, after)
    old = spans_by_node(before, factors, before.placements, END_HOUR)
    new = spans_by_node(after, factors, before.placements, END_HOUR)
    affected = sorted(node_id for node_id in before.placements if old[node_id] != new[node_id])
    to_hour = hour_of(now) + 1
    first_change = min(
        (
            change.from_hour
            for node_id in affected
            for change in changes(old[node_id], new[node_id])
        ),
        default=0,
    )
    first_energy = first_hour_of(affected)
    since = max(first_change, to_hour if first_energy is None else first_energy)
    prices = _prices(
        [(old[node_id], new[node_id]) for node_id in affected], max(first_change, first_energy or 0)
    )
    if since >= to_hour:
        return Effect(prices, since * US_PER_HOUR, [], column_units([]), None, None)
    query = FigureQuery(metric="emission_ug", from_hour=since, to_hour=to_hour, basis=lab.basis)
    recorded = {str(key): part for (key,), part in figures_by(lab, query, ["node"]).items()}
    projected_figures = priced_with(
        lab, {node_id: new[node_id] for node_id in affected}, since, to_hour
    )
    nodes = [
        node
        for node in Node.objects.filter(pk__in=projected_figures).order_by("hostname", "id")
        if str(node.uuid) in recorded
    ]
    units = column_units(
        [*(recorded[str(node.uuid)] for node in nodes), *projected_figures.values()]
    )
    rows = [
        _row(query, node, recorded[str(node.uuid)], projected_figures[node.pk], units)
        for node in nodes
    ]
    sums = len(rows) > 1
    return Effect(
        prices,
        since * US_PER_HOUR,
        rows,
        units,
        projected(query, total(recorded[str(node.uuid)] for node in nodes), units.emission)
        if sums
        else None,
        projected(query, total(projected_figures[node.pk] for node in nodes), units.emission)
        if sums
        else None,
    )


def _row(query: FigureQuery, node: Node, before: Figure, after: Figure, units: Units) -> EffectRow:
    own = query.replace(subject_kind="node", subject_key=str(node.uuid))
    return EffectRow(
        node, quantity(own, before, units.emission), projected(own, after, units.emission)
    )


def _prices(
    pairs: Iterable[tuple[Sequence[Span], Sequence[Span]]], from_hour: int
) -> list[PriceChange]:
    """Return the distinct changes between spans from an hour on. An open change has no end."""
    hours: dict[tuple[Priced, Priced], list[tuple[int, int]]] = defaultdict(list)
    for old, new in pairs:
        for change in changes(clipped(old, from_hour, END_HOUR), clipped(new, from_hour, END_HOUR)):
            hours[change.before.priced, change.after.priced].append(
                (change.from_hour, change.to_hour)
            )
    spans = [
        (start, end, *sides)
        for sides, listed in hours.items()
        for start, end in merge_intervals(listed)
    ]
    factors = EmissionFactor.objects.in_bulk(
        {side[1] for sides in hours for side in sides if side[1] is not None}
    )
    return [
        PriceChange(
            start * US_PER_HOUR,
            end * US_PER_HOUR if end < END_HOUR else None,
            _pricing_text(before, factors),
            _pricing_text(after, factors),
        )
        for start, end, before, after in sorted(spans, key=lambda row: row[:2])
    ]


def _pricing_text(priced: Priced, factors: dict[int, EmissionFactor]) -> str:
    """Return a factor and a PUE as text: 'Germany 2025, 330 g/kWh, PUE 1.340'."""
    pue_ppm, factor_id, hourly_id = priced
    by_hour = "" if hourly_id is None else " where no hour has its own"
    if factor_id is None:
        return f"{'no factor' if hourly_id is None else 'factors by hour'}, PUE {pue(pue_ppm)}"
    factor = factors[factor_id]
    return f"{factor.name}, {factor_value(factor.ug_per_kwh)}{by_hour}, PUE {pue(pue_ppm)}"
