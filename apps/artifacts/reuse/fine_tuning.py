"""Runs that adapted a model: what adapting one takes is told by what was measured here, and by nothing else."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django.db.models import Exists, OuterRef, Q

from apps.accounts.models import Lab
from apps.artifacts.choices import MODELS, Adaptation, Basis, Role
from apps.artifacts.models import Artifact, LineageEdge, ReuseTerm
from apps.artifacts.reuse.index import Reusable
from apps.artifacts.reuse.similarity import TermKind, words
from apps.runs.choices import Intent, RunState
from apps.runs.models import Fingerprint, Run
from apps.runs.services.fingerprints import values_known

UNTOLD = object()  # a value of which only the hash is known, and that it is none of ASKED
_METHOD_WORDS = {
    "lora": Adaptation.ADAPTERS, "qlora": Adaptation.ADAPTERS, "adalora": Adaptation.ADAPTERS, "dora": Adaptation.ADAPTERS,
    "full": Adaptation.ALL,
}  # fmt: skip
# What a hash is compared with.
ASKED = (True, False, None, 0, 1, "all", *_METHOD_WORDS, *(word.upper() for word in _METHOD_WORDS))
# True: the body is frozen and the head learns; false: nothing of it is.
_BODY = frozenset((
    "freeze_backbone", "freeze_encoder", "freeze_body", "freeze_base", "freeze_base_model", "frozen_backbone",
    "frozen_encoder", "frozen_body", "frozen_base", "train_head_only", "head_only", "linear_probe", "linear_probing",
))  # fmt: skip
# True or 'all' as above; a number or a list of layers: some are frozen.
_LAYERS = frozenset(("freeze", "frozen", "freeze_layers", "frozen_layers", "num_frozen_layers", "freeze_n_layers"))
_RANKS = frozenset(("lora_r", "lora_rank", "lora_dim"))
_ADAPTERS = frozenset(("lora", "use_lora", "qlora", "use_qlora"))
_METHODS = frozenset(("peft", "peft_type", "peft_method", "adapter", "adapter_type", "finetuning_type"))
_ALL = frozenset(("full_finetune", "full_finetuning", "full_fine_tuning", "finetune_all"))
# An 'r' is a rank beside one of these, or in a group called so.
_BESIDE = frozenset(("lora_alpha", "use_peft")) | _METHODS | _ADAPTERS
_GROUPS = frozenset(("lora", "peft", "lora_config", "peft_config"))
NAMES = _BODY | _LAYERS | _RANKS | _ADAPTERS | _METHODS | _ALL | _BESIDE | {"r"}
_STRONGEST_FIRST = (Adaptation.ADAPTERS, Adaptation.HEAD, Adaptation.PART, Adaptation.ALL)


def last_part(name: str) -> str:
    """Return by what a parameter is known here: the last part of its name, in small letters."""
    return name.rpartition(".")[2].lower()


def way_of(said: Mapping[str, Any]) -> Adaptation:
    """Return the way that parameters tell (name → value, or UNTOLD); of several the one that leaves most as it was."""
    parts = {last_part(name) for name in said}
    found = {_way(name, value, beside=bool(parts & _BESIDE)) for name, value in said.items()}
    return next((way for way in _STRONGEST_FIRST if way in found), Adaptation.NOT_TOLD)


def _way(name: str, value: Any, *, beside: bool) -> Adaptation | None:
    last, group = last_part(name), last_part(name.rpartition(".")[0])
    if last in _RANKS or (last == "r" and (beside or group in _GROUPS)):
        return Adaptation.ADAPTERS if value is UNTOLD or _is_some(value) else None
    if last in _ADAPTERS and _is_on(value):
        return Adaptation.ADAPTERS
    if last in _ADAPTERS | _METHODS and isinstance(value, str):
        return _METHOD_WORDS.get(value.lower())
    if last in _ALL and _is_on(value):
        return Adaptation.ALL
    return _frozen(last, value) if last in _BODY | _LAYERS else None


def _frozen(last: str, value: Any) -> Adaptation | None:
    if value is True or value == "all" or (last in _BODY and _is_on(value)):
        return Adaptation.HEAD
    if value == 0 or value == []:  # and false
        return Adaptation.ALL
    return Adaptation.PART if last in _LAYERS and (_is_some(value) or isinstance(value, list)) else None


def _is_on(value: Any) -> bool:
    return bool(value == 1)  # and true


def _is_some(value: Any) -> bool:
    """Return whether a value is a number of layers, or a rank."""
    return isinstance(value, int | float) and not isinstance(value, bool) and value >= 1


MOST = 20  # runs of each basis, the newest
_MOST_RUNS, _MOST_ALIKE = 100, 500
_NO_USE = (Intent.DEBUG, Intent.BENCHMARK)
# What a fingerprint says of what was trained on what: '' is unknown.
_Work = tuple[str, str, str]
_Alike = dict[int, set[tuple[int, Basis]]]


@dataclass(frozen=True)
class Adapting:
    """A finished run that adapted a model, and in which way as far as its parameters tell."""

    run: UUID
    way: Adaptation


@dataclass
class _Began:
    """A run with what it began from and the models it made, by number."""

    uuid: UUID
    starts: set[int] = field(default_factory=set)
    made: set[int] = field(default_factory=set)


def adapting(lab: Lab, offered: Sequence[Reusable]) -> dict[int, dict[Basis, list[Adapting]]]:
    """Return for each model (by number) the runs that adapted it, those that adapted or made one of the same architecture,
    and those of the same base model, the newest first.

    Such a run is finished, began from a model and made another: what only evaluates one makes none. Left out are runs to
    find errors or to measure speed, the model's own maker, and those that go on training: the same entry on the data of the
    run that made what they began from, unless their parameters tell that they adapt. Seven queries at most.
    """
    own = {each.artifact.pk: each.maker for each in offered}
    if not own:
        return {}
    alike = _alike(lab, [each.artifact for each in offered])
    began = _began(lab, own, {*own, *alike})
    ways = _ways(began)
    found: dict[int, dict[Basis, list[Adapting]]] = {pk: {basis: [] for basis in Basis} for pk in own}
    for run_id, run in began.items():
        if run_id not in ways:
            continue
        for pk, basis in _tells_of(run, own, alike):
            maker = own[pk]
            if len(found[pk][basis]) < MOST and (maker is None or maker.pk != run_id):
                found[pk][basis].append(Adapting(run.uuid, ways[run_id]))
    return found


def _tells_of(run: _Began, own: Collection[int], alike: _Alike) -> list[tuple[int, Basis]]:
    """Return of which of our own models a run tells, each once, by what is nearest."""
    told = {(pk, Basis.THIS) for pk in run.starts if pk in own}
    for other in run.starts | run.made:
        told |= alike.get(other, set())
    nearest = {basis: place for place, basis in enumerate(Basis)}
    by_model: dict[int, Basis] = {}
    for pk, basis in sorted(told, key=lambda each: nearest[each[1]]):
        by_model.setdefault(pk, basis)
    return list(by_model.items())


def _alike(lab: Lab, offered: Sequence[Artifact]) -> _Alike:
    """Return other models of the same architecture (the value of a parameter of the run that made them) or base model (as
    they say themselves), the newest of each, with whom they are like."""
    found: _Alike = defaultdict(set)
    terms: dict[str, set[int]] = defaultdict(set)
    named = ReuseTerm.objects.filter(artifact__in=offered, kind=TermKind.SAME_ARCHITECTURE)
    for term, pk in named.values_list("term", "artifact_id"):
        terms[term].add(pk)
    if terms:
        kept = ReuseTerm.objects.filter(lab=lab, kind=TermKind.SAME_ARCHITECTURE, term__in=list(terms))
        for term, other in kept.order_by("-artifact_id").values_list("term", "artifact_id")[:_MOST_ALIKE]:
            found[other] |= {(pk, Basis.ARCHITECTURE) for pk in terms[term]}
    bases: dict[str, set[int]] = defaultdict(set)
    for each in offered:
        base = each.facts.get("base_model") if isinstance(each.facts, dict) else None
        if isinstance(base, str) and words(base):
            bases[base].add(each.pk)
    if bases:
        longest = {max(words(base), key=len) for base in bases}
        kept = ReuseTerm.objects.filter(lab=lab, kind=TermKind.MODEL_WORD, term__in=longest)
        same = kept.filter(artifact__facts__base_model__in=list(bases)).order_by("-artifact_id")
        for other, base in same.values_list("artifact_id", "artifact__facts__base_model")[:_MOST_ALIKE]:
            found[other] |= {(pk, Basis.BASE_MODEL) for pk in bases[base]}
    return found


def _began(lab: Lab, own: Iterable[int], models: Iterable[int]) -> dict[int, _Began]:
    """Return the newest runs that began from a model, made another and have to do with ``models``; first those that began
    from one of ``own``."""
    edges = LineageEdge.objects.filter(run=OuterRef("pk"))
    starts = edges.filter(role=Role.INITIALISED_FROM)
    near = LineageEdge.objects.filter(artifact__in=list(models), role__in=(Role.INITIALISED_FROM, Role.PRODUCED))
    runs = Run.objects.filter(lab=lab, pk__in=near.values("run"), state=RunState.FINISHED).exclude(intent__in=_NO_USE)
    runs = runs.filter(Exists(starts), Exists(edges.filter(role=Role.PRODUCED, artifact__kind__in=MODELS)))
    newest = runs.annotate(is_own=Exists(starts.filter(artifact__in=list(own)))).order_by("-is_own", "-started_us", "-pk")
    found = {pk: _Began(uuid) for pk, uuid in newest.values_list("pk", "uuid")[:_MOST_RUNS]}
    told = LineageEdge.objects.filter(run__in=list(found)).filter(
        Q(role=Role.INITIALISED_FROM) | Q(role=Role.PRODUCED, artifact__kind__in=MODELS)
    )
    for run_id, artifact, role in told.values_list("run_id", "artifact_id", "role") if found else ():
        (found[run_id].starts if role == Role.INITIALISED_FROM else found[run_id].made).add(artifact)
    for run in found.values():
        run.starts -= run.made  # it went on from what it had made itself
    return {pk: run for pk, run in found.items() if run.starts and run.made}


def _ways(began: dict[int, _Began]) -> dict[int, Adaptation]:
    """Return in which way each run adapted, those left out that go on training."""
    if not began:
        return {}
    starts = {start for run in began.values() for start in run.starts}
    makers: dict[int, set[_Work]] = defaultdict(set)
    made = LineageEdge.objects.filter(artifact__in=starts, role=Role.PRODUCED, run__fingerprint__isnull=False)
    parts = ("run__fingerprint__entry", "run__fingerprint__data", "run__fingerprint__data_weak")
    for artifact, *work in made.values_list("artifact_id", *parts):
        makers[artifact].add((work[0], work[1], work[2]))
    prints = Fingerprint.objects.filter(run__in=list(began)).only("params", "told", "entry", "data", "data_weak")
    rows = {row.run_id: row for row in prints}
    found = {}
    for run_id, run in began.items():
        row = rows.get(run_id)
        said = {} if row is None else values_known(row, NAMES, among=ASKED, otherwise=UNTOLD)
        found[run_id] = way_of(said)
        if row is not None and found[run_id] in (Adaptation.ALL, Adaptation.NOT_TOLD):
            works = {work for start in run.starts for work in makers.get(start, ())}
            if any(_is_same((row.entry, row.data, row.data_weak), work) for work in works):
                del found[run_id]
    return found


def _is_same(here: _Work, there: _Work) -> bool:
    """Return whether two runs are of one entry on the same data, as far as is known; unknown is not the same."""
    entry, data, weak = ((bool(mine) and mine == theirs) for mine, theirs in zip(here, there))
    contents_differ = bool(here[1] and there[1]) and not data
    return entry and (data or (weak and not contents_differ))
