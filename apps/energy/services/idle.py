"""Idle energy: the lab's dated policy, and the parts that projects bear where it is spread."""

from collections import defaultdict
from itertools import groupby
from zoneinfo import ZoneInfo

from django.db import transaction
from django.db.models import Max, Min

from apps.accounts import audit
from apps.accounts.choices import Act
from apps.accounts.models import Lab, User
from apps.core.errors import InvalidInput
from apps.core.intervals import changed_span
from apps.core.jobs import enqueue
from apps.core.sql import as_int, fetch_rows, json_int_sql
from apps.core.units import END_HOUR, US_PER_HOUR, hour_of
from apps.energy import signals
from apps.energy.calc import SHARES, IdleSpan, cumulative, idle_spans, month_edges
from apps.energy.choices import IdleSpread
from apps.energy.models import IdlePolicy, IdleShare, LedgerEntry
from apps.runs.models import Run

Part = tuple[int, int, int, int, int]  # from hour, to hour, project id, low, high
DELAY_US = 60_000_000  # the shares of a month follow what was settled in it within a minute


def ask_to_spread(*, lab: Lab, now: int) -> None:
    """Ask for the parts of idle energy to be derived again, soon, where the lab spreads it."""
    if IdlePolicy.objects.filter(lab=lab).exists():
        enqueue(kind="energy.spread_idle", key=str(lab.pk), due_us=now + DELAY_US)


@transaction.atomic
def set_idle_policy(*, lab: Lab, policy: str, from_us: int, by: User | None, now: int) -> IdlePolicy:
    """Let a policy hold from the whole UTC hour that holds ``from_us`` on; one of the same hour is replaced."""
    if policy not in IdleSpread.values:
        raise InvalidInput(
            f"{policy[:40]!r} is not a policy.", field="policy", hint=f"Use one of {', '.join(IdleSpread.values)}."
        )
    from_hour = max(0, hour_of(from_us))
    if from_hour >= END_HOUR:
        raise InvalidInput("This day is out of range.", field="from_day", hint="Choose a day of this century.")
    row, _ = IdlePolicy.objects.update_or_create(
        lab=lab, from_hour=from_hour, defaults={"policy": policy, "made_by": by, "made_us": now}
    )
    audit.record(lab=lab, by=by, action=Act.IDLE_POLICY_SET, subject=policy, details={"from_hour": from_hour}, now=now)
    spread_idle(lab=lab)
    return row


@transaction.atomic
def withdraw_idle_policy(*, lab: Lab, from_hour: int, by: User | None, now: int) -> None:
    """Undo a policy as if it had never been: the one before holds on. Raises InvalidInput where none begins then."""
    row = IdlePolicy.objects.filter(lab=lab, from_hour=from_hour).first()
    if row is None:
        raise InvalidInput("No such policy.", field="withdraw", hint="Reload the page and use a button on it.")
    details = {"from_hour": from_hour}
    audit.record(lab=lab, by=by, action=Act.IDLE_POLICY_WITHDRAWN, subject=row.policy, details=details, now=now)
    row.delete()
    spread_idle(lab=lab)


@transaction.atomic
def spread_idle(*, lab: Lab) -> int:
    """Derive the parts of idle energy from policies and use, whole; return how many spans there are."""
    Lab.objects.select_for_update().get(pk=lab.pk)
    new_shares = [
        (span, project, low, high)
        for span in spans_of(lab)
        for project, low, high in cumulative(_weights(lab, span))
    ]  # fmt: skip
    stored_shares = sorted(
        IdleShare.objects.filter(lab=lab).values_list("from_hour", "to_hour", "project_id", "low", "high")
    )
    now = sorted((span.from_hour, span.to_hour, project, low, high) for span, project, low, high in new_shares)
    if stored_shares != now:
        _notify_changes(lab, stored_shares, now)
        IdleShare.objects.filter(lab=lab).delete()
        IdleShare.objects.bulk_create(
            [
                IdleShare(lab=lab, from_hour=start, to_hour=end, project_id=project, low=low, high=high, total=SHARES)
                for start, end, project, low, high in now
            ],
            batch_size=500,
        )
    return len({row[0] for row in now})


def _notify_changes(lab: Lab, before: list[Part], after: list[Part]) -> None:
    """Tell who listens within which hours the parts are others now."""
    span = changed_span(*(_history(parts) for parts in (before, after)))
    if span is not None:
        signals.idle_spread.send(sender=IdleShare, lab=lab, from_hour=span[0], to_hour=span[1])


def _history(parts: list[Part]) -> list[tuple[int, int, object]]:
    """Return the parts of each span as one value."""
    return [(*hours, tuple(row[2:] for row in rows)) for hours, rows in groupby(parts, key=lambda row: row[:2])]


def spans_of(lab: Lab) -> list[IdleSpan]:
    """Return the spans in which idle energy is spread, months of the lab's time zone cut where the policy changes."""
    policies = list(IdlePolicy.objects.filter(lab=lab).values_list("from_hour", "policy"))
    seen = LedgerEntry.objects.filter(lab=lab).aggregate(first=Min("hour"), last=Max("hour"))
    if not policies or seen["first"] is None:
        return []
    months = month_edges(seen["first"], seen["last"] + 1, ZoneInfo(lab.time_zone))
    return idle_spans(policies=policies, months=months, visible=IdleSpread.VISIBLE)


def _weights(lab: Lab, span: IdleSpan) -> dict[int, int]:
    """Return {project id: weight}: mJ used, or device-milliseconds reserved.

    Where no scheduler told what was reserved (or the job goes on), the device-hours that were used stand for them.
    """
    if span.policy == IdleSpread.BY_ENERGY:
        return _used(lab, span, "SUM(e.energy_mj)", "")
    weights: dict[int, int] = defaultdict(int)
    start_us, end_us = span.from_hour * US_PER_HOUR, span.to_hour * US_PER_HOUR
    ended = Run.objects.filter(lab=lab, charged_project__isnull=False, started_us__lt=end_us, ended_us__gt=start_us)
    for run in ended.filter(job_facts__reserved_gpus__gt=0).iterator():
        assert run.charged_project_id is not None
        assert run.ended_us is not None
        reserved_us = min(end_us, run.ended_us) - max(start_us, run.started_us)
        weights[run.charged_project_id] += reserved_us * int(run.job_facts["reserved_gpus"]) // 1000
    by_hours = _used(
        lab, span, f"COUNT(DISTINCT e.device_id * {10**7} + e.hour) * {US_PER_HOUR // 1000}",
        "LEFT JOIN runs_run r ON r.uuid = c.run_uuid AND r.lab_id = e.lab_id AND r.ended_us IS NOT NULL "
        f"AND {json_int_sql('r.job_facts', 'reserved_gpus')} > 0",
    )  # fmt: skip
    for project, weight in by_hours.items():
        weights[project] += weight
    return weights


def _used(lab: Lab, span: IdleSpan, weight: str, reserved: str) -> dict[int, int]:
    rows = fetch_rows(
        f"SELECT t.project_id, {weight} AS weight FROM energy_ledgerentry e "
        "JOIN ingest_consumer c ON c.id = e.consumer_id "
        "JOIN attribution_attribution t ON t.consumer_id = e.consumer_id AND t.node_id = e.node_id "
        f"AND t.from_hour <= e.hour AND e.hour < t.to_hour {reserved} "
        "WHERE e.lab_id = %s AND e.hour >= %s AND e.hour < %s AND t.project_id IS NOT NULL "
        f"{'AND r.id IS NULL ' if reserved else ''}GROUP BY t.project_id",
        [lab.pk, span.from_hour, span.to_hour],
    )
    return {row["project_id"]: as_int(row["weight"]) for row in rows}
