"""Moves of devices between nodes (docs/data-flow.md): claimed, accepted, withdrawn.

The upload only records claims and enqueues jobs, because an action locks the lab before devices.
"""

from django.db import transaction

from apps.accounts import audit
from apps.accounts.choices import Act
from apps.accounts.models import Lab, User
from apps.core.errors import NotFound
from apps.core.jobs import enqueue
from apps.core.units import US_PER_HOUR
from apps.fleet.models import Device
from apps.ingest import selectors
from apps.ingest.choices import Decision, MoveRule, MoveState
from apps.ingest.models import DeviceMove, EnergyWindow, QuarantinedWindow, SealedBlock
from apps.ingest.services.classify import MOVE_TOLERANCE_US, PENDING_MOVE, BatchContext

SILENCE_US = 7 * 24 * US_PER_HOUR
ACCEPT_JOB, WITHDRAW_JOB, SILENCE_JOB, PLACE_JOB = (
    "ingest.accept_move",
    "ingest.withdraw_move",
    "ingest.silent_node",
    "ingest.place_pending",
)


def follow_moves(context: BatchContext) -> None:
    """Record the claims of a batch, and enqueue decisions about moves that it proves or disproves.

    Call it in the transaction that stores the batch, which locks the devices.
    """
    for move_id in sorted(context.returned):
        enqueue(kind=WITHDRAW_JOB, key=str(move_id))
    _record_claims(context)
    if context.stored:
        _find_absent_devices(context)


def _record_claims(context: BatchContext) -> None:
    starts: dict[int, int] = {}
    for row in context.quarantine_reasons:
        if row.reason == PENDING_MOVE:
            start_us = row.possible[0].start_us
            starts[row.device_id] = min(start_us, starts.get(row.device_id, start_us))
    owners = {device.pk: device.node_id for device in context.devices.values()}
    for device_id, start_us in sorted(starts.items()):
        move, is_new = DeviceMove.objects.get_or_create(
            device_id=device_id,
            to_node=context.node,
            state=MoveState.PENDING,
            defaults={
                "from_node_id": owners[device_id],
                "from_us": start_us,
                "claimed_us": context.received_us,
            },
        )
        if is_new:
            enqueue(kind=SILENCE_JOB, key=str(move.pk))
        elif start_us < move.from_us:
            move.from_us = start_us
            move.save(update_fields=["from_us"])


def _find_absent_devices(context: BatchContext) -> None:
    """Enqueue the acceptance of moves of devices that this node no longer has.

    It measured other devices after the claimed move, and not this one. Windows of its own that wait
    for the placement after an earlier move are measurements too.
    """
    if not selectors.has_pending_moves(context.node):
        return
    last_us = max(row.end_us for row in context.stored)
    moves = DeviceMove.objects.filter(
        from_node=context.node,
        state=MoveState.PENDING,
        from_us__lt=last_us - MOVE_TOLERANCE_US,
        device__node=context.node,
    )
    for move in moves.order_by("pk"):
        later = EnergyWindow.objects.filter(
            device_id=move.device_id,
            node=context.node,
            start_us__gte=move.from_us - MOVE_TOLERANCE_US,
            end_us__gt=move.from_us + MOVE_TOLERANCE_US,
        )
        waiting = QuarantinedWindow.objects.filter(
            device_id=move.device_id, node=context.node, reason=PENDING_MOVE, decision=Decision.NONE
        )
        archived = SealedBlock.objects.filter(
            device_id=move.device_id,
            node=context.node,
            end_us__gt=move.from_us + MOVE_TOLERANCE_US,
        )
        if not later.exists() and not waiting.exists() and not archived.exists():
            enqueue(kind=ACCEPT_JOB, key=f"{move.pk}:{context.node.pk}")


@transaction.atomic
def accept_move(*, lab: Lab, move_id: int, rule: MoveRule, by: User | None, now: int) -> None:
    """Give a device to the node that claims it, and have its quarantined windows placed.

    Does nothing if the move is accepted already. Raises NotFound for a move that was withdrawn or
    does not exist.
    """
    audit.hold(lab)
    move, device = _locked(lab, move_id)
    if move.state == MoveState.ACCEPTED:
        return
    if move.state != MoveState.PENDING:
        raise NotFound("This move was withdrawn.", hint="Reload the page.")
    move.state, move.rule, move.decided_us = MoveState.ACCEPTED, rule, now
    move.from_node_id = device.node_id
    move.save()
    former_id, device.node_id = device.node_id, move.to_node_id
    device.save(update_fields=["node"])
    _update_claims(device)
    # The node of a device settles its hours.
    for node_id in {former_id, device.node_id}:
        enqueue(kind="energy.settle", key=str(node_id))
    enqueue(kind=PLACE_JOB, key=str(move.pk))
    _record(lab, move, Act.DEVICE_MOVED, by, now)


@transaction.atomic
def withdraw_move(*, lab: Lab, move_id: int, now: int) -> None:
    """Give a device back to the node that uploaded it after the move. Placed windows stay."""
    audit.hold(lab)
    move, device = _locked(lab, move_id)
    if move.state != MoveState.ACCEPTED or device.node_id != move.to_node_id:
        return
    move.state, move.decided_us = MoveState.WITHDRAWN, now
    move.save()
    device.node_id = move.from_node_id
    device.save(update_fields=["node"])
    _update_claims(device)
    for node_id in (move.from_node_id, move.to_node_id):
        enqueue(kind="energy.settle", key=str(node_id))
    _record(lab, move, Act.DEVICE_MOVE_WITHDRAWN, None, now)


def accept_absent(*, lab: Lab, move_id: int, absent_node_id: int, now: int) -> None:
    """Accept a pending move if its device still belongs to the node that no longer has it.

    Between upload and job, the device can go to another node, of which that proves nothing.
    """
    move = DeviceMove.objects.select_related("device").get(pk=move_id, device__lab=lab)
    if move.state == MoveState.PENDING and move.device.node_id == absent_node_id:
        accept_move(lab=lab, move_id=move_id, rule=MoveRule.ABSENT, by=None, now=now)


def accept_after_silence(*, lab: Lab, move_id: int, now: int) -> None:
    """Accept a pending move if the former node was silent for 7 days, else check again later."""
    move = DeviceMove.objects.select_related("device__node").get(pk=move_id, device__lab=lab)
    if move.state != MoveState.PENDING:
        return
    owner = move.device.node
    silent_since_us = owner.last_push_us or owner.enrolled_us
    if now - silent_since_us >= SILENCE_US:
        accept_move(lab=lab, move_id=move_id, rule=MoveRule.SILENT, by=None, now=now)
    else:
        enqueue(kind=SILENCE_JOB, key=str(move_id), due_us=silent_since_us + SILENCE_US)


def _update_claims(device: Device) -> None:
    """Let the other claims of a device name its new node, whose uploads decide about them."""
    pending = DeviceMove.objects.filter(device=device, state=MoveState.PENDING)
    pending.update(from_node=device.node_id)


def _locked(lab: Lab, move_id: int) -> tuple[DeviceMove, Device]:
    move = DeviceMove.objects.filter(pk=move_id, device__lab=lab).first()
    if move is None:
        raise NotFound("There is no such move in this lab.", hint="Reload the page.")
    device = Device.objects.select_for_update(no_key=True).get(pk=move.device_id)
    locked = DeviceMove.objects.select_related("from_node", "to_node").get(pk=move_id)
    return locked, device


def _record(lab: Lab, move: DeviceMove, action: Act, by: User | None, now: int) -> None:
    audit.record(
        lab=lab,
        by=by,
        action=action,
        subject=move.device.key,
        details={
            "from": str(move.from_node.uuid),
            "to": str(move.to_node.uuid),
            "from_us": move.from_us,
            "rule": move.rule,
        },
        now=now,
    )
