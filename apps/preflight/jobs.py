"""Jobs of preflight."""

from apps.artifacts.services.lineage import link_run
from apps.core.clock import now_us
from apps.core.jobs import enqueue, job
from apps.preflight.choices import FindingState
from apps.preflight.models import DuplicateFinding
from apps.preflight.services.findings import judge_run
from apps.preflight.services.recompute import RECOMPUTE, recompute
from apps.runs.models import Run

MAX_LATER_RUNS = 50


@job(RECOMPUTE)
def recompute_job(key: str) -> None:
    """Recompute some keys or verdicts of a lab, and enqueue the next job while some remain."""
    recompute(key)


@job("preflight.judge")
def judge_job(key: str) -> None:
    """Join run ``key`` with the artifacts it began from or read, judge it by those before it, and
    ask for those that were found to repeat it: they began later, so this ends.

    A run that was deleted meanwhile needs no judging.
    """
    run = Run.objects.select_related("lab", "parent").filter(pk=int(key)).first()
    if run is None:
        return
    link_run(run=run, now=now_us())
    judge_run(run=run, now=now_us())
    later_run_ids = (
        DuplicateFinding.objects.filter(original=run, state=FindingState.OPEN)
        .order_by("-pk")
        .values_list("run_id", flat=True)
    )
    for pk in later_run_ids[:MAX_LATER_RUNS]:
        enqueue(kind="preflight.judge", key=str(pk))
