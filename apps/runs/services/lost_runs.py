"""Runs of which nothing is heard any more: given up after a while, and revived by any word of them.

A run that goes on shows in the windows of its node. Where the node went on for LOST_AFTER_US without it, it is lost. A node
that is silent altogether loses no run: nobody knows. A run of no node, or of a scheduler or MLflow, which tell of its end,
is lost when neither a word of it nor a window of any node came for SILENT_AFTER_US.
"""

from collections.abc import Iterable
from uuid import UUID

from django.db.models import Q

from apps.accounts.models import Lab
from apps.core.sql import fetch_rows
from apps.core.units import US_PER_HOUR, US_PER_S
from apps.fleet.models import Node
from apps.ingest.models import Consumer
from apps.runs.choices import RunState, Teller
from apps.runs.models import Run

LOST_AFTER_US = 15 * 60 * US_PER_S
SILENT_AFTER_US = 24 * US_PER_HOUR
LOOK_EVERY_US = 5 * 60 * US_PER_S
# A lost run that computes again shows in the newest windows; older ones are not looked through for it.
_NEWEST_US = LOST_AFTER_US + LOOK_EVERY_US
_REVIVED_WITHIN_US = 30 * 24 * US_PER_HOUR
_SKEW_US = 5 * 60 * US_PER_S  # clocks that differ by more are not trusted (ingest)
CHUNK = 500


def look_for_lost(*, lab: Lab, now: int) -> None:
    """Give up runs of a lab that are lost, revive those that showed again. ``now`` in µs UTC."""
    silent = Q(state=RunState.RUNNING) & (Q(seen_us__lt=now - LOST_AFTER_US) | Q(seen_us__isnull=True))
    lost = Q(state=RunState.LOST, seen_us__gte=now - _REVIVED_WITHIN_US)
    found = Run.objects.filter(silent | lost, lab=lab).order_by("pk")
    last = 0
    while runs := list(found.filter(pk__gt=last)[:CHUNK]):
        _look_at(lab, runs, now)
        last = runs[-1].pk


def _look_at(lab: Lab, runs: list[Run], now: int) -> None:
    consumers = dict(Consumer.objects.filter(lab=lab, run_uuid__in=[run.uuid for run in runs]).values_list("run_uuid", "pk"))
    with_node = [run for run in runs if run.node_id is not None and not run.scheduler and run.teller != Teller.MLFLOW]
    shown: dict[UUID, int] = {}
    reached: dict[int, int] = {}
    for node in Node.objects.filter(pk__in={run.node_id for run in with_node}):
        reached[node.pk] = _reached_us(node)
        ours = [run for run in with_node if run.node_id == node.pk]
        since = min(_look_from(run, now) for run in ours)
        shown |= _shown_us(node, {run.uuid: consumers[run.uuid] for run in ours if run.uuid in consumers}, since)
    for run in runs:
        if run in with_node:
            _judge(run, shown.get(run.uuid, 0), reached[run.node_id or 0], LOST_AFTER_US)
        elif _heard_us(run) < now - SILENT_AFTER_US:
            _judge(run, _shown_anywhere_us(consumers.get(run.uuid), _look_from(run, now)), now, SILENT_AFTER_US)


def _judge(run: Run, shown_us: int, reached_us: int, after_us: int) -> None:
    """Write what follows from when a run was last shown, if anything does; a word that came meanwhile wins."""
    heard = max(_heard_us(run), shown_us)
    state = RunState.RUNNING.value if shown_us > _heard_us(run) else run.state
    if reached_us - heard >= after_us:
        state = RunState.LOST.value
    if (state, heard) != (run.state, _heard_us(run)):
        Run.objects.filter(pk=run.pk, state=run.state, seen_us=run.seen_us).update(state=state, seen_us=heard)


def _heard_us(run: Run) -> int:
    return run.started_us if run.seen_us is None else run.seen_us


def _look_from(run: Run, now: int) -> int:
    return now - _NEWEST_US if run.state == RunState.LOST else _heard_us(run) - _SKEW_US


def _reached_us(node: Node) -> int:
    """Return the end of a node's newest window; 0 if it has none."""
    found = fetch_rows(
        "SELECT MAX((SELECT w.end_us FROM ingest_energywindow w WHERE w.device_id = d.id ORDER BY w.start_us DESC LIMIT 1)) "
        "AS reached_us FROM fleet_device d WHERE d.node_id = %s",
        [node.pk],
    )
    return next(found)["reached_us"] or 0


def _shown_us(node: Node, consumers: dict[UUID, int], since_us: int) -> dict[UUID, int]:
    """Return when runs last showed in a node's windows from ``since_us`` on, by run."""
    if not consumers:
        return {}
    found = fetch_rows(
        "SELECT s.consumer_id, MAX(w.end_us) AS shown_us FROM fleet_device d "
        "JOIN ingest_energywindow w ON w.device_id = d.id AND w.start_us >= %s "
        "JOIN ingest_windowshare s ON s.epoch_id = w.epoch_id AND s.sequence = w.sequence "
        f"WHERE d.node_id = %s AND s.consumer_id IN ({_marks(consumers.values())}) GROUP BY s.consumer_id",
        [since_us, node.pk, *consumers.values()],
    )
    by_consumer = {row["consumer_id"]: row["shown_us"] for row in found}
    return {uuid: by_consumer[pk] for uuid, pk in consumers.items() if pk in by_consumer}


def _shown_anywhere_us(consumer_id: int | None, since_us: int) -> int:
    """Return when a consumer last showed in any node's windows from ``since_us`` on; 0: it did not."""
    if consumer_id is None:
        return 0
    found = fetch_rows(
        "SELECT MAX(w.end_us) AS shown_us FROM ingest_windowshare s "
        "JOIN ingest_energywindow w ON w.epoch_id = s.epoch_id AND w.sequence = s.sequence AND w.start_us >= %s "
        "WHERE s.consumer_id = %s",
        [since_us, consumer_id],
    )
    return next(found)["shown_us"] or 0


def _marks(values: Iterable[object]) -> str:
    return ", ".join("%s" for _ in values)
