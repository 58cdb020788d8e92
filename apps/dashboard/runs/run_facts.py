"""Facts of a run: code, parameters, data, initial weights, seeds, metrics and ids in other
tools.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from apps.dashboard.charts import Chart, metric_curve
from apps.dashboard.formatting import size
from apps.runs.fingerprint_diff import commit_text, format_value, hash_label, value_text
from apps.runs.metric_parsing import Point
from apps.runs.metric_summary import downsample
from apps.runs.models import ExternalId, Fingerprint, Metric, Run
from apps.runs.selectors import SimilarCode, find_similar_code_runs, fingerprints_of, siblings_of
from apps.runs.services.fingerprints import fingerprint_from_params
from apps.runs.services.metrics import curve
from apps.trackers.registry import trackers

MAX_CURVE_POINTS = 500
UNKNOWN = "unknown"
SIBLINGS = {
    "f1": "with the same work", "f2": "in which only seeds differ",
    "f3": "with the same recipe but different code", "left_out": "in which one parameter differs",
}  # fmt: skip
OTHER_TOOLS = {"wandb": "Weights & Biases"}  # tools that are not registered trackers


@dataclass(frozen=True)
class Fact:
    """A part of the fingerprint as text. ``certainty``: basis of the value, or ''."""

    name: str
    text: str
    certainty: str = ""

    @property
    def is_unknown(self) -> bool:
        return self.text == UNKNOWN


@dataclass(frozen=True)
class Sibling:
    """Number of other runs that share a match key; ``verified`` of them by content, the rest by
    names, sizes and times.
    """

    relation: str
    number: int
    verified: int


@dataclass(frozen=True)
class RunFacts:
    """The facts of a run besides its energy."""

    work: list[Fact]
    params: list[tuple[str, str]]
    dropped: list[str]
    labels: list[str]
    not_compared: list[str]
    environment: list[tuple[str, str]]
    metrics: list[Metric]
    curve: Chart | None
    of_curve: str
    points: list[Point]
    external: list[tuple[str, str]]
    children: int
    tags: list[tuple[str, str]]
    siblings: list[Sibling]
    near: SimilarCode | None


def run_facts(run: Run, metric: str) -> RunFacts:
    """Return the facts of a run, with the curve of ``metric`` ('': a default). A fixed number of
    queries.
    """
    fingerprint = fingerprints_of([run]).get(run.pk)
    metrics = list(Metric.objects.filter(run=run).order_by("name"))
    selected = _drawn(metrics, metric)
    points = curve(selected) if selected else []
    tools = OTHER_TOOLS | {tracker.name: tracker.label for tracker in trackers()}
    return RunFacts(
        work=_work(fingerprint) if fingerprint else [],
        params=_params(run, fingerprint),
        dropped=sorted(fingerprint.dropped) if fingerprint else [],
        labels=_labels(fingerprint) if fingerprint else [],
        not_compared=list(fingerprint.not_compared) if fingerprint else [],
        environment=_pairs({**fingerprint.environment, **fingerprint.hardware})
        if fingerprint
        else [],
        metrics=metrics,
        curve=_curve(selected, points) if selected else None,
        of_curve=selected.name if selected else "",
        points=points,
        external=[
            (tools.get(external_id.tool, external_id.tool), external_id.value)
            for external_id in ExternalId.objects.filter(run=run).order_by("tool", "value")
        ],
        children=run.children.count(),
        tags=_pairs(run.tags),
        siblings=_siblings(run) if fingerprint else [],
        near=find_similar_code_runs(run, fingerprint.code_normal) if fingerprint else None,
    )


def _labels(fingerprint: Fingerprint) -> list[str]:
    """Return each label, with its value if that is stored."""
    return [
        f"{name} = {fingerprint.told[name]}" if name in fingerprint.told else name
        for name in sorted(fingerprint.labels or {})
    ]


def _drawn(metrics: Sequence[Metric], name: str) -> Metric | None:
    """Return the metric of this name. Without a name: a validation metric, a loss, or the first
    with a curve.
    """
    if name:
        return next((metric for metric in metrics if metric.name == name), None)
    curves = [metric for metric in metrics if metric.count > 1]
    for sign in ("val", "eval", "test", "loss"):
        if match := next((metric for metric in curves if sign in metric.name.lower()), None):
            return match
    return curves[0] if curves else None


def _curve(metric: Metric, all_points: Sequence[Point]) -> Chart:
    points = downsample(all_points, MAX_CURVE_POINTS)
    values = [point.value for point in points if point.value is not None]
    spread = f", from {min(values):.4g} to {max(values):.4g}" if values else ""
    summary = f"{metric.name} over {metric.count} steps{spread}."
    return metric_curve(
        name="run-metric",
        summary=summary,
        steps=[point.step for point in points],
        values=[point.value for point in points],
    )


def _siblings(run: Run) -> list[Sibling]:
    """Return numbers of similar runs, the closest relation first. A relation without further
    runs is omitted.
    """
    counts = siblings_of(run).counts
    siblings: list[Sibling] = []
    for tier, relation in SIBLINGS.items():
        verified, weak = counts[tier], counts[f"{tier}_weak"]
        if max(verified, weak) > max((sibling.number for sibling in siblings), default=0):
            siblings.append(Sibling(relation, max(verified, weak), verified))
    return siblings


def _work(fingerprint: Fingerprint) -> list[Fact]:
    """Return the parts of a fingerprint as text."""
    code = fingerprint.code or fingerprint.code_weak
    seeds = fingerprint.seeds and ", ".join(
        f"{name} {value_text(fingerprint, name, digest)}"
        for name, digest in sorted(fingerprint.seeds.items())
    )
    return [
        Fact("Entry point", fingerprint.entry_name or UNKNOWN),
        *([Fact("Commit", commit_text(fingerprint))] if fingerprint.commit else []),
        Fact(
            "Code hash",
            hash_label(code) if code else UNKNOWN,
            "" if fingerprint.code or not code else "without uncommitted changes",
        ),
        Fact("Data", _data(fingerprint), _certainty(fingerprint.data, fingerprint.data_weak)),
        _start(fingerprint),
        Fact("Seeds", UNKNOWN if fingerprint.seeds is None else seeds or "unset"),
    ]


def _start(fingerprint: Fingerprint) -> Fact:
    digest = fingerprint.start or fingerprint.start_weak
    if not digest:
        return Fact("Initial weights", UNKNOWN)
    certainty = (
        ""
        if fingerprint.start_name == "scratch"
        else _certainty(fingerprint.start, fingerprint.start_weak)
    )
    return Fact("Initial weights", fingerprint.start_name or hash_label(digest), certainty)


def _certainty(verified: str, weak: str) -> str:
    return "by content" if verified else "by names, sizes and times" if weak else ""


def _data(fingerprint: Fingerprint) -> str:
    if not fingerprint.data and not fingerprint.data_weak:
        return UNKNOWN
    items = [_item(item) for item in fingerprint.data_items]
    return "; ".join(items) if items else hash_label(fingerprint.data or fingerprint.data_weak)


def _item(item: Mapping[str, Any]) -> str:
    name = f"{item.get('role', 'data')} {item.get('name', '')}".strip()
    files = item.get("files")
    return (
        name
        if files is None
        else f"{name} ({files} file{'' if files == 1 else 's'}, {size(item.get('bytes', 0))})"
    )


def _params(run: Run, fingerprint: Fingerprint | None) -> list[tuple[str, str]]:
    """Return the compared parameters by canonical name, and those that only a tracker logged. A
    value that is not stored is displayed as its hash.
    """
    if fingerprint is None or fingerprint.params is None:
        return _pairs(run.params)
    compared = [
        (name, value_text(fingerprint, name, digest)) for name, digest in fingerprint.params.items()
    ]
    known = {*fingerprint.params, *(fingerprint.seeds or {}), *fingerprint.dropped}
    logged = fingerprint_from_params(run.params)
    others = {
        name: value
        for name, value in (logged.told or {}).items()
        if name not in known and name not in (logged.dropped or [])
    }
    return sorted([*compared, *((f"{name} (not compared)", text) for name, text in _pairs(others))])


def _pairs(values: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [(str(name), format_value(value)) for name, value in sorted(values.items())]
