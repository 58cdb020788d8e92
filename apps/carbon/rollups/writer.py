"""Write daily rollups: figures of completed days, summed once, and of the completed hours of the
current day until it ends. The only writer of rollups.

Each change of their sources calls :func:`mark_stale` in the same transaction. A job sums these days
again (:func:`roll_up`). Until then pages read the ledger for them, so figures are always current.
"""

import time
from collections.abc import Sequence
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

from django.db import connection, transaction
from django.db.models import Min, Q

from apps.accounts.models import Lab
from apps.assets.models import EmbodiedCharge
from apps.carbon.choices import RollupKind
from apps.carbon.market.services import MATCH
from apps.carbon.models import RolledDay, StaleSpan
from apps.carbon.rollups.day_sums import sum_embodied, sum_use
from apps.carbon.rollups.reader import SUMS
from apps.core.clock import now_us
from apps.core.intervals import day_edges, merge_intervals
from apps.core.jobs import enqueue
from apps.core.models import Job
from apps.core.sql import ROLLUPS, lock_shared, try_lock_exclusive
from apps.core.units import US_PER_HOUR, US_PER_S, hour_of
from apps.energy.models import DeviceHour, IdleShare, LedgerEntry

ROLL_UP, HOUR_OVER = "carbon.roll_up", "carbon.hour_over"
DELAY_US = 30 * US_PER_S  # a burst of changes is summed once, at its end
AFTER_END_US = 600 * US_PER_S  # the last windows of an hour arrive a little after it
_TRIES, _PAUSE_S = 200, 0.05
_MOST_DAYS, _LONG_S = 64, 0.2  # per transaction
_MOST_SPANS = 200  # in one query
_MOST_S = 60  # per job: half of its lease

Days = Sequence[tuple[int, int]]


def mark_stale(*, lab: Lab, what: RollupKind, from_hour: int, to_hour: int) -> None:
    """Mark daily rollups of ``[from_hour, to_hour)`` stale.

    Call it in the transaction of the change. Writers share a lock. They wait while days are summed.
    """
    if to_hour <= from_hour:
        return
    lock_shared(ROLLUPS, lab.pk)
    now = now_us()
    touched = RolledDay.objects.filter(
        lab=lab, what=what, from_hour__lt=to_hour, to_hour__gt=from_hour
    ).exists()
    if touched:
        StaleSpan.objects.create(lab=lab, what=what, from_hour=from_hour, to_hour=to_hour)
    if touched or from_hour < _today(lab, now):
        enqueue(kind=ROLL_UP, key=str(lab.pk), due_us=now + DELAY_US)
    elif not Job.objects.filter(kind=HOUR_OVER, key=str(lab.pk)).exists():
        ask_for_next_hour(lab=lab, now=now)


def ask_for_next_hour(*, lab: Lab, now: int) -> None:
    """Enqueue the rollup of the first hour that is not complete yet."""
    due_us = (hour_of(now - AFTER_END_US) + 1) * US_PER_HOUR + AFTER_END_US
    enqueue(kind=HOUR_OVER, key=str(lab.pk), due_us=due_us)


def _today(lab: Lab, now: int) -> int:
    """Return the first hour of the lab's current day."""
    return day_edges(hour_of(now), hour_of(now) + 1, ZoneInfo(lab.time_zone))[-2]


class RollupLocked(Exception):
    """The sources of rollups were locked by writers all the time. Try again later."""


def roll_up(*, lab: Lab, now: int) -> bool:
    """Roll up all completed days of a lab that are missing or stale, and completed hours of the
    current day, for at most a minute.

    Return whether none is left. Raises RollupLocked.
    """
    until = time.monotonic() + _MOST_S
    left = [what for what in RollupKind if not _roll_up(lab, what, now, until)]
    return not left


def _roll_up(lab: Lab, what: RollupKind, now: int, until: float) -> bool:
    with_exclusive_lock(lab, lambda: _forget_what_is_stale(lab, what))
    waiting = _missing(lab, what, now)
    done, size = 0, 1
    while done < len(waiting) and time.monotonic() < until:
        part = waiting[done : done + size]
        started_s = time.monotonic()
        with_exclusive_lock(lab, lambda part=part: _sum(lab, what, part))
        done += len(part)
        size = (
            min(_MOST_DAYS, size * 2)
            if time.monotonic() - started_s < _LONG_S
            else max(1, size // 2)
        )
    return done >= len(waiting)


def with_exclusive_lock(lab: Lab, work: Any) -> None:
    """Run ``work`` in its own transaction while its sources are not changed.

    It holds no lock while it waits. Raises RollupLocked.
    """
    for _ in range(_TRIES):
        with transaction.atomic():
            if try_lock_exclusive(ROLLUPS, lab.pk):
                work()
                return
        time.sleep(_PAUSE_S)
    raise RollupLocked(f"The ledger of {lab.slug} was being written for {_TRIES * _PAUSE_S:.0f} s.")


def _forget_what_is_stale(lab: Lab, what: RollupKind) -> None:
    spans = list(
        StaleSpan.objects.filter(lab=lab, what=what).values_list("pk", "from_hour", "to_hour")
    )
    touched = _overlapping([(from_hour, to_hour) for _, from_hour, to_hour in spans])
    touched |= ~Q(basis=lab.basis, time_zone=lab.time_zone)
    _forget(lab, what, touched)
    StaleSpan.objects.filter(pk__in=[pk for pk, _, _ in spans]).delete()


def _overlapping(spans: Days) -> Q:
    """Return the rollups that overlap spans. Beyond a number of separate ones, they are all that
    overlap the hull: a query has a limited depth.
    """
    merged = list(merge_intervals(spans))
    if len(merged) > _MOST_SPANS:
        merged = [(merged[0][0], merged[-1][1])]
    overlapping = Q(pk__in=[])
    for from_hour, to_hour in merged:
        overlapping |= Q(from_hour__lt=to_hour, to_hour__gt=from_hour)
    return overlapping


def _forget(lab: Lab, what: RollupKind, which: Q) -> None:
    days = list(RolledDay.objects.filter(which, lab=lab, what=what).values_list("pk", flat=True))
    if what == RollupKind.USE and days:
        _add_to_run_totals(lab, days, sign=-1)
        enqueue(kind=MATCH, key=str(lab.pk))
    RolledDay.objects.filter(pk__in=days).delete()


def _missing(lab: Lab, what: RollupKind, now: int) -> list[tuple[int, int]]:
    """Return the completed days without a rollup, and such hours of the current day, latest first,
    since pages show those.

    They start at the first day with data. If idle time is spread by use, each window changes the
    shares of the whole current month, so its days are left out until it ends.
    """
    first, now_hour = _first_hour(lab, what), hour_of(now)
    moving = IdleShare.objects.filter(lab=lab, to_hour__gt=now_hour, from_hour__lte=now_hour)
    moving_hour = moving.aggregate(first=Min("from_hour"))["first"]
    end_hour = now_hour if moving_hour is None else moving_hour
    if first is None or first >= end_hour:
        return []
    existing = set(RolledDay.objects.filter(lab=lab, what=what).values_list("from_hour", "to_hour"))
    edges = day_edges(first, end_hour, ZoneInfo(lab.time_zone))
    spans = [(start, end) for start, end in pairwise(edges) if end <= end_hour]
    if what == RollupKind.USE:
        hours_end = min(end_hour, hour_of(now - AFTER_END_US))
        spans += [(hour, hour + 1) for hour in range(_today(lab, now), hours_end)]
    return [span for span in reversed(spans) if span not in existing]


def count_days(
    lab: Lab, what: RollupKind, from_hour: int, to_hour: int, now: int
) -> tuple[int, int]:
    """Return how many completed days that overlap ``[from_hour, to_hour)`` are summed, and how
    many there are.
    """
    span = [(from_hour, to_hour)]
    rolled = RolledDay.objects.filter(_overlapping(span), lab=lab, what=what)
    stale = _overlapping(
        list(StaleSpan.objects.filter(lab=lab, what=what).values_list("from_hour", "to_hour"))
    )
    stale |= ~Q(basis=lab.basis, time_zone=lab.time_zone)
    number = rolled.count()
    missing = sum(start < to_hour and end > from_hour for start, end in _missing(lab, what, now))
    return number - rolled.filter(stale).count(), number + missing


def _first_hour(lab: Lab, what: RollupKind) -> int | None:
    if what == RollupKind.HARDWARE:
        return EmbodiedCharge.objects.filter(lab=lab).aggregate(first=Min("from_hour"))["first"]  # type: ignore[no-any-return]
    firsts = [
        rows.objects.filter(lab=lab).aggregate(first=Min("hour"))["first"]
        for rows in (LedgerEntry, DeviceHour)
    ]
    return min((first for first in firsts if first is not None), default=None)


def _sum(lab: Lab, what: RollupKind, days: Days) -> None:
    _forget(lab, what, _overlapping(days))  # the hours of a day that has ended
    RolledDay.objects.bulk_create(
        [
            RolledDay(
                lab=lab,
                what=what,
                from_hour=start,
                to_hour=end,
                basis=lab.basis,
                time_zone=lab.time_zone,
            )
            for start, end in days
        ]
    )
    rolled_days = RolledDay.objects.filter(
        lab=lab, what=what, from_hour__in=[start for start, _ in days]
    )
    ids = ", ".join(str(int(pk)) for pk in rolled_days.values_list("pk", flat=True))
    if what == RollupKind.HARDWARE:
        sum_embodied(lab, ids)
        return
    sum_use(lab, ids)
    _add_to_run_totals(lab, list(rolled_days.values_list("pk", flat=True)), sign=1)
    enqueue(kind=MATCH, key=str(lab.pk))


def _add_to_run_totals(lab: Lab, day_ids: Sequence[int], *, sign: int) -> None:
    """Add the use of runs on rolled days to their totals, or subtract it."""
    if not day_ids:
        return
    sums = ", ".join(f"SUM(u.{name}) * {int(sign)}" for name in SUMS)
    changes = ", ".join(f"{name} = carbon_runtotal.{name} + excluded.{name}" for name in SUMS)
    with connection.cursor() as cursor:
        for start in range(0, len(day_ids), _MOST_DAYS):
            ids = ", ".join(str(int(pk)) for pk in day_ids[start : start + _MOST_DAYS])
            cursor.execute(
                f"INSERT INTO carbon_runtotal (lab_id, run_uuid, {', '.join(SUMS)}) "
                f"SELECT c.lab_id, c.run_uuid, {sums} FROM carbon_useday u "
                "JOIN ingest_consumer c ON c.id = u.consumer_id "
                f"WHERE u.day_id IN ({ids}) AND c.lab_id = %s AND c.run_uuid IS NOT NULL "
                "GROUP BY c.lab_id, c.run_uuid "
                f"ON CONFLICT (lab_id, run_uuid) DO UPDATE SET {changes}",
                [lab.pk],
            )
            cursor.execute(
                "INSERT INTO carbon_runcost "
                "(lab_id, currency, run_uuid, energy_mj, cost_ucurrency) "
                f"SELECT c.lab_id, u.currency, c.run_uuid, SUM(u.energy_mj) * {int(sign)}, "
                f"SUM(u.cost_ucurrency) * {int(sign)} FROM carbon_useday u "
                "JOIN ingest_consumer c ON c.id = u.consumer_id WHERE "
                f"u.day_id IN ({ids}) AND c.lab_id = %s AND c.run_uuid IS NOT NULL "
                "AND u.currency <> '' GROUP BY c.lab_id, u.currency, c.run_uuid "
                "ON CONFLICT (lab_id, currency, run_uuid) DO UPDATE SET "
                "energy_mj = carbon_runcost.energy_mj + excluded.energy_mj, "
                "cost_ucurrency = carbon_runcost.cost_ucurrency + excluded.cost_ucurrency",
                [lab.pk],
            )
