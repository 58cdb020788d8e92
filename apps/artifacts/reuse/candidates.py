"""Models that could be adapted instead of an artifact, or beside it: by the rules of reuse, with what each rests on."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from apps.artifacts.choices import Kind, Role
from apps.artifacts.models import Artifact, LineageEdge, ReuseTerm
from apps.artifacts.reuse.index import Reusable, reusable
from apps.artifacts.reuse.similarity import MOST_TERMS, Term, TermKind, data_term, terms_of_model, words
from apps.carbon.figures.energy import Figure, spans_of_runs
from apps.runs.metric_summary import less_is_better
from apps.runs.models import Fingerprint, Metric, Run
from apps.runs.selectors import metrics_of

MOST = 20
# The likeliest, the best, the smallest, what saves most, those with a licence first.
ORDERS = ("likeness", "metric", "bytes", "energy", "licence")
_SCRATCH = ("", "scratch")
Span = tuple[Figure, int, int]


@dataclass(frozen=True)
class Candidate:
    """A model that is there. ``metric``: (name, last value) of the run that made it; ``span``: what that run used, and the
    hours that hold it; None: not known. ``has_same_start``: both were trained from the same start."""

    found: Reusable
    has_same_start: bool
    is_made_from_it: bool
    metric: tuple[str, float] | None
    span: Span | None

    @property
    def energy_mj(self) -> int | None:
        return self.span[0].energy_mj if self.span else None

    @property
    def why(self) -> str:
        """What it shares, in words."""
        more = ", adapted from this one" if self.is_made_from_it else ", the same start" if self.has_same_start else ""
        return f"{self.found.why}{more}"


@dataclass(frozen=True)
class Candidates:
    """Those found, in order. ``metric``: the name that they are compared by, '' for none; ``is_known``: whether anything is
    known of the artifact that another could share."""

    listed: list[Candidate]
    metric: str
    is_known: bool


def candidates_of(artifact: Artifact, *, most: int = MOST, by: str = "likeness", metric: str = "") -> Candidates:
    """Return models that share data, purpose or architecture with an artifact; of each run one, of the artifact's own runs
    none. ``by``: one of ORDERS; ``metric``: its name, else the one that says best how the artifact's own run went, else
    the one that most of them have. 14 queries at most."""
    terms = _terms(artifact)
    makers = list(LineageEdge.objects.filter(artifact=artifact, role=Role.PRODUCED).values_list("run_id", flat=True))
    found = reusable(artifact.lab, terms, most=most, without=[artifact.digest], without_runs=makers)
    runs = [each.maker for each in found if each.maker is not None]
    name, values = _metrics(makers, runs, metric)
    spans = spans_of_runs(artifact.lab, [run.uuid for run in runs])
    same, from_it = _starts(artifact, makers, runs)
    listed = [
        Candidate(
            each,
            each.maker is not None and each.maker.pk in same,
            each.maker is not None and each.maker.pk in from_it,
            values.get(each.maker.pk) if each.maker is not None else None,
            spans.get(each.maker.uuid) if each.maker is not None else None,
        )
        for each in found
    ]
    return Candidates(listed if by == ORDERS[0] else sorted(listed, key=_key(by, name)), name, bool(terms))


def _terms(artifact: Artifact) -> list[Term]:
    if artifact.kind in (Kind.MODEL, Kind.CHECKPOINT):
        kept = ReuseTerm.objects.filter(artifact=artifact).order_by("kind", "term")
        return [(TermKind(kind), term) for kind, term in kept.values_list("kind", "term")[:MOST_TERMS]]
    if artifact.kind == Kind.DATASET:
        named = [(TermKind.DATA_WORD, word) for word in words(artifact.name)]
        said = [
            term for term in terms_of_model(facts=artifact.facts, tags=artifact.tags) if term[0] == TermKind.PURPOSE_WORD
        ]
        return [(TermKind.SAME_DATA, data_term(artifact.data_key)), *named, *said][:MOST_TERMS]
    return []


def _metrics(makers: Sequence[int], runs: Sequence[Run], asked: str) -> tuple[str, dict[int, tuple[str, float]]]:
    """Return the name of the metric to compare by, and by run the value to show: of that metric, else of its own."""
    shown = metrics_of([*makers, *(run.pk for run in runs)])
    own = next((shown[pk][0] for pk in makers if pk in shown), "")
    names = Counter(shown[run.pk][0] for run in runs if run.pk in shown)
    name = asked or own or min(names, key=lambda each: (-names[each], each), default="")
    told = Metric.objects.filter(run__in=[run.pk for run in runs], name=name, last_value__isnull=False)
    named = {run_id: (name, value) for run_id, value in told.values_list("run_id", "last_value") if value is not None}
    return name, {**shown, **named}


def _starts(artifact: Artifact, makers: Sequence[int], runs: Sequence[Run]) -> tuple[set[int], set[int]]:
    """Return which runs began from what the artifact's own makers began from, and which from the artifact itself."""
    own = LineageEdge.objects.filter(run__in=makers, role=Role.INITIALISED_FROM).values_list("artifact_id", flat=True)
    starts = set(own)
    numbers = [run.pk for run in runs]
    began = LineageEdge.objects.filter(
        run__in=numbers, artifact__in=[*starts, artifact.pk], role__in=(Role.INITIALISED_FROM, Role.DISTILLED_FROM)
    )
    edges = list(began.values_list("run_id", "artifact_id", "role"))
    same = {run for run, start, role in edges if start in starts and role == Role.INITIALISED_FROM}
    prints = Fingerprint.objects.filter(run__in=[*makers, *numbers]).exclude(start="").exclude(start_name__in=_SCRATCH)
    told = dict(prints.values_list("run_id", "start"))
    contents = {told[pk] for pk in makers if pk in told}
    same |= {pk for pk in numbers if told.get(pk) in contents}
    return same, {run for run, start, _ in edges if start == artifact.pk}


def _key(by: str, name: str) -> Callable[[Candidate], Any]:
    """Return what sorts candidates; the likeliest stay before others that are equal."""
    sign = 1 if less_is_better(name) else -1

    def metric(each: Candidate) -> tuple[bool, float]:
        told = each.metric if each.metric is not None and each.metric[0] == name else None
        return told is None, sign * told[1] if told else 0.0

    keys: dict[str, Callable[[Candidate], Any]] = {
        "metric": metric,
        "bytes": lambda each: each.found.artifact.bytes,
        "energy": lambda each: (each.energy_mj is None, -(each.energy_mj or 0)),
        "licence": lambda each: (not each.found.artifact.licence, each.found.artifact.licence.casefold()),
    }
    return keys[by]
