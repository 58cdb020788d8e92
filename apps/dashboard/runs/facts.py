"""What a run did, as far as it was told: code, parameters, data, start, seeds; its metrics, and who told of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from apps.dashboard.charts import Chart, metric_curve
from apps.dashboard.formatting import size
from apps.runs.fingerprint_diff import code_text, hidden, said, value_text
from apps.runs.metric_summary import thinned
from apps.runs.models import ExternalId, Fingerprint, Metric, Run
from apps.runs.selectors import NearCode, fingerprints_of, near_code_of, siblings_of
from apps.runs.services.metrics import curve

MOST_POINTS = 500
SIBLINGS = {
    "f1": "of the same work", "f2": "with another seed at most", "f3": "of the same recipe with any code",
    "left_out": "with one other parameter at most",
}  # fmt: skip
TOOLS = {"mlflow": "MLflow", "codecarbon": "CodeCarbon", "wandb": "Weights & Biases"}


@dataclass(frozen=True)
class Fact:
    """A line of what a run did. ``certainty``: how well it is known, '' where that is plain."""

    name: str
    text: str
    certainty: str = ""


@dataclass(frozen=True)
class Sibling:
    """How many other runs have the same but for something; ``sure`` of them by contents, the rest by names and times."""

    words: str
    number: int
    sure: int


@dataclass(frozen=True)
class RunFacts:
    """What is known of a run besides its energy."""

    work: list[Fact]
    params: list[tuple[str, str]]
    dropped: list[str]
    environment: list[tuple[str, str]]
    metrics: list[Metric]
    curve: Chart | None
    of_curve: str
    external: list[tuple[str, str]]
    children: int
    tags: list[tuple[str, str]]
    siblings: list[Sibling]
    near: NearCode | None


def run_facts(run: Run, metric: str) -> RunFacts:
    """Return what is known of a run, with the curve of one of its metrics ('': the one people look at first). A fixed number
    of queries."""
    kept = fingerprints_of([run]).get(run.pk)
    metrics = list(Metric.objects.filter(run=run).order_by("name"))
    drawn = _drawn(metrics, metric)
    return RunFacts(
        work=_work(kept) if kept else [],
        params=_params(run, kept),
        dropped=sorted(kept.dropped) if kept else [],
        environment=_pairs({**kept.environment, **kept.hardware}) if kept else [],
        metrics=metrics,
        curve=_curve(drawn) if drawn else None,
        of_curve=drawn.name if drawn else "",
        external=[
            (TOOLS.get(each.tool, each.tool), each.value)
            for each in ExternalId.objects.filter(run=run).order_by("tool", "value")
        ],
        children=run.children.count(),
        tags=_pairs(run.tags),
        siblings=_siblings(run) if kept else [],
        near=near_code_of(run, kept.code_normal) if kept else None,
    )


def _drawn(metrics: Sequence[Metric], asked: str) -> Metric | None:
    """Return the metric asked for; else a validation metric, else a loss, else the first that has a curve."""
    if asked:
        return next((each for each in metrics if each.name == asked), None)
    curves = [each for each in metrics if each.count > 1]
    for sign in ("val", "eval", "test", "loss"):
        if found := next((each for each in curves if sign in each.name.lower()), None):
            return found
    return curves[0] if curves else None


def _curve(metric: Metric) -> Chart:
    points = thinned(curve(metric), MOST_POINTS)
    told = [point.value for point in points if point.value is not None]
    spread = f", from {min(told):.4g} to {max(told):.4g}" if told else ""
    summary = f"{metric.name} over {metric.count} steps{spread}."
    return metric_curve(
        name="run-metric", summary=summary, steps=[point.step for point in points], values=[point.value for point in points]
    )


def _siblings(run: Run) -> list[Sibling]:
    """Return how many other runs did the same but for something, the closest first; each only where it says more than the
    closer ones, which it holds."""
    counts = siblings_of(run).counts
    found: list[Sibling] = []
    for tier, words in SIBLINGS.items():
        sure, seem = counts[tier], counts[f"{tier}_weak"]
        if max(sure, seem) > max((each.number for each in found), default=0):
            found.append(Sibling(words, max(sure, seem), sure))
    return found


def _work(kept: Fingerprint) -> list[Fact]:
    """Return the parts of a fingerprint in words; a part that nobody told says so."""
    seeds = kept.seeds and ", ".join(f"{name} {value_text(kept, name, each)}" for name, each in sorted(kept.seeds.items()))
    return [
        Fact("Entry", kept.entry_name or "not told"),
        Fact("Code", code_text(kept) or "not told", "" if kept.code or not kept.code_weak else "changes not seen"),
        Fact("Data", _data(kept), _certainty(kept.data, kept.data_weak)),
        _start(kept),
        Fact("Seeds", "not told" if kept.seeds is None else seeds or "unset"),
    ]


def _start(kept: Fingerprint) -> Fact:
    digest = kept.start or kept.start_weak
    if not digest:
        return Fact("Start", "not told")
    certainty = "" if kept.start_name == "scratch" else _certainty(kept.start, kept.start_weak)
    return Fact("Start", kept.start_name or hidden(digest), certainty)


def _certainty(verified: str, weak: str) -> str:
    return "contents read" if verified else "names, sizes and times only" if weak else ""


def _data(kept: Fingerprint) -> str:
    if not kept.data and not kept.data_weak:
        return "not told"
    told = [_item(item) for item in kept.data_items]
    return "; ".join(told) if told else hidden(kept.data or kept.data_weak)


def _item(item: Mapping[str, Any]) -> str:
    name = f"{item.get('role', 'data')} {item.get('name', '')}".strip()
    files = item.get("files")
    return name if files is None else f"{name} ({files} file{'' if files == 1 else 's'}, {size(item.get('bytes', 0))})"


def _params(run: Run, kept: Fingerprint | None) -> list[tuple[str, str]]:
    """Return the parameters that count, under their canonical names; what may not be told by its hash."""
    if kept is None or kept.params is None:
        return _pairs(run.params)
    return sorted((name, value_text(kept, name, digest)) for name, digest in kept.params.items())


def _pairs(told: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [(str(name), said(value)) for name, value in sorted(told.items())]
