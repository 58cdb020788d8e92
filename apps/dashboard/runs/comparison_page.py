"""Runs side by side: their figures, metrics and fingerprints, what differs first."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from django.urls import reverse

from apps.accounts.models import Lab
from apps.carbon.figures.visibility import Visibility
from apps.core.errors import InvalidInput, NotFound
from apps.dashboard.figures import Units
from apps.dashboard.formatting import share
from apps.dashboard.runs.run_rows import RunRow, run_rows
from apps.runs.code_similarity import minimum_similarity
from apps.runs.fingerprint_diff import Comparison, Line, compare_fingerprints
from apps.runs.models import Fingerprint, Metric, Run
from apps.runs.selectors import fingerprints_of

MOST = 6
PARTS = {
    "entry": "Entry point", "code": "Code", "params": "Parameter", "data": "Data",
    "start": "Initial weights", "seeds": "Seed", "environment": "Environment",
    "hardware": "Hardware",
}  # fmt: skip


@dataclass(frozen=True)
class ComparisonRow:
    """A row of the comparison. ``note``: similarity, if known."""

    part: str
    line: Line
    note: str = ""

    @property
    def title(self) -> str:
        text = f"{self.part}: {self.line.name}" if self.line.name else self.part
        return f"{text}, {self.note}" if self.note else text


@dataclass(frozen=True)
class MetricLine:
    """The last value of a metric in each run, None where it has none."""

    name: str
    cells: list[float | None]


@dataclass(frozen=True)
class ComparePage:
    """The compared runs, in the requested order."""

    rows: list[RunRow]
    units: Units
    metrics: list[MetricLine]
    differ: list[ComparisonRow]
    unknown: list[ComparisonRow]
    same: list[ComparisonRow]
    sentence: str
    csv: str


def runs_from_uuids(lab: Lab, texts: Sequence[str]) -> list[Run]:
    """Return the requested runs, each once, in that order. Raises InvalidInput and NotFound."""
    try:
        uuids = list(dict.fromkeys(UUID(text) for text in texts))
    except ValueError as error:
        raise InvalidInput(
            "Invalid run: a UUID is required.",
            field="run",
            hint=f"Select runs on {reverse('runs')}.",
        ) from error
    if not 2 <= len(uuids) <= MOST:
        raise InvalidInput(
            f"Select 2 to {MOST} runs to compare, not {len(uuids)}.",
            field="run",
            hint=f"Select runs on {reverse('runs')}.",
        )
    runs = Run.objects.filter(lab=lab, uuid__in=uuids).select_related(
        "project", "charged_project", "node", "user"
    )
    by_uuid = {run.uuid: run for run in runs}
    if missing := [uuid for uuid in uuids if uuid not in by_uuid]:
        raise NotFound(
            f"No run {missing[0]} in this lab.", hint=f"Select runs on {reverse('runs')}."
        )
    return [by_uuid[uuid] for uuid in uuids]


def compare_page(*, lab: Lab, runs: list[Run], now: int, visibility: Visibility) -> ComparePage:
    """Return the comparison. The number of queries does not depend on the number of runs."""
    rows, units = run_rows(lab, runs, now, visibility)
    lines = compared(runs)
    return ComparePage(
        rows=rows,
        units=units,
        metrics=_metrics(runs),
        differ=[entry for entry in lines if entry.line.alike == Comparison.DIFFERS],
        unknown=[entry for entry in lines if entry.line.alike == Comparison.UNKNOWN],
        same=[entry for entry in lines if entry.line.alike in (Comparison.SAME, Comparison.SEEMS)],
        sentence=_sentence(lines, len(runs)),
        csv=f"{reverse('run-comparison-csv')}?" + "&".join(f"run={run.uuid}" for run in runs),
    )


def compared(runs: Sequence[Run]) -> list[ComparisonRow]:
    """Return the rows of the comparison. Two queries."""
    prints = fingerprints_of(runs)
    lines = [
        ComparisonRow(PARTS[line.part], line)
        for line in compare_fingerprints([prints.get(run.pk) for run in runs])
    ]
    return [
        _with_likeness(entry, runs[0].lab, prints.values()) if entry.line.part == "code" else entry
        for entry in lines
    ]


def _with_likeness(entry: ComparisonRow, lab: Lab, prints: Iterable[Fingerprint]) -> ComparisonRow:
    """Add the similarity of different code, if it is known for all runs."""
    if entry.line.alike != Comparison.DIFFERS or entry.line.name:
        return entry
    similarity = minimum_similarity(lab, [parts.code_normal for parts in prints])
    return (
        entry
        if similarity is None
        else replace(entry, note=f"{share(similarity)} of lines identical")
    )


def compare_rows(rows: Sequence[RunRow]) -> Iterator[list[object]]:
    """Yield the rows of the CSV: figures, metrics, then parts."""
    runs = [row.run for row in rows]
    yield ["figure", "energy_mj", "", *(row.energy_mj for row in rows)]
    yield ["figure", "energy_state", "", *(row.energy_state.value for row in rows)]
    yield ["figure", "emission_ug_co2e", "", *(row.emission_ug for row in rows)]
    yield ["figure", "currency", "", *(row.cost and row.cost.query.currency for row in rows)]
    yield ["figure", "cost_ucurrency", "", *(row.cost_ucurrency for row in rows)]
    yield ["figure", "without_price_mj", "", *(row.without_price_mj for row in rows)]
    yield ["figure", "other_costs_ucurrency", "", *(row.apart_text for row in rows)]
    for metric in _metrics(runs):
        yield ["metric", metric.name, "", *metric.cells]
    for entry in compared(runs):
        yield [entry.line.part, entry.line.name, entry.line.alike.value, *entry.line.cells]


def _metrics(runs: Sequence[Run]) -> list[MetricLine]:
    last = {
        (name, run_id): value
        for name, run_id, value in Metric.objects.filter(run__in=runs).values_list(
            "name", "run_id", "last_value"
        )
    }
    names = sorted({name for name, _ in last})
    return [MetricLine(name, [last.get((name, run.pk)) for run in runs]) for name in names]


def _sentence(lines: Iterable[ComparisonRow], number: int) -> str:
    """Return the differences as one sentence."""
    lines = list(lines)
    which = "The two runs" if number == 2 else f"The {number} runs"
    parts = [entry for entry in lines if entry.line.part not in ("environment", "hardware")]
    differ = [
        entry.line.name or entry.part.lower()
        for entry in parts
        if entry.line.alike == Comparison.DIFFERS
    ]
    unknown = list(
        dict.fromkeys(
            entry.part.lower() for entry in parts if entry.line.alike == Comparison.UNKNOWN
        )
    )
    seems = any(entry.line.alike == Comparison.SEEMS for entry in parts)
    if not parts or (not differ and len(unknown) == len({entry.part for entry in parts})):
        return "Nothing to compare: code, parameters and data of these runs are unknown."
    if differ:
        text = f"{which} differ in {_listed(differ)}"
    else:
        text = (
            f"{which} did the same work" if not unknown else f"{which} do not differ in known parts"
        )
    if seems:
        text += ", data compared by names, sizes and times only"
    return f"{text}. Unknown: {_listed(unknown)}." if unknown else f"{text}."


def _listed(words: Sequence[str]) -> str:
    parts = list(words[:5]) + ([f"{len(words) - 5} more"] if len(words) > 5 else [])
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
