"""Histories of metrics, page by page, each page in a transaction of its own that also remembers how far it got."""

from django.db import transaction

from apps.core.errors import LabCarbonError
from apps.runs.metric_parsing import Point, as_points
from apps.runs.models import Metric
from apps.runs.services.metrics import add_points
from apps.trackers.mlflow.client import Server
from apps.trackers.mlflow.parsing import US_PER_MS, Latest, ToldRun, numbered, read_points
from apps.trackers.mlflow.power import GAP_US, gpu_of
from apps.trackers.mlflow.services.energy import counts_watts, place_watts
from apps.trackers.models import MlflowRun, MlflowSeries

SYSTEM = "system/"  # of MLflow's own measurements only the watts are read
_NAME = 200
_REPLACED = "\ufffd"  # what stood there cannot be stored, and MLflow knows no metric of this name


def read_metrics(*, server: Server, told: MlflowRun, run: ToldRun, now: int) -> None:
    """Read what is new of a run's metrics. Raises MlflowProblem, OutOfTime: what was read until then stays read."""
    known = {row.name: row for row in told.series.select_related("device__node")}
    watts = counts_watts(told)
    for name, latest in sorted(run.latest.items()):
        gpu = gpu_of(name)
        if (name.startswith(SYSTEM) and gpu is None) or len(name) > _NAME or _REPLACED in name:
            continue
        series = known.get(name) or MlflowSeries(told=told, name=name)
        if series.pk is None and not gpu and Metric.objects.filter(run=told.run, name=name).exists():
            continue  # somebody else tells this curve
        silent = bool(gpu) and latest.at_ms * US_PER_MS < now - 2 * GAP_US
        over = run.is_over or silent
        if series.seen == str(latest) and (series.whole or not over):
            continue
        _read_series(server, told, series, latest, over=over, counts=watts or gpu is None, now=now)


def _read_series(
    server: Server, told: MlflowRun, series: MlflowSeries, latest: Latest, *, over: bool, counts: bool, now: int
) -> None:
    """Read one history from where it stands; once a run is over, once more from its beginning: what came late is there."""
    standing = _standing(series)
    if over and not series.whole:
        series.token, series.points = "", 0
    token, before = series.token, series.points
    waiting: list[tuple[int, int, float | str]] = []
    while True:
        rows, following = server.history(told.mlflow_id, series.name, token)
        values = read_points(rows)
        with transaction.atomic():
            MlflowRun.objects.select_for_update().get(pk=told.pk)
            if _moved(series, standing):
                return  # somebody else reads it just now, and went on from here
            if gpu_of(series.name):
                waiting = _take_watts(told, series, [*waiting, *values], over=over and not following, counts=counts, now=now)
            else:
                _take_values(told, series, values, before)
            if following and not waiting:
                series.token, series.points = following, before + len(values)
            if not following:
                series.seen, series.whole = str(latest), over
            series.save()
            standing = _standing(series)
        if not following:
            return
        token, before = following, before + len(values)


def _standing(series: MlflowSeries) -> tuple[object, ...]:
    return series.token, series.seen, series.whole, series.until_us


def _moved(series: MlflowSeries, standing: tuple[object, ...]) -> bool:
    """Return whether a series stands elsewhere than when it was read. Its run's row is locked."""
    there = MlflowSeries.objects.filter(told_id=series.told_id, name=series.name).first()
    return (there is not None or series.pk is not None) and (there is None or _standing(there) != standing)


def _take_values(told: MlflowRun, series: MlflowSeries, values: list[tuple[int, int, float | str]], before: int) -> None:
    run = told.run
    if run is None or not values:
        return
    points: dict[int, Point] = {}
    try:
        for step, at_us, value in numbered(values, before):
            [point] = as_points([(step, at_us, value)])  # type: ignore[list-item]  # words such as NaN are taken as well
            points[step] = point
        add_points(lab=run.lab, uuid=run.uuid, points={series.name: list(points.values())}, bound_node=None, now=None)
    except LabCarbonError as error:
        _tell(told, f"{series.name}: {error.message}")


def _take_watts(
    told: MlflowRun, series: MlflowSeries, values: list[tuple[int, int, float | str]], *, over: bool, counts: bool, now: int
) -> list[tuple[int, int, float | str]]:
    """Place a GPU's watts; return those that wait for what comes after them."""
    if not counts:
        return []
    if problem := place_watts(told, series, values, over=over, now=now):
        _tell(told, problem)
    return [value for value in values if series.held_us is None or value[1] > series.held_us]


def _tell(told: MlflowRun, problem: str) -> None:
    told.problem = problem[:300]
    MlflowRun.objects.filter(pk=told.pk).update(problem=told.problem)
