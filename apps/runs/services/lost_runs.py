"""Detection of lost runs, and their recovery.

A running run appears in the windows of its node. It is lost when the node sends windows without it
for LOST_AFTER_US. A node that sends no windows loses no run of its collector: the state of these
is unknown. Lost when neither a report of it nor a window of any node arrives for SILENT_AFTER_US is
a run without a node, one whose scheduler or tracker reports its end, and one of another client on a
node without windows. Any new report or window recovers a lost run.
"""

from uuid import UUID

from django.db.models import Max, Q

from apps.accounts.models import Lab
from apps.core.sql import fetch_rows
from apps.core.units import US_PER_HOUR, US_PER_S
from apps.fleet.models import Node
from apps.ingest.models import Consumer, ConsumerHour
from apps.ingest.sealed_selectors import last_window_us_sql
from apps.runs.choices import SOURCES_THAT_MAY_STOP, SOURCES_THAT_REPORT_ENDS, RunState
from apps.runs.models import Run

LOST_AFTER_US = 15 * 60 * US_PER_S
SILENT_AFTER_US = 24 * US_PER_HOUR
CHECK_INTERVAL_US = 5 * 60 * US_PER_S
# A lost run that computes again shows in the newest windows; older ones are not looked through for
# it.
_NEWEST_WINDOWS_US = LOST_AFTER_US + CHECK_INTERVAL_US
_REVIVED_WITHIN_US = 30 * 24 * US_PER_HOUR
_SKEW_US = 5 * 60 * US_PER_S  # clocks that differ by more are not trusted (ingest)
CHUNK = 500


def detect_lost_runs(*, lab: Lab, now: int) -> None:
    """Mark lost runs of a lab, and revive those with new windows. ``now`` in µs UTC."""
    silent = Q(state=RunState.RUNNING) & (
        Q(last_report_us__lt=now - LOST_AFTER_US) | Q(last_report_us__isnull=True)
    )
    lost = Q(state=RunState.LOST, last_report_us__gte=now - _REVIVED_WITHIN_US)
    candidates = Run.objects.filter(silent | lost, lab=lab).order_by("pk")
    last = 0
    while runs := list(candidates.filter(pk__gt=last)[:CHUNK]):
        _check_runs(lab, runs, now)
        last = runs[-1].pk


def _check_runs(lab: Lab, runs: list[Run], now: int) -> None:
    consumers = dict(
        Consumer.objects.filter(lab=lab, run_uuid__in=[run.uuid for run in runs]).values_list(
            "run_uuid", "pk"
        )
    )
    with_node = [
        run
        for run in runs
        if run.node_id is not None
        and not run.scheduler
        and run.reported_by not in SOURCES_THAT_REPORT_ENDS
    ]
    last_windows: dict[UUID, int] = {}
    newest_windows: dict[int, int] = {}
    for node in Node.objects.filter(pk__in={run.node_id for run in with_node}):
        newest_windows[node.pk] = _newest_window_us(node)
        node_runs = [run for run in with_node if run.node_id == node.pk]
        since = min(_search_from_us(run, now) for run in node_runs)
        last_windows |= _last_window_us(
            node,
            {run.uuid: consumers[run.uuid] for run in node_runs if run.uuid in consumers},
            since,
        )
    for run in runs:
        has_windows = newest_windows.get(run.node_id or 0, 0) >= now - SILENT_AFTER_US
        if run in with_node and (has_windows or run.reported_by not in SOURCES_THAT_MAY_STOP):
            _update_state(
                run, last_windows.get(run.uuid, 0), newest_windows[run.node_id or 0], LOST_AFTER_US
            )
        elif _last_report_us(run) < now - SILENT_AFTER_US:
            _update_state(
                run,
                _last_window_on_any_node_us(consumers.get(run.uuid), _search_from_us(run, now)),
                now,
                SILENT_AFTER_US,
            )


def _update_state(run: Run, window_us: int, reference_us: int, after_us: int) -> None:
    """Write the state that follows from the last window of a run; a concurrent report wins."""
    last_us = max(_last_report_us(run), window_us)
    state = RunState.RUNNING.value if window_us > _last_report_us(run) else run.state
    if reference_us - last_us >= after_us:
        state = RunState.LOST.value
    if (state, last_us) != (run.state, _last_report_us(run)):
        Run.objects.filter(pk=run.pk, state=run.state, last_report_us=run.last_report_us).update(
            state=state, last_report_us=last_us
        )


def _last_report_us(run: Run) -> int:
    return run.started_us if run.last_report_us is None else run.last_report_us


def _search_from_us(run: Run, now: int) -> int:
    return (
        now - _NEWEST_WINDOWS_US if run.state == RunState.LOST else _last_report_us(run) - _SKEW_US
    )


def _newest_window_us(node: Node) -> int:
    """Return the end of a node's newest window; 0 if it has none."""
    rows = fetch_rows(
        f"SELECT MAX({last_window_us_sql('d.id')}) AS end_us FROM fleet_device d "
        "WHERE d.node_id = %s",
        [node.pk],
    )
    return next(rows)["end_us"] or 0


def _last_window_us(node: Node, consumers: dict[UUID, int], since_us: int) -> dict[UUID, int]:
    """Return the end of each run's last window on a node that starts in the hour of ``since_us``
    or later.
    """
    ends = dict(
        ConsumerHour.objects.filter(
            consumer__in=consumers.values(),
            device__node=node,
            hour__gte=since_us // US_PER_HOUR,
        )
        .values_list("consumer")
        .annotate(Max("last_us"))
    )
    return {uuid: ends[pk] for uuid, pk in consumers.items() if pk in ends}


def _last_window_on_any_node_us(consumer_id: int | None, since_us: int) -> int:
    """Return the end of a consumer's last window on any node that starts in the hour of
    ``since_us`` or later; 0 if there is none.
    """
    if consumer_id is None:
        return 0
    consumer_hours = ConsumerHour.objects.filter(
        consumer=consumer_id, hour__gte=since_us // US_PER_HOUR
    )
    return consumer_hours.aggregate(end=Max("last_us"))["end"] or 0
