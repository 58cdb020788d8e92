"""Metrics of runs: points stored in bulk, each (metric, step) once, with a summary that is
independent of their order.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from uuid import UUID

from django.db import connection, transaction
from django.db.models import Max, Min

from apps.accounts.models import Lab
from apps.core.errors import InvalidInput, NotFound
from apps.core.sql import bulk_insert
from apps.core.units import US_PER_S
from apps.runs.choices import RunState
from apps.runs.metric_parsing import Point
from apps.runs.models import Metric, MetricPoint, Run
from apps.runs.services.runs import can_report
from apps.runs.services.updates import touch

MAX_METRICS = 2000
TOUCH_INTERVAL_US = (
    30 * US_PER_S
)  # points come often; the run's row is written at most so often for them
_STEPS_PER_QUERY = 500  # steps in one IN (...)


@transaction.atomic
def add_points(
    *,
    lab: Lab,
    uuid: UUID,
    points: Mapping[str, Sequence[Point]],
    bound_node: UUID | None,
    now: int | None,
) -> int:
    """Store points of a run by metric; return how many were new. A repeated step replaces the
    value.

    Raises NotFound for an unknown run (or one that a node token may not write), InvalidInput for
    too many metrics.
    """
    run = Run.objects.select_related("node").filter(lab=lab, uuid=uuid).first()
    if run is None or (bound_node is not None and not can_report(run, bound_node)):
        raise NotFound("No such run in this lab.", hint="Register the run with PUT first.")
    metrics = _locked(run, list(points))
    new = sum(
        _add(metrics[name], metric_points)
        for name, metric_points in points.items()
        if metric_points
    )
    _save_summaries(metrics.values())
    if now is not None and (
        run.state == RunState.LOST
        or run.last_report_us is None
        or run.last_report_us < now - TOUCH_INTERVAL_US
    ):
        run = Run.objects.select_for_update(of=("self",)).get(pk=run.pk)
        touch(run, now)
        run.save(update_fields=["last_report_us", "state"])
    return new


def _locked(run: Run, names: Iterable[str]) -> dict[str, Metric]:
    """Return the metrics by name, created as needed, and locked in a fixed order."""
    ordered = sorted(names)
    metrics = _rows(run, ordered)
    missing = [name for name in ordered if name not in metrics]
    if missing:
        if run.metrics.count() + len(missing) > MAX_METRICS:
            raise InvalidInput(f"A run has at most {MAX_METRICS} metrics.", field="points")
        Metric.objects.bulk_create(
            [Metric(run=run, name=name) for name in missing], ignore_conflicts=True
        )
        metrics = _rows(run, ordered)
    return metrics


def _rows(run: Run, names: list[str]) -> dict[str, Metric]:
    return {
        row.name: row
        for row in run.metrics.select_for_update().filter(name__in=names).order_by("name")
    }


def _add(metric: Metric, points: Sequence[Point]) -> int:
    """Store the points of one metric and update its summary; return the number of new points."""
    before = _stored_values(metric, points)
    _write(metric, points)
    new = len(points) - len(before)
    values = [point.value for point in points if point.value is not None]
    was_extreme = any(
        value is not None and value in (metric.min_value, metric.max_value)
        for value in before.values()
    )
    metric.count += new
    last = max(points, key=lambda point: point.step)
    if metric.last_step is None or last.step >= metric.last_step:
        metric.last_step, metric.last_value = last.step, last.value
    if was_extreme:  # what was the least may be gone: ask all
        extremes = metric.points.aggregate(min_value=Min("value"), max_value=Max("value"))
        metric.min_value, metric.max_value = extremes["min_value"], extremes["max_value"]
    elif values:
        metric.min_value = min(values if metric.min_value is None else [metric.min_value, *values])
        metric.max_value = max(values if metric.max_value is None else [metric.max_value, *values])
    return new


def _save_summaries(metrics: Iterable[Metric]) -> None:
    with connection.cursor() as cursor:  # bulk_update would write a CASE for each row
        cursor.executemany(
            "UPDATE runs_metric SET count = %s, last_step = %s, last_value = %s, least = %s, "
            "greatest = %s WHERE id = %s",
            [
                (row.count, row.last_step, row.last_value, row.min_value, row.max_value, row.pk)
                for row in metrics
            ],
        )


def _stored_values(metric: Metric, points: Sequence[Point]) -> dict[int, float | None]:
    """Return the stored values at the steps of ``points``. Steps beyond the last one are new and
    need no query.
    """
    if metric.last_step is None:
        return {}
    steps = [point.step for point in points if point.step <= metric.last_step]
    values: dict[int, float | None] = {}
    for start in range(0, len(steps), _STEPS_PER_QUERY):
        values.update(
            metric.points.filter(step__in=steps[start : start + _STEPS_PER_QUERY]).values_list(
                "step", "value"
            )
        )
    return values


def _write(metric: Metric, points: Sequence[Point]) -> None:
    columns: dict[str, tuple[str, Sequence[Any]]] = {
        "metric_id": ("bigint", [metric.pk] * len(points)),
        "step": ("bigint", [point.step for point in points]),
        "at_us": ("bigint", [point.at_us for point in points]),
        "value": ("double precision", [point.value for point in points]),
        "word": ("text", [point.special_value for point in points]),
    }
    bulk_insert(
        "runs_metricpoint",
        columns,
        on_conflict="ON CONFLICT (metric_id, step) DO UPDATE SET at_us = EXCLUDED.at_us, value = "
        "EXCLUDED.value, "
        "word = EXCLUDED.word",
    )


def curve(metric: Metric) -> list[Point]:
    """Return the points of a metric by step."""
    rows = (
        MetricPoint.objects.filter(metric=metric)
        .order_by("step")
        .values_list("step", "at_us", "value", "special_value")
    )
    return [Point(*row) for row in rows.iterator(chunk_size=5000)]
