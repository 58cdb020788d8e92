"""Decisions of managers about quarantined windows: accept, discard, undo. Each is audited."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from django.db import transaction
from django.db.models import F

from apps.accounts import audit
from apps.accounts.choices import Act
from apps.accounts.models import Lab, User
from apps.core.errors import Conflict, InvalidInput, NotFound
from apps.core.intervals import hours_touched
from apps.fleet.models import Device
from apps.ingest import selectors
from apps.ingest.acceptance import Acceptance, acceptance, scaled_shares
from apps.ingest.archive_files import ArchiveProblem
from apps.ingest.choices import FLAG_BRIDGED, FLAG_DECIDED, Decision, PlacementQuality
from apps.ingest.models import EnergyWindow, QuarantinedWindow
from apps.ingest.placement import EARLIEST_US, FUTURE_US, Candidates, Placed
from apps.ingest.sealed_selectors import is_sealed
from apps.ingest.selectors import counter_of
from apps.ingest.services.classify import Stored, read_context
from apps.ingest.services.reexamine import window_of
from apps.ingest.services.store import delete_window, mark_dirty, write_windows
from apps.ingest.window_rules import MAX_DURATION_US

MAX_REASON = 300
MAX_ROWS = 500
PROBLEMS = {
    "taken": "Another window is counted in this time. Choose a free time, or discard this window.",
    "incomparable": "The windows counted in this time have no readings of the same counter, so the "
    "energy that is counted twice is unknown. Choose a free time, or discard this window.",
    "readings": "Some of its counter readings are counted already, and its energy is not the "
    "difference of its readings, so the energy that is counted twice is unknown. Discard this "
    "window.",
    "counted": "All of its energy is counted already. Discard this window.",
    "time": "The end must be after the start, and at most 400 days later.",
    "early": "The time is before 2020, so the clock of the node was not set. Choose the time in "
    "which the device used the energy, or discard this window.",
    "future": "The time is in the future. Choose the time in which the device used the energy, or "
    "discard this window.",
    "sealed": "The windows of this hour are archived, so nothing can be added to it. Discard this "
    "window, or choose a later time.",
    "archive": "Windows with readings of the same counter are archived, and the archive cannot be "
    "read, so the energy that is counted twice is unknown. Restore the archive first.",
}


@dataclass(frozen=True)
class Outcome:
    """Numbers of a decision about several windows. ``problems``: {window number: reason}."""

    windows: int
    energy_mj: int
    problems: dict[int, str]


def preview_acceptance(
    row: QuarantinedWindow, *, start_us: int, end_us: int, now: int
) -> Acceptance:
    """Return what of a window can be accepted in a time. ``problem`` is a key of PROBLEMS."""
    if not 0 <= start_us < end_us or end_us - start_us > MAX_DURATION_US:
        return Acceptance(start_us, end_us, 0, None, None, "time")
    if start_us < EARLIEST_US:
        return Acceptance(start_us, end_us, 0, None, None, "early")
    if end_us > now + FUTURE_US:
        return Acceptance(start_us, end_us, 0, None, None, "future")
    if is_sealed(row.device_id, row.node_id, start_us, end_us):
        return Acceptance(start_us, end_us, 0, None, None, "sealed")
    content = row.content
    counters = content["counter_start"], content["counter_end"]
    try:
        counted = selectors.counted_windows(row, start_us, end_us)
    except ArchiveProblem:
        return Acceptance(start_us, end_us, 0, None, None, "archive")
    return acceptance(
        energy_mj=row.energy_mj,
        counters=None if None in counters else counters,
        start_us=start_us,
        end_us=end_us,
        counted=counted,
    )


def default_time(row: QuarantinedWindow) -> tuple[int, int]:
    """Return the best possible time of a window, else its wall time."""
    if row.possible:
        return row.possible[0][0], row.possible[0][1]
    return row.content["start_us"], row.content["end_us"]


@transaction.atomic
def accept_windows(
    *,
    lab: Lab,
    pks: Sequence[int],
    reason: str,
    by: User,
    now: int,
    time: tuple[int, int] | None = None,
) -> Outcome:
    """Count quarantined windows: each in ``time``, or None for its default time.

    A window that cannot be counted stays undecided, with its problem in the outcome. Only what is
    not counted yet is added, so windows of a device never overlap. Raises NotFound, InvalidInput.
    """
    audit.hold(lab)
    rows = _rows(lab, pks, reason, Decision.NONE)
    _lock_devices(rows)  # no hour of them is sealed until these windows are stored
    problems: dict[int, str] = {}
    energy_mj = 0
    for row in sorted(rows, key=lambda row: (default_time(row), row.pk)):
        start_us, end_us = time or default_time(row)
        part = preview_acceptance(row, start_us=start_us, end_us=end_us, now=now)
        if part.problem:
            problems[row.pk] = PROBLEMS[part.problem]
            continue
        _add(row, part, now)
        energy_mj += part.energy_mj
        _decide(row, Decision.ACCEPTED, reason, by, now)
    count = len(rows) - len(problems)
    if count:
        _record(lab, rows, problems, Act.WINDOWS_ACCEPTED, reason, energy_mj, by, now)
    return Outcome(count, energy_mj, problems)


@transaction.atomic
def discard_windows(*, lab: Lab, pks: Sequence[int], reason: str, by: User, now: int) -> Outcome:
    """Decide that quarantined windows do not count. They stay stored."""
    audit.hold(lab)
    rows = _rows(lab, pks, reason, Decision.NONE)
    for row in rows:
        _decide(row, Decision.DISCARDED, reason, by, now)
    energy_mj = sum(row.energy_mj for row in rows)
    _record(lab, rows, {}, Act.WINDOWS_DISCARDED, reason, energy_mj, by, now)
    return Outcome(len(rows), energy_mj, {})


@transaction.atomic
def undo_decision(*, lab: Lab, pk: int, by: User, now: int) -> QuarantinedWindow:
    """Undo the decision about a window: it is quarantined again, and what it added is removed."""
    audit.hold(lab)
    row = (
        QuarantinedWindow.objects.select_for_update(of=("self",))
        .select_related("device", "node")
        .filter(pk=pk, node__lab=lab)
        .first()
    )
    if row is None:
        raise NotFound("There is no such quarantined window.", hint="Reload the page.")
    if row.decision == Decision.NONE:
        raise Conflict("This window is not decided.", hint="Reload the page.")
    energy_mj = row.accepted_mj or 0
    if row.decision == Decision.ACCEPTED:
        _remove(row)
    row.accepted_sequence = row.accepted_mj = None
    _decide(row, Decision.NONE, "", None, None)
    _record(lab, [row], {}, Act.WINDOWS_UNDONE, "", energy_mj, by, now)
    return row


def _rows(lab: Lab, pks: Sequence[int], reason: str, decision: Decision) -> list[QuarantinedWindow]:
    if not reason.strip():
        raise InvalidInput("Enter a reason.", field="reason", hint="It is stored with the windows.")
    if len(reason) > MAX_REASON:
        raise InvalidInput(f"A reason has at most {MAX_REASON} characters.", field="reason")
    if len(pks) > MAX_ROWS:
        raise InvalidInput(f"Choose at most {MAX_ROWS} windows at once.", field="windows")
    rows = list(
        QuarantinedWindow.objects.select_for_update(of=("self",))
        .select_related("device", "node__lab", "batch")
        .filter(pk__in=pks, node__lab=lab, decision=decision)
        .order_by("pk")
    )
    if not rows or len(rows) != len(set(pks)):
        raise NotFound(
            "A chosen window is decided already, or does not exist.", hint="Reload the page."
        )
    return rows


def _lock_devices(rows: Sequence[QuarantinedWindow]) -> None:
    devices = Device.objects.select_for_update(no_key=True)
    list(devices.filter(pk__in={row.device_id for row in rows}).order_by("pk"))


def _decide(
    row: QuarantinedWindow, decision: Decision, reason: str, by: User | None, now: int | None
) -> None:
    row.decision, row.decision_reason, row.decided_by, row.decided_us = decision, reason, by, now
    row.save(
        update_fields=[
            "decision",
            "decision_reason",
            "decided_by",
            "decided_us",
            "accepted_sequence",
            "accepted_mj",
        ]
    )


def _add(row: QuarantinedWindow, part: Acceptance, now: int) -> None:
    """Add the accepted part as a window of the ledger."""
    whole = window_of(row.content)
    is_part = part.energy_mj != whole.energy_mj
    window = replace(
        whole,
        energy_mj=part.energy_mj,
        counter_start=part.counter_start,
        counter_end=part.counter_end,
        shares=scaled_shares(whole.shares, part.energy_mj),
    )
    placed = Placed(part.start_us, part.end_us, PlacementQuality.IMPUTED, FLAG_DECIDED)
    context = read_context(
        row.node,
        {row.device.key: row.device},
        [window],
        None,
        now,
        former_owners={},
        possible={(window.epoch, window.sequence, row.digest): Candidates((placed,))},
    )
    epoch_id = context.epochs[row.device_id, window.epoch]
    if (epoch_id, window.sequence) in context.digests:  # the identity of another window
        window.sequence = -row.pk
    context.stored.append(
        Stored(
            window,
            row.device_id,
            epoch_id,
            part.start_us,
            part.end_us,
            PlacementQuality.IMPUTED,
            window.flags | FLAG_DECIDED | (FLAG_BRIDGED if is_part else 0),
            part.end_us - whole.end_us,
            row.digest,
        )
    )
    write_windows(context, row.batch)
    row.accepted_sequence, row.accepted_mj = window.sequence, part.energy_mj


def _remove(row: QuarantinedWindow) -> None:
    assert row.accepted_sequence is not None
    _lock_devices([row])
    found = EnergyWindow.objects.filter(
        epoch__device_id=row.device_id,
        epoch__key=row.epoch_key,
        sequence=row.accepted_sequence,
        digest=row.digest,
    ).first()
    if found is None or is_sealed(found.device_id, found.node_id, found.start_us, found.end_us):
        raise Conflict(
            "The window of this decision is archived, so the decision cannot be undone.",
            hint="Correct the figures by a restatement.",
        )
    later = _covering_decision(row, found)
    if later is not None:
        raise Conflict(
            f"The window of sequence {later.sequence} was accepted without the energy of this one.",
            hint="Undo that decision first.",
        )
    delete_window(found)
    hours = {(found.device_id, hour) for hour in hours_touched(found.start_us, found.end_us)}
    mark_dirty(row.device.node, hours)
    if row.node_id != row.device.node_id:
        mark_dirty(row.node, hours)


def _covering_decision(row: QuarantinedWindow, found: EnergyWindow) -> QuarantinedWindow | None:
    """Return the decision that accepted a window around the readings of an accepted one, without
    its energy.

    Without the inner window these readings would count as counted, so nobody could accept it again.
    """
    low, high = found.counter_start, found.counter_end
    if low is None or high is None or low >= high:
        return None
    counter = counter_of(row.epoch_key)
    others = QuarantinedWindow.objects.filter(
        device_id=row.device_id,
        decision=Decision.ACCEPTED,
        accepted_mj__lt=F("energy_mj"),
        epoch_key__startswith=counter,
    ).exclude(pk=row.pk)
    around = [
        other
        for other in others.order_by("-decided_us", "-pk")
        if counter_of(other.epoch_key) == counter
        and other.content["counter_start"] < low
        and high < other.content["counter_end"]
    ]
    if not around:
        return None
    try:
        counted = selectors.counted_windows(row, found.start_us, found.end_us)
    except ArchiveProblem as error:
        raise Conflict(PROBLEMS["archive"]) from error
    is_covered = any(
        window.counter_start < low and high < window.counter_end
        for window in counted
        if window.is_same_counter
        and window.counter_start is not None
        and window.counter_end is not None
    )
    return around[0] if is_covered else None


def _record(
    lab: Lab,
    rows: Sequence[QuarantinedWindow],
    problems: dict[int, str],
    action: Act,
    reason: str,
    energy_mj: int,
    by: User,
    now: int,
) -> None:
    decided = [row for row in rows if row.pk not in problems]
    audit.record(
        lab=lab,
        by=by,
        action=action,
        subject=", ".join(sorted({row.node.hostname for row in decided}))[:300],
        details={
            "windows": [row.pk for row in decided],
            "energy_mj": energy_mj,
            "reason": reason,
        },
        now=now,
    )
