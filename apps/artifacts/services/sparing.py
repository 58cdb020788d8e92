"""Lines taken out of plans, plans that end as nothing is left to go, and what every act on a plan shares: the lock, the log,
artifacts as they were before."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from django.db.models import Q

from apps.accounts import audit
from apps.accounts.models import Lab, User
from apps.artifacts.choices import OPEN_PLANS, Act, ArtifactState, PlanState
from apps.artifacts.cleanup.eligibility import going_of
from apps.artifacts.cleanup.proposals import why_kept
from apps.artifacts.models import Artifact, Plan, PlanLine
from apps.core.errors import Conflict

_LONGEST = 300
_AT_ONCE = 500
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
        end(plan, by, now)
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
    return _take_out_each((line, kept[line.artifact_id]) for line in lines if line.artifact_id in kept)


def _take_out_each(lines: Iterable[tuple[PlanLine, str]]) -> int:
    """Take out lines, each for its reason; return how many."""
    by_reason: dict[str, list[PlanLine]] = defaultdict(list)
    for line, reason in lines:
        by_reason[reason].append(line)
    for reason, some in by_reason.items():
        take_out(some, reason, None)
    return sum(map(len, by_reason.values()))


def end(plan: Plan, by: User | None, now: int) -> None:
    """End an approved plan of which nothing is left to go, as :func:`ended` does, and add that to the lab's log."""
    stay = ended(plan, now)
    if stay is not None:
        record(plan, Act.PLAN_CARRIED_OUT, by, now, {"stay": stay})


def ended(plan: Plan, now: int) -> int | None:
    """End an approved plan of which nothing is left to go, within the caller's transaction, which holds the lab: what was
    not moved and is kept by now is taken out, its line says why. Return how many lines that are, None where it goes on."""
    if plan.state != PlanState.APPROVED:
        return None
    stay = list[tuple[PlanLine, str]]()
    for lines in _left(plan):
        found = going_of(plan, lines, now)
        if not all(each.stays for each in found):
            return None
        stay += [(each.line, each.stays) for each in found]
    plan.state, plan.ended_us = PlanState.APPLIED, now
    plan.save(update_fields=["state", "ended_us"])
    return _take_out_each(stay)


def _left(plan: Plan) -> Iterator[list[PlanLine]]:
    """Yield the ticked lines that were not moved, some hundred at a time: the first that may go ends the search."""
    lines, last = plan.lines.filter(chosen=True, outcome="").select_related("artifact", "copy").order_by("pk"), 0
    while some := list(lines.filter(pk__gt=last)[:_AT_ONCE]):
        yield some
        last = some[-1].pk


def give_back(lines: Sequence[PlanLine]) -> None:
    """Give artifacts the state that they had before the plan."""
    for state in sorted({line.before for line in lines if line.before}):
        of_it = [line.artifact_id for line in lines if line.before == state]
        Artifact.objects.filter(pk__in=of_it, state=ArtifactState.SCHEDULED).update(state=state)
