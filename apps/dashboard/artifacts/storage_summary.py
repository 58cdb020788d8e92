"""Summary of a lab's stored artifacts: bytes by kind and project, copies, storage energy."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from django.urls import reverse

from apps.accounts.models import Lab, Project
from apps.artifacts.choices import Kind
from apps.artifacts.storage import KindTotal, count_artifacts, storage_lots, totals_by_kind
from apps.artifacts.storage_model import total_storage_cost
from apps.core.units import hour_of
from apps.dashboard.artifacts.storage_charts import BarSeries, stacked_bytes_chart
from apps.dashboard.artifacts.storage_cost import StorageEnergyText, storage_energy_text
from apps.dashboard.charts import Chart
from apps.dashboard.formatting import Unit, format_size, size, size_unit

COLOURS = ("s1", "s2", "s3", "s4", "s5", "s6")
NO_PROJECT = "No project"


@dataclass(frozen=True)
class TableRow:
    """Bytes of a project by kind and in total."""

    name: str
    cells: list[str]
    total: str


@dataclass(frozen=True)
class StorageSummary:
    """Stored artifacts of the lab."""

    artifacts: int
    placed: int
    copies: int
    size: str
    duplicate_size: str  # of additional copies, '' for none
    energy: StorageEnergyText
    chart: Chart | None
    table_heads: list[str]
    data_table: list[TableRow]
    table_total: TableRow | None
    unit: Unit


def storage_summary(lab: Lab, projects: Sequence[Project], now: int) -> StorageSummary:
    """Return the stored artifacts of a lab. Seven queries."""
    parts = totals_by_kind(lab)
    whole, cost = (
        sum(part.bytes for part in parts),
        total_storage_cost(storage_lots(lab, hour_of(now))),
    )
    unit = size_unit([whole])
    by_project = _by_project(parts, projects)
    kinds = [kind for kind in Kind if any(kind in cells for _, _, cells in by_project)]
    return StorageSummary(
        artifacts=count_artifacts(lab),
        placed=sum(part.artifacts for part in parts),
        copies=cost.copies,
        size=size(whole),
        duplicate_size=size(cost.bytes - whole) if cost.bytes > whole else "",
        energy=storage_energy_text(cost.energy),
        chart=_chart(by_project, kinds, unit) if whole else None,
        table_heads=[kind.label for kind in kinds],
        data_table=[_table_row(name, cells, kinds, unit) for name, _, cells in by_project],
        table_total=_table_row(
            "Total", sum((cells for _, _, cells in by_project), Counter()), kinds, unit
        ),
        unit=unit,
    )


def _by_project(
    parts: Iterable[KindTotal], projects: Sequence[Project]
) -> list[tuple[str, str, Counter[str]]]:
    """Return (name, slug, bytes by kind) of each project with stored artifacts, the largest first;
    '~none' for none.
    """
    named = {each.pk: (each.name, each.slug) for each in projects}
    sums: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for part in parts:
        key = (NO_PROJECT, "~none") if part.project_id is None else named[part.project_id]
        sums[key][part.kind] += part.bytes
    return sorted(
        ((name, slug, cells) for (name, slug), cells in sums.items()),
        key=lambda row: (-row[2].total(), row[1]),
    )


def _table_row(name: str, cells: Counter[str], kinds: Sequence[Kind], unit: Unit) -> TableRow:
    texts = [format_size(cells[kind], unit) if cells[kind] else "" for kind in kinds]
    return TableRow(name, texts, format_size(cells.total(), unit))


def _chart(
    by_project: list[tuple[str, str, Counter[str]]], kinds: Sequence[Kind], unit: Unit
) -> Chart:
    named = [row for row in by_project if row[1] != "~none"]
    bars = [
        _bar(name, colour, slug, cells, kinds, unit)
        for (name, slug, cells), colour in zip(named[: len(COLOURS)], COLOURS, strict=False)
    ]
    if rest := named[len(COLOURS) :]:
        cells = sum((each for _, _, each in rest), Counter[str]())
        bars.append(_bar(f"{len(rest)} more projects", "s-more", "", cells, kinds, unit))
    bars += [
        _bar(name, "s-unattributed", slug, cells, kinds, unit)
        for name, slug, cells in by_project
        if slug == "~none"
    ]
    largest = max(kinds, key=lambda kind: sum(cells[kind] for _, _, cells in by_project))
    summary = (
        f"Size by kind, stacked by project, {unit.name}. Largest kind: {largest.label.lower()}."
    )
    return stacked_bytes_chart(
        name="artifacts-kept",
        summary=summary,
        kinds=[kind.label for kind in kinds],
        projects=bars,
        unit=unit.name,
    )


def _bar(
    name: str, colour: str, slug: str, cells: Counter[str], kinds: Sequence[Kind], unit: Unit
) -> BarSeries:
    href = f"{reverse('artifacts')}?{urlencode({'project': slug})}" if slug else ""
    return BarSeries(name, colour, href, [cells[kind] / unit.divisor for kind in kinds])
