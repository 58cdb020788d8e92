"""Search for artifacts by architecture, data, metric, size and other criteria."""

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from decimal import Decimal
from typing import Any

from django.db import connection
from django.db.models import Max, Min, Q, QuerySet, TextField
from django.db.models.functions import Cast

from apps.accounts.models import Lab
from apps.artifacts.choices import CopyState, Kind, LineageRole, Medium
from apps.artifacts.models import Artifact, Copy, LineageEdge, ReuseTerm
from apps.artifacts.reuse.similarity import (
    ARCHITECTURE,
    KIND_OF_MODEL,
    TermKind,
    architecture_term,
    data_term,
    significant_words,
)
from apps.artifacts.selectors import ArtifactFilter, artifact_by_digest, filter_artifacts
from apps.core.errors import InvalidInput
from apps.core.text import is_unstorable
from apps.core.units import INT64_MAX
from apps.runs.metric_summary import is_lower_better
from apps.runs.services.fingerprints import lookup_param

NO_LICENCE = "~none"
_MAX_LENGTH = 200
_SIZE = re.compile(r"([0-9]{1,19}(?:\.[0-9]{1,6})?)\s*(b|kb|mb|gb|tb|pb|eb)?", re.IGNORECASE)
_UNITS = {name: 1000**power for power, name in enumerate(("b", "kb", "mb", "gb", "tb", "pb", "eb"))}


@dataclass(frozen=True)
class Search:
    """Search criteria; '' and None match everything.

    ``architecture``, ``base_model``, ``licence``: parts of the text; licence '~none': without a
    licence. ``data``: words of a dataset's name, or a digest of its content. ``metric``: its last
    value in the run that produced the artifact is within ``[metric_min, metric_max]``. Sizes in
    bytes, both bounds inclusive. ``medium``: of a present copy.
    """

    architecture: str = ""
    base_model: str = ""
    data: str = ""
    metric: str = ""
    metric_min: float | None = None
    metric_max: float | None = None
    bytes_min: int | None = None
    bytes_max: int | None = None
    licence: str = ""
    medium: str = ""


SEARCH_FIELDS = tuple(field.name for field in fields(Search))


def parse_search(params: Mapping[str, str]) -> Search:
    """Return the search of ``params``. Names outside SEARCH_FIELDS are ignored. Raises InvalidInput
    with the field.
    """
    values = {name: params.get(name, "").strip() for name in SEARCH_FIELDS}
    for name, value in values.items():
        if is_unstorable(value) or len(value) > _MAX_LENGTH:
            raise InvalidInput(
                "Invalid text in filter.",
                field=name,
                hint=f"Enter at most {_MAX_LENGTH} characters.",
            )
    if values["medium"] and values["medium"] not in Medium.values:
        hint = f"Use one of {', '.join(Medium.values)}."
        raise InvalidInput(f"Unknown medium {values['medium'][:40]!r}.", field="medium", hint=hint)
    search = Search(
        architecture=values["architecture"],
        base_model=values["base_model"],
        data=values["data"],
        metric=values["metric"],
        metric_min=_number(values, "metric_min"),
        metric_max=_number(values, "metric_max"),
        bytes_min=_bytes(values, "bytes_min"),
        bytes_max=_bytes(values, "bytes_max"),
        licence=values["licence"],
        medium=values["medium"],
    )
    _check(search)
    return search


def _check(search: Search) -> None:
    if not search.metric and (search.metric_min is not None or search.metric_max is not None):
        raise InvalidInput(
            "Bounds need a metric.", field="metric", hint="Enter its name, for example val_acc."
        )
    for low, high, name in (
        (search.metric_min, search.metric_max, "metric_max"),
        (search.bytes_min, search.bytes_max, "bytes_max"),
    ):
        if low is not None and high is not None and low > high:
            raise InvalidInput(
                "The upper bound is below the lower bound.", field=name, hint="Swap them."
            )


def _number(values: Mapping[str, str], name: str) -> float | None:
    if not values[name]:
        return None
    try:
        number = float(values[name])
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise InvalidInput(
            f"{values[name][:40]!r} is not a number.",
            field=name,
            hint="Enter a number such as 0.93 or 1e-3.",
        )
    return number


def _bytes(values: Mapping[str, str], name: str) -> int | None:
    if not values[name]:
        return None
    match = _SIZE.fullmatch(values[name])
    number = int(Decimal(match[1]) * _UNITS[(match[2] or "b").lower()]) if match else -1
    if not 0 <= number <= INT64_MAX:
        hint = "Enter bytes or a decimal unit, for example 500000, 500 kB or 1.5 GB."
        raise InvalidInput(f"{values[name][:40]!r} is not a size.", field=name, hint=hint)
    return number


_ORIGINS = (LineageRole.INITIALISED_FROM, LineageRole.DISTILLED_FROM)
_FAMILY = (TermKind.DATA_WORD, TermKind.PURPOSE_WORD)
_DIGEST_DIGITS = (32, 64)
_HEX = frozenset("0123456789abcdef")


def search_artifacts(lab: Lab, filters: ArtifactFilter, search: Search) -> QuerySet[Artifact]:
    """Return the matching artifacts of the lab, the latest first. Raises InvalidInput for data
    without significant words.
    """
    artifacts = _filter_without_metric(lab, filters, search)
    if search.metric:
        edges = LineageEdge.objects.filter(_metric_condition(search), lab=lab)
        artifacts = artifacts.filter(pk__in=edges.values("artifact"))
    return artifacts


def rank_by_metric(
    lab: Lab, filters: ArtifactFilter, search: Search, *, best_first: bool = True
) -> QuerySet[Artifact, Any]:
    """Return ``{"id", "metric_value"}`` of the matches of :func:`search_artifacts`, sorted by the
    metric.

    Values are those of :func:`metric_values`.
    """
    rows = (
        _filter_without_metric(lab, filters, search)
        .order_by()
        .filter(_metric_condition(search, "run_edges__"))
        .values("id")
    )
    value = _best_value(search, "run_edges__run__metrics__last_value")
    sign = "" if is_lower_better(search.metric) == best_first else "-"
    return rows.annotate(metric_value=value).order_by(f"{sign}metric_value", f"{sign}id")


def _filter_without_metric(lab: Lab, filters: ArtifactFilter, search: Search) -> QuerySet[Artifact]:
    artifacts = _with_json_texts(filter_artifacts(lab, filters))
    if search.architecture:
        artifacts = artifacts.filter(_architecture_condition(lab, search.architecture))
    if search.base_model:
        artifacts = artifacts.filter(_base_model_condition(lab, search.base_model))
    if search.data:
        artifacts = artifacts.filter(_data_condition(lab, search.data))
    if search.licence:
        artifacts = (
            artifacts.filter(licence="")
            if search.licence == NO_LICENCE
            else artifacts.filter(licence__icontains=search.licence)
        )
    if search.bytes_min is not None:
        artifacts = artifacts.filter(bytes__gte=search.bytes_min)
    if search.bytes_max is not None:
        artifacts = artifacts.filter(bytes__lte=search.bytes_max)
    if search.medium:
        copies = Copy.objects.filter(lab=lab, state=CopyState.PRESENT, medium=search.medium)
        artifacts = artifacts.filter(pk__in=copies.values("artifact"))
    return artifacts


def metric_values(numbers: Iterable[int], search: Search) -> dict[int, float]:
    """Return the last value of the searched metric by artifact.

    Of several runs that produced it, the best value within the bounds counts. One query; none
    without a metric.
    """
    if not search.metric:
        return {}
    edges = LineageEdge.objects.filter(
        _metric_condition(search), artifact__in=list(numbers)
    ).order_by()
    return dict(
        edges.values_list("artifact").annotate(
            value=_best_value(search, "run__metrics__last_value")
        )
    )


def _best_value(search: Search, path: str) -> Max | Min:
    return Min(path) if is_lower_better(search.metric) else Max(path)


def _metric_condition(search: Search, path: str = "") -> Q:
    """Match edges of runs that produced an artifact and reported the metric within its bounds."""
    value = f"{path}run__metrics__last_value"
    conditions: dict[str, Any] = {
        f"{path}role": LineageRole.PRODUCED,
        f"{path}run__metrics__name": search.metric,
        f"{value}__isnull": False,
    }
    if search.metric_min is not None:
        conditions[f"{value}__gte"] = search.metric_min
    if search.metric_max is not None:
        conditions[f"{value}__lte"] = search.metric_max
    return Q(**conditions)


def _with_json_texts(artifacts: QuerySet[Artifact]) -> QuerySet[Artifact]:
    return artifacts.alias(
        facts_text=Cast("facts", TextField()), tags_text=Cast("tags", TextField())
    )


def _mentions(names: Sequence[str], text: str) -> Q:
    """Match artifacts that mention ``text`` in one of the facts or tags ``names``.

    The whole JSON text is searched first: this is fast and rarely matches by accident.
    """
    stored = _as_stored(text)
    condition = Q()
    for name in names:
        condition |= Q(**{f"facts__{name}__icontains": text}) | Q(
            **{f"tags__{name}__icontains": text}
        )
    return (Q(facts_text__icontains=stored) | Q(tags_text__icontains=stored)) & condition


def _architecture_condition(lab: Lab, text: str) -> Q:
    """Match the architecture in facts and tags, and models whose run had this exact parameter
    value.

    If ``text`` contains no number, models with all of its words match as well.
    """
    condition = _mentions((*KIND_OF_MODEL, "modelspec.architecture"), text) | _exact_architecture(
        lab, text
    )
    text_words = significant_words(text)
    if not text_words or any(letter.isdecimal() for letter in text):
        return condition
    shared = Q()
    for word in text_words:
        shared &= Q(pk__in=_with_terms(lab, (TermKind.MODEL_WORD,), [word]))
    return condition | shared


def _exact_architecture(lab: Lab, text: str) -> Q:
    """Match models whose run had an architecture parameter with this value."""
    param_terms = (lookup_param(name, text) for name in ARCHITECTURE)
    return Q(
        pk__in=_with_terms(
            lab, (TermKind.SAME_ARCHITECTURE,), [architecture_term(*term) for term in param_terms]
        )
    )


def _as_stored(text: str) -> str:
    """Return a text as stored within JSON in the current database."""
    return json.dumps(text, ensure_ascii=connection.vendor != "postgresql")[1:-1]


def _base_model_condition(lab: Lab, text: str) -> Q:
    """Match facts and tags, and artifacts produced by a run that started from an artifact or start
    of this name or digest.
    """
    starts = Artifact.objects.filter(Q(name__icontains=text) | Q(digest=text.lower()), lab=lab)
    started = LineageEdge.objects.filter(
        lab=lab, role__in=_ORIGINS, artifact__in=starts.values("pk")
    )
    produced = LineageEdge.objects.filter(lab=lab, role=LineageRole.PRODUCED)
    named = produced.filter(run__fingerprint__start_name__icontains=text)
    return (
        _mentions(("base_model",), text)
        | Q(pk__in=produced.filter(run__in=started.values("run")).values("artifact"))
        | Q(pk__in=named.values("artifact"))
    )


def _data_condition(lab: Lab, text: str) -> Q:
    """Match models trained on data, and datasets, whose names contain all words of ``text``.

    With a digest: models trained on exactly this content.
    """
    digest = text.lower()
    if len(digest) in _DIGEST_DIGITS and set(digest) <= _HEX:
        return _trained_on(lab, digest)
    text_words = significant_words(text)
    if not text_words:
        hint = (
            "Enter a significant word (cats, imagenet) or the digest of a dataset. Use 'text' "
            "for other words of a name."
        )
        raise InvalidInput(f"{text[:40]!r} contains no significant word.", field="data", hint=hint)
    condition = Q()
    for word in text_words:
        condition &= Q(pk__in=_with_terms(lab, _FAMILY, [word])) | Q(
            kind=Kind.DATASET, name__icontains=word
        )
    return condition


def _trained_on(lab: Lab, digest: str) -> Q:
    data = artifact_by_digest(lab, digest)
    if data is None:
        return Q(pk__in=[])
    readers = LineageEdge.objects.filter(lab=lab, role=LineageRole.USED, artifact=data).values(
        "run"
    )
    produced = LineageEdge.objects.filter(lab=lab, role=LineageRole.PRODUCED, run__in=readers)
    same_data = _with_terms(lab, (TermKind.SAME_DATA,), [data_term(data.data_key)])
    return Q(pk__in=same_data) | Q(pk__in=produced.values("artifact")) | Q(pk=data.pk)


def _with_terms(
    lab: Lab, kinds: Sequence[TermKind], terms: Sequence[str]
) -> QuerySet[ReuseTerm, Any]:
    return ReuseTerm.objects.filter(lab=lab, kind__in=kinds, term__in=terms).values("artifact")
