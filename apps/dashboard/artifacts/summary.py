"""What a lab keeps: bytes by kind and project, in how many copies, and the energy of keeping them."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from apps.accounts.models import Lab, Project
from apps.artifacts.choices import Kind
from apps.artifacts.storage import Kept, kept_by, known, lots_of
from apps.artifacts.storage_model import costs
from apps.core.units import hour_of
from apps.dashboard.artifacts.charts import BytesOf, kept_bars
from apps.dashboard.artifacts.storage_cost import KeepingShown, keeping_shown
from apps.dashboard.charts import Chart
from apps.dashboard.formatting import Unit, size, size_unit, sized

COLOURS = ("s1", "s2", "s3", "s4", "s5", "s6")
NO_PROJECT = "No project"


@dataclass(frozen=True)
class TwinRow:
    """What a project keeps, by kind and in all."""

    name: str
    cells: list[str]
    whole: str


@dataclass(frozen=True)
class Holdings:
    """What the lab keeps."""

    artifacts: int
    placed: int
    copies: int
    size: str
    twice: str  # in copies beside the first, '' for none
    keeping: KeepingShown
    chart: Chart | None
    twin_heads: list[str]
    twin: list[TwinRow]
    twin_total: TwinRow | None
    unit: Unit


def holdings(lab: Lab, projects: Sequence[Project], now: int) -> Holdings:
    """Return what a lab keeps. Seven queries, whatever it keeps."""
    kept_parts = kept_by(lab)
    whole, cost = sum(part.bytes for part in kept_parts), costs(lots_of(lab, hour_of(now)))
    unit = size_unit([whole])
    by_project = _by_project(kept_parts, projects)
    kinds = [kind for kind in Kind if any(kind in cells for _, _, cells in by_project)]
    return Holdings(
        artifacts=known(lab),
        placed=sum(part.artifacts for part in kept_parts),
        copies=cost.copies,
        size=size(whole),
        twice=size(cost.bytes - whole) if cost.bytes > whole else "",
        keeping=keeping_shown(cost.keeping),
        chart=_chart(by_project, kinds, unit) if whole else None,
        twin_heads=[kind.label for kind in kinds],
        twin=[_twin_row(name, cells, kinds, unit) for name, _, cells in by_project],
        twin_total=_twin_row("Total", sum((cells for _, _, cells in by_project), Counter()), kinds, unit),
        unit=unit,
    )


def _by_project(parts: Iterable[Kept], projects: Sequence[Project]) -> list[tuple[str, str, Counter[str]]]:
    """Return (name, slug, bytes by kind) of each project that keeps something, the largest first; '~none' for none."""
    named = {each.pk: (each.name, each.slug) for each in projects}
    sums: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for part in parts:
        key = (NO_PROJECT, "~none") if part.project_id is None else named[part.project_id]
        sums[key][part.kind] += part.bytes
    return sorted(((name, slug, cells) for (name, slug), cells in sums.items()), key=lambda row: (-row[2].total(), row[1]))


def _twin_row(name: str, cells: Counter[str], kinds: Sequence[Kind], unit: Unit) -> TwinRow:
    return TwinRow(name, [sized(cells[kind], unit) if cells[kind] else "" for kind in kinds], sized(cells.total(), unit))


def _chart(by_project: list[tuple[str, str, Counter[str]]], kinds: Sequence[Kind], unit: Unit) -> Chart:
    named = [row for row in by_project if row[1] != "~none"]
    bars = [
        _bar(name, colour, slug, cells, kinds, unit)
        for (name, slug, cells), colour in zip(named[: len(COLOURS)], COLOURS, strict=False)
    ]
    if rest := named[len(COLOURS) :]:
        cells = sum((each for _, _, each in rest), Counter[str]())
        bars.append(_bar(f"{len(rest)} more projects", "s-more", "", cells, kinds, unit))
    bars += [_bar(name, "s-unattributed", slug, cells, kinds, unit) for name, slug, cells in by_project if slug == "~none"]
    largest = max(kinds, key=lambda kind: sum(cells[kind] for _, _, cells in by_project))
    summary = f"What is kept by kind, stacked by project, {unit.name}: most of it as {largest.label.lower()}."
    return kept_bars(
        name="artifacts-kept", summary=summary, kinds=[kind.label for kind in kinds], projects=bars, unit=unit.name
    )


def _bar(name: str, colour: str, slug: str, cells: Counter[str], kinds: Sequence[Kind], unit: Unit) -> BytesOf:
    href = f"/artifacts/?{urlencode({'project': slug})}" if slug else ""
    return BytesOf(name, colour, href, [cells[kind] / unit.divisor for kind in kinds])
