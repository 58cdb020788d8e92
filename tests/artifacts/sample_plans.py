"""A finished run with checkpoints that are due, and plans of them."""

from typing import Any

from apps.artifacts.cleanup.plans import approve, create_plan, notify_owners, select_items
from apps.artifacts.cleanup.retention import DAY_US
from apps.artifacts.models import Artifact, CleanupPlan
from apps.runs.models import Run
from tests.artifacts.support import create_run, digest, edge, register_rows, row
from tests.builders import MINUTE, T0, SmallLab, W, push

LATER = T0 + 365 * DAY_US


def checkpoint(lab: SmallLab, run: Run, step: int, *paths: str, **facts: Any) -> Artifact:
    name = f"step{step}-{run.pk}"
    copies = [{"path": path, "medium": "hdd"} for path in paths or (f"/ckpt/{name}",)]
    row_fields = {
        "kind": "checkpoint",
        "facts": {"step": step, **facts},
        "copies": copies,
        "runs": [edge(run)],
    }
    register_rows(lab, row(name, **{**row_fields, "bytes": 10**9 + step}), now=T0)
    return Artifact.objects.get(digest=digest(name))


def finished_run(lab: SmallLab) -> Run:
    """A finished run that took 300 J, with three checkpoints; two of them are due after a year,
    the last for review.
    """
    run = create_run(lab)
    assert push(lab.node, [W("gpu:GPU-1111", 300_000, shares=((f"run:{run.uuid}", 300_000),))]) == [
        ["accepted"]
    ]
    Run.objects.filter(pk=run.pk).update(state="finished", ended_us=T0 + MINUTE)
    for step in (1, 2, 3):
        checkpoint(lab, run, step)
    return run


def proposed_plan(lab: SmallLab, now: int = LATER) -> CleanupPlan:
    return create_plan(lab=lab.lab, node=lab.node, project=None, by=lab.owner, now=now)


def approved_plan(lab: SmallLab, *, unselected: str = "") -> CleanupPlan:
    """An approved plan; ``unselected``: the path of a line that is not ticked."""
    plan = proposed_plan(lab)
    if unselected:
        select_items(
            plan=plan,
            selected=[],
            listed=[plan.items.get(copy__path=unselected).pk],
            by=lab.owner,
            now=LATER,
        )
    notify_owners(plan=plan, grace_days=7, trash_days=14, by=lab.owner, now=LATER)
    return approve(plan=plan, by=lab.owner, now=LATER + 7 * DAY_US)
