"""Metrics of runs: points told in bulk, each (metric, step) once, and a summary that is exact in any order."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import Max, Min

from apps.accounts.models import Lab
from apps.core.errors import InvalidInput, NotFound
from apps.core.sql import bulk_insert
from apps.core.units import US_PER_S
from apps.runs.choices import RunState
from apps.runs.metric_parsing import Point
from apps.runs.models import Metric, MetricPoint, Run
from apps.runs.services.runs import may_tell_of
from apps.runs.services.updates import hear

MAX_METRICS = 2000
HEARD_EVERY_US = 30 * US_PER_S  # points come often; the run's row is written at most so often for them
_AT_ONCE = 500  # steps in one IN (...)


@transaction.atomic
def add_points(
    *, lab: Lab, uuid: UUID, points: Mapping[str, Sequence[Point]], bound_node: UUID | None, now: int | None
) -> int:
    """Store points of a run by metric; return how many were new. Of a step told again the last word stays.

    Raises NotFound where there is no such run (or a node's token may not write it), InvalidInput for too many metrics.
    """
    run = Run.objects.select_related("node").filter(lab=lab, uuid=uuid).first()
    if run is None or (bound_node is not None and not may_tell_of(run, bound_node)):
        raise NotFound("There is no such run in this lab.", hint="Send PUT with the run's facts first.")
    metrics = _locked(run, list(points))
    new = sum(_add(metrics[name], told) for name, told in points.items() if told)
    Metric.objects.bulk_update(
        metrics.values(), ["count", "last_step", "last_value", "least", "greatest"], batch_size=100
    )  # fmt: skip
    if now is not None and (run.state == RunState.LOST or run.seen_us is None or run.seen_us < now - HEARD_EVERY_US):
        run = Run.objects.select_for_update(of=("self",)).get(pk=run.pk)
        hear(run, now)
        run.save(update_fields=["seen_us", "state"])
    return new


def _locked(run: Run, names: Iterable[str]) -> dict[str, Metric]:
    """Return the metrics by name, made if need be, and locked in one order: whoever tells of the same ones waits."""
    wanted = sorted(names)
    found = _rows(run, wanted)
    missing = [name for name in wanted if name not in found]
    if missing:
        if run.metrics.count() + len(missing) > MAX_METRICS:
            raise InvalidInput(f"A run has at most {MAX_METRICS} metrics.", field="points")
        Metric.objects.bulk_create([Metric(run=run, name=name) for name in missing], ignore_conflicts=True)
        found = _rows(run, wanted)
    return found


def _rows(run: Run, names: list[str]) -> dict[str, Metric]:
    return {row.name: row for row in run.metrics.select_for_update().filter(name__in=names).order_by("name")}


def _add(metric: Metric, told: Sequence[Point]) -> int:
    """Store the points of one metric and keep its summary; return how many were new."""
    before = _there(metric, told)
    _write(metric, told)
    new = len(told) - len(before)
    values = [point.value for point in told if point.value is not None]
    was_extreme = any(value is not None and value in (metric.least, metric.greatest) for value in before.values())
    metric.count += new
    last = max(told, key=lambda point: point.step)
    if metric.last_step is None or last.step >= metric.last_step:
        metric.last_step, metric.last_value = last.step, last.value
    if was_extreme:  # what was the least may be gone: ask all
        found = metric.points.aggregate(least=Min("value"), greatest=Max("value"))
        metric.least, metric.greatest = found["least"], found["greatest"]
    elif values:
        metric.least = min(values if metric.least is None else [metric.least, *values])
        metric.greatest = max(values if metric.greatest is None else [metric.greatest, *values])
    return new


def _there(metric: Metric, told: Sequence[Point]) -> dict[int, float | None]:
    """Return the values kept so far at the steps told. Steps beyond the last one are new, and nobody asks."""
    if metric.last_step is None:
        return {}
    asked = [point.step for point in told if point.step <= metric.last_step]
    found: dict[int, float | None] = {}
    for start in range(0, len(asked), _AT_ONCE):
        found.update(metric.points.filter(step__in=asked[start : start + _AT_ONCE]).values_list("step", "value"))
    return found


def _write(metric: Metric, told: Sequence[Point]) -> None:
    columns: dict[str, tuple[str, Sequence[Any]]] = {
        "metric_id": ("bigint", [metric.pk] * len(told)),
        "step": ("bigint", [point.step for point in told]),
        "at_us": ("bigint", [point.at_us for point in told]),
        "value": ("double precision", [point.value for point in told]),
        "word": ("text", [point.word for point in told]),
    }
    bulk_insert(
        "runs_metricpoint", columns,
        on_conflict="ON CONFLICT (metric_id, step) DO UPDATE SET at_us = EXCLUDED.at_us, value = EXCLUDED.value, "
        "word = EXCLUDED.word",
    )  # fmt: skip


def curve(metric: Metric) -> list[Point]:
    """Return the points of a metric by step."""
    found = MetricPoint.objects.filter(metric=metric).order_by("step").values_list("step", "at_us", "value", "word")
    return [Point(*row) for row in found.iterator(chunk_size=5000)]
