"""Emissions of use and hardware of a lab or a project, by charge and over time."""

from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from django.urls import reverse

from apps.accounts.models import Lab
from apps.assets.choices import ChargeKind
from apps.carbon.figures.combined import CombinedFigure, split_query
from apps.carbon.figures.embodied import Coverage, Embodied, coverage, embodied, embodied_in
from apps.carbon.figures.energy import Figure
from apps.carbon.figures.figure_query import (
    ALLOCATION,
    HIDDEN,
    INVENTORY,
    TOGETHER,
    FigureQuery,
    iso_hour,
)
from apps.dashboard.charts import Chart, Series, stacked
from apps.dashboard.figures import (
    Quantity,
    amount_quantity,
    carbon_quantity,
    entered_quantity,
    quantity,
)
from apps.dashboard.formatting import Unit, unit_for
from apps.dashboard.overview.energy_use import (
    SPECIAL,
    Charge,
    DataTable,
    DataTableRow,
    project_colour,
)
from apps.dashboard.periods import Period, running_place

SPECIAL_HARDWARE = {
    "~held": ("Held by the lab", "s-held", "hardware without a meter"),
    "~unmeasured": ("Off or not measured", "s-off", "hardware with a meter"),
    "~lent": ("Lent outside projects", "s-held", ""),
    "~end_of_life": ("End-of-life difference", "s-lost", "at disposal"),
    "~written_off": ("Written off", "s-lost", "at disposal"),
}


@dataclass(frozen=True)
class CombinedEmissions:
    """Emissions of one row: of use (None: no energy), of hardware (None: none charged), and
    their total.
    """

    use: Quantity | None
    hardware: Quantity | None
    together: Quantity


@dataclass(frozen=True)
class Hardware:
    """Emissions of a lab (or a project) by use and hardware. ``cells``: embodied carbon by
    number of the bucket and charge. ``purchased``: the inventory ledger, reported separately;
    None: no purchase.
    """

    query: FigureQuery
    cells: dict[tuple[int, str], Embodied]
    covered: Coverage
    unit: Unit
    whole: CombinedEmissions
    headline: CombinedEmissions
    purchased: Quantity | None
    known: str

    @cached_property
    def by_charge(self) -> dict[str, Embodied]:
        totals: dict[str, Embodied] = defaultdict(Embodied)
        for (_, charge), part in self.cells.items():
            totals[charge] += part
        return dict(totals)


def hardware_of(
    lab: Lab, query: FigureQuery, used: Figure, now: int, period: Period | None = None
) -> Hardware | None:
    """Return the hardware of a lab, by the buckets of ``period`` if given; None if the lab has
    no asset. Four queries.
    """
    if not lab.assets.exists():
        return None
    allocation = query.replace(metric=ALLOCATION)
    cells = embodied_in(lab, allocation, _edges(period) if period else allocation.hours, now)
    covered = coverage(lab, allocation, now)
    whole = sum(cells.values(), Embodied())
    unit = unit_for(TOGETHER, [used.emission_ug + whole.embodied_ug], column=True)
    inventory = query.replace(metric=INVENTORY)
    return Hardware(
        query=query,
        cells=cells,
        covered=covered,
        unit=unit,
        whole=_combined_emissions(query, used, whole, covered, unit),
        headline=_combined_emissions(query, used, whole, covered, None),
        purchased=entered_quantity(
            CombinedFigure(inventory, hardware=embodied(lab, inventory, now), coverage=covered)
        ),
        known=f"{covered.known} of {covered.assets} asset{'' if covered.assets == 1 else 's'} "
        f"{'has' if covered.assets == 1 else 'have'} a known figure",
    )


def _combined_emissions(
    query: FigureQuery, used: Figure, charged: Embodied, covered: Coverage | None, unit: Unit | None
) -> CombinedEmissions:
    """Return the figures of a row. Assets without a figure make those with hardware a lower bound.
    ``covered`` None: no hardware can be charged to the row.
    """
    emission, hardware = query.replace(metric="emission_ug"), query.replace(metric=ALLOCATION)
    return CombinedEmissions(
        quantity(emission, used, unit),
        carbon_quantity(CombinedFigure(hardware, hardware=charged, coverage=covered), unit),
        carbon_quantity(
            CombinedFigure(query.replace(metric=TOGETHER), used, charged, covered), unit
        ),
    )


def charge_query(query: FigureQuery, key: str) -> FigureQuery:
    """Return the figure query of one charge of a lab, for use and hardware."""
    if key.startswith("~"):
        return query.replace(consumer=key[1:], project=HIDDEN)
    return query.replace(subject_kind="project", subject_key=key)


def combined_emissions(hardware: Hardware, charge: Charge) -> CombinedEmissions:
    """Return the emissions of one charge. The rows add up to the total. An asset without a figure
    can belong to any of them with hardware.
    """
    query = charge_query(hardware.query, charge.key)
    charged = hardware.by_charge.get(charge.key)
    has_hardware = split_query(query.replace(metric=TOGETHER))[1] is not None
    covered = hardware.covered if has_hardware else None
    line = _combined_emissions(query, charge.figure, charged or Embodied(), covered, hardware.unit)
    used = (
        quantity(charge.query.replace(metric="emission_ug"), charge.figure, hardware.unit)
        if charge.figure.entries
        else None
    )
    return CombinedEmissions(used, line.hardware if charged else None, line.together)


def all_charges(
    lab: Lab, hardware: Hardware | None, listed: list[Charge], period: Period
) -> list[Charge]:
    """Return all charges of use or hardware: projects first (those with hardware only last),
    then the others.
    """
    if hardware is None:
        return listed
    listed_keys = {charge.key for charge in listed}
    names = dict(lab.projects.order_by("pk").values_list("slug", "name"))
    extra_keys = [key for key in sorted(hardware.by_charge) if key not in listed_keys]
    suffix = f"?{period.query}" if period.query else ""
    projects = [charge for charge in listed if not charge.key.startswith("~")]
    for key in (key for key in extra_keys if not key.startswith("~")):
        colour = project_colour(key, list(names), [charge.colour for charge in projects])
        projects.append(
            _charge(
                hardware,
                key,
                names.get(key, key),
                colour,
                "",
                f"{reverse('project', args=[key])}{suffix}",
            )
        )
    special = {charge.key: charge for charge in listed if charge.key.startswith("~")}
    for key in (key for key in extra_keys if key.startswith("~")):
        name, colour, note = {**SPECIAL, **SPECIAL_HARDWARE}[key]
        special[key] = _charge(hardware, key, name, colour, note, reverse("assets"))
    order = [*SPECIAL, *SPECIAL_HARDWARE]
    return [*projects, *(special[key] for key in order if key in special)]


def _charge(hardware: Hardware, key: str, name: str, colour: str, note: str, href: str) -> Charge:
    return Charge(key, name, colour, note, href, charge_query(hardware.query, key), Figure())


def _edges(period: Period) -> list[int]:
    buckets = period.buckets()
    return [*(bucket.from_hour for bucket in buckets), buckets[-1].to_hour]


def _unit(hardware: Hardware) -> Unit:
    """Return a unit that suits the highest bar."""
    heights: dict[int, int] = defaultdict(int)
    for (place, _), part in hardware.cells.items():
        heights[place] += part.embodied_ug
    return unit_for(ALLOCATION, heights.values())


def _charges_with_hardware(hardware: Hardware, listed: list[Charge]) -> list[Charge]:
    return [charge for charge in listed if charge.key in hardware.by_charge]


def hardware_chart(hardware: Hardware | None, listed: list[Charge], period: Period) -> Chart | None:
    """Return the chart of hardware by project, None if no embodied carbon was charged."""
    if hardware is None or not hardware.by_charge:
        return None
    cells, unit = hardware.cells, _unit(hardware)
    hardware_charges, buckets = _charges_with_hardware(hardware, listed), period.buckets()
    top = max(hardware_charges, key=lambda charge: hardware.by_charge[charge.key].embodied_ug)
    series = [
        Series(
            charge.name,
            charge.colour,
            "SPREAD",
            charge.href,
            [
                cells.get((i, charge.key), Embodied()).embodied_ug / unit.divisor
                for i in range(len(buckets))
            ],
        )
        for charge in hardware_charges
    ]
    return stacked(
        name="hardware-by-project",
        summary=f"Embodied carbon of hardware, {period.label}, mostly {top.name}.",
        labels=[bucket.label for bucket in buckets],
        full_labels=[bucket.full_label for bucket in buckets],
        edges=[
            iso_hour(hour)
            for hour in (*(bucket.from_hour for bucket in buckets), buckets[-1].to_hour)
        ],
        unit=unit.name,
        series=series,
        unknown=[None] * len(buckets),
        running=running_place(buckets),
    )


def hardware_data_table(hardware: Hardware, listed: list[Charge], period: Period) -> DataTable:
    """Return the data table of the hardware chart."""
    cells, unit = hardware.cells, _unit(hardware)
    hardware_charges = _charges_with_hardware(hardware, listed)
    whole = hardware.query.replace(metric=ALLOCATION)
    queries = [charge_query(whole, charge.key) for charge in hardware_charges]
    rows = []
    for i, bucket in enumerate(period.buckets()):
        span: dict[str, Any] = {"from_hour": bucket.from_hour, "to_hour": bucket.to_hour}
        cell_parts = [cells.get((i, charge.key)) for charge in hardware_charges]
        row: list[Quantity | None] = [
            amount_quantity(query.replace(**span), part.embodied_ug, unit) if part else None
            for query, part in zip(queries, cell_parts, strict=True)
        ]
        known_ug = [part.embodied_ug for part in cell_parts if part]
        row.append(
            amount_quantity(whole.replace(**span), sum(known_ug), unit) if known_ug else None
        )
        rows.append(DataTableRow(bucket.full_label, row, ""))
    totals = [
        amount_quantity(query, hardware.by_charge[charge.key].embodied_ug, unit)
        for query, charge in zip(queries, hardware_charges, strict=True)
    ]
    totals.append(
        amount_quantity(whole, sum(part.embodied_ug for part in hardware.by_charge.values()), unit)
    )
    return DataTable(
        [charge.name for charge in hardware_charges], unit, rows, totals, period.grain, "Hardware"
    )


def by_kind(lab: Lab, query: FigureQuery, now: int) -> list[tuple[str, Quantity]]:
    """Return the embodied carbon of a subject by reason, largest first. The parts add up to the
    total. One query.
    """
    allocation = query.replace(metric=ALLOCATION)
    amounts = {
        kind: part.embodied_ug
        for (_, kind), part in embodied_in(
            lab, allocation, allocation.hours, now, by="kind"
        ).items()
    }
    unit = unit_for(ALLOCATION, [sum(amounts.values())], column=True)
    order = sorted(amounts, key=lambda kind: (-amounts[kind], kind))
    return [
        (
            str(ChargeKind(kind).label),
            amount_quantity(allocation.replace(consumer=kind), amounts[kind], unit),
        )
        for kind in order
    ]
