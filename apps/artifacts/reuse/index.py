"""Models that may be adapted: their terms are kept as they become known, and looked up in two queries."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from django.db import transaction
from django.db.models import Count, Q

from apps.accounts.models import Lab
from apps.artifacts.choices import MODELS, ArtifactState, CopyState, Role
from apps.artifacts.models import Artifact, Copy, LineageEdge, ReuseTerm
from apps.artifacts.reuse.similarity import MOST_TOLD, Offer, Term, TermKind, offers, terms_of_model, terms_of_work
from apps.runs.models import Fingerprint, Run

_STATES = (ArtifactState.STORED, ArtifactState.CANDIDATE, ArtifactState.PROMOTED, ArtifactState.ARCHIVED)
_PREFERENCE = {ArtifactState.PROMOTED: 0, ArtifactState.CANDIDATE: 1, ArtifactState.ARCHIVED: 3}
_MOST = 500
# What data are called and what a model is for are said in the same words.
_LIKE = dict.fromkeys((TermKind.DATA_WORD, TermKind.PURPOSE_WORD), (TermKind.DATA_WORD, TermKind.PURPOSE_WORD))


@dataclass(frozen=True)
class Reusable:
    """A model that is there, the run that made it (None: nobody told), and what it shares."""

    artifact: Artifact
    maker: Run | None
    offer: Offer

    @property
    def place(self) -> tuple[Fraction, int]:
        """The likeliest have the least; of those equally like, promoted ones before candidates, archived ones last."""
        return -self.offer.score, _PREFERENCE.get(ArtifactState(self.artifact.state), 2)

    @property
    def why(self) -> str:
        """What it shares, in words."""
        named = f" ({', '.join(self.offer.words[:3])})" if self.offer.words else ""
        return ", ".join(kind.label for kind in self.offer.shared[:MOST_TOLD]) + named


def keep_terms(lab: Lab, artifacts: Sequence[Artifact]) -> None:
    """Write the terms of artifacts anew."""
    models = [each for each in artifacts if each.kind in MODELS]
    made: dict[int, list[Term]] = defaultdict(list)
    edges = LineageEdge.objects.filter(artifact__in=models, role=Role.PRODUCED).select_related("run__fingerprint")
    for edge in edges.order_by("pk"):
        made[edge.artifact_id] += terms_of_run(edge.run)
    rows = [
        ReuseTerm(lab=lab, artifact=each, kind=kind, term=term)
        for each in models
        for kind, term in dict.fromkeys([*made[each.pk], *terms_of_model(facts=each.facts, tags=each.tags)])
    ]
    with transaction.atomic():
        ReuseTerm.objects.filter(artifact__in=[each.pk for each in artifacts]).delete()
        ReuseTerm.objects.bulk_create(rows, ignore_conflicts=True, batch_size=500)


def terms_of_run(run: Run) -> list[Term]:
    """Return the terms of a stored run."""
    row = getattr(run, "fingerprint", None)
    return terms_of_row(row if row is not None else Fingerprint(), run.tags if isinstance(run.tags, dict) else {})


def terms_of_row(row: Fingerprint, tags: Mapping[str, object]) -> list[Term]:
    """Return the terms of a fingerprint, stored or as it was told."""
    names = [str(item.get("name", "")) for item in row.data_items if isinstance(item, dict)]
    return terms_of_work(data=row.data, data_names=names, params=row.params or {}, told=row.told or {}, tags=tags)


def reusable(
    lab: Lab, terms: Sequence[Term], *, most: int = 3, without: Iterable[str] = (), without_runs: Iterable[int] = ()
) -> list[Reusable]:
    """Return models that share something with a piece of work, the likeliest first, one of each run that made some.

    ``without``: digests that the work begins from already; ``without_runs``: numbers of runs whose models are left out. Five
    queries at most, and none where it has no terms.
    """
    if not terms:
        return []
    by_kind: dict[int, list[str]] = defaultdict(list)
    for kind, term in terms:
        for like in _LIKE.get(TermKind(kind), (TermKind(kind),)):
            by_kind[like].append(term)
    wanted = Q()
    for kind, told in by_kind.items():
        wanted |= Q(kind=kind, term__in=told)
    common = {
        (row["kind"], row["term"]): row["many"]
        for row in ReuseTerm.objects.filter(wanted, lab=lab).values("kind", "term").annotate(many=Count("artifact"))
    }
    if not common:
        return []
    rare = _rare(common)
    shared = ReuseTerm.objects.filter(rare, lab=lab, artifact__state__in=_STATES).exclude(artifact__digest__in=list(without))
    found = offers(shared.order_by("-artifact_id").values_list("artifact_id", "kind", "term")[: 20 * _MOST], common)[:_MOST]
    return _there(lab, found, most, without_runs)


def _rare(common: dict[Term, int]) -> Q:
    """Match the terms that tell models apart: those of fewer than some hundred, else the rarest."""
    chosen = [term for term, many in common.items() if many <= _MOST] or [min(common, key=lambda term: common[term])]
    found = Q()
    for kind, term in chosen:
        found |= Q(kind=kind, term=term)
    return found


def _there(lab: Lab, found: Sequence[Offer], most: int, without_runs: Iterable[int]) -> list[Reusable]:
    """Return those of which a copy is there, one a run."""
    by_pk = {each.artifact: each for each in found}
    copies = Copy.objects.filter(lab=lab, state=CopyState.PRESENT, artifact__in=list(by_pk)).values("artifact")
    rows = Artifact.objects.filter(pk__in=copies).select_related("project", "owner")
    makers = {
        edge.artifact_id: edge.run
        for edge in LineageEdge.objects.filter(artifact__in=copies, role=Role.PRODUCED).select_related("run").order_by("pk")
    }
    listed = [Reusable(each, makers.get(each.pk), by_pk[each.pk]) for each in rows]
    told: list[Reusable] = []
    seen = set(without_runs)
    for each in sorted(listed, key=lambda each: (each.place, -each.artifact.registered_us, each.artifact.pk)):
        if each.maker is not None and each.maker.pk in seen:
            continue
        if each.maker is not None:
            seen.add(each.maker.pk)
        told.append(each)
        if len(told) == most:
            break
    return told
