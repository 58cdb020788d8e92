"""Lines taken out of plans, and what every act on a plan shares: the lock, the log, artifacts as they were before."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from django.db.models import Q

from apps.accounts import audit
from apps.accounts.models import Lab, User
from apps.artifacts.choices import OPEN_PLANS, Act, ArtifactState, PlanState
from apps.artifacts.models import Artifact, Plan, PlanLine
from apps.artifacts.proposing import why_kept
from apps.core.errors import Conflict

_LONGEST = 300
_AGAIN = "Load the page again to see the plan as it is now."


def held_plan(plan: Plan, *states: PlanState) -> Plan:
    """Queue at the lab's row; return the plan locked, if it is in one of these states. Raises Conflict."""
    audit.hold(plan.lab)
    held = Plan.objects.select_for_update(of=("self",)).select_related("lab", "node").get(pk=plan.pk)
    if held.state not in states:
        raise Conflict(f"This plan is {held.get_state_display().lower()}.", hint=_AGAIN)
    return held


def record(plan: Plan, act: Act, by: User | None, now: int, details: Mapping[str, int | str]) -> None:
    """Add an act on a plan to the lab's log."""
    audit.record(
        lab=plan.lab, by=by, action=act, subject=plan.node.hostname, details={"plan": str(plan.uuid), **details}, now=now
    )


def spare_lines(*, lab: Lab, which: Q, reason: str, by: User, now: int) -> int:
    """Take ticked lines out of all open plans of a lab that nobody moved yet, within the caller's transaction, which holds
    the lab. Return how many that were."""
    ticked = PlanLine.objects.filter(which, plan__lab=lab, plan__state__in=OPEN_PLANS, chosen=True, outcome="")
    found: dict[int, list[PlanLine]] = defaultdict(list)
    for line in PlanLine.objects.select_for_update(of=("self",)).filter(pk__in=ticked.values("pk")).order_by("pk"):
        found[line.plan_id].append(line)
    for plan in Plan.objects.filter(pk__in=found).select_related("lab", "node").order_by("pk"):
        take_out(found[plan.pk], reason, by)
        record(plan, Act.PLAN_OBJECTION, by, now, {"lines": len(found[plan.pk]), "reason": reason[:_LONGEST]})
    return sum(map(len, found.values()))


def take_out(lines: Sequence[PlanLine], reason: str, by: User | None) -> None:
    """Untick lines, for a reason; their artifacts are as before."""
    for line in lines:
        line.chosen, line.objection, line.objected_by = False, reason[:_LONGEST], by
    PlanLine.objects.bulk_update(lines, ["chosen", "objection", "objected_by"], batch_size=500)
    give_back(lines)


def take_out_kept(plan: Plan, lines: Sequence[PlanLine], now: int) -> int:
    """Take out those of a plan's ticked lines (with artifact) that are pinned, promoted, held or used by now; return how
    many."""
    kept = why_kept(plan.lab, {line.artifact_id: line.artifact for line in lines}, now)
    by_reason: dict[str, list[PlanLine]] = defaultdict(list)
    for line in lines:
        if line.artifact_id in kept:
            by_reason[kept[line.artifact_id]].append(line)
    for reason, some in by_reason.items():
        take_out(some, reason, None)
    return sum(map(len, by_reason.values()))


def give_back(lines: Sequence[PlanLine]) -> None:
    """Give artifacts the state that they had before the plan."""
    for state in sorted({line.before for line in lines if line.before}):
        of_it = [line.artifact_id for line in lines if line.before == state]
        Artifact.objects.filter(pk__in=of_it, state=ArtifactState.SCHEDULED).update(state=state)
