"""Jobs of preflight."""

from apps.core.clock import now_us
from apps.core.jobs import handles
from apps.preflight.findings import judge_run
from apps.runs.models import Run


@handles("preflight.judge")
def judge_job(key: str) -> None:
    """Judge run ``key`` by those before it. A run that was deleted meanwhile needs no judging."""
    run = Run.objects.select_related("lab", "parent").filter(pk=int(key)).first()
    if run is not None:
        judge_run(run=run, now=now_us())
