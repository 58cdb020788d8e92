"""Jobs of preflight."""

from apps.artifacts.services.lineage import join_run
from apps.core.clock import now_us
from apps.core.jobs import enqueue, job
from apps.preflight.choices import RepeatState
from apps.preflight.models import Repeat
from apps.preflight.services.findings import judge_run
from apps.runs.models import Run

MOST_AFTER = 50


@job("preflight.judge")
def judge_job(key: str) -> None:
    """Join run ``key`` with the artifacts it began from or read, judge it by those before it, and ask for those that were
    found to repeat it: they began later, so this ends.

    A run that was deleted meanwhile needs no judging.
    """
    run = Run.objects.select_related("lab", "parent").filter(pk=int(key)).first()
    if run is None:
        return
    join_run(run=run, now=now_us())
    judge_run(run=run, now=now_us())
    later = Repeat.objects.filter(of=run, state=RepeatState.OPEN).order_by("-pk").values_list("run_id", flat=True)
    for pk in later[:MOST_AFTER]:
        enqueue(kind="preflight.judge", key=str(pk))
