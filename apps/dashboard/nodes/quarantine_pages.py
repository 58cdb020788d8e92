"""Quarantined windows: the list, one window with what is counted in its time, pending moves."""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from django.db.models import Count, Q

from apps.accounts.models import Lab
from apps.core.units import US_PER_S, window_energy_text
from apps.dashboard.formatting import duration, exact, significant
from apps.fleet.models import Device, Node
from apps.ingest.acceptance import Acceptance, CountedWindow
from apps.ingest.archive_files import ArchiveProblem
from apps.ingest.choices import Decision
from apps.ingest.models import DeviceMove, QuarantinedWindow
from apps.ingest.sealed_selectors import is_sealed
from apps.ingest.selectors import ENERGY_SUMS, counted_windows, pending_moves, summed_mj
from apps.ingest.services.classify import PENDING_MOVE, SEALED
from apps.ingest.services.decisions import PROBLEMS, default_time, preview_acceptance

MAX_LISTED = 200
REASONS = {
    "conflict": "the same window was uploaded with other values",
    "clock": "the clock of the node was wrong",
    "future": "its time is in the future",
    "impossible": "more energy than the device can draw",
    "overlap": "its time is already measured",
    PENDING_MOVE: "the device belongs to another node",
    SEALED: "its hour is archived",
}


@dataclass(frozen=True)
class Energy:
    """Displayed energy with its exact value."""

    text: str
    exact: str
    energy_mj: int


def energy_of(energy_mj: int) -> Energy:
    text = window_energy_text(energy_mj)
    return Energy(text, exact(energy_mj, "energy_mj"), energy_mj)


def _watts(energy_mj: int, length_us: int) -> str:
    return f"{significant(Decimal(energy_mj) * US_PER_S / (1000 * length_us))} W"


@dataclass(frozen=True)
class QuarantinedLine:
    """A quarantined window in the list. Times are its best possible ones."""

    row: QuarantinedWindow
    reason: str
    energy: Energy
    start_us: int
    length: str
    accepted: Energy | None


@dataclass(frozen=True)
class MoveLine:
    """A move of a device, with the energy that waits for it."""

    move: DeviceMove
    windows: int
    energy: Energy


@dataclass(frozen=True)
class Choice:
    """A value of a filter with its number of windows."""

    value: str
    name: str
    windows: int


@dataclass(frozen=True)
class QuarantinePage:
    lines: Sequence[QuarantinedLine]
    moves: Sequence[MoveLine]
    total: Energy
    windows: int
    reasons: Sequence[Choice]
    reason: str
    is_decided: bool
    decided: int


def quarantine_page(*, lab: Lab, reason: str, is_decided: bool) -> QuarantinePage:
    """Return the windows that wait for a decision, or the decided ones. At most eight queries."""
    all_rows = QuarantinedWindow.objects.filter(node__lab=lab)
    waiting, decided = Q(decision=Decision.NONE), ~Q(decision=Decision.NONE)
    rows = all_rows.filter(decided if is_decided else waiting)
    groups = rows.values("reason").annotate(windows=Count("pk")).order_by("reason")
    counts = {group["reason"]: group["windows"] for group in groups}
    if reason:
        rows = rows.filter(reason=reason)
    total_mj = summed_mj(rows.aggregate(**ENERGY_SUMS))
    order = ["-decided_us", "-pk"] if is_decided else ["node__hostname", "device_id", "sequence"]
    shown = rows.select_related("node", "device", "decided_by").order_by(*order)[:MAX_LISTED]
    return QuarantinePage(
        lines=[_line(row) for row in shown],
        moves=_move_lines(lab),
        total=energy_of(total_mj),
        windows=sum(counts.values()) if not reason else counts.get(reason, 0),
        reasons=[Choice(code, REASONS.get(code, code), number) for code, number in counts.items()],
        reason=reason,
        is_decided=is_decided,
        decided=all_rows.filter(decided).count(),
    )


def _line(row: QuarantinedWindow) -> QuarantinedLine:
    start_us, end_us = default_time(row)
    return QuarantinedLine(
        row=row,
        reason=REASONS.get(row.reason, row.reason),
        energy=energy_of(row.energy_mj),
        start_us=start_us,
        length=duration(max(end_us - start_us, 0)),
        accepted=None if row.accepted_mj is None else energy_of(row.accepted_mj),
    )


def _move_lines(lab: Lab) -> list[MoveLine]:
    """Return the moves of devices that wait for a decision. Two queries."""
    sums: dict[tuple[int, int], tuple[int, int]] = {}
    for device_id, node_id, energy_mj in QuarantinedWindow.objects.filter(
        node__lab=lab, reason=PENDING_MOVE, decision=Decision.NONE
    ).values_list("device_id", "node_id", "energy_mj"):
        windows, total_mj = sums.get((device_id, node_id), (0, 0))
        sums[device_id, node_id] = (windows + 1, total_mj + energy_mj)
    lines = []
    for move in pending_moves(lab):
        windows, total_mj = sums.get((move.device_id, move.to_node_id), (0, 0))
        lines.append(MoveLine(move, windows, energy_of(total_mj)))
    return lines


@dataclass(frozen=True)
class CountedLine:
    """A counted window in the time of a quarantined one."""

    window: CountedWindow
    energy: Energy


@dataclass(frozen=True)
class QuarantinedWindowPage:
    """``part``: what would be counted at the chosen time. ``problem``: why nothing would.

    ``is_complete``: ``counted`` has all that is counted at that time (no archived window is left
    out).
    """

    row: QuarantinedWindow
    node: Node
    device: Device
    reason: str
    energy: Energy
    start_us: int
    end_us: int
    measured: str
    counted: Sequence[CountedLine]
    is_complete: bool
    part: Acceptance
    part_energy: Energy
    part_watts: str
    problem: str
    accepted: Energy | None


def quarantined_window_page(
    *, row: QuarantinedWindow, time: tuple[int, int] | None, now: int
) -> QuarantinedWindowPage:
    """Return a quarantined window. ``time``: None for its default one."""
    start_us, end_us = time or default_time(row)
    part = preview_acceptance(row, start_us=start_us, end_us=end_us, now=now)
    is_complete = not is_sealed(row.device_id, row.node_id, start_us, end_us)
    try:
        counted = counted_windows(row, start_us, end_us)[:MAX_LISTED]
    except ArchiveProblem:
        counted, is_complete = [], False
        problem = PROBLEMS["archive"]
    else:
        problem = PROBLEMS.get(part.problem, "")
    content = row.content
    measured_us = content.get("mono_end_us", 0) - content.get("mono_start_us", 0)
    length_us = part.end_us - part.start_us
    return QuarantinedWindowPage(
        row=row,
        node=row.node,
        device=row.device,
        reason=REASONS.get(row.reason, row.reason),
        energy=energy_of(row.energy_mj),
        start_us=start_us,
        end_us=end_us,
        measured=duration(measured_us or content["end_us"] - content["start_us"]),
        counted=[CountedLine(window, energy_of(window.energy_mj)) for window in counted],
        is_complete=is_complete,
        part=part,
        part_energy=energy_of(part.energy_mj),
        part_watts=_watts(part.energy_mj, length_us) if length_us else "",
        problem=problem,
        accepted=None if row.accepted_mj is None else energy_of(row.accepted_mj),
    )
