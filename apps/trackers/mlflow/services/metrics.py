"""Histories of metrics, page by page. One transaction stores a page and the position after it."""

from django.db import transaction

from apps.core.errors import LabCarbonError
from apps.runs.metric_parsing import Point, as_points
from apps.runs.models import Metric
from apps.runs.services.metrics import add_points
from apps.trackers.mlflow.client import Server
from apps.trackers.mlflow.models import MlflowRun, MlflowSeries
from apps.trackers.mlflow.parsing import US_PER_MS, Latest, TrackedRun, numbered, read_points
from apps.trackers.mlflow.power import GAP_US, gpu_of
from apps.trackers.mlflow.services.energy import accepts_power, record_power

SYSTEM = "system/"  # MLflow's own measurements; only power is read
_NAME = 200
_REPLACED = "\ufffd"  # replaces unstorable characters; MLflow has no metric of the changed name


def read_metrics(*, server: Server, tracked_run: MlflowRun, reported: TrackedRun, now: int) -> None:
    """Read new values of a run's metrics.

    Raises MlflowError and OutOfTime. Values read before the error stay stored.
    """
    known = {row.name: row for row in tracked_run.series.select_related("device__node")}
    imports_power = accepts_power(tracked_run)
    for name, latest in sorted(reported.latest.items()):
        gpu = gpu_of(name)
        if (name.startswith(SYSTEM) and gpu is None) or len(name) > _NAME or _REPLACED in name:
            continue
        series = known.get(name) or MlflowSeries(tracked_run=tracked_run, name=name)
        if (
            series.pk is None
            and not gpu
            and Metric.objects.filter(run=tracked_run.run, name=name).exists()
        ):
            continue  # another source reports this curve
        is_silent = bool(gpu) and latest.at_ms * US_PER_MS < now - 2 * GAP_US
        is_over = reported.is_over or is_silent
        if series.latest_value == str(latest) and (series.is_complete or not is_over):
            continue
        _read_series(
            server,
            tracked_run,
            series,
            latest,
            is_over=is_over,
            is_counted=imports_power or gpu is None,
            now=now,
        )


def _read_series(
    server: Server,
    tracked_run: MlflowRun,
    series: MlflowSeries,
    latest: Latest,
    *,
    is_over: bool,
    is_counted: bool,
    now: int,
) -> None:
    """Read one history from its position.

    After the end of the run, read it once from the start, to get late values.
    """
    progress = _progress(series)
    if is_over and not series.is_complete:
        series.token, series.points = "", 0
    token, before = series.token, series.points
    waiting: list[tuple[int, int, float | str]] = []
    while True:
        rows, next_token = server.history(tracked_run.mlflow_id, series.name, token)
        values = read_points(rows)
        with transaction.atomic():
            MlflowRun.objects.select_for_update().get(pk=tracked_run.pk)
            if _is_changed(series, progress):
                return  # another reader advanced the position
            if gpu_of(series.name):
                waiting = _import_power(
                    tracked_run,
                    series,
                    [*waiting, *values],
                    is_over=is_over and not next_token,
                    is_counted=is_counted,
                    now=now,
                )
            else:
                _import_values(tracked_run, series, values, before)
            if next_token and not waiting:
                series.token, series.points = next_token, before + len(values)
            if not next_token:
                series.latest_value, series.is_complete = str(latest), is_over
            series.save()
            progress = _progress(series)
        if not next_token:
            return
        token, before = next_token, before + len(values)


def _progress(series: MlflowSeries) -> tuple[object, ...]:
    return series.token, series.latest_value, series.is_complete, series.until_us


def _is_changed(series: MlflowSeries, progress: tuple[object, ...]) -> bool:
    """Return whether the position of a series has changed since the read. The run's row is
    locked.
    """
    stored = MlflowSeries.objects.filter(
        tracked_run_id=series.tracked_run_id, name=series.name
    ).first()
    return (stored is not None or series.pk is not None) and (
        stored is None or _progress(stored) != progress
    )


def _import_values(
    tracked_run: MlflowRun,
    series: MlflowSeries,
    values: list[tuple[int, int, float | str]],
    before: int,
) -> None:
    run = tracked_run.run
    if run is None or not values:
        return
    points: dict[int, Point] = {}
    try:
        for step, at_us, value in numbered(values, before):
            [point] = as_points([(step, at_us, value)])  # type: ignore[list-item]  # special values such as NaN are accepted
            points[step] = point
        add_points(
            lab=run.lab,
            uuid=run.uuid,
            points={series.name: list(points.values())},
            bound_node=None,
            now=None,
        )
    except LabCarbonError as error:
        _save_problem(tracked_run, f"{series.name}: {error.message}")


def _import_power(
    tracked_run: MlflowRun,
    series: MlflowSeries,
    values: list[tuple[int, int, float | str]],
    *,
    is_over: bool,
    is_counted: bool,
    now: int,
) -> list[tuple[int, int, float | str]]:
    """Assign the power of a GPU to windows; return the values that wait for later ones."""
    if not is_counted:
        return []
    if problem := record_power(tracked_run, series, values, is_over=is_over, now=now):
        _save_problem(tracked_run, problem)
    return [
        value
        for value in values
        if series.last_sample_us is None or value[1] > series.last_sample_us
    ]


def _save_problem(tracked_run: MlflowRun, problem: str) -> None:
    tracked_run.problem = problem[:300]
    MlflowRun.objects.filter(pk=tracked_run.pk).update(problem=tracked_run.problem)
