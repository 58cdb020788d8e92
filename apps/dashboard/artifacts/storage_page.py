"""The page of storage cost: bytes, copies, energy and emissions of a year by project, medium and
site.
"""

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import urlencode

from django.urls import reverse

from apps.accounts.models import Lab, Project
from apps.artifacts.choices import Medium
from apps.artifacts.storage import storage_lots
from apps.artifacts.storage_model import StorageCost, StorageLot, storage_cost, total_storage_cost
from apps.carbon.figures.energy import applied_factors
from apps.carbon.models import EmissionFactor
from apps.core.units import hour_of
from apps.dashboard.artifacts.storage_charts import BarSeries, stacked_bytes_chart
from apps.dashboard.artifacts.storage_cost import (
    MediumRow,
    StorageEnergyText,
    emission_quantity,
    energy_quantity,
    media_rows,
    storage_energy_text,
)
from apps.dashboard.artifacts.storage_summary import NO_PROJECT
from apps.dashboard.charts import Chart
from apps.dashboard.figures import Projected
from apps.dashboard.formatting import (
    Unit,
    factor_value,
    figure_text,
    format_value,
    pue,
    size,
    size_unit,
    unit_for,
)
from apps.fleet.models import Site
from apps.fleet.selectors import placements_at

MAX_BARS = 8
_COLOURS = {
    Medium.HDD: "s1",
    Medium.SSD: "s2",
    Medium.OBJECT: "s3",
    Medium.TAPE: "s4",
    Medium.UNKNOWN: "s-off",
}


def storage_chart(projects: Sequence[tuple[str, int | None]], lots: Sequence[StorageLot]) -> Chart:
    """Return a bar of bytes for each of the largest projects and one for the rest, stacked by
    medium.

    ``projects``: names with primary keys, the largest first. An unknown medium is hatched.
    """
    first = dict.fromkeys(pk for _, pk in projects[:MAX_BARS])
    rest = len(projects) - len(first)
    names = [name for name, _ in projects[:MAX_BARS]] + ([f"{rest} more projects"] if rest else [])
    place = {pk: row for row, pk in enumerate(first)}
    sums: Counter[tuple[str, int]] = Counter()
    for lot in lots:
        sums[lot.medium, place.get(lot.project_id, len(place))] += lot.bytes
    unit = size_unit(
        [
            sum(each for (_, row), each in sums.items() if row == position)
            for position in range(len(names))
        ]
    )
    media_rows = [medium for medium in Medium if any(key[0] == medium for key in sums)]
    summary = (
        f"Bytes of all copies by project, stacked by medium, {unit.name}. Largest project: "
        f"{names[0]}."
    )
    return stacked_bytes_chart(
        name="storage",
        summary=summary,
        kinds=names,
        projects=[_bar(each, sums, len(names), unit) for each in media_rows],
        unit=unit.name,
    )


def _bar(medium: Medium, sums: Counter[tuple[str, int]], rows: int, unit: Unit) -> BarSeries:
    href = f"{reverse('artifacts')}?" + urlencode({"medium": medium.value})
    values = [sums[medium, row] / unit.divisor for row in range(rows)]
    return BarSeries(
        str(medium.label), _COLOURS[medium], href, values, is_hatched=medium == Medium.UNKNOWN
    )


AT_ADDRESS, NO_SITE = "Object addresses", "Nodes without a site"


@dataclass(frozen=True)
class SiteCost:
    """A site, or copies without a site. ``factor`` and ``pue``: '' if unknown.

    ``missing``: what to enter then, at ``missing_href``.
    """

    name: str
    href: str
    size: str
    pue: str
    factor: str
    source: str
    energy: Projected | None
    emission: Projected | None
    missing: str
    missing_href: str


def site_rows(
    lab: Lab, lots: Sequence[StorageLot], hour: int, energy: Unit, emission: Unit
) -> list[SiteCost]:
    """Return the sites of lots in a UTC hour, the largest first, in the units of the page. Two
    queries.
    """
    placements = placements_at(lab, hour)
    applied = applied_factors(lab, lab.basis, hour)
    sites: dict[int | str, Site] = {}
    sums: dict[int | str, StorageCost] = {}
    factors: dict[int | str, EmissionFactor | None] = {}
    pues: dict[int | str, int | None] = {}
    for lot in lots:
        placement = placements.get(lot.node_id) if lot.node_id is not None else None
        key: int | str = (
            placement.site_id if placement else AT_ADDRESS if lot.node_id is None else NO_SITE
        )
        if placement:
            sites[key] = placement.site
        applied_factor = applied.get(lot.node_id) if lot.node_id is not None else None
        factors[key] = factors.get(key) or (applied_factor.factor if applied_factor else None)
        pues[key] = lot.pue_ppm
        sums[key] = sums.get(key, StorageCost()) + storage_cost(lot)
    ordered = sorted(sums, key=lambda key: (-sums[key].bytes, str(key)))
    return [
        _site_cost(key, sites.get(key), sums[key], factors[key], pues[key], energy, emission)
        for key in ordered
    ]


def _site_cost(
    key: int | str,
    site: Site | None,
    it: StorageCost,
    factor: EmissionFactor | None,
    pue_ppm: int | None,
    energy: Unit,
    emission: Unit,
) -> SiteCost:
    missing, missing_href = _missing_data(key, site, factor, pue_ppm)
    return SiteCost(
        name=site.name if site else str(key),
        href=reverse("site", args=[site.pk]) if site else "",
        size=size(it.bytes),
        pue=pue(pue_ppm) if pue_ppm is not None else "",
        factor=factor_value(factor.ug_per_kwh) if factor else "",
        source=f"{factor.name}, edition {factor.edition}: {factor.source}" if factor else "",
        energy=energy_quantity(it, energy),
        emission=emission_quantity(it, emission),
        missing=missing,
        missing_href=missing_href,
    )


def _missing_data(
    key: int | str, site: Site | None, factor: EmissionFactor | None, pue_ppm: int | None
) -> tuple[str, str]:
    if site is None:
        if key == AT_ADDRESS:
            return "grid factor and PUE unknown", ""
        return "choose a site for these nodes", reverse("nodes")
    if factor is None:
        return "no factor: choose a grid zone", reverse("site", args=[site.pk])
    return ("enter a PUE", reverse("site", args=[site.pk])) if pue_ppm is None else ("", "")


K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True)
class CostRow:
    """The cost of a project or medium. ``energy`` and ``emission`` None: unknown. ``range_text``:
    of the energy.
    """

    name: str
    href: str
    size: str
    copies: int
    energy: Projected | None
    range_text: str
    emission: Projected | None


@dataclass(frozen=True)
class Units:
    """Units of the columns."""

    energy: Unit
    emission: Unit


@dataclass(frozen=True)
class StoragePage:
    """The page. ``total`` is the sum of each table."""

    copies: int
    size: str
    energy: StorageEnergyText
    has_unknown_medium: bool
    emission: Projected | None
    emission_range: str
    unpriced: str  # energy without a factor, as text; '' for none
    total: CostRow
    projects: list[CostRow]
    media: list[CostRow]
    sites: list[SiteCost]
    units: Units
    chart: Chart | None
    powers: list[MediumRow]


def storage_page(*, lab: Lab, now: int) -> StoragePage:
    """Return the page. The number of queries is independent of the number of copies."""
    lots = storage_lots(lab, hour_of(now))
    projects = {each.pk: each for each in lab.projects.all()}
    whole = total_storage_cost(lots)
    by_project = grouped_costs({lot: lot.project_id for lot in lots})
    by_medium = grouped_costs({lot: lot.medium for lot in lots})
    known = [each for each in by_project.values() if each.energy.is_known]
    priced = [each for each in by_project.values() if each.is_emission_known]
    units = Units(
        unit_for("energy_mj", [each.energy.energy_mj for each in known], column=True),
        unit_for("emission_ug", [each.emission_ug for each in priced], column=True),
    )
    return StoragePage(
        copies=whole.copies,
        size=size(whole.bytes),
        energy=storage_energy_text(whole.energy),
        has_unknown_medium=whole.energy.unknown_bytes > 0,
        emission=emission_quantity(whole),
        emission_range=_emission_range(whole),
        unpriced=_unpriced(whole),
        total=_row("Total", "", whole, units),
        projects=[
            _row(_name(projects, pk), _href("project", _slug(projects, pk)), each, units)
            for pk, each in by_size(by_project)
        ],
        media=[
            _row(str(Medium(medium).label), _href("medium", medium), each, units)
            for medium, each in by_size(by_medium)
        ],
        sites=site_rows(lab, lots, hour_of(now), units.energy, units.emission),
        units=units,
        chart=storage_chart([(_name(projects, pk), pk) for pk, _ in by_size(by_project)], lots)
        if whole.bytes
        else None,
        powers=media_rows(),
    )


def grouped_costs(groups: Mapping[StorageLot, K]) -> dict[K, StorageCost]:
    """Return the cost of each group of lots. They add up to the total exactly."""
    sums: dict[K, StorageCost] = {}
    for lot, key in groups.items():
        sums[key] = sums.get(key, StorageCost()) + storage_cost(lot)
    return sums


def by_size(sums: Mapping[K, StorageCost]) -> list[tuple[K, StorageCost]]:
    """Return groups, the largest first."""
    return sorted(sums.items(), key=lambda item: (-item[1].bytes, str(item[0])))


def _row(name: str, href: str, it: StorageCost, units: Units) -> CostRow:
    energy = energy_quantity(it, units.energy)
    spread = (
        f"{format_value(it.energy.low_mj, units.energy)}–"
        f"{format_value(it.energy.high_mj, units.energy)}"
        if energy
        else ""
    )
    return CostRow(
        name, href, size(it.bytes), it.copies, energy, spread, emission_quantity(it, units.emission)
    )


def _emission_range(it: StorageCost) -> str:
    if not it.is_emission_known:
        return ""
    unit = unit_for("emission_ug", [it.high_ug])
    return f"{format_value(it.low_ug, unit)}–{format_value(it.high_ug, unit)} {unit.name}"


def _unpriced(it: StorageCost) -> str:
    if not it.unpriced_bytes:
        return ""
    return figure_text("energy_mj", it.unpriced_mj)


def _name(projects: Mapping[int, Project], pk: int | None) -> str:
    return NO_PROJECT if pk is None else projects[pk].name


def _slug(projects: Mapping[int, Project], pk: int | None) -> str:
    return "~none" if pk is None else projects[pk].slug


def _href(name: str, value: str) -> str:
    return f"{reverse('artifacts')}?" + urlencode({name: value, "copies": "present"})


STORAGE_COLUMNS = (
    "project", "medium", "copies", "bytes", "energy_mj_a_year", "low_energy_mj_a_year",
    "high_energy_mj_a_year", "bytes_without_pue", "emission_ug_co2e_a_year",
    "low_emission_ug_co2e_a_year", "high_emission_ug_co2e_a_year", "bytes_without_factor",
)  # fmt: skip


def storage_csv_rows(lab: Lab, now: int) -> Iterator[tuple[Any, ...]]:
    """Yield a row for each project and medium. Unknown values and no project are empty."""
    projects = {each.pk: each for each in lab.projects.all()}
    lots = storage_lots(lab, hour_of(now))
    for (pk, medium), it in by_size(
        grouped_costs({lot: (lot.project_id, lot.medium) for lot in lots})
    ):
        energy = (
            (it.energy.energy_mj, it.energy.low_mj, it.energy.high_mj)
            if it.energy.is_known
            else (None,) * 3
        )
        carbon = (it.emission_ug, it.low_ug, it.high_ug) if it.is_emission_known else (None,) * 3
        yield (
            projects[pk].slug if pk is not None else None,
            medium,
            it.copies,
            it.bytes,
            *energy,
            it.energy.without_pue_bytes,
            *carbon,
            it.bytes - it.priced_bytes,
        )
