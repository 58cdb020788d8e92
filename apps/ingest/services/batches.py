"""Accept batches of collectors, and windows declared by persons or imports."""

from collections.abc import Mapping, Sequence
from uuid import UUID

from django.db import transaction

from apps.fleet.models import Device, Node
from apps.ingest import selectors, window_rules
from apps.ingest.models import Batch
from apps.ingest.parsing import BatchIn, GapIn
from apps.ingest.placement import BatchClocks
from apps.ingest.selectors import FormerOwner
from apps.ingest.services.classify import MOVE_TOLERANCE_US, Result, decide, read_context
from apps.ingest.services.lookups import get_or_create_devices
from apps.ingest.services.moves import follow_moves
from apps.ingest.services.store import (
    store_gaps,
    write_boot_clocks,
    write_quarantined,
    write_windows,
)
from apps.ingest.window_rules import LATEST_US, WindowIn


@transaction.atomic
def accept_batch(*, node: Node, batch: BatchIn, received_us: int) -> list[Result]:
    """Store a collector's batch. Return one result per window, in order. A replay changes
    nothing.
    """
    header = batch.header
    clocks = BatchClocks(
        received_us, header.sent_at, header.monotonic, header.boot, header.boot_clocks
    )
    devices = get_or_create_devices(node, header.devices, header.device_facts)
    former_owners = selectors.former_owners(node, devices.values())
    results: list[Result] = []
    allowed: list[WindowIn | None] = []
    for i, window in enumerate(batch.windows):
        refused = batch.refused.get(i, "")
        if window is not None and window.device not in devices:
            refused = "this node may not push for this device"
        elif window is not None and window.measurement not in window_rules.PUSHED_MEASUREMENTS:
            refused = "a collector cannot push this measurement"
        allowed.append(None if refused else window)
        results.append(["rejected", refused] if refused else ["retry"])
    _store(
        node,
        devices,
        allowed,
        results,
        clocks,
        batch_uuid=header.batch,
        received_us=received_us,
        sent_us=header.sent_at,
        origin="",
        former_owners=former_owners,
    )
    gaps = [gap for gap in header.gaps if _may_declare(gap, header.devices, devices, former_owners)]
    store_gaps(gaps, header.devices, devices)
    Node.objects.filter(pk=node.pk).update(
        last_push_us=received_us,
        skew_us=window_rules.skew_us(received_us, header.sent_at),
        health=header.health,
        start_problem="",
        start_problem_us=None,
    )
    return results


def _may_declare(
    gap: GapIn,
    keys: list[str],
    devices: Mapping[str, Device],
    former_owners: Mapping[int, FormerOwner | None],
) -> bool:
    """Return whether the node may declare a gap: of its own device, or until the move of a former
    one, in a possible time.
    """
    if not 0 <= gap.start <= gap.end <= LATEST_US:
        return False
    device = devices.get(keys[gap.device]) if 0 <= gap.device < len(keys) else None
    if device is None or device.pk not in former_owners:
        return device is not None
    former = former_owners[device.pk]
    return former is not None and gap.end <= former.until_us + MOVE_TOLERANCE_US


@transaction.atomic
def accept_declared(
    *,
    node: Node,
    devices: Sequence[Device],
    windows: list[WindowIn],
    batch_uuid: UUID,
    origin: str,
    now: int,
) -> list[Result]:
    """Store windows declared for a node without a collector, by the rules of ``accept_batch``.

    ``devices``: those of the windows.
    """
    results: list[Result] = []
    allowed: list[WindowIn | None] = []
    for window in windows:
        reason = window_rules.problem(window)
        allowed.append(None if reason else window)
        results.append(["rejected", reason] if reason else ["retry"])
    _store(
        node,
        {device.key: device for device in devices},
        allowed,
        results,
        None,
        batch_uuid=batch_uuid,
        received_us=now,
        sent_us=None,
        origin=origin,
        former_owners={},
    )
    return results


def _store(
    node: Node,
    devices: dict[str, Device],
    windows: list[WindowIn | None],
    results: list[Result],
    clocks: BatchClocks | None,
    *,
    batch_uuid: UUID,
    received_us: int,
    sent_us: int | None,
    origin: str,
    former_owners: Mapping[int, FormerOwner | None],
) -> None:
    """``clocks``: None for windows that a person or an import declares."""
    good = [window for window in windows if window is not None]
    if not good:
        return
    context = read_context(node, devices, good, clocks, received_us, former_owners=former_owners)
    by_age = sorted(
        (window.mono_end_us, i) for i, window in enumerate(windows) if window is not None
    )
    for _, i in by_age:
        window = windows[i]
        assert window is not None
        results[i] = decide(context, window)
    write_boot_clocks(context)
    if not context.stored and not context.quarantine_reasons:
        return
    row = Batch.objects.create(
        node=node,
        uuid=batch_uuid,
        received_us=received_us,
        sent_us=sent_us,
        skew_us=window_rules.skew_us(received_us, sent_us) if sent_us is not None else None,
        windows=len(context.stored),
        origin=origin,
    )
    write_windows(context, row)
    write_quarantined(context, row)
    if clocks is not None:
        follow_moves(context)
