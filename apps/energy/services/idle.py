"""Idle energy: the dated policy of a lab, and the shares of projects if it is distributed."""

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
from apps.energy.choices import IdleSpread
from apps.energy.ledger_entries import SHARES, IdleSpan, cumulative, idle_spans, month_edges
from apps.energy.models import IdlePolicy, IdleShare, LedgerEntry
from apps.runs.models import Run

Part = tuple[int, int, int, int, int]  # from hour, to hour, project id, low, high
DELAY_US = 60_000_000  # shares are derived within a minute after settling


def enqueue_spread(*, lab: Lab, now: int) -> None:
    """Enqueue the derivation of idle shares, with a delay, if the lab has a policy."""
    if IdlePolicy.objects.filter(lab=lab).exists():
        enqueue(kind="energy.spread_idle", key=str(lab.pk), due_us=now + DELAY_US)


@transaction.atomic
def set_idle_policy(
    *, lab: Lab, policy: str, from_us: int, by: User | None, now: int
) -> IdlePolicy:
    """Set a policy from the UTC hour of ``from_us`` on. A policy of the same hour is replaced."""
    if policy not in IdleSpread.values:
        raise InvalidInput(
            f"Unknown policy {policy[:40]!r}.",
            field="policy",
            hint=f"Use one of {', '.join(IdleSpread.values)}.",
        )
    from_hour = max(0, hour_of(from_us))
    if from_hour >= END_HOUR:
        raise InvalidInput(
            "The date is out of range.",
            field="from_day",
            hint="Choose a year between 1970 and 2300.",
        )
    row, _ = IdlePolicy.objects.update_or_create(
        lab=lab,
        from_hour=from_hour,
        defaults={"policy": policy, "created_by": by, "created_us": now},
    )
    audit.record(
        lab=lab,
        by=by,
        action=Act.IDLE_POLICY_SET,
        subject=policy,
        details={"from_hour": from_hour},
        now=now,
    )
    spread_idle(lab=lab)
    return row


@transaction.atomic
def withdraw_idle_policy(*, lab: Lab, from_hour: int, by: User | None, now: int) -> None:
    """Delete the policy of an hour. The previous one continues. Raises InvalidInput if no policy
    starts in this hour.
    """
    row = IdlePolicy.objects.filter(lab=lab, from_hour=from_hour).first()
    if row is None:
        raise InvalidInput(
            "No such policy.", field="withdraw", hint="Reload the page and use a button on it."
        )
    details = {"from_hour": from_hour}
    audit.record(
        lab=lab,
        by=by,
        action=Act.IDLE_POLICY_WITHDRAWN,
        subject=row.policy,
        details=details,
        now=now,
    )
    row.delete()
    spread_idle(lab=lab)


@transaction.atomic
def spread_idle(*, lab: Lab) -> int:
    """Derive all shares of idle energy from policies and use. Return the number of spans."""
    Lab.objects.select_for_update().get(pk=lab.pk)
    new_shares = [
        (span, project, low, high)
        for span in spans_of(lab)
        for project, low, high in cumulative(_weights(lab, span))
    ]
    stored_shares = sorted(
        IdleShare.objects.filter(lab=lab).values_list(
            "from_hour", "to_hour", "project_id", "low", "high"
        )
    )
    now = sorted(
        (span.from_hour, span.to_hour, project, low, high)
        for span, project, low, high in new_shares
    )
    if stored_shares != now:
        _notify_changes(lab, stored_shares, now)
        IdleShare.objects.filter(lab=lab).delete()
        IdleShare.objects.bulk_create(
            [
                IdleShare(
                    lab=lab,
                    from_hour=start,
                    to_hour=end,
                    project_id=project,
                    low=low,
                    high=high,
                    total=SHARES,
                )
                for start, end, project, low, high in now
            ],
            batch_size=500,
        )
    return len({row[0] for row in now})


def _notify_changes(lab: Lab, before: list[Part], after: list[Part]) -> None:
    """Send the signal with the hours in which shares changed."""
    span = changed_span(*(_history(parts) for parts in (before, after)))
    if span is not None:
        signals.idle_spread.send(sender=IdleShare, lab=lab, from_hour=span[0], to_hour=span[1])


def _history(parts: list[Part]) -> list[tuple[int, int, object]]:
    """Return the shares of each span as one value."""
    return [
        (*hours, tuple(row[2:] for row in rows))
        for hours, rows in groupby(parts, key=lambda row: row[:2])
    ]


def spans_of(lab: Lab) -> list[IdleSpan]:
    """Return the spans with distributed idle energy: months of the lab's time zone, cut at
    changes of the policy.
    """
    policies = list(IdlePolicy.objects.filter(lab=lab).values_list("from_hour", "policy"))
    hours = LedgerEntry.objects.filter(lab=lab).aggregate(first=Min("hour"), last=Max("hour"))
    if not policies or hours["first"] is None:
        return []
    months = month_edges(hours["first"], hours["last"] + 1, ZoneInfo(lab.time_zone))
    return idle_spans(policies=policies, months=months, visible=IdleSpread.VISIBLE)


def _weights(lab: Lab, span: IdleSpan) -> dict[int, int]:
    """Return {project id: weight}: mJ used, or device-milliseconds reserved.

    Without reservations of a scheduler, or while a job runs, used device-hours count instead.
    """
    if span.policy == IdleSpread.BY_ENERGY:
        return _used(lab, span, "SUM(e.energy_mj)", "")
    weights: dict[int, int] = defaultdict(int)
    start_us, end_us = span.from_hour * US_PER_HOUR, span.to_hour * US_PER_HOUR
    ended = Run.objects.filter(
        lab=lab, charged_project__isnull=False, started_us__lt=end_us, ended_us__gt=start_us
    )
    for run in ended.filter(job_facts__reserved_gpus__gt=0).iterator():
        assert run.charged_project_id is not None
        assert run.ended_us is not None
        reserved_us = min(end_us, run.ended_us) - max(start_us, run.started_us)
        weights[run.charged_project_id] += reserved_us * int(run.job_facts["reserved_gpus"]) // 1000
    by_hours = _used(
        lab,
        span,
        f"COUNT(DISTINCT e.device_id * {10**7} + e.hour) * {US_PER_HOUR // 1000}",
        "LEFT JOIN runs_run r ON r.uuid = c.run_uuid AND r.lab_id = e.lab_id AND r.ended_us IS "
        "NOT NULL "
        f"AND {json_int_sql('r.job_facts', 'reserved_gpus')} > 0",
    )
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
