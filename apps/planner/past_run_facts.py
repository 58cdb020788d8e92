"""Reads of a past run as the start of a plan: what it knows of its training."""

from dataclasses import dataclass
from typing import Any

from apps.accounts.models import Lab
from apps.planner.formulas.work import Work
from apps.planner.models import Estimate
from apps.planner.parameter_names import NamedTraining, training_from_params, work_from_params
from apps.planner.past_runs import EXCLUDED_INTENTS, Measured, measured_use
from apps.runs.choices import RunState
from apps.runs.models import Run

SHOWN_RUNS = 30


@dataclass(frozen=True)
class PastTraining:
    """A run, and what is known of it. ``named``: by its parameters. ``stored``: input of its
    estimate, None without one. ``use``: None if nothing was measured.
    """

    run: Run
    work: Work
    named: NamedTraining
    stored: dict[str, Any] | None
    use: Measured | None
    has_fingerprint: bool


def past_training(run: Run) -> PastTraining:
    """Return what a run knows of its training. Three queries."""
    row = getattr(run, "fingerprint", None)
    params = {**run.params, **(row.told if row else {})}
    stored = Estimate.objects.filter(run=run).values_list("input", flat=True).first()
    return PastTraining(
        run=run,
        work=work_from_params(params),
        named=training_from_params(params),
        stored=stored,
        use=measured_use(run.lab, [run.uuid]).get(run.uuid),
        has_fingerprint=row is not None,
    )


def newest_finished_runs(lab: Lab) -> list[Run]:
    """Return the newest finished runs that a training can be like. One query."""
    runs = Run.objects.filter(lab=lab, state=RunState.FINISHED).exclude(intent__in=EXCLUDED_INTENTS)
    return list(runs.order_by("-started_us", "-pk").only("uuid", "name", "started_us")[:SHOWN_RUNS])
