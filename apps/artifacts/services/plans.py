"""Plans of what may go: proposed, reviewed, told to owners, approved. Carried out by ``apply-plan``, which tells what became
of each line. Whoever acts on a plan that another moved on meanwhile is told so."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from django.db import IntegrityError, transaction

from apps.accounts import audit
from apps.accounts.models import Lab, Project, User
from apps.artifacts.choices import OPEN_PLANS, Act, ArtifactState, CopyState, LineOutcome, PlanState
from apps.artifacts.models import Artifact, Copy, Plan, PlanLine
from apps.artifacts.proposing import proposals
from apps.artifacts.retention import DAY_US
from apps.core.errors import Conflict, InvalidInput
from apps.fleet.models import Node

LEAST_GRACE_DAYS, MOST_DAYS = 1, 365
_AGAIN = "Load the page again to see the plan as it is now."


@transaction.atomic
def make_plan(*, lab: Lab, node: Node, project: Project | None, by: User, now: int) -> Plan:
    """Propose what is due on a node (of a project). Raises InvalidInput where nothing is, Conflict where a plan of the node
    is open."""
    Lab.objects.select_for_update().get(pk=lab.pk)
    if Plan.objects.filter(node=node, state__in=OPEN_PLANS).exists():
        raise Conflict("A plan of this machine is open.", hint="Finish or withdraw it first.")
    found = proposals(lab, node, project=project, now=now)
    if not found:
        raise InvalidInput("Nothing on this machine is due.", field="node", hint="Look at what is kept, and for how long.")
    try:
        plan = Plan.objects.create(lab=lab, node=node, project=project, made_by=by, made_us=now)
    except IntegrityError as error:
        raise Conflict("A plan of this machine is open.", hint="Finish or withdraw it first.") from error
    PlanLine.objects.bulk_create(
        [
            PlanLine(
                plan=plan, copy=each.copy, artifact=each.copy.artifact, kept=each.kept, is_last_copy=each.is_last_copy,
                due_us=each.due_us, storage_mj=each.storage_mj, retrain_mj=each.retrain_mj, chosen=each.is_ticked,
            )
            for each in found
        ],
        batch_size=500,
    )  # fmt: skip
    _record(plan, Act.PLAN_MADE, by, now, {"lines": len(found)})
    return plan


@transaction.atomic
def choose(*, plan: Plan, chosen: Collection[int], shown: Collection[int], by: User, now: int) -> int:
    """Tick the lines ``chosen`` of those that were ``shown``, and no other of them; return how many changed."""
    plan = _held(plan, PlanState.DRAFT)
    changed = 0
    for line in plan.lines.select_for_update().filter(pk__in=shown).order_by("pk"):
        wanted = line.pk in set(chosen)
        if line.chosen != wanted:
            line.chosen = wanted
            line.save(update_fields=["chosen"])
            changed += 1
    if changed:
        _record(plan, Act.PLAN_CHANGED, by, now, {"changed": changed})
    return changed


@transaction.atomic
def tell_owners(*, plan: Plan, grace_days: int, trash_days: int, by: User, now: int) -> Plan:
    """Let the grace begin: owners see what is to go and may object. Raises InvalidInput and Conflict."""
    plan = _held(plan, PlanState.DRAFT)
    for name, days in (("grace_days", grace_days), ("trash_days", trash_days)):
        if not LEAST_GRACE_DAYS <= days <= MOST_DAYS:
            raise InvalidInput(f"{days} days are not between {LEAST_GRACE_DAYS} and {MOST_DAYS}.", field=name)
    lines = list(plan.lines.filter(chosen=True).select_related("artifact").order_by("pk"))
    if not lines:
        raise InvalidInput(
            "No line is ticked: nobody is to be told.", field="line", hint="Tick what may go, or withdraw it."
        )
    for line in lines:
        line.before = line.artifact.state
    PlanLine.objects.bulk_update(lines, ["before"], batch_size=500)
    _set_state([line.artifact_id for line in lines if line.is_last_copy], ArtifactState.SCHEDULED)
    plan.state, plan.grace_until_us, plan.trash_days = PlanState.TOLD, now + grace_days * DAY_US, trash_days
    plan.save()
    _record(plan, Act.PLAN_TOLD, by, now, {"lines": len(lines), "grace_days": grace_days})
    return plan


@transaction.atomic
def object_to(*, plan: Plan, lines: Collection[int], reason: str, by: User, now: int) -> int:
    """Take lines out of a plan, with a reason: they stay. Return how many. Raises InvalidInput and Conflict."""
    reason = reason.strip()
    if not reason:
        raise InvalidInput("Say why it is to stay.", field="reason")
    plan = _held(plan, PlanState.TOLD, PlanState.APPROVED)
    rows = plan.lines.select_for_update().filter(pk__in=lines, chosen=True, outcome="").order_by("pk")
    found = list(rows)
    for line in found:
        line.chosen, line.objection, line.objected_by = False, reason[:300], by
    PlanLine.objects.bulk_update(found, ["chosen", "objection", "objected_by"], batch_size=500)
    _give_back(found)
    if found:
        _record(plan, Act.PLAN_OBJECTION, by, now, {"lines": len(found), "reason": reason[:300]})
    return len(found)


def spare(*, artifact: Artifact, reason: str, by: User, now: int) -> int:
    """Take an artifact out of the plans that its owners were told of: somebody pinned or promoted it. Return how many lines
    that are."""
    plans = Plan.objects.filter(state__in=(PlanState.TOLD, PlanState.APPROVED), lines__artifact=artifact, lines__chosen=True)
    count = 0
    for plan in plans.distinct().order_by("pk"):
        lines = plan.lines.filter(artifact=artifact, chosen=True, outcome="").values_list("pk", flat=True)
        count += object_to(plan=plan, lines=list(lines), reason=reason, by=by, now=now)
    return count


@transaction.atomic
def approve(*, plan: Plan, by: User, now: int) -> Plan:
    """Approve what is still ticked, once the grace is over. Raises Conflict."""
    plan = _held(plan, PlanState.TOLD)
    assert plan.grace_until_us is not None
    if now < plan.grace_until_us:
        raise Conflict("The grace goes on: owners may still object.", hint="Approve it when it is over.")
    count = plan.lines.filter(chosen=True).count()
    if not count:
        raise Conflict("Nothing is left to go: every line was objected to.", hint="Withdraw the plan.")
    plan.state, plan.approved_by, plan.approved_us = PlanState.APPROVED, by, now
    plan.save()
    _record(plan, Act.PLAN_APPROVED, by, now, {"lines": count})
    return plan


@transaction.atomic
def withdraw(*, plan: Plan, by: User, now: int) -> Plan:
    """Take a plan back: what nobody moved yet stays. Raises Conflict for one that was carried out or withdrawn."""
    plan = _held(plan, *OPEN_PLANS)
    if plan.lines.exclude(outcome="").exists():
        raise Conflict("It is being carried out: lines were moved already.", hint="labcarbon-collect apply-plan … --restore")
    _give_back(list(plan.lines.filter(chosen=True)))
    plan.state, plan.ended_us = PlanState.WITHDRAWN, now
    plan.save()
    _record(plan, Act.PLAN_WITHDRAWN, by, now, {})
    return plan


@dataclass(frozen=True)
class Outcome:
    """What became of a line on the machine."""

    line: int
    outcome: LineOutcome
    word: str = ""


@transaction.atomic
def note_outcomes(*, plan: Plan, outcomes: Sequence[Outcome], by: User | None, now: int) -> int:
    """Record what ``apply-plan`` did; return of how many lines that is news. Saying it again changes nothing.

    Raises Conflict for a plan that was not approved, InvalidInput for lines that are not ticked in it.
    """
    plan = _held(plan, PlanState.APPROVED, PlanState.APPLIED)
    told = {each.line: each for each in outcomes}
    rows = list(plan.lines.select_for_update().select_related("copy").filter(pk__in=told).order_by("pk"))
    if len(rows) != len(told) or any(not line.chosen and line.outcome == "" for line in rows):
        raise InvalidInput("A line is not of this plan, or is not to go.", field="lines", hint="Ask for the plan again.")
    fresh = [line for line in rows if line.outcome != told[line.pk].outcome]
    for line in fresh:
        line.outcome, line.word, line.outcome_us = told[line.pk].outcome, told[line.pk].word[:300], now
        line.copy.state = _COPY_AFTER.get(line.outcome, line.copy.state)
    PlanLine.objects.bulk_update(fresh, ["outcome", "word", "outcome_us"], batch_size=500)
    Copy.objects.bulk_update([line.copy for line in fresh], ["state"], batch_size=500)
    _after(fresh)
    if not plan.lines.filter(chosen=True, outcome="").exists() and plan.state != PlanState.APPLIED:
        plan.state, plan.ended_us = PlanState.APPLIED, now
        plan.save()
    if fresh:
        counts = {name: sum(line.outcome == name for line in fresh) for name in sorted({line.outcome for line in fresh})}
        _record(plan, Act.PLAN_CARRIED_OUT, by, now, counts)
    return len(fresh)


def plan_of(lab: Lab, uuid: UUID) -> Plan | None:
    """Return the lab's plan, or None."""
    return Plan.objects.filter(lab=lab, uuid=uuid).select_related("lab", "node", "project", "made_by", "approved_by").first()


_COPY_AFTER = {
    LineOutcome.TRASHED: CopyState.TRASHED, LineOutcome.RESTORED: CopyState.PRESENT, LineOutcome.DELETED: CopyState.DELETED,
}  # fmt: skip


def _held(plan: Plan, *states: PlanState) -> Plan:
    """Return the plan locked, if it is in one of these states. Raises Conflict."""
    held = Plan.objects.select_for_update(of=("self",)).select_related("lab", "node").get(pk=plan.pk)
    if held.state not in states:
        raise Conflict(f"This plan is {held.get_state_display().lower()}.", hint=_AGAIN)
    return held


def _after(lines: Sequence[PlanLine]) -> None:
    """What became of copies shows on their artifacts: without any left an artifact is a tombstone, else it is as before."""
    for line in lines:
        left = Copy.objects.filter(artifact=line.artifact_id, state__in=(CopyState.PRESENT, CopyState.TRASHED)).exists()
        if line.outcome == LineOutcome.DELETED and not left:
            _set_state([line.artifact_id], ArtifactState.TOMBSTONE)
    _give_back([line for line in lines if line.outcome in (LineOutcome.REFUSED, LineOutcome.RESTORED)])


def _give_back(lines: Sequence[PlanLine]) -> None:
    """Give artifacts the state that they had before the plan."""
    for state in sorted({line.before for line in lines if line.before}):
        of_it = [line.artifact_id for line in lines if line.before == state]
        Artifact.objects.filter(pk__in=of_it, state=ArtifactState.SCHEDULED).update(state=state)


def _set_state(artifacts: Sequence[int], state: ArtifactState) -> None:
    Artifact.objects.filter(pk__in=artifacts).update(state=state)


def _record(plan: Plan, act: Act, by: User | None, now: int, details: Mapping[str, int | str]) -> None:
    audit.record(
        lab=plan.lab, by=by, action=act, subject=plan.node.hostname, details={"plan": str(plan.uuid), **details}, now=now
    )
