"""Models that can be fine-tuned instead of an artifact, with the evidence of their similarity."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from apps.artifacts.choices import Kind, LineageRole
from apps.artifacts.models import Artifact, LineageEdge, ReuseTerm
from apps.artifacts.reuse.model_index import ReusableModel, find_reusable
from apps.artifacts.reuse.similarity import (
    MAX_TERMS,
    Term,
    TermKind,
    data_term,
    significant_words,
    terms_of_model,
)
from apps.carbon.figures.energy import Figure, spans_of_runs
from apps.runs.metric_summary import is_lower_better
from apps.runs.models import Fingerprint, Metric, Run
from apps.runs.selectors import metrics_of

MAX_CANDIDATES = 20
# The most similar, the best, the smallest, the largest saving, those with a licence first.
ORDERS = ("likeness", "metric", "bytes", "energy", "licence")
_SCRATCH = ("", "scratch")
Span = tuple[Figure, int, int]


@dataclass(frozen=True)
class Candidate:
    """An available model. ``metric``: (name, last value) of the run that produced it. ``span``:
    figure and hours of that run.

    None: unknown. ``has_same_start``: both were trained from the same start.
    """

    model: ReusableModel
    has_same_start: bool
    is_derived: bool
    metric: tuple[str, float] | None
    span: Span | None

    @property
    def energy_mj(self) -> int | None:
        return self.span[0].energy_mj if self.span else None

    @property
    def why(self) -> str:
        """Return the shared properties as text."""
        more = (
            ", adapted from this one"
            if self.is_derived
            else ", the same start"
            if self.has_same_start
            else ""
        )
        return f"{self.model.why}{more}"


@dataclass(frozen=True)
class Candidates:
    """Candidates in order. ``metric``: the metric to compare by, '' for none. ``is_known``: the
    artifact has terms to compare.
    """

    candidates: list[Candidate]
    metric: str
    is_known: bool


def find_candidates(
    artifact: Artifact, *, limit: int = MAX_CANDIDATES, by: str = "likeness", metric: str = ""
) -> Candidates:
    """Return models that share data, purpose or architecture with an artifact, one per run.

    Runs that produced the artifact are left out. ``by``: one of ORDERS. ``metric``: by default the
    headline metric of the artifact's own run, else the most frequent one. 14 queries at most.
    """
    terms = _terms(artifact)
    producers = list(
        LineageEdge.objects.filter(artifact=artifact, role=LineageRole.PRODUCED).values_list(
            "run_id", flat=True
        )
    )
    models = find_reusable(
        artifact.lab, terms, limit=limit, without=[artifact.digest], without_runs=producers
    )
    runs = [model.producing_run for model in models if model.producing_run is not None]
    name, values = _metrics(producers, runs, metric)
    spans = spans_of_runs(artifact.lab, [run.uuid for run in runs])
    same_start, derived = _shared_starts(artifact, producers, runs)
    candidates = [
        Candidate(
            model,
            model.producing_run is not None and model.producing_run.pk in same_start,
            model.producing_run is not None and model.producing_run.pk in derived,
            values.get(model.producing_run.pk) if model.producing_run is not None else None,
            spans.get(model.producing_run.uuid) if model.producing_run is not None else None,
        )
        for model in models
    ]
    return Candidates(
        candidates if by == ORDERS[0] else sorted(candidates, key=_sort_key(by, name)),
        name,
        bool(terms),
    )


def _terms(artifact: Artifact) -> list[Term]:
    if artifact.kind in (Kind.MODEL, Kind.CHECKPOINT):
        stored_terms = ReuseTerm.objects.filter(artifact=artifact).order_by("kind", "term")
        return [
            (TermKind(kind), term)
            for kind, term in stored_terms.values_list("kind", "term")[:MAX_TERMS]
        ]
    if artifact.kind == Kind.DATASET:
        named = [(TermKind.DATA_WORD, word) for word in significant_words(artifact.name)]
        purpose = [
            term
            for term in terms_of_model(facts=artifact.facts, tags=artifact.tags)
            if term[0] == TermKind.PURPOSE_WORD
        ]
        return [(TermKind.SAME_DATA, data_term(artifact.data_key)), *named, *purpose][:MAX_TERMS]
    return []


def _metrics(
    producers: Sequence[int], runs: Sequence[Run], requested: str
) -> tuple[str, dict[int, tuple[str, float]]]:
    """Return the name of the metric to compare by, and the value of each run: of that metric, else
    of its own.
    """
    metrics = metrics_of([*producers, *(run.pk for run in runs)])
    own = next((metrics[pk][0] for pk in producers if pk in metrics), "")
    names = Counter(metrics[run.pk][0] for run in runs if run.pk in metrics)
    name = requested or own or min(names, key=lambda each: (-names[each], each), default="")
    metric_rows = Metric.objects.filter(
        run__in=[run.pk for run in runs], name=name, last_value__isnull=False
    )
    named = {
        run_id: (name, value)
        for run_id, value in metric_rows.values_list("run_id", "last_value")
        if value is not None
    }
    return name, {**metrics, **named}


def _shared_starts(
    artifact: Artifact, producers: Sequence[int], runs: Sequence[Run]
) -> tuple[set[int], set[int]]:
    """Return the runs with the same start as the artifact's own runs, and the runs that started
    from the artifact.
    """
    own = LineageEdge.objects.filter(
        run__in=producers, role=LineageRole.INITIALISED_FROM
    ).values_list("artifact_id", flat=True)
    starts = set(own)
    numbers = [run.pk for run in runs]
    start_edges = LineageEdge.objects.filter(
        run__in=numbers,
        artifact__in=[*starts, artifact.pk],
        role__in=(LineageRole.INITIALISED_FROM, LineageRole.DISTILLED_FROM),
    )
    edges = list(start_edges.values_list("run_id", "artifact_id", "role"))
    same_start = {
        run
        for run, start, role in edges
        if start in starts and role == LineageRole.INITIALISED_FROM
    }
    prints = (
        Fingerprint.objects.filter(run__in=[*producers, *numbers])
        .exclude(start="")
        .exclude(start_name__in=_SCRATCH)
    )
    starts_by_run = dict(prints.values_list("run_id", "start"))
    contents = {starts_by_run[pk] for pk in producers if pk in starts_by_run}
    same_start |= {pk for pk in numbers if starts_by_run.get(pk) in contents}
    return same_start, {run for run, start, _ in edges if start == artifact.pk}


def _sort_key(by: str, name: str) -> Callable[[Candidate], Any]:
    """Return the sort key of an order. Equal candidates stay ordered by similarity."""
    sign = 1 if is_lower_better(name) else -1

    def metric(each: Candidate) -> tuple[bool, float]:
        value = each.metric if each.metric is not None and each.metric[0] == name else None
        return value is None, sign * value[1] if value else 0.0

    keys: dict[str, Callable[[Candidate], Any]] = {
        "metric": metric,
        "bytes": lambda each: each.model.artifact.bytes,
        "energy": lambda each: (each.energy_mj is None, -(each.energy_mj or 0)),
        "licence": lambda each: (
            not each.model.artifact.licence,
            each.model.artifact.licence.casefold(),
        ),
    }
    return keys[by]
