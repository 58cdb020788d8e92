"""Models of the registry that could be adapted instead of a new training, with the energy of past
adaptations.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from uuid import UUID

from apps.accounts.models import Lab
from apps.artifacts.choices import MODELS, CopyState, LineageRole, SimilarityBasis
from apps.artifacts.models import LineageEdge
from apps.artifacts.reuse.fine_tuning_energy import FineTuningRun, find_fine_tuning_runs
from apps.artifacts.reuse.model_index import ReusableModel, find_reusable, terms_of_row
from apps.artifacts.reuse.similarity import Similarity, significant_words
from apps.artifacts.search import Search, search_artifacts
from apps.artifacts.selectors import ArtifactFilter
from apps.planner.evidence import Evidence
from apps.planner.formulas.ranges import Range, around, mean_and_spread, rounded, wider
from apps.planner.formulas.time_and_energy import OWN_LEAST, OWN_SINGLE
from apps.planner.past_runs import measured_use
from apps.planner.what_ifs.alternatives import Plan
from apps.runs.models import Run

MAX_MODELS = 20


@dataclass(frozen=True)
class Reuse:
    """Models that could be adapted, the most similar first. ``architecture``: of the search for
    them, '' if they were found by the fingerprint. ``runs``: measured adaptations, of ``basis``.
    """

    models: Sequence[ReusableModel]
    architecture: str
    runs: int
    basis: SimilarityBasis | None
    time_us: Range | None
    energy_mj: Range | None


def reuse_of(evidence: Evidence, plan: Plan) -> Reuse | None:
    """Return the models for a plan, None without one. 20 queries at most."""
    lab, architecture = evidence.lab, ""
    models: list[ReusableModel] = []
    if evidence.fingerprint is not None:
        models = find_reusable(lab, terms_of_row(evidence.fingerprint, {}), limit=MAX_MODELS)
    if not models and plan.model.origin == "preset":
        architecture = next(iter(significant_words(plan.model.name)), "")
        models = _models_by_architecture(lab, architecture)
    if not models:
        return None
    basis, runs = _closest_runs(lab, models)
    times = Run.objects.filter(lab=lab, uuid__in=list(runs), ended_us__isnull=False)
    spans = {
        uuid: ended_us - started_us
        for uuid, started_us, ended_us in times.values_list("uuid", "started_us", "ended_us")
        if ended_us is not None
    }
    return Reuse(
        models=models,
        architecture=architecture,
        runs=len(runs),
        basis=basis,
        time_us=_range([span for span in spans.values() if span]),
        energy_mj=_range(list(runs.values())),
    )


def _models_by_architecture(lab: Lab, architecture: str) -> list[ReusableModel]:
    if not architecture:
        return []
    filters, search = ArtifactFilter(copies=CopyState.PRESENT), Search(architecture=architecture)
    rows = list(search_artifacts(lab, filters, search).filter(kind__in=MODELS)[:MAX_MODELS])
    producers = {
        edge.artifact_id: edge.run
        for edge in LineageEdge.objects.filter(artifact__in=rows, role=LineageRole.PRODUCED)
        .select_related("run")
        .order_by("pk")
    }
    return [
        ReusableModel(row, producers.get(row.pk), Similarity(row.pk, Fraction(0), (), ()))
        for row in rows
    ]


def _closest_runs(
    lab: Lab, models: Sequence[ReusableModel]
) -> tuple[SimilarityBasis | None, dict[UUID, int]]:
    """Return the measured fine-tuning runs of the closest basis that has some, with their energy in
    mJ.
    """
    found = find_fine_tuning_runs(lab, models)
    listed: dict[SimilarityBasis, list[FineTuningRun]] = {
        basis: [run for by_basis in found.values() for run in by_basis[basis]]
        for basis in SimilarityBasis
    }
    use = measured_use(lab, {run.run for runs in listed.values() for run in runs})
    for basis, runs in listed.items():
        energies: dict[UUID, int] = {
            run.run: energy_mj
            for run in runs
            if run.run in use and (energy_mj := use[run.run].node_energy_mj)
        }
        if energies:
            return basis, energies
    return None, {}


def _range(values: Sequence[int]) -> Range | None:
    """Return the likely value of a further run like these, with the range of own runs."""
    if not values:
        return None
    likely, spread = mean_and_spread([Fraction(value) for value in values])
    return around(rounded(likely), wider(OWN_LEAST, spread or OWN_SINGLE))
