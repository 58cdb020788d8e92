"""What somebody looks for among artifacts, as an address writes it. Pure."""

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
from apps.artifacts.choices import CopyState, Kind, Medium, Role
from apps.artifacts.models import Artifact, Copy, LineageEdge, ReuseTerm
from apps.artifacts.reuse.similarity import ARCHITECTURE, KIND_OF_MODEL, TermKind, architecture_term, data_term, words
from apps.artifacts.selectors import Wanted, artifact_of, artifacts_of
from apps.core.errors import InvalidInput
from apps.core.text import is_unstorable
from apps.core.units import INT64_MAX
from apps.runs.metric_summary import less_is_better
from apps.runs.services.fingerprints import found_by_param

NOT_TOLD = "~none"
_LONGEST = 200
_SIZE = re.compile(r"([0-9]{1,19}(?:\.[0-9]{1,6})?)\s*(b|kb|mb|gb|tb|pb|eb)?", re.IGNORECASE)
_UNITS = {name: 1000**power for power, name in enumerate(("b", "kb", "mb", "gb", "tb", "pb", "eb"))}


@dataclass(frozen=True)
class Search:
    """What is looked for; '' and None: anything.

    ``architecture``, ``base_model``, ``licence``: words of it, the licence '~none' where none was told. ``data``: words of a
    data set's name, or a digest of its content. ``metric``: the name of one, its last value of the run that made the
    artifact within ``[metric_min, metric_max]``. Sizes in bytes, both ends in. ``medium``: of a copy that is there.
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


FIELDS = tuple(field.name for field in fields(Search))


def search_of(params: Mapping[str, str]) -> Search:
    """Return what ``params`` look for; names that are not FIELDS are left alone. Raises InvalidInput, naming the field."""
    told = {name: params.get(name, "").strip() for name in FIELDS}
    for name, value in told.items():
        if is_unstorable(value) or len(value) > _LONGEST:
            raise InvalidInput(
                "A filter holds what no artifact can.", field=name, hint=f"Up to {_LONGEST} characters of text."
            )
    if told["medium"] and told["medium"] not in Medium.values:
        hint = f"Use one of {', '.join(Medium.values)}."
        raise InvalidInput(f"{told['medium'][:40]!r} is not known as medium.", field="medium", hint=hint)
    found = Search(
        architecture=told["architecture"], base_model=told["base_model"], data=told["data"], metric=told["metric"],
        metric_min=_number(told, "metric_min"), metric_max=_number(told, "metric_max"),
        bytes_min=_bytes(told, "bytes_min"), bytes_max=_bytes(told, "bytes_max"),
        licence=told["licence"], medium=told["medium"],
    )  # fmt: skip
    _check(found)
    return found


def _check(search: Search) -> None:
    if not search.metric and (search.metric_min is not None or search.metric_max is not None):
        raise InvalidInput("Bounds need the name of a metric.", field="metric", hint="Write it as runs tell it: val_acc.")
    for low, high, name in (
        (search.metric_min, search.metric_max, "metric_max"),
        (search.bytes_min, search.bytes_max, "bytes_max"),
    ):
        if low is not None and high is not None and low > high:
            raise InvalidInput("The upper bound lies below the lower one.", field=name, hint="Swap the two.")


def _number(told: Mapping[str, str], name: str) -> float | None:
    if not told[name]:
        return None
    try:
        number = float(told[name])
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise InvalidInput(f"{told[name][:40]!r} is no number.", field=name, hint="Write it like 0.93 or 1e-3.")
    return number


def _bytes(told: Mapping[str, str], name: str) -> int | None:
    if not told[name]:
        return None
    match = _SIZE.fullmatch(told[name])
    number = int(Decimal(match[1]) * _UNITS[(match[2] or "b").lower()]) if match else -1
    if not 0 <= number <= INT64_MAX:
        hint = "Write bytes, or decimal units: 500000, 500 kB, 1.5 GB."
        raise InvalidInput(f"{told[name][:40]!r} is no size.", field=name, hint=hint)
    return number


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
