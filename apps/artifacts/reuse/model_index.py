"""Index of terms of models, to find models that can be fine-tuned."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from django.db import transaction
from django.db.models import Count, Q

from apps.accounts.models import Lab
from apps.artifacts.choices import MODELS, ArtifactState, CopyState, LineageRole
from apps.artifacts.models import Artifact, Copy, LineageEdge, ReuseTerm
from apps.artifacts.reuse.similarity import (
    MAX_REASONS,
    Similarity,
    Term,
    TermKind,
    rank_similar,
    terms_of_model,
    terms_of_work,
)
from apps.runs.models import Fingerprint, Run

_STATES = (
    ArtifactState.STORED,
    ArtifactState.CANDIDATE,
    ArtifactState.PROMOTED,
    ArtifactState.ARCHIVED,
)
_PREFERENCE = {ArtifactState.PROMOTED: 0, ArtifactState.CANDIDATE: 1, ArtifactState.ARCHIVED: 3}
_MAX_MODELS = 500
# Names of data and purposes use the same words.
_COMPARABLE_KINDS = dict.fromkeys(
    (TermKind.DATA_WORD, TermKind.PURPOSE_WORD), (TermKind.DATA_WORD, TermKind.PURPOSE_WORD)
)


@dataclass(frozen=True)
class ReusableModel:
    """An available model, the run that produced it (None: unknown) and its similarity."""

    artifact: Artifact
    producing_run: Run | None
    similarity: Similarity

    @property
    def rank(self) -> tuple[Fraction, int]:
        """Return the sort key: higher scores first; of equal scores promoted models first, archived
        ones last.
        """
        return -self.similarity.score, _PREFERENCE.get(ArtifactState(self.artifact.state), 2)

    @property
    def why(self) -> str:
        """Return the shared properties as text."""
        named = f" ({', '.join(self.similarity.words[:3])})" if self.similarity.words else ""
        return ", ".join(kind.label for kind in self.similarity.shared[:MAX_REASONS]) + named


def save_terms(lab: Lab, artifacts: Sequence[Artifact]) -> None:
    """Replace the stored terms of artifacts."""
    models = [artifact for artifact in artifacts if artifact.kind in MODELS]
    run_terms: dict[int, list[Term]] = defaultdict(list)
    edges = LineageEdge.objects.filter(
        artifact__in=models, role=LineageRole.PRODUCED
    ).select_related("run__fingerprint")
    for edge in edges.order_by("pk"):
        run_terms[edge.artifact_id] += terms_of_run(edge.run)
    rows = [
        ReuseTerm(lab=lab, artifact=artifact, kind=kind, term=term)
        for artifact in models
        for kind, term in dict.fromkeys(
            [*run_terms[artifact.pk], *terms_of_model(facts=artifact.facts, tags=artifact.tags)]
        )
    ]
    with transaction.atomic():
        ReuseTerm.objects.filter(artifact__in=[artifact.pk for artifact in artifacts]).delete()
        ReuseTerm.objects.bulk_create(rows, ignore_conflicts=True, batch_size=500)


def terms_of_run(run: Run) -> list[Term]:
    """Return the terms of a stored run."""
    row = getattr(run, "fingerprint", None)
    return terms_of_row(
        row if row is not None else Fingerprint(), run.tags if isinstance(run.tags, dict) else {}
    )


def terms_of_row(row: Fingerprint, tags: Mapping[str, object]) -> list[Term]:
    """Return the terms of a fingerprint, stored or received."""
    names = [str(item.get("name", "")) for item in row.data_items if isinstance(item, dict)]
    return terms_of_work(
        data=row.data, data_names=names, params=row.params or {}, values=row.told or {}, tags=tags
    )


def find_reusable(
    lab: Lab,
    terms: Sequence[Term],
    *,
    limit: int = 3,
    without: Iterable[str] = (),
    without_runs: Iterable[int] = (),
) -> list[ReusableModel]:
    """Return models that share properties with a piece of work, the most similar first, one per
    run.

    ``without``: digests that the work starts from. ``without_runs``: runs whose models are left
    out, by primary key. Five queries at most; none without terms.
    """
    if not terms:
        return []
    by_kind: dict[int, list[str]] = defaultdict(list)
    for kind, term in terms:
        for comparable in _COMPARABLE_KINDS.get(TermKind(kind), (TermKind(kind),)):
            by_kind[comparable].append(term)
    condition = Q()
    for kind, kind_terms in by_kind.items():
        condition |= Q(kind=kind, term__in=kind_terms)
    common = {
        (row["kind"], row["term"]): row["many"]
        for row in ReuseTerm.objects.filter(condition, lab=lab)
        .values("kind", "term")
        .annotate(many=Count("artifact"))
    }
    if not common:
        return []
    rare = _rare_terms(common)
    shared = ReuseTerm.objects.filter(rare, lab=lab, artifact__state__in=_STATES).exclude(
        artifact__digest__in=list(without)
    )
    similar = rank_similar(
        shared.order_by("-artifact_id").values_list("artifact_id", "kind", "term")[
            : 20 * _MAX_MODELS
        ],
        common,
    )[:_MAX_MODELS]
    return _available(lab, similar, limit, without_runs)


def _rare_terms(common: dict[Term, int]) -> Q:
    """Match the terms that distinguish models: those of at most ``_MAX_MODELS`` models, else the
    rarest one.
    """
    rare = [term for term, many in common.items() if many <= _MAX_MODELS] or [
        min(common, key=lambda term: common[term])
    ]
    condition = Q()
    for kind, term in rare:
        condition |= Q(kind=kind, term=term)
    return condition


def _available(
    lab: Lab, similar: Sequence[Similarity], limit: int, without_runs: Iterable[int]
) -> list[ReusableModel]:
    """Return the models with a present copy, one per run."""
    by_pk = {each.artifact: each for each in similar}
    copies = Copy.objects.filter(lab=lab, state=CopyState.PRESENT, artifact__in=list(by_pk)).values(
        "artifact"
    )
    rows = Artifact.objects.filter(pk__in=copies).select_related("project", "owner")
    producers = {
        edge.artifact_id: edge.run
        for edge in LineageEdge.objects.filter(artifact__in=copies, role=LineageRole.PRODUCED)
        .select_related("run")
        .order_by("pk")
    }
    models = [ReusableModel(each, producers.get(each.pk), by_pk[each.pk]) for each in rows]
    selected: list[ReusableModel] = []
    seen = set(without_runs)
    for each in sorted(
        models, key=lambda each: (each.rank, -each.artifact.registered_us, each.artifact.pk)
    ):
        if each.producing_run is not None and each.producing_run.pk in seen:
            continue
        if each.producing_run is not None:
            seen.add(each.producing_run.pk)
        selected.append(each)
        if len(selected) == limit:
            break
    return selected
