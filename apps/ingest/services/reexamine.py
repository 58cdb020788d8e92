"""Examine quarantined windows again: by the present rules, or because their device moved."""

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from django.db import transaction

from apps.accounts.models import Lab
from apps.core.clock import now_us
from apps.fleet.models import Node
from apps.ingest import selectors
from apps.ingest.choices import Decision
from apps.ingest.models import QuarantinedWindow
from apps.ingest.placement import Candidates, Placed, place_by_offset
from apps.ingest.services.classify import PENDING_MOVE, SEALED, decide, read_context
from apps.ingest.services.store import write_windows
from apps.ingest.window_rules import WindowIn

CHUNK = 200
# A window of the future or with a conflicting identity does not become right by a second look.
# A sealed one can turn out to be a duplicate once its archive is readable.
RULE_REASONS = ("clock", "impossible", "overlap", SEALED)


def window_of(content: dict[str, Any]) -> WindowIn:
    """Return the window that a quarantined row contains. Rows of earlier versions have no
    monotonic times.
    """
    rest = {"mono_start_us": 0, "mono_end_us": 0, **content}
    rest["shares"] = [(key, energy_mj) for key, energy_mj in content["shares"]]
    return WindowIn(**rest)


def place_pending(*, node: Node, device_id: int) -> int:
    """Place the pending windows of a device that moved to ``node``. Return their number."""
    rows = QuarantinedWindow.objects.filter(node=node, device_id=device_id, reason=PENDING_MOVE)
    return _examine([node], rows)


def reexamine(*, lab: Lab) -> tuple[int, int]:
    """Examine all undecided windows of a lab by the present rules. Return (examined, placed)."""
    rows = QuarantinedWindow.objects.filter(node__lab=lab, reason__in=RULE_REASONS)
    examined = rows.filter(decision=Decision.NONE).count()
    return examined, _examine(list(Node.objects.filter(lab=lab).order_by("pk")), rows)


def _examine(nodes: Sequence[Node], rows: Any) -> int:
    placed = 0
    for node in nodes:
        waiting = rows.filter(node=node, decision=Decision.NONE)
        ids = list(waiting.order_by("batch_id", "pk").values_list("pk", flat=True))
        for at in range(0, len(ids), CHUNK):
            placed += _examine_chunk(node, ids[at : at + CHUNK])
    return placed


@transaction.atomic
def _examine_chunk(node: Node, ids: list[int]) -> int:
    rows = (
        QuarantinedWindow.objects.select_for_update(of=("self",))
        .filter(pk__in=ids, decision=Decision.NONE)
        .select_related("device", "batch", "node__lab")
        .order_by("batch_id", "pk")
    )
    placed = 0
    for batch, group in groupby(rows, key=lambda row: row.batch):
        placed += _examine_batch(node, batch, list(group))
    return placed


def _examine_batch(node: Node, batch: Any, rows: list[QuarantinedWindow]) -> int:
    windows = [window_of(row.content) for row in rows]
    devices = {row.device.key: row.device for row in rows}
    former = selectors.former_owners(node, devices.values())
    offsets = selectors.boot_offsets(node, {window.epoch.partition("/")[0] for window in windows})
    possible = {}
    for row, window in zip(rows, windows, strict=True):
        times = tuple(Placed(*each) for each in row.possible)
        offset = offsets.get(window.epoch.partition("/")[0])
        if not times and offset is not None and window.mono_end_us:
            times = place_by_offset(window, offset, batch.received_us)
        found = Candidates(times) if times else Candidates(reason=row.reason)
        possible[window.epoch, window.sequence, row.digest] = found
    context = read_context(
        node, devices, windows, None, now_us(), former_owners=former, possible=possible
    )
    context.quarantined.clear()  # these rows themselves
    is_accepted = []
    for row, window in sorted(
        zip(rows, windows, strict=True), key=lambda pair: pair[1].mono_end_us or pair[1].end_us
    ):
        result = decide(context, window)
        if result[0] == "quarantined":
            if result[1] != row.reason:
                row.reason = result[1]
                row.save(update_fields=["reason"])
        else:
            is_accepted.append(row.pk)
    write_windows(context, batch)
    QuarantinedWindow.objects.filter(pk__in=is_accepted).delete()
    return len(is_accepted)
