"""Fine-tuning candidates for a planned training, with their energy."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any
from uuid import UUID

from django.conf import settings
from django.urls import reverse

from apps.accounts.models import Lab
from apps.artifacts.choices import FineTuningMethod, SimilarityBasis
from apps.artifacts.reuse.fine_tuning_energy import FineTuningRun, find_fine_tuning_runs
from apps.artifacts.reuse.model_index import ReusableModel, find_reusable, terms_of_row
from apps.artifacts.storage_model import Spread, compute_saving, compute_spread
from apps.carbon.figures.energy import Figure, figures_of_runs
from apps.preflight.choices import Verdict
from apps.preflight.presenters import Requester, emission_of
from apps.preflight.verdicts import Finding
from apps.runs.models import Fingerprint, Run
from apps.runs.selectors import metrics_of

MAX_SUGGESTIONS = 3
SCRATCH = "scratch"
_Figures = Mapping[UUID, Figure]
_ByBasis = Mapping[SimilarityBasis, Sequence[FineTuningRun]]


def suggest_reuse(
    lab: Lab, row: Fingerprint, judgement: Finding, requester: Requester, tags: Mapping[str, object]
) -> list[dict[str, Any]]:
    """Return up to three fine-tuning candidates, with the energy and the saving of fine-tuning in
    this lab.

    Order: similarity, then saving. The list is empty for a duplicate, for a run that starts from a
    model, and for a requester who may not read runs.
    """
    if (
        judgement.verdict != Verdict.NONE
        or row.start_name not in ("", SCRATCH)
        or not requester.reads
    ):
        return []
    models = find_reusable(lab, terms_of_row(row, tags), limit=MAX_SUGGESTIONS)
    makers = [model.producing_run for model in models if model.producing_run is not None]
    adapted = find_fine_tuning_runs(lab, models)
    runs = {run.uuid for run in makers} | {
        model.run for by_basis in adapted.values() for part in by_basis.values() for model in part
    }
    figures = figures_of_runs(lab, sorted(runs))
    metrics = metrics_of([run.pk for run in makers])
    ranked = [
        (model.rank, _suggestion(model, figures, metrics, adapted[model.artifact.pk], requester))
        for model in models
    ]
    return [
        offer for _, offer in sorted(ranked, key=lambda model: (model[0], -_known_saved(model[1])))
    ]


def _known_saved(offer: Mapping[str, Any]) -> int:
    return int(offer["saved"]["energy_mj"]) if offer["saved"] else 0


def _suggestion(
    model: ReusableModel,
    figures: _Figures,
    metrics: dict[int, tuple[str, float]],
    adapted: _ByBasis,
    requester: Requester,
) -> dict[str, Any]:
    artifact, run = model.artifact, model.producing_run
    metric = metrics.get(run.pk) if run else None
    figure = figures.get(run.uuid) if run else None
    return {
        "digest": artifact.digest,
        "name": artifact.name,
        "url": f"{settings.SITE_URL}{reverse('artifact', args=[artifact.digest])}",
        "why": model.why,
        "who": _who(run, requester),
        "licence": artifact.licence or None,
        "bytes": artifact.bytes,
        "metric": {"name": metric[0], "value": metric[1]} if metric else None,
        "energy_mj": figure.energy_mj if figure else None,
        "emission_ug": emission_of(figure),
        **_saved(figure, adapted, figures),
    }


def _who(run: Run | None, requester: Requester) -> str | None:
    return requester.who(run) if run is not None else None


def _saved(figure: Figure | None, adapted: _ByBasis, figures: _Figures) -> dict[str, Any]:
    """Return energy and saving of fine-tuning by the most similar measured runs, in total and by
    method.
    """
    measured = {
        basis: [run for run in runs if run.run in figures] for basis, runs in adapted.items()
    }
    basis = next((basis for basis in SimilarityBasis if measured.get(basis)), None)
    runs = measured[basis] if basis is not None else []
    producing_mj = figure.energy_mj if figure else None
    spread = compute_spread([figures[run.run].energy_mj for run in runs])
    emitted = _emitted([figures[run.run] for run in runs])
    saved, saved_ug = (
        compute_saving(producing_mj, spread),
        compute_saving(emission_of(figure), emitted),
    )
    return {
        "adapting": spread
        and {
            "basis": basis,
            "runs": spread.runs,
            "energy_mj": spread.median,
            "low_mj": spread.low,
            "high_mj": spread.high,
            "emission_ug": emitted.median if emitted else None,
        },
        "adapted_unmeasured": len(adapted.get(SimilarityBasis.THIS, ()))
        - len(measured.get(SimilarityBasis.THIS, ())),
        "saved": saved
        and {
            "energy_mj": saved.saved,
            "low_mj": saved.low,
            "high_mj": saved.high,
            "emission_ug": saved_ug.saved if saved_ug else None,
        },
        "ways": _ways(producing_mj, runs, figures),
    }


def _emitted(figures: Collection[Figure]) -> Spread | None:
    """Return the emissions of runs, or None if those of one run are unknown."""
    known = [value for figure in figures if (value := emission_of(figure)) is not None]
    return compute_spread(known) if len(known) == len(figures) else None


def _ways(
    producing_mj: int | None, runs: Sequence[FineTuningRun], figures: _Figures
) -> list[dict[str, Any]]:
    """Return the energy of each fine-tuning method, the lowest first. Together they cover all
    ``runs``.
    """
    by_way = {
        way: compute_spread([figures[run.run].energy_mj for run in runs if run.method == way])
        for way in FineTuningMethod
    }
    spreads = sorted(
        ((spread.median, way, spread) for way, spread in by_way.items() if spread is not None),
        key=lambda row: row[:2],
    )
    return [
        {
            "way": way,
            "runs": spread.runs,
            "energy_mj": spread.median,
            "low_mj": spread.low,
            "high_mj": spread.high,
            "saved_mj": saved.saved if (saved := compute_saving(producing_mj, spread)) else None,
        }
        for _, way, spread in spreads
    ]
