"""Measured runs that fine-tuned a model, as evidence for the energy of fine-tuning."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django.db.models import Exists, OuterRef, Q

from apps.accounts.models import Lab
from apps.artifacts.choices import MODELS, FineTuningMethod, LineageRole, SimilarityBasis
from apps.artifacts.models import Artifact, LineageEdge, ReuseTerm
from apps.artifacts.reuse.model_index import ReusableModel
from apps.artifacts.reuse.similarity import TermKind, significant_words
from apps.runs.choices import Intent, RunState
from apps.runs.models import Fingerprint, Run
from apps.runs.services.fingerprints import resolve_param_values

HASH_ONLY = object()  # only the hash is known, and it matches none of COMPARED_VALUES
_METHOD_WORDS = {
    "lora": FineTuningMethod.ADAPTERS,
    "qlora": FineTuningMethod.ADAPTERS,
    "adalora": FineTuningMethod.ADAPTERS,
    "dora": FineTuningMethod.ADAPTERS,
    "full": FineTuningMethod.ALL,
}
# Values whose hashes are compared.
COMPARED_VALUES = (
    True,
    False,
    None,
    0,
    1,
    "all",
    *_METHOD_WORDS,
    *(word.upper() for word in _METHOD_WORDS),
)
# True: the body is frozen and the head is trained. False: nothing is frozen.
_BODY = frozenset((
    "freeze_backbone", "freeze_encoder", "freeze_body", "freeze_base", "freeze_base_model",
    "frozen_backbone", "frozen_encoder", "frozen_body", "frozen_base", "train_head_only",
    "head_only", "linear_probe", "linear_probing",
))  # fmt: skip
# True or 'all' as above; a number or a list of layers: some are frozen.
_LAYERS = frozenset(
    ("freeze", "frozen", "freeze_layers", "frozen_layers", "num_frozen_layers", "freeze_n_layers")
)
_RANKS = frozenset(("lora_r", "lora_rank", "lora_dim"))
_ADAPTERS = frozenset(("lora", "use_lora", "qlora", "use_qlora"))
_METHODS = frozenset(
    ("peft", "peft_type", "peft_method", "adapter", "adapter_type", "finetuning_type")
)
_ALL = frozenset(("full_finetune", "full_finetuning", "full_fine_tuning", "finetune_all"))
# An 'r' is a rank beside one of these, or in a group called so.
_BESIDE = frozenset(("lora_alpha", "use_peft")) | _METHODS | _ADAPTERS
_GROUPS = frozenset(("lora", "peft", "lora_config", "peft_config"))
PARAMETER_NAMES = _BODY | _LAYERS | _RANKS | _ADAPTERS | _METHODS | _ALL | _BESIDE | {"r"}
_STRONGEST_FIRST = (
    FineTuningMethod.ADAPTERS,
    FineTuningMethod.HEAD,
    FineTuningMethod.PART,
    FineTuningMethod.ALL,
)


def last_part(name: str) -> str:
    """Return the last part of a parameter's name, in lower case."""
    return name.rpartition(".")[2].lower()


def detect_method(params: Mapping[str, Any]) -> FineTuningMethod:
    """Return the fine-tuning method of parameters (name → value, or HASH_ONLY). Of several, the one
    that trains least.
    """
    parts = {last_part(name) for name in params}
    methods = {
        _parameter_method(name, value, beside=bool(parts & _BESIDE))
        for name, value in params.items()
    }
    return next((way for way in _STRONGEST_FIRST if way in methods), FineTuningMethod.UNKNOWN)


def _parameter_method(name: str, value: Any, *, beside: bool) -> FineTuningMethod | None:
    last, group = last_part(name), last_part(name.rpartition(".")[0])
    if last in _RANKS or (last == "r" and (beside or group in _GROUPS)):
        return FineTuningMethod.ADAPTERS if value is HASH_ONLY or _is_count(value) else None
    if last in _ADAPTERS and _is_on(value):
        return FineTuningMethod.ADAPTERS
    if last in _ADAPTERS | _METHODS and isinstance(value, str):
        return _METHOD_WORDS.get(value.lower())
    if last in _ALL and _is_on(value):
        return FineTuningMethod.ALL
    return _freezing_method(last, value) if last in _BODY | _LAYERS else None


def _freezing_method(last: str, value: Any) -> FineTuningMethod | None:
    if value is True or value == "all" or (last in _BODY and _is_on(value)):
        return FineTuningMethod.HEAD
    if value == 0 or value == []:  # and false
        return FineTuningMethod.ALL
    return (
        FineTuningMethod.PART
        if last in _LAYERS and (_is_count(value) or isinstance(value, list))
        else None
    )


def _is_on(value: Any) -> bool:
    return bool(value == 1)  # and true


def _is_count(value: Any) -> bool:
    """Return whether a value is a number of layers or a rank."""
    return isinstance(value, int | float) and not isinstance(value, bool) and value >= 1


MAX_RUNS_PER_BASIS = 20  # runs of each basis, the newest
_MAX_RUNS, _MAX_SIMILAR = 100, 500
_EXCLUDED_INTENTS = (Intent.DEBUG, Intent.BENCHMARK, Intent.SERVICE, Intent.PROBE)
# Entry, data and weak data key of a fingerprint; '' is unknown.
_TrainingKey = tuple[str, str, str]
_SimilarModels = dict[int, set[tuple[int, SimilarityBasis]]]


@dataclass(frozen=True)
class FineTuningRun:
    """A finished run that fine-tuned a model, with the method detected from its parameters."""

    run: UUID
    method: FineTuningMethod


@dataclass
class _DerivedRun:
    """A run with the models that it started from and produced, by primary key."""

    uuid: UUID
    starts: set[int] = field(default_factory=set)
    models: set[int] = field(default_factory=set)


def find_fine_tuning_runs(
    lab: Lab, offered: Sequence[ReusableModel]
) -> dict[int, dict[SimilarityBasis, list[FineTuningRun]]]:
    """Return the fine-tuning runs of each model (by primary key) by basis, the newest first.

    The bases: runs that fine-tuned the model itself, a model of the same architecture, or one of
    the same base model. Such a run is finished, started from a model and produced another one. Left
    out are debug, benchmark, service and probe runs, the model's own run, and continued training:
    the same entry on the same data as the run that produced the start, unless the parameters show
    fine-tuning. Seven queries at most.
    """
    own = {model.artifact.pk: model.producing_run for model in offered}
    if not own:
        return {}
    similar = _similar_models(lab, [model.artifact for model in offered])
    derived = _derived_runs(lab, own, {*own, *similar})
    methods = _methods_by_run(derived)
    result: dict[int, dict[SimilarityBasis, list[FineTuningRun]]] = {
        pk: {basis: [] for basis in SimilarityBasis} for pk in own
    }
    for run_id, run in derived.items():
        if run_id not in methods:
            continue
        for pk, basis in _evidence_for(run, own, similar):
            maker = own[pk]
            if len(result[pk][basis]) < MAX_RUNS_PER_BASIS and (
                maker is None or maker.pk != run_id
            ):
                result[pk][basis].append(FineTuningRun(run.uuid, methods[run_id]))
    return result


def _evidence_for(
    run: _DerivedRun, own: Collection[int], similar: _SimilarModels
) -> list[tuple[int, SimilarityBasis]]:
    """Return the models for which a run is evidence, each once, by the closest basis."""
    evidence = {(pk, SimilarityBasis.THIS) for pk in run.starts if pk in own}
    for other in run.starts | run.models:
        evidence |= similar.get(other, set())
    nearest = {basis: rank for rank, basis in enumerate(SimilarityBasis)}
    by_model: dict[int, SimilarityBasis] = {}
    for pk, basis in sorted(evidence, key=lambda each: nearest[each[1]]):
        by_model.setdefault(pk, basis)
    return list(by_model.items())


def _similar_models(lab: Lab, models: Sequence[Artifact]) -> _SimilarModels:
    """Return other models of the same architecture (parameter value of their run) or base model (as
    reported), the newest of each.
    """
    similar: _SimilarModels = defaultdict(set)
    terms: dict[str, set[int]] = defaultdict(set)
    named = ReuseTerm.objects.filter(artifact__in=models, kind=TermKind.SAME_ARCHITECTURE)
    for term, pk in named.values_list("term", "artifact_id"):
        terms[term].add(pk)
    if terms:
        matching_terms = ReuseTerm.objects.filter(
            lab=lab, kind=TermKind.SAME_ARCHITECTURE, term__in=list(terms)
        )
        for term, other in matching_terms.order_by("-artifact_id").values_list(
            "term", "artifact_id"
        )[:_MAX_SIMILAR]:
            similar[other] |= {(pk, SimilarityBasis.ARCHITECTURE) for pk in terms[term]}
    bases: dict[str, set[int]] = defaultdict(set)
    for model in models:
        base = model.facts.get("base_model") if isinstance(model.facts, dict) else None
        if isinstance(base, str) and significant_words(base):
            bases[base].add(model.pk)
    if bases:
        longest = {max(significant_words(base), key=len) for base in bases}
        matching_terms = ReuseTerm.objects.filter(
            lab=lab, kind=TermKind.MODEL_WORD, term__in=longest
        )
        same = matching_terms.filter(artifact__facts__base_model__in=list(bases)).order_by(
            "-artifact_id"
        )
        for other, base in same.values_list("artifact_id", "artifact__facts__base_model")[
            :_MAX_SIMILAR
        ]:
            similar[other] |= {(pk, SimilarityBasis.BASE_MODEL) for pk in bases[base]}
    return similar


def _derived_runs(lab: Lab, own: Iterable[int], models: Iterable[int]) -> dict[int, _DerivedRun]:
    """Return the newest runs that started from a model, produced another and are related to
    ``models``.

    Runs that started from one of ``own`` come first.
    """
    edges = LineageEdge.objects.filter(run=OuterRef("pk"))
    starts = edges.filter(role=LineageRole.INITIALISED_FROM)
    related = LineageEdge.objects.filter(
        artifact__in=list(models), role__in=(LineageRole.INITIALISED_FROM, LineageRole.PRODUCED)
    )
    runs = Run.objects.filter(
        lab=lab, pk__in=related.values("run"), state=RunState.FINISHED
    ).exclude(intent__in=_EXCLUDED_INTENTS)
    runs = runs.filter(
        Exists(starts), Exists(edges.filter(role=LineageRole.PRODUCED, artifact__kind__in=MODELS))
    )
    newest = runs.annotate(is_own=Exists(starts.filter(artifact__in=list(own)))).order_by(
        "-is_own", "-started_us", "-pk"
    )
    derived = {pk: _DerivedRun(uuid) for pk, uuid in newest.values_list("pk", "uuid")[:_MAX_RUNS]}
    edges_of_runs = LineageEdge.objects.filter(run__in=list(derived)).filter(
        Q(role=LineageRole.INITIALISED_FROM)
        | Q(role=LineageRole.PRODUCED, artifact__kind__in=MODELS)
    )
    for run_id, artifact, role in (
        edges_of_runs.values_list("run_id", "artifact_id", "role") if derived else ()
    ):
        (
            derived[run_id].starts
            if role == LineageRole.INITIALISED_FROM
            else derived[run_id].models
        ).add(artifact)
    for run in derived.values():
        run.starts -= run.models  # the run resumed from its own checkpoint
    return {pk: run for pk, run in derived.items() if run.starts and run.models}


def _methods_by_run(derived: dict[int, _DerivedRun]) -> dict[int, FineTuningMethod]:
    """Return the method of each run, without runs that continue training."""
    if not derived:
        return {}
    starts = {start for run in derived.values() for start in run.starts}
    producers: dict[int, set[_TrainingKey]] = defaultdict(set)
    produced = LineageEdge.objects.filter(
        artifact__in=starts, role=LineageRole.PRODUCED, run__fingerprint__isnull=False
    )
    parts = ("run__fingerprint__entry", "run__fingerprint__data", "run__fingerprint__data_weak")
    for artifact, *work in produced.values_list("artifact_id", *parts):
        producers[artifact].add((work[0], work[1], work[2]))
    prints = Fingerprint.objects.filter(run__in=list(derived)).only(
        "params", "told", "entry", "data", "data_weak"
    )
    rows = {row.run_id: row for row in prints}
    methods = {}
    for run_id, run in derived.items():
        row = rows.get(run_id)
        params = (
            {}
            if row is None
            else resolve_param_values(
                row, PARAMETER_NAMES, among=COMPARED_VALUES, otherwise=HASH_ONLY
            )
        )
        methods[run_id] = detect_method(params)
        if row is not None and methods[run_id] in (FineTuningMethod.ALL, FineTuningMethod.UNKNOWN):
            works = {work for start in run.starts for work in producers.get(start, ())}
            if any(_is_same_training((row.entry, row.data, row.data_weak), work) for work in works):
                del methods[run_id]
    return methods


def _is_same_training(first: _TrainingKey, second: _TrainingKey) -> bool:
    """Return whether two runs have the same entry and data. Unknown values are not the same."""
    entry, data, weak = ((bool(mine) and mine == theirs) for mine, theirs in zip(first, second))
    contents_differ = bool(first[1] and second[1]) and not data
    return entry and (data or (weak and not contents_differ))
