"""Accept batches of collectors, and windows declared by persons or imports."""

from uuid import UUID

from django.db import transaction

from apps.fleet.models import Device, Node
from apps.ingest import window_rules
from apps.ingest.models import Batch
from apps.ingest.parsing import BatchIn
from apps.ingest.services.classify import Result, decide, read_context
from apps.ingest.services.lookups import get_or_create_devices
from apps.ingest.services.store import store_gaps, write_quarantined, write_windows
from apps.ingest.window_rules import ClockFacts, WindowIn


@transaction.atomic
def accept_batch(*, node: Node, batch: BatchIn, received_us: int) -> list[Result]:
    """Store a collector's batch. Return one result per window, in order. A replay changes
    nothing.
    """
    header = batch.header
    clock = ClockFacts(received_us, header.sent_at, header.monotonic, header.boot)
    devices = get_or_create_devices(node, header.devices, header.device_facts)
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
        clock,
        batch_uuid=header.batch,
        sent_us=header.sent_at,
        origin="",
    )
    store_gaps(header.gaps, header.devices, devices)
    Node.objects.filter(pk=node.pk).update(
        last_push_us=received_us,
        skew_us=window_rules.skew_us(received_us, header.sent_at),
        health=header.health,
    )
    return results


@transaction.atomic
def accept_declared(
    *, node: Node, device: Device, windows: list[WindowIn], batch_uuid: UUID, origin: str, now: int
) -> list[Result]:
    """Store windows declared for a node without a collector, by the rules of ``accept_batch``."""
    results: list[Result] = []
    allowed: list[WindowIn | None] = []
    for window in windows:
        reason = window_rules.problem(window)
        allowed.append(None if reason else window)
        results.append(["rejected", reason] if reason else ["retry"])
    clock = ClockFacts(received_us=now, sent_us=now, sent_monotonic_us=-1, boot="\x00")
    _store(
        node,
        {device.key: device},
        allowed,
        results,
        clock,
        batch_uuid=batch_uuid,
        sent_us=None,
        origin=origin,
    )
    return results


def _store(
    node: Node,
    devices: dict[str, Device],
    windows: list[WindowIn | None],
    results: list[Result],
    clock: ClockFacts,
    *,
    batch_uuid: UUID,
    sent_us: int | None,
    origin: str,
) -> None:
    good = [window for window in windows if window is not None]
    if not good:
        return
    context = read_context(node, devices, good)
    for i, window in enumerate(windows):
        if window is not None:
            results[i] = decide(context, window, clock)
    if not context.stored and not context.quarantine_reasons:
        return
    row = Batch.objects.create(
        node=node,
        uuid=batch_uuid,
        received_us=clock.received_us,
        sent_us=sent_us,
        skew_us=window_rules.skew_us(clock.received_us, sent_us) if sent_us is not None else None,
        windows=len(context.stored),
        origin=origin,
    )
    write_windows(context, row)
    write_quarantined(context, row)
