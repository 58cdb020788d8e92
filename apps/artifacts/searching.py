"""Artifacts that fit a search, in set-based queries: what they say of themselves, and what is known of the runs that made
them. Words of models and data are looked up as those of reuse are (see ``reuse``)."""

import json
from collections.abc import Iterable, Sequence
from typing import Any

from django.db import connection
from django.db.models import Max, Min, Q, QuerySet, TextField
from django.db.models.functions import Cast

from apps.accounts.models import Lab
from apps.artifacts.choices import CopyState, Kind, Role
from apps.artifacts.models import Artifact, Copy, LineageEdge, ReuseTerm
from apps.artifacts.reuse.similarity import ARCHITECTURE, KIND_OF_MODEL, TermKind, architecture_term, data_term, words
from apps.artifacts.search import NOT_TOLD, Search
from apps.artifacts.selectors import Wanted, artifact_of, artifacts_of
from apps.core.errors import InvalidInput
from apps.runs.metric_summary import less_is_better
from apps.runs.services.fingerprints import found_by_param

_ORIGINS = (Role.INITIALISED_FROM, Role.DISTILLED_FROM)
_FAMILY = (TermKind.DATA_WORD, TermKind.PURPOSE_WORD)
_DIGEST_DIGITS = (32, 64)
_HEX = frozenset("0123456789abcdef")


def found_of(lab: Lab, wanted: Wanted, search: Search) -> QuerySet[Artifact]:
    """Return the lab's artifacts that fit, the latest first. Raises InvalidInput for data whose name says nothing."""
    found = _but_metric(lab, wanted, search)
    if search.metric:
        made = LineageEdge.objects.filter(_measured(search), lab=lab)
        found = found.filter(pk__in=made.values("artifact"))
    return found


def by_metric(lab: Lab, wanted: Wanted, search: Search, *, best_first: bool = True) -> QuerySet[Artifact, Any]:
    """Return ``{"id", "metric_value"}`` of what :func:`found_of` finds with a metric, by its value as :func:`metric_values`
    tells it."""
    rows = _but_metric(lab, wanted, search).order_by().filter(_measured(search, "run_edges__")).values("id")
    value = _best(search, "run_edges__run__metrics__last_value")
    sign = "" if less_is_better(search.metric) == best_first else "-"
    return rows.annotate(metric_value=value).order_by(f"{sign}metric_value", f"{sign}id")


def _but_metric(lab: Lab, wanted: Wanted, search: Search) -> QuerySet[Artifact]:
    found = _texts(artifacts_of(lab, wanted))
    if search.architecture:
        found = found.filter(_of_architecture(lab, search.architecture))
    if search.base_model:
        found = found.filter(_from_base(lab, search.base_model))
    if search.data:
        found = found.filter(_of_data(lab, search.data))
    if search.licence:
        found = found.filter(licence="") if search.licence == NOT_TOLD else found.filter(licence__icontains=search.licence)
    if search.bytes_min is not None:
        found = found.filter(bytes__gte=search.bytes_min)
    if search.bytes_max is not None:
        found = found.filter(bytes__lte=search.bytes_max)
    if search.medium:
        lying = Copy.objects.filter(lab=lab, state=CopyState.PRESENT, medium=search.medium)
        found = found.filter(pk__in=lying.values("artifact"))
    return found


def metric_values(numbers: Iterable[int], search: Search) -> dict[int, float]:
    """Return by artifact the last value of the metric asked for: of several runs that made it the best one within the
    bounds. One query; none where no metric is asked for."""
    if not search.metric:
        return {}
    edges = LineageEdge.objects.filter(_measured(search), artifact__in=list(numbers)).order_by()
    return dict(edges.values_list("artifact").annotate(value=_best(search, "run__metrics__last_value")))


def _best(search: Search, path: str) -> Max | Min:
    return Min(path) if less_is_better(search.metric) else Max(path)


def _measured(search: Search, path: str = "") -> Q:
    """Match edges of runs that made something and told a value of the metric within its bounds."""
    value = f"{path}run__metrics__last_value"
    asked: dict[str, Any] = {
        f"{path}role": Role.PRODUCED, f"{path}run__metrics__name": search.metric, f"{value}__isnull": False,
    }  # fmt: skip
    if search.metric_min is not None:
        asked[f"{value}__gte"] = search.metric_min
    if search.metric_max is not None:
        asked[f"{value}__lte"] = search.metric_max
    return Q(**asked)


def _texts(found: QuerySet[Artifact]) -> QuerySet[Artifact]:
    return found.alias(facts_text=Cast("facts", TextField()), tags_text=Cast("tags", TextField()))


def _says(names: Sequence[str], text: str) -> Q:
    """Match what says ``text`` of itself under one of ``names``. Looked for in the whole first: that is quick, and seldom
    true in vain."""
    stored = _as_stored(text)
    told = Q()
    for name in names:
        told |= Q(**{f"facts__{name}__icontains": text}) | Q(**{f"tags__{name}__icontains": text})
    return (Q(facts_text__icontains=stored) | Q(tags_text__icontains=stored)) & told


def _of_architecture(lab: Lab, text: str) -> Q:
    """Match what says it of itself, models whose run had a parameter of just this value and, where ``text`` has no number,
    models whose words hold all of its words: numbers say nothing there."""
    found = _says((*KIND_OF_MODEL, "modelspec.architecture"), text) | _exactly(lab, text)
    said = words(text)
    if not said or any(letter.isdecimal() for letter in text):
        return found
    shared = Q()
    for word in said:
        shared &= Q(pk__in=_with_terms(lab, (TermKind.MODEL_WORD,), [word]))
    return found | shared


def _exactly(lab: Lab, text: str) -> Q:
    """Match models whose run had a parameter of an architecture with this value."""
    told = (found_by_param(name, text) for name in ARCHITECTURE)
    return Q(pk__in=_with_terms(lab, (TermKind.SAME_ARCHITECTURE,), [architecture_term(*each) for each in told]))


def _as_stored(text: str) -> str:
    """Return a text as it stands within JSON in the database at hand."""
    return json.dumps(text, ensure_ascii=connection.vendor != "postgresql")[1:-1]


def _from_base(lab: Lab, text: str) -> Q:
    """Match what says so of itself, and what a run made that began from an artifact of this name or digest, or from a start
    that its fingerprint calls so."""
    starts = Artifact.objects.filter(Q(name__icontains=text) | Q(digest=text.lower()), lab=lab)
    began = LineageEdge.objects.filter(lab=lab, role__in=_ORIGINS, artifact__in=starts.values("pk"))
    made = LineageEdge.objects.filter(lab=lab, role=Role.PRODUCED)
    called = made.filter(run__fingerprint__start_name__icontains=text)
    return (
        _says(("base_model",), text)
        | Q(pk__in=made.filter(run__in=began.values("run")).values("artifact"))
        | Q(pk__in=called.values("artifact"))
    )


def _of_data(lab: Lab, text: str) -> Q:
    """Match models made from data, and data sets, whose names share all words of ``text``; with a digest, models made from
    just this content."""
    digest = text.lower()
    if len(digest) in _DIGEST_DIGITS and set(digest) <= _HEX:
        return _made_from(lab, digest)
    said = words(text)
    if not said:
        hint = "Name what it is of (cats, imagenet), or give a data set's digest; other words of a name are found by 'text'."
        raise InvalidInput(f"{text[:40]!r} says nothing of data.", field="data", hint=hint)
    asked = Q()
    for word in said:
        asked &= Q(pk__in=_with_terms(lab, _FAMILY, [word])) | Q(kind=Kind.DATASET, name__icontains=word)
    return asked


def _made_from(lab: Lab, digest: str) -> Q:
    data = artifact_of(lab, digest)
    if data is None:
        return Q(pk__in=[])
    read = LineageEdge.objects.filter(lab=lab, role=Role.USED, artifact=data).values("run")
    made = LineageEdge.objects.filter(lab=lab, role=Role.PRODUCED, run__in=read)
    same = _with_terms(lab, (TermKind.SAME_DATA,), [data_term(data.data_key)])
    return Q(pk__in=same) | Q(pk__in=made.values("artifact")) | Q(pk=data.pk)


def _with_terms(lab: Lab, kinds: Sequence[TermKind], terms: Sequence[str]) -> QuerySet[ReuseTerm, Any]:
    return ReuseTerm.objects.filter(lab=lab, kind__in=kinds, term__in=terms).values("artifact")
