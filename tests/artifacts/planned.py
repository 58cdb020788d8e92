"""A finished run with checkpoints that are due, and plans of them."""

from typing import Any

from apps.artifacts.cleanup.plans import approve, choose, make_plan, tell_owners
from apps.artifacts.cleanup.retention import DAY_US
from apps.artifacts.models import Artifact, Plan
from apps.runs.models import Run
from tests.artifacts.support import a_run, digest, edge, row, told
from tests.builders import MINUTE, T0, SmallLab, W, push

LATER = T0 + 365 * DAY_US


def checkpoint(lab: SmallLab, run: Run, step: int, *paths: str, **facts: Any) -> Artifact:
    name = f"step{step}-{run.pk}"
    copies = [{"path": path, "medium": "hdd"} for path in paths or (f"/ckpt/{name}",)]
    told_so = {"kind": "checkpoint", "facts": {"step": step, **facts}, "copies": copies, "runs": [edge(run)]}
    told(lab, row(name, **{**told_so, "bytes": 10**9 + step}), now=T0)
    return Artifact.objects.get(digest=digest(name))


def finished_run(lab: SmallLab) -> Run:
    """A finished run that took 300 J, with three checkpoints; two of them are due after a year, the last for review."""
    run = a_run(lab)
    assert push(lab.node, [W("gpu:GPU-1111", 300_000, shares=((f"run:{run.uuid}", 300_000),))]) == [["accepted"]]
    Run.objects.filter(pk=run.pk).update(state="finished", ended_us=T0 + MINUTE)
    for step in (1, 2, 3):
        checkpoint(lab, run, step)
    return run


def planned(lab: SmallLab, now: int = LATER) -> Plan:
    return make_plan(lab=lab.lab, node=lab.node, project=None, by=lab.owner, now=now)


def approved(lab: SmallLab, *, but: str = "") -> Plan:
    """An approved plan; ``but``: the path of a line that is not ticked."""
    plan = planned(lab)
    if but:
        choose(plan=plan, chosen=[], shown=[plan.lines.get(copy__path=but).pk], by=lab.owner, now=LATER)
    tell_owners(plan=plan, grace_days=7, trash_days=14, by=lab.owner, now=LATER)
    return approve(plan=plan, by=lab.owner, now=LATER + 7 * DAY_US)
