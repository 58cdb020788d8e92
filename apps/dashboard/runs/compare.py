"""Runs side by side: their figures, metrics and fingerprints, what differs first."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from apps.accounts.models import Lab
from apps.carbon.figures.visibility import Sight
from apps.core.errors import InvalidInput, NotFound
from apps.dashboard.figures import Units
from apps.dashboard.formatting import share
from apps.dashboard.runs.list import RunRow, run_rows
from apps.runs.code_similarity import least_likeness
from apps.runs.fingerprint_diff import Alike, Line, differences
from apps.runs.models import Fingerprint, Metric, Run
from apps.runs.selectors import fingerprints_of

MOST = 6
PARTS = {
    "entry": "Entry", "code": "Code", "params": "Parameter", "data": "Data", "start": "Start", "seeds": "Seed",
    "environment": "Environment", "hardware": "Hardware",
}  # fmt: skip


@dataclass(frozen=True)
class Shown:
    """A line of the comparison as it is shown. ``note``: how much of it is alike, where that is known."""

    part: str
    line: Line
    note: str = ""

    @property
    def title(self) -> str:
        told = f"{self.part}: {self.line.name}" if self.line.name else self.part
        return f"{told}, {self.note}" if self.note else told


@dataclass(frozen=True)
class MetricLine:
    """The last value of a metric in each run, None where it has none."""

    name: str
    cells: list[float | None]


@dataclass(frozen=True)
class ComparePage:
    """Runs in the order they were asked for."""

    rows: list[RunRow]
    units: Units
    metrics: list[MetricLine]
    differ: list[Shown]
    unknown: list[Shown]
    same: list[Shown]
    sentence: str
    csv: str


def asked_runs(lab: Lab, asked: Sequence[str]) -> list[Run]:
    """Return the runs asked for, each once, in that order. Raises InvalidInput and NotFound."""
    try:
        uuids = list(dict.fromkeys(UUID(text) for text in asked))
    except ValueError as error:
        raise InvalidInput(
            "A run is named by its UUID.", field="run", hint="Choose runs on /runs/ and compare them."
        ) from error
    if not 2 <= len(uuids) <= MOST:
        raise InvalidInput(
            f"Between 2 and {MOST} runs can be compared, not {len(uuids)}.", field="run", hint="Choose some on /runs/."
        )
    found = Run.objects.filter(lab=lab, uuid__in=uuids).select_related("project", "charged_project", "node", "user")
    by_uuid = {run.uuid: run for run in found}
    if missing := [uuid for uuid in uuids if uuid not in by_uuid]:
        raise NotFound(f"There is no run {missing[0]} in this lab.", hint="Choose runs on /runs/ and compare them.")
    return [by_uuid[uuid] for uuid in uuids]


def compare_page(*, lab: Lab, runs: list[Run], now: int, sight: Sight) -> ComparePage:
    """Return the comparison. The number of queries does not depend on the number of runs."""
    rows, units = run_rows(lab, runs, now, sight)
    lines = compared(runs)
    return ComparePage(
        rows=rows,
        units=units,
        metrics=_metrics(runs),
        differ=[each for each in lines if each.line.alike == Alike.DIFFERS],
        unknown=[each for each in lines if each.line.alike == Alike.UNKNOWN],
        same=[each for each in lines if each.line.alike in (Alike.SAME, Alike.SEEMS)],
        sentence=_sentence(lines, len(runs)),
        csv="/runs/compare.csv?" + "&".join(f"run={run.uuid}" for run in runs),
    )


def compared(runs: Sequence[Run]) -> list[Shown]:
    """Return the lines in which runs are compared. Two queries."""
    prints = fingerprints_of(runs)
    lines = [Shown(PARTS[line.part], line) for line in differences([prints.get(run.pk) for run in runs])]
    return [_with_likeness(shown, runs[0].lab, prints.values()) if shown.line.part == "code" else shown for shown in lines]


def _with_likeness(shown: Shown, lab: Lab, prints: Iterable[Fingerprint]) -> Shown:
    """Say how many lines of code that differs are alike, where they are known of all."""
    if shown.line.alike != Alike.DIFFERS or shown.line.name:
        return shown
    like = least_likeness(lab, [each.code_normal for each in prints])
    return shown if like is None else replace(shown, note=f"{share(like)} of its lines alike")


def compare_rows(runs: Sequence[Run]) -> Iterator[list[object]]:
    """Yield the lines of the CSV: metrics, then parts."""
    for metric in _metrics(runs):
        yield ["metric", metric.name, "", *metric.cells]
    for shown in compared(runs):
        yield [shown.line.part, shown.line.name, shown.line.alike.value, *shown.line.cells]


def _metrics(runs: Sequence[Run]) -> list[MetricLine]:
    last = {
        (name, run_id): value
        for name, run_id, value in Metric.objects.filter(run__in=runs).values_list("name", "run_id", "last_value")
    }
    names = sorted({name for name, _ in last})
    return [MetricLine(name, [last.get((name, run.pk)) for run in runs]) for name in names]


def _sentence(lines: Iterable[Shown], number: int) -> str:
    """Return in one sentence in what the runs differ."""
    lines = list(lines)
    which = "The two runs" if number == 2 else f"The {number} runs"
    parts = [each for each in lines if each.line.part not in ("environment", "hardware")]
    differ = [each.line.name or each.part.lower() for each in parts if each.line.alike == Alike.DIFFERS]
    unknown = list(dict.fromkeys(each.part.lower() for each in parts if each.line.alike == Alike.UNKNOWN))
    seems = any(each.line.alike == Alike.SEEMS for each in parts)
    if not parts or (not differ and len(unknown) == len({each.part for each in parts})):
        return "Nothing is known of what these runs did: nobody told their code, parameters or data."
    if differ:
        told = f"{which} differ in {_listed(differ)}"
    else:
        told = f"{which} did the same work" if not unknown else f"{which} do not differ in what is known"
    if seems:
        told += ", data compared by names, sizes and times only"
    return f"{told}; not known: {_listed(unknown)}." if unknown else f"{told}."


def _listed(words: Sequence[str]) -> str:
    shown = list(words[:5]) + ([f"{len(words) - 5} more"] if len(words) > 5 else [])
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"
