"""One time slice of polling an MLflow server. No request is sent inside a transaction. The next
slice continues.

Order:

1. runs that were open at the last poll;
2. runs that started since then, with an hour of overlap, because clocks differ;
3. once a day all runs, because a run can be added with an old start;
4. files of ended runs.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from django.db.models import Q

from apps.accounts.models import Project
from apps.core.clock import now_us
from apps.core.errors import InvalidInput
from apps.core.units import US_PER_HOUR, US_PER_S
from apps.trackers.mlflow.client import MlflowError, OutOfTime, Server
from apps.trackers.mlflow.models import MlflowRun, MlflowSource
from apps.trackers.mlflow.parsing import TrackedRun, project_for, read_run
from apps.trackers.mlflow.services.artifacts import read_files
from apps.trackers.mlflow.services.metrics import read_metrics
from apps.trackers.mlflow.services.runs import METRICS, import_run
from apps.trackers.mlflow.services.servers import server_of
from apps.trackers.mlflow.services.verdict_tags import write_verdict_tags

EVERY_US = 60 * US_PER_S
MAX_WAIT_US = US_PER_HOUR
OVERLAP_MS = 3_600_000
ALL_EVERY_US = 24 * US_PER_HOUR
SLICE_S = 12.0  # the embedded worker runs no other job in this time
MAX_SKIPPED = 3  # more skipped runs count as a problem of the server
_BATCH_SIZE = 50  # ids per request


@dataclass
class Slice:
    """Result of one slice.

    ``more``: time ran out. ``problem``: reason of a failure, or ''.
    ``skipped``: number of runs with unreadable metrics. They do not block others.
    """

    runs: int = 0
    skipped: int = 0
    more: bool = False
    problem: str = ""


@dataclass(frozen=True)
class _Experiment:
    name: str
    project: Project


def poll_source(*, source: MlflowSource, seconds: float = SLICE_S) -> Slice:
    """Read new data of a server within a time limit; record the result and the next poll."""
    done, wait_s = Slice(), 0
    server = None
    try:
        server = server_of(source, seconds=seconds)
        _read(source, server, done)
    except MlflowError as problem:
        done.problem, wait_s = problem.message, problem.wait_s
    except OutOfTime:
        done.more = True
    _save_result(source, server, done, wait_s)
    return done


def _save_result(source: MlflowSource, server: Server | None, done: Slice, wait_s: int) -> None:
    now = now_us()
    failures = source.failures + 1 if done.problem else 0
    wait_us = min(EVERY_US << min(failures, 10), MAX_WAIT_US) if failures else EVERY_US
    values = {
        "polled_us": now,
        "problem": done.problem[:400],
        "failures": failures,
        "due_us": now if done.more else now + max(wait_us, wait_s * US_PER_S),
        "version": source.version,
        "experiments": source.experiments,
        "experiments_imported": source.experiments_imported,
    }
    if not done.problem:
        values["succeeded_us"] = now
    if server is not None and server.skew_us is not None:
        values["skew_us"] = server.skew_us
    MlflowSource.objects.filter(pk=source.pk).update(**values)
    for name, value in values.items():
        setattr(source, name, value)


def _read(source: MlflowSource, server: Server, done: Slice) -> None:
    source.version = server.version()[:40] or source.version
    experiments = _experiments(source, server)
    write_verdict_tags(source=source, server=server)  # before reads that may take many slices
    if experiments:
        _read_open(source, server, experiments, done)
        _read_new(source, server, experiments, done)
        _read_all(source, server, experiments, done)
        done.more = read_files(source=source, server=server)


def _experiments(source: MlflowSource, server: Server) -> dict[str, _Experiment]:
    """Return the experiments that are charged to a project, by id."""
    rows = list(source.patterns.select_related("project").order_by("position"))
    projects = {row.project_id: row.project for row in rows}
    if source.project is not None:
        projects[source.project.pk] = source.project
    patterns = [(row.pattern, row.project_id) for row in rows]
    listed = server.experiments()
    selected = {
        number: _Experiment(name, projects[project])
        for number, name in listed
        if (project := project_for(name, patterns, source.project_id)) is not None
    }
    source.experiments, source.experiments_imported = len(listed), len(selected)
    return selected


def _read_open(
    source: MlflowSource, server: Server, experiments: dict[str, _Experiment], done: Slice
) -> None:
    """Read open and partly read runs again. The longest unpolled run is first."""
    open_ = list(
        source.runs.filter(is_open=True)
        .order_by("last_listed_us", "pk")
        .values_list("mlflow_id", flat=True)[:2000]
    )
    for ids in _parts(open_, _BATCH_SIZE):
        listed = ", ".join(f"'{each}'" for each in ids)  # ids contain only letters, digits, _ and -
        listed_ids = set()
        for page in _search_runs(server, list(experiments), f"attributes.run_id IN ({listed})"):
            for tracked_run in page:
                listed_ids.add(tracked_run.run_id)
                _read_run(source, server, experiments, tracked_run, done)
        _close_deleted(source, set(ids) - listed_ids)


def _close_deleted(source: MlflowSource, deleted_ids: set[str]) -> None:
    """Stop polling runs that were deleted in MLflow, or whose experiment is not imported any
    more.
    """
    if deleted_ids:
        source.runs.filter(mlflow_id__in=deleted_ids).update(
            is_open=False,
            problem=(
                "MLflow has it no more: it was deleted there, or its experiment is left out now."
            ),
        )


def _read_new(
    source: MlflowSource, server: Server, experiments: dict[str, _Experiment], done: Slice
) -> None:
    since = max(source.new_from_ms - OVERLAP_MS, 0)
    for page in _search_runs(server, list(experiments), f"attributes.start_time >= {since}"):
        for tracked_run in page:
            _read_run(source, server, experiments, tracked_run, done)
            _save_progress(source, "new_from_ms", tracked_run.start_ms)


def _read_all(
    source: MlflowSource, server: Server, experiments: dict[str, _Experiment], done: Slice
) -> None:
    """Read all runs once a day. A known, unchanged run costs no further request."""
    recently = source.all_done_us is not None and source.all_done_us + ALL_EVERY_US > now_us()
    if source.all_from_ms is None and recently:
        return
    for page in _search_runs(
        server, list(experiments), f"attributes.start_time >= {source.all_from_ms or 0}"
    ):
        for tracked_run in page:
            _read_run(source, server, experiments, tracked_run, done)
            _save_progress(source, "all_from_ms", tracked_run.start_ms)
    MlflowSource.objects.filter(pk=source.pk).update(all_from_ms=None, all_done_us=now_us())
    source.all_from_ms, source.all_done_us = None, now_us()


def _save_progress(source: MlflowSource, field: str, start_ms: int) -> None:
    """Store the position of a pass, so that the next slice continues there."""
    before = getattr(source, field)
    if start_ms <= now_us() // 1000 and (before is None or start_ms > before):
        setattr(source, field, start_ms)
        MlflowSource.objects.filter(
            Q(**{f"{field}__lt": start_ms}) | Q(**{field: None}), pk=source.pk
        ).update(**{field: start_ms})


def _search_runs(
    server: Server, experiments: list[str], condition: str
) -> Iterator[list[TrackedRun]]:
    """Yield runs that match a condition, page by page. Invalid rows are omitted."""
    for numbers in _parts(experiments, 500):
        for page in server.runs(numbers, condition):
            runs = []
            for content in page:
                try:
                    runs.append(read_run(content))
                except InvalidInput:
                    continue
            yield runs


def _read_run(
    source: MlflowSource,
    server: Server,
    experiments: dict[str, _Experiment],
    tracked_run: TrackedRun,
    done: Slice,
) -> None:
    """Read one run if it changed. Data read so far is kept after an error."""
    experiment = experiments.get(tracked_run.experiment)
    if experiment is None or tracked_run.state is None:
        return
    row = (
        source.runs.select_related("run", "source__lab", "source__node")
        .filter(mlflow_id=tracked_run.run_id)
        .first()
    )
    is_unchanged = row is not None and row.digest == tracked_run.digest
    if is_unchanged and row is not None and not row.is_open:
        return
    now = now_us()
    if row is None or not is_unchanged:
        row = import_run(
            source=source,
            tracked_run=tracked_run,
            experiment=experiment.name,
            project=experiment.project,
            now=now,
        )
    try:
        if row.run is not None:
            read_metrics(server=server, tracked_run=row, reported=tracked_run, now=now)
    except MlflowError as problem:
        if not problem.is_single or done.skipped >= MAX_SKIPPED:
            raise
        done.skipped += 1
        MlflowRun.objects.filter(pk=row.pk).update(
            problem=f"{METRICS}{problem.message}"[:300], is_open=True, last_listed_us=now
        )
        return
    digest = tracked_run.digest if row.run is not None else ""
    MlflowRun.objects.filter(pk=row.pk).update(
        digest=digest, is_open=not tracked_run.is_over, last_listed_us=now
    )
    done.runs += not is_unchanged


def _parts(values: list[str], size: int) -> Iterator[list[str]]:
    for start in range(0, len(values), size):
        yield values[start : start + size]
