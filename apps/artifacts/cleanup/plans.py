"""Steps of a cleanup plan: create, select items, notify owners, object, approve, withdraw.

A step fails with Conflict if another person changed the plan in the meantime. Results of the
machine: ``outcomes``.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from uuid import UUID

from django.db import IntegrityError, transaction
from django.db.models import Q

from apps.accounts import audit
from apps.accounts.models import Lab, Project, User
from apps.artifacts.choices import OPEN_PLANS, ArtifactState, AuditAction, ItemOutcome, PlanState
from apps.artifacts.cleanup.notifications import (
    find_recipients,
    items_by_owner,
    not_notified,
    notify,
)
from apps.artifacts.cleanup.other_copies import load_other_copies
from apps.artifacts.cleanup.plan_check import check_items
from apps.artifacts.cleanup.proposals import (
    Proposal,
    next_due_us,
    propose_copies,
    protection_reasons,
)
from apps.artifacts.cleanup.retention import DAY_US
from apps.artifacts.models import Artifact, CleanupItem, CleanupPlan
from apps.artifacts.services.owners import assign_owners
from apps.core.clock import utc
from apps.core.errors import Conflict, InvalidInput
from apps.fleet.models import Node

_MAX_REASON_LENGTH = 300
_BATCH_SIZE = 500
_RELOAD_HINT = "Load the page again."


def lock_plan(plan: CleanupPlan, *states: PlanState) -> CleanupPlan:
    """Lock the lab's row and the plan; return the plan if it is in one of these states. Raises
    Conflict.
    """
    audit.hold(plan.lab)
    locked = (
        CleanupPlan.objects.select_for_update(of=("self",))
        .select_related("lab", "node")
        .get(pk=plan.pk)
    )
    if locked.state not in states:
        raise Conflict(f"This plan is {locked.get_state_display().lower()}.", hint=_RELOAD_HINT)
    return locked


def record_action(
    plan: CleanupPlan,
    action: AuditAction,
    by: User | None,
    now: int,
    details: Mapping[str, int | str],
) -> None:
    """Add an action on a plan to the audit log."""
    audit.record(
        lab=plan.lab,
        by=by,
        action=action,
        subject=plan.node.hostname,
        details={"plan": str(plan.uuid), **details},
        now=now,
    )


def exclude_items(*, lab: Lab, condition: Q, reason: str, by: User, now: int) -> int:
    """Exclude selected items that were not moved yet from all open plans of a lab; return their
    number.

    Within the caller's transaction, which has locked the lab.
    """
    open_items = CleanupItem.objects.filter(
        condition, plan__lab=lab, plan__state__in=OPEN_PLANS, selected=True, outcome=""
    )
    items_by_plan: dict[int, list[CleanupItem]] = defaultdict(list)
    for item in (
        CleanupItem.objects.select_for_update(of=("self",))
        .filter(pk__in=open_items.values("pk"))
        .order_by("pk")
    ):
        items_by_plan[item.plan_id].append(item)
    for plan in (
        CleanupPlan.objects.filter(pk__in=items_by_plan)
        .select_related("lab", "node")
        .order_by("pk")
    ):
        deselect(items_by_plan[plan.pk], reason, by)
        record_action(
            plan,
            AuditAction.PLAN_OBJECTION,
            by,
            now,
            {"lines": len(items_by_plan[plan.pk]), "reason": reason[:_MAX_REASON_LENGTH]},
        )
        close_and_record(plan, by, now)
    return sum(map(len, items_by_plan.values()))


def deselect(items: Sequence[CleanupItem], reason: str, by: User | None) -> None:
    """Deselect items with a reason; their artifacts return to their previous state."""
    for item in items:
        item.selected, item.objection, item.objected_by = False, reason[:_MAX_REASON_LENGTH], by
    CleanupItem.objects.bulk_update(items, ["selected", "objection", "objected_by"], batch_size=500)
    restore_state(items)


def deselect_protected(plan: CleanupPlan, items: Sequence[CleanupItem], now: int) -> int:
    """Deselect items (with artifact) that are pinned, promoted, held or used by now; return their
    number.
    """
    reasons = protection_reasons(plan.lab, {item.artifact_id: item.artifact for item in items}, now)
    return _deselect_each(
        (item, reasons[item.artifact_id]) for item in items if item.artifact_id in reasons
    )


def _deselect_each(items: Iterable[tuple[CleanupItem, str]]) -> int:
    """Deselect items, each with its reason; return their number."""
    by_reason: dict[str, list[CleanupItem]] = defaultdict(list)
    for item, reason in items:
        by_reason[reason].append(item)
    for reason, group in by_reason.items():
        deselect(group, reason, None)
    return sum(map(len, by_reason.values()))


def close_and_record(plan: CleanupPlan, by: User | None, now: int) -> None:
    """Close an approved plan without eligible items, as :func:`close_if_complete` does, and record
    it in the audit log.
    """
    remaining = close_if_complete(plan, now)
    if remaining is not None:
        record_action(plan, AuditAction.PLAN_EXECUTED, by, now, {"stay": remaining})


def close_if_complete(plan: CleanupPlan, now: int) -> int | None:
    """Close an approved plan without eligible items; its remaining items are deselected with their
    reasons.

    Within the caller's transaction, which has locked the lab. Return the number of remaining items,
    None if the plan stays open.
    """
    if plan.state != PlanState.APPROVED:
        return None
    ineligible = list[tuple[CleanupItem, str]]()
    for batch in _open_items(plan):
        results = check_items(plan, batch, now)
        if not all(result.blocked_reason for result in results):
            return None
        ineligible += [(result.item, result.blocked_reason) for result in results]
    plan.state, plan.ended_us = PlanState.APPLIED, now
    plan.save(update_fields=["state", "ended_us"])
    return _deselect_each(ineligible)


def _open_items(plan: CleanupPlan) -> Iterator[list[CleanupItem]]:
    """Yield the selected items that were not moved, in batches: the first eligible one ends the
    search.
    """
    open_items, last = (
        plan.items.filter(selected=True, outcome="")
        .select_related("artifact", "copy")
        .order_by("pk"),
        0,
    )
    while batch := list(open_items.filter(pk__gt=last)[:_BATCH_SIZE]):
        yield batch
        last = batch[-1].pk


def restore_state(items: Sequence[CleanupItem]) -> None:
    """Return artifacts to the state before the plan."""
    for state in sorted({item.previous_state for item in items if item.previous_state}):
        artifact_ids = [item.artifact_id for item in items if item.previous_state == state]
        Artifact.objects.filter(pk__in=artifact_ids, state=ArtifactState.SCHEDULED).update(
            state=state
        )


MIN_DAYS, MAX_DAYS = 1, 365


def create_plan(
    *, lab: Lab, node: Node, project: Project | None, by: User, now: int
) -> CleanupPlan:
    """Create a plan with the copies that are due on a node (of a project).

    An approved plan of the node without eligible items is closed before. Raises InvalidInput if
    nothing is due, Conflict if a plan of the node is open.
    """
    _close_plan_of(node, by, now)
    return _create_plan(lab=lab, node=node, project=project, by=by, now=now)


@transaction.atomic
def _close_plan_of(node: Node, by: User, now: int) -> None:
    audit.hold(node.lab)
    plans = CleanupPlan.objects.select_for_update(of=("self",)).select_related("lab", "node")
    for plan in plans.filter(node=node, state=PlanState.APPROVED):
        close_and_record(plan, by, now)


@transaction.atomic
def _create_plan(
    *, lab: Lab, node: Node, project: Project | None, by: User, now: int
) -> CleanupPlan:
    Lab.objects.select_for_update().get(pk=lab.pk)
    if CleanupPlan.objects.filter(node=node, state__in=OPEN_PLANS).exists():
        raise Conflict("This node has an open plan.", hint="Complete or withdraw it first.")
    assign_owners(lab=lab, node=node, now=now)
    candidates = propose_copies(lab, node, project=project, now=now)
    if not candidates:
        hint = _next_due_hint(next_due_us(lab, node, project=project, now=now))
        raise InvalidInput("No artifact on this node is due.", field="node", hint=hint)
    try:
        plan = CleanupPlan.objects.create(
            lab=lab, node=node, project=project, created_by=by, created_us=now
        )
    except IntegrityError as error:
        raise Conflict(
            "This node has an open plan.", hint="Complete or withdraw it first."
        ) from error
    CleanupItem.objects.bulk_create(
        [_new_item(plan, proposal) for proposal in candidates], batch_size=500
    )
    record_action(plan, AuditAction.PLAN_CREATED, by, now, {"lines": len(candidates)})
    return plan


def _new_item(plan: CleanupPlan, proposal: Proposal) -> CleanupItem:
    retraining = proposal.retraining_cost
    return CleanupItem(
        plan=plan,
        copy=proposal.copy,
        artifact=proposal.copy.artifact,
        retention_class=proposal.retention_class,
        is_last_copy=proposal.is_last_copy,
        due_us=proposal.due_us,
        selected=proposal.is_ticked,
        storage_mj=proposal.storage_cost.energy_mj,
        storage_ug=proposal.storage_cost.emission_ug,
        retrain_mj=retraining.energy_mj if retraining else None,
        retrain_ug=retraining.emission_ug if retraining else None,
        retrain_run=retraining.run if retraining else None,
    )


@transaction.atomic
def select_items(
    *, plan: CleanupPlan, selected: Collection[int], listed: Collection[int], by: User, now: int
) -> int:
    """Select the items ``selected`` of those that were ``listed``; return the number of changes.

    Other items are unchanged. Items protected by now are not selected, and carry the reason.
    """
    plan = lock_plan(plan, PlanState.DRAFT)
    changed_count, newly_selected, selected_ids = 0, [], set(selected)
    for item in (
        plan.items.select_for_update(of=("self",))
        .filter(pk__in=listed)
        .select_related("artifact")
        .order_by("pk")
    ):
        if item.selected != (item.pk in selected_ids):
            item.selected, item.objection, item.objected_by = item.pk in selected_ids, "", None
            item.save(update_fields=["selected", "objection", "objected_by"])
            newly_selected += [item] if item.selected else []
            changed_count += 1
    changed_count -= deselect_protected(plan, newly_selected, now)
    if changed_count:
        record_action(plan, AuditAction.PLAN_CHANGED, by, now, {"changed": changed_count})
    return changed_count


def _next_due_hint(at_us: int | None) -> str:
    if at_us is None:
        return "None of them becomes due. Check the retention periods."
    day = utc(at_us)
    return f"The first is due on {day.day} {day:%B %Y}. Check the retention periods."


@transaction.atomic
def notify_owners(
    *,
    plan: CleanupPlan,
    grace_days: int,
    trash_days: int,
    by: User,
    now: int,
    selected: Collection[int] = (),
    listed: Collection[int] = (),
) -> CleanupPlan:
    """Notify the owners of selected items and start the grace period, in which they can object.

    ``listed`` items are selected first, as by :func:`select_items`. Items protected by now are
    deselected. Raises InvalidInput and Conflict.
    """
    plan = lock_plan(plan, PlanState.DRAFT)
    for name, days in (("grace_days", grace_days), ("trash_days", trash_days)):
        _check_days(name, days)
    select_items(plan=plan, selected=selected, listed=listed, by=by, now=now)
    items = list(plan.items.filter(selected=True).select_related("artifact", "copy").order_by("pk"))
    protected_count = deselect_protected(plan, items, now)
    items = [item for item in items if item.selected]
    if not items:
        raise InvalidInput(
            "No eligible item is selected.",
            field="item",
            hint="Select items, or withdraw the plan.",
        )
    _schedule(items)
    plan.state, plan.grace_until_us, plan.trash_days = (
        PlanState.NOTIFIED,
        now + grace_days * DAY_US,
        trash_days,
    )
    plan.save()
    people = notify(plan=plan, recipients=find_recipients(plan, items_by_owner(plan)), now=now)
    details = {
        "lines": len(items),
        "stay": protected_count,
        "people": people,
        "grace_days": grace_days,
    }
    record_action(plan, AuditAction.PLAN_NOTIFIED, by, now, details)
    return plan


def _schedule(items: Sequence[CleanupItem]) -> None:
    """Record which items are the last copies, and the previous states of their artifacts."""
    last_copies = load_other_copies(item.artifact_id for item in items).select_last(
        item.copy for item in items
    )
    for item in items:
        item.previous_state, item.is_last_copy = item.artifact.state, item.copy_id in last_copies
    CleanupItem.objects.bulk_update(items, ["previous_state", "is_last_copy"], batch_size=500)
    artifact_ids = [item.artifact_id for item in items if item.is_last_copy]
    for start in range(0, len(artifact_ids), 500):
        Artifact.objects.filter(pk__in=artifact_ids[start : start + 500]).update(
            state=ArtifactState.SCHEDULED
        )


@transaction.atomic
def notify_remaining(*, plan: CleanupPlan, grace_days: int, by: User, now: int) -> int:
    """Notify recipients who were not notified yet: new owners, or those who stand in for former
    ones.

    The grace period lasts at least ``grace_days`` from now. Return the number of people. Raises
    InvalidInput and Conflict.
    """
    plan = lock_plan(plan, PlanState.NOTIFIED)
    _check_days("grace_days", grace_days)
    people = notify(plan=plan, recipients=not_notified(plan), now=now)
    if not people:
        raise Conflict("All people are notified already.", hint=_RELOAD_HINT)
    plan.grace_until_us = max(plan.grace_until_us or 0, now + grace_days * DAY_US)
    plan.save(update_fields=["grace_until_us"])
    record_action(
        plan, AuditAction.PLAN_NOTIFIED, by, now, {"people": people, "grace_days": grace_days}
    )
    return people


def _check_days(name: str, days: int) -> None:
    if not MIN_DAYS <= days <= MAX_DAYS:
        raise InvalidInput(f"Enter {MIN_DAYS} to {MAX_DAYS} days, not {days}.", field=name)


@transaction.atomic
def object_to_items(
    *, plan: CleanupPlan, items: Collection[int], reason: str, by: User, now: int
) -> int:
    """Exclude items from a plan with a reason, also refused ones that would be retried; return
    their number.

    Raises InvalidInput, and Conflict if none can be excluded.
    """
    reason = reason.strip()
    if not reason:
        raise InvalidInput("Enter a reason.", field="reason")
    plan = lock_plan(plan, PlanState.NOTIFIED, PlanState.APPROVED)
    open_items = plan.items.select_for_update().filter(
        pk__in=items, selected=True, outcome__in=("", ItemOutcome.REFUSED)
    )
    objected = list(open_items.order_by("pk"))
    if not objected:
        raise _too_late(plan, items)
    deselect(objected, reason, by)
    record_action(
        plan, AuditAction.PLAN_OBJECTION, by, now, {"lines": len(objected), "reason": reason[:300]}
    )
    close_and_record(plan, by, now)
    return len(objected)


def _too_late(plan: CleanupPlan, item_ids: Collection[int]) -> Conflict:
    """Return the Conflict for ``item_ids`` that cannot be excluded. Contents of a trashed folder
    are restored with it.
    """
    trashed = plan.items.filter(pk__in=item_ids, outcome=ItemOutcome.TRASHED).values_list(
        "parent_item", "pk"
    )
    if numbers := sorted({parent or pk for parent, pk in trashed}):
        arguments = " ".join(map(str, numbers))
        command = f"labcarbon-collect apply-plan {plan.uuid} --restore {arguments}"
        return Conflict(
            "Too late to object: the files are in the trash.", hint=f"To restore them: {command}"
        )
    return Conflict("None of these items can be excluded any more.", hint=_RELOAD_HINT)


@transaction.atomic
def approve(*, plan: CleanupPlan, by: User, now: int) -> CleanupPlan:
    """Approve the selected items after the grace period, once everybody was notified.

    Items protected by now are deselected. Raises Conflict.
    """
    plan = lock_plan(plan, PlanState.NOTIFIED)
    assert plan.grace_until_us is not None
    if now < plan.grace_until_us:
        raise Conflict("The grace period is not over.", hint="Approve the plan afterwards.")
    items = list(plan.items.filter(selected=True).select_related("artifact").order_by("pk"))
    protected_count = deselect_protected(plan, items, now)
    count = len(items) - protected_count
    if not count:
        raise Conflict("No eligible item is left.", hint="Withdraw the plan.")
    if unnotified := not_notified(plan):
        names = ", ".join(recipient.user.get_username() for recipient in unnotified[:3])
        raise Conflict(
            f"Not notified yet: {names}.",
            hint="Notify the remaining people. Their grace period starts then.",
        )
    plan.state, plan.approved_by, plan.approved_us = PlanState.APPROVED, by, now
    plan.save()
    record_action(
        plan, AuditAction.PLAN_APPROVED, by, now, {"lines": count, "stay": protected_count}
    )
    return plan


@transaction.atomic
def withdraw(*, plan: CleanupPlan, by: User, now: int) -> CleanupPlan:
    """Withdraw a plan: files that were not moved stay.

    Raises Conflict for an executed or withdrawn plan, or if items are trashed or purged.
    """
    plan = lock_plan(plan, *OPEN_PLANS)
    if plan.items.filter(outcome__in=(ItemOutcome.TRASHED, ItemOutcome.DELETED)).exists():
        raise Conflict(
            "Files of this plan were moved already.",
            hint="Restore them: labcarbon-collect apply-plan … --restore",
        )
    restore_state(list(plan.items.filter(selected=True)))
    plan.state, plan.ended_us = PlanState.WITHDRAWN, now
    plan.save()
    record_action(plan, AuditAction.PLAN_WITHDRAWN, by, now, {})
    return plan


def plan_by_uuid(lab: Lab, uuid: UUID) -> CleanupPlan | None:
    """Return the lab's plan, or None."""
    return (
        CleanupPlan.objects.filter(lab=lab, uuid=uuid)
        .select_related("lab", "node", "project", "created_by", "approved_by")
        .first()
    )
