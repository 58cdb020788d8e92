"""Plans of what may go: proposed, reviewed, told to owners, approved. Whoever acts on a plan that another moved on meanwhile
is told so. What became of its lines on the machine: ``outcomes``."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from uuid import UUID

from django.db import IntegrityError, transaction
from django.db.models import Q

from apps.accounts import audit
from apps.accounts.models import Lab, Project, User
from apps.artifacts.choices import OPEN_PLANS, Act, ArtifactState, LineOutcome, PlanState
from apps.artifacts.cleanup.eligibility import going_of
from apps.artifacts.cleanup.notifications import by_owner, tell, to_tell, untold
from apps.artifacts.cleanup.other_copies import elsewhere
from apps.artifacts.cleanup.proposals import Proposal, next_due_us, proposals, why_kept
from apps.artifacts.cleanup.retention import DAY_US
from apps.artifacts.models import Artifact, Plan, PlanLine
from apps.artifacts.services.owners import name_owners
from apps.core.clock import utc
from apps.core.errors import Conflict, InvalidInput
from apps.fleet.models import Node

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


LEAST_GRACE_DAYS, MOST_DAYS = 1, 365


def make_plan(*, lab: Lab, node: Node, project: Project | None, by: User, now: int) -> Plan:
    """Propose what is due on a node (of a project). A plan of the node of which nothing is left to go ends. Raises
    InvalidInput where nothing is due, Conflict where a plan of the node is open."""
    _end_plan_of(node, by, now)
    return _make_plan(lab=lab, node=node, project=project, by=by, now=now)


@transaction.atomic
def _end_plan_of(node: Node, by: User, now: int) -> None:
    audit.hold(node.lab)
    plans = Plan.objects.select_for_update(of=("self",)).select_related("lab", "node")
    for plan in plans.filter(node=node, state=PlanState.APPROVED):
        end(plan, by, now)


@transaction.atomic
def _make_plan(*, lab: Lab, node: Node, project: Project | None, by: User, now: int) -> Plan:
    Lab.objects.select_for_update().get(pk=lab.pk)
    if Plan.objects.filter(node=node, state__in=OPEN_PLANS).exists():
        raise Conflict("A plan of this machine is open.", hint="Finish or withdraw it first.")
    name_owners(lab=lab, node=node, now=now)
    found = proposals(lab, node, project=project, now=now)
    if not found:
        hint = _next_due(next_due_us(lab, node, project=project, now=now))
        raise InvalidInput("Nothing on this machine is due.", field="node", hint=hint)
    try:
        plan = Plan.objects.create(lab=lab, node=node, project=project, made_by=by, made_us=now)
    except IntegrityError as error:
        raise Conflict("A plan of this machine is open.", hint="Finish or withdraw it first.") from error
    PlanLine.objects.bulk_create([_line(plan, each) for each in found], batch_size=500)
    record(plan, Act.PLAN_MADE, by, now, {"lines": len(found)})
    return plan


def _line(plan: Plan, each: Proposal) -> PlanLine:
    again = each.again
    return PlanLine(
        plan=plan, copy=each.copy, artifact=each.copy.artifact, kept=each.kept, is_last_copy=each.is_last_copy,
        due_us=each.due_us, chosen=each.is_ticked, storage_mj=each.year.energy_mj, storage_ug=each.year.emission_ug,
        retrain_mj=again.energy_mj if again else None, retrain_ug=again.emission_ug if again else None,
        retrain_run=again.run if again else None,
    )  # fmt: skip


@transaction.atomic
def choose(*, plan: Plan, chosen: Collection[int], shown: Collection[int], by: User, now: int) -> int:
    """Tick the lines ``chosen`` of those that were ``shown``, and no other of them; return how many changed. What is held,
    pinned or used by now is not ticked: its line says why."""
    plan = held_plan(plan, PlanState.DRAFT)
    changed, ticked, wanted = 0, [], set(chosen)
    for line in plan.lines.select_for_update(of=("self",)).filter(pk__in=shown).select_related("artifact").order_by("pk"):
        if line.chosen != (line.pk in wanted):
            line.chosen, line.objection, line.objected_by = line.pk in wanted, "", None
            line.save(update_fields=["chosen", "objection", "objected_by"])
            ticked += [line] if line.chosen else []
            changed += 1
    changed -= take_out_kept(plan, ticked, now)
    if changed:
        record(plan, Act.PLAN_CHANGED, by, now, {"changed": changed})
    return changed


def _next_due(at_us: int | None) -> str:
    if at_us is None:
        return "Nothing on it ever is by itself: look at what is kept, and for how long."
    day = utc(at_us)
    return f"The first is on {day.day} {day:%B %Y}: look for how long what is kept, since it was written and found."


@transaction.atomic
def tell_owners(
    *,
    plan: Plan,
    grace_days: int,
    trash_days: int,
    by: User,
    now: int,
    chosen: Collection[int] = (),
    shown: Collection[int] = (),
) -> Plan:
    """Let the grace begin: owners are told what is to go and may object. Lines that were ``shown`` are ticked first, as by
    :func:`choose`; what is held, pinned or used by now is taken out. Raises InvalidInput and Conflict."""
    plan = held_plan(plan, PlanState.DRAFT)
    for name, days in (("grace_days", grace_days), ("trash_days", trash_days)):
        _days(name, days)
    choose(plan=plan, chosen=chosen, shown=shown, by=by, now=now)
    lines = list(plan.lines.filter(chosen=True).select_related("artifact", "copy").order_by("pk"))
    stay = take_out_kept(plan, lines, now)
    lines = [line for line in lines if line.chosen]
    if not lines:
        raise InvalidInput(
            "No line is ticked that may go: nobody is to be told.", field="line", hint="Tick what may go, or withdraw it."
        )
    _schedule(lines)
    plan.state, plan.grace_until_us, plan.trash_days = PlanState.TOLD, now + grace_days * DAY_US, trash_days
    plan.save()
    people = tell(plan=plan, people=to_tell(plan, by_owner(plan)), now=now)
    details = {"lines": len(lines), "stay": stay, "people": people, "grace_days": grace_days}
    record(plan, Act.PLAN_TOLD, by, now, details)
    return plan


def _schedule(lines: Sequence[PlanLine]) -> None:
    """Keep which of ticked lines take the last copy, as they are ticked by now, and what their artifacts were before."""
    last = elsewhere(line.artifact_id for line in lines).last_of(line.copy for line in lines)
    for line in lines:
        line.before, line.is_last_copy = line.artifact.state, line.copy_id in last
    PlanLine.objects.bulk_update(lines, ["before", "is_last_copy"], batch_size=500)
    artifacts = [line.artifact_id for line in lines if line.is_last_copy]
    for start in range(0, len(artifacts), 500):
        Artifact.objects.filter(pk__in=artifacts[start : start + 500]).update(state=ArtifactState.SCHEDULED)


@transaction.atomic
def tell_the_rest(*, plan: Plan, grace_days: int, by: User, now: int) -> int:
    """Tell those who own lines and were not told: who came, or stands in for somebody who left since. The grace goes on for
    at least ``grace_days`` from now. Return how many people. Raises InvalidInput and Conflict."""
    plan = held_plan(plan, PlanState.TOLD)
    _days("grace_days", grace_days)
    people = tell(plan=plan, people=untold(plan), now=now)
    if not people:
        raise Conflict("Everybody was told.", hint="Load the page again.")
    plan.grace_until_us = max(plan.grace_until_us or 0, now + grace_days * DAY_US)
    plan.save(update_fields=["grace_until_us"])
    record(plan, Act.PLAN_TOLD, by, now, {"people": people, "grace_days": grace_days})
    return people


def _days(name: str, days: int) -> None:
    if not LEAST_GRACE_DAYS <= days <= MOST_DAYS:
        raise InvalidInput(f"{days} days are not between {LEAST_GRACE_DAYS} and {MOST_DAYS}.", field=name)


@transaction.atomic
def object_to(*, plan: Plan, lines: Collection[int], reason: str, by: User, now: int) -> int:
    """Take lines out of a plan, with a reason: they stay, also what the machine left and would try again. Return how many.
    Raises InvalidInput, and Conflict where none can be taken out."""
    reason = reason.strip()
    if not reason:
        raise InvalidInput("Say why it is to stay.", field="reason")
    plan = held_plan(plan, PlanState.TOLD, PlanState.APPROVED)
    there = plan.lines.select_for_update().filter(pk__in=lines, chosen=True, outcome__in=("", LineOutcome.REFUSED))
    found = list(there.order_by("pk"))
    if not found:
        raise _too_late(plan, lines)
    take_out(found, reason, by)
    record(plan, Act.PLAN_OBJECTION, by, now, {"lines": len(found), "reason": reason[:300]})
    end(plan, by, now)
    return len(found)


def _too_late(plan: Plan, lines: Collection[int]) -> Conflict:
    """Say why none of ``lines`` can be objected to. What went in a folder comes back with that."""
    trashed = plan.lines.filter(pk__in=lines, outcome=LineOutcome.TRASHED).values_list("went_with", "pk")
    if numbers := sorted({folder or pk for folder, pk in trashed}):
        what = " ".join(map(str, numbers))
        command = f"labcarbon-collect apply-plan {plan.uuid} --restore {what}"
        return Conflict("It is too late to object: this lies in the trash.", hint=f"To bring it back: {command}")
    return Conflict("None of these lines is to go by this plan any more.", hint="Load the page again.")


@transaction.atomic
def approve(*, plan: Plan, by: User, now: int) -> Plan:
    """Approve what is still ticked, once the grace is over and everybody was told; what is held, pinned or used by now is
    taken out. Raises Conflict."""
    plan = held_plan(plan, PlanState.TOLD)
    assert plan.grace_until_us is not None
    if now < plan.grace_until_us:
        raise Conflict("The grace goes on: owners may still object.", hint="Approve it when it is over.")
    lines = list(plan.lines.filter(chosen=True).select_related("artifact").order_by("pk"))
    stay = take_out_kept(plan, lines, now)
    count = len(lines) - stay
    if not count:
        raise Conflict("Nothing is left to go: every line was objected to, or is kept.", hint="Withdraw the plan.")
    if missing := untold(plan):
        names = ", ".join(each.user.get_username() for each in missing[:3])
        raise Conflict(f"Not everybody was told: {names}.", hint="Tell the rest: their grace begins then.")
    plan.state, plan.approved_by, plan.approved_us = PlanState.APPROVED, by, now
    plan.save()
    record(plan, Act.PLAN_APPROVED, by, now, {"lines": count, "stay": stay})
    return plan


@transaction.atomic
def withdraw(*, plan: Plan, by: User, now: int) -> Plan:
    """Take a plan back: what nobody moved yet stays. Raises Conflict for one that was carried out or withdrawn, or of which
    something lies in the trash or was deleted."""
    plan = held_plan(plan, *OPEN_PLANS)
    if plan.lines.filter(outcome__in=(LineOutcome.TRASHED, LineOutcome.DELETED)).exists():
        raise Conflict("It is being carried out: lines were moved already.", hint="labcarbon-collect apply-plan … --restore")
    give_back(list(plan.lines.filter(chosen=True)))
    plan.state, plan.ended_us = PlanState.WITHDRAWN, now
    plan.save()
    record(plan, Act.PLAN_WITHDRAWN, by, now, {})
    return plan


def plan_of(lab: Lab, uuid: UUID) -> Plan | None:
    """Return the lab's plan, or None."""
    return Plan.objects.filter(lab=lab, uuid=uuid).select_related("lab", "node", "project", "made_by", "approved_by").first()
