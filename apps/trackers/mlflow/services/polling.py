"""One slice of reading an MLflow server: bounded in time, no question asked inside a transaction, taken up where it stopped.

Read are the runs that were open when they were last seen, then those that began since (with an hour's overlap, as clocks
differ), and once a day all of them, since a run may be told of with a start that is long past; then the files that
ended runs made.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from django.db.models import Q

from apps.accounts.models import Project
from apps.core.clock import now_us
from apps.core.errors import InvalidInput
from apps.core.units import US_PER_HOUR, US_PER_S
from apps.trackers.mlflow.client import MlflowProblem, OutOfTime, Server
from apps.trackers.mlflow.parsing import ToldRun, project_for, read_run
from apps.trackers.mlflow.services.artifacts import read_files
from apps.trackers.mlflow.services.metrics import read_metrics
from apps.trackers.mlflow.services.runs import METRICS, take_run
from apps.trackers.mlflow.services.servers import server_of
from apps.trackers.mlflow.services.verdict_tags import tell_verdicts
from apps.trackers.models import MlflowRun, MlflowSource

EVERY_US = 60 * US_PER_S
LONGEST_WAIT_US = US_PER_HOUR
OVERLAP_MS = 3_600_000
ALL_EVERY_US = 24 * US_PER_HOUR
SLICE_S = 12.0  # the embedded worker does nothing else meanwhile
MOST_PASSED_OVER = 3  # more of them are the server's fault
_AT_ONCE = 50  # ids in one question


@dataclass
class Slice:
    """What one slice did. ``more``: it stopped for its time. ``problem``: why it ended, '' if it went well. ``passed_over``:
    runs whose metrics could not be read, which hold up nobody else."""

    runs: int = 0
    passed_over: int = 0
    more: bool = False
    problem: str = ""


@dataclass(frozen=True)
class _Experiment:
    name: str
    project: Project


def poll_source(*, source: MlflowSource, seconds: float = SLICE_S) -> Slice:
    """Read what is new of a server, for so many seconds; note how it went and when to ask again."""
    done, wait_s = Slice(), 0
    server = None
    try:
        server = server_of(source, seconds=seconds)
        _read(source, server, done)
    except MlflowProblem as problem:
        done.problem, wait_s = problem.words, problem.wait_s
    except OutOfTime:
        done.more = True
    _note(source, server, done, wait_s)
    return done


def _note(source: MlflowSource, server: Server | None, done: Slice, wait_s: int) -> None:
    now = now_us()
    failures = source.failures + 1 if done.problem else 0
    wait_us = min(EVERY_US << min(failures, 10), LONGEST_WAIT_US) if failures else EVERY_US
    told = {
        "asked_us": now,
        "problem": done.problem[:400],
        "failures": failures,
        "due_us": now if done.more else now + max(wait_us, wait_s * US_PER_S),
        "version": source.version,
        "experiments": source.experiments,
        "experiments_taken": source.experiments_taken,
    }
    if not done.problem:
        told["answered_us"] = now
    if server is not None and server.skew_us is not None:
        told["skew_us"] = server.skew_us
    MlflowSource.objects.filter(pk=source.pk).update(**told)
    for name, value in told.items():
        setattr(source, name, value)


def _read(source: MlflowSource, server: Server, done: Slice) -> None:
    source.version = server.version()[:40] or source.version
    taken = _experiments(source, server)
    tell_verdicts(source=source, server=server)  # before what may take many slices
    if taken:
        _read_open(source, server, taken, done)
        _read_new(source, server, taken, done)
        _read_all(source, server, taken, done)
        done.more = read_files(source=source, server=server)


def _experiments(source: MlflowSource, server: Server) -> dict[str, _Experiment]:
    """Return the experiments that are charged to some project, by id."""
    rows = list(source.patterns.select_related("project").order_by("position"))
    projects = {row.project_id: row.project for row in rows}
    if source.project is not None:
        projects[source.project.pk] = source.project
    patterns = [(row.pattern, row.project_id) for row in rows]
    found = server.experiments()
    taken = {
        number: _Experiment(name, projects[project])
        for number, name in found
        if (project := project_for(name, patterns, source.project_id)) is not None
    }
    source.experiments, source.experiments_taken = len(found), len(taken)
    return taken


def _read_open(source: MlflowSource, server: Server, taken: dict[str, _Experiment], done: Slice) -> None:
    """Read the runs again that went on, or were not read whole, when they were last seen: the longest unseen first."""
    open_ = list(source.runs.filter(is_open=True).order_by("seen_us", "pk").values_list("mlflow_id", flat=True)[:2000])
    for ids in _parts(open_, _AT_ONCE):
        listed = ", ".join(f"'{each}'" for each in ids)  # of letters, digits, _ and - alone
        seen = set()
        for page in _asked(server, list(taken), f"attributes.run_id IN ({listed})"):
            for told in page:
                seen.add(told.run_id)
                _read_run(source, server, taken, told, done)
        _lost(source, set(ids) - seen)


def _lost(source: MlflowSource, gone: set[str]) -> None:
    """Ask no more for runs that MLflow deleted, or that are in an experiment that is left out now."""
    if gone:
        source.runs.filter(mlflow_id__in=gone).update(
            is_open=False, problem="MLflow has it no more: it was deleted there, or its experiment is left out now."
        )


def _read_new(source: MlflowSource, server: Server, taken: dict[str, _Experiment], done: Slice) -> None:
    since = max(source.new_from_ms - OVERLAP_MS, 0)
    for page in _asked(server, list(taken), f"attributes.start_time >= {since}"):
        for told in page:
            _read_run(source, server, taken, told, done)
            _remember(source, "new_from_ms", told.start_ms)


def _read_all(source: MlflowSource, server: Server, taken: dict[str, _Experiment], done: Slice) -> None:
    """Read all runs if that was not done for a day: those that are known and unchanged cost nothing but their page."""
    recently = source.all_done_us is not None and source.all_done_us + ALL_EVERY_US > now_us()
    if source.all_from_ms is None and recently:
        return
    for page in _asked(server, list(taken), f"attributes.start_time >= {source.all_from_ms or 0}"):
        for told in page:
            _read_run(source, server, taken, told, done)
            _remember(source, "all_from_ms", told.start_ms)
    MlflowSource.objects.filter(pk=source.pk).update(all_from_ms=None, all_done_us=now_us())
    source.all_from_ms, source.all_done_us = None, now_us()


def _remember(source: MlflowSource, field: str, start_ms: int) -> None:
    """Note how far a pass came, so that the next slice, or the next start of the server, goes on there."""
    before = getattr(source, field)
    if start_ms <= now_us() // 1000 and (before is None or start_ms > before):
        setattr(source, field, start_ms)
        MlflowSource.objects.filter(Q(**{f"{field}__lt": start_ms}) | Q(**{field: None}), pk=source.pk).update(
            **{field: start_ms}
        )


def _asked(server: Server, experiments: list[str], condition: str) -> Iterator[list[ToldRun]]:
    """Yield runs that fit a condition, page by page; of what is no run a page tells nothing."""
    for numbers in _parts(experiments, 500):
        for page in server.runs(numbers, condition):
            found = []
            for content in page:
                try:
                    found.append(read_run(content))
                except InvalidInput:
                    continue
            yield found


def _read_run(source: MlflowSource, server: Server, taken: dict[str, _Experiment], told: ToldRun, done: Slice) -> None:
    """Read one run, if anything of it is new. What was read is kept, whatever comes after."""
    experiment = taken.get(told.experiment)
    if experiment is None or told.state is None:
        return
    row = source.runs.select_related("run", "source__lab", "source__node").filter(mlflow_id=told.run_id).first()
    known = row is not None and row.digest == told.digest
    if known and row is not None and not row.is_open:
        return
    now = now_us()
    if row is None or not known:
        row = take_run(source=source, told=told, experiment=experiment.name, project=experiment.project, now=now)
    try:
        if row.run is not None:
            read_metrics(server=server, told=row, run=told, now=now)
    except MlflowProblem as problem:
        if not problem.of_one or done.passed_over >= MOST_PASSED_OVER:
            raise
        done.passed_over += 1
        MlflowRun.objects.filter(pk=row.pk).update(problem=f"{METRICS}{problem.words}"[:300], is_open=True, seen_us=now)
        return
    digest = told.digest if row.run is not None else ""
    MlflowRun.objects.filter(pk=row.pk).update(digest=digest, is_open=not told.is_over, seen_us=now)
    done.runs += not known


def _parts(values: list[str], size: int) -> Iterator[list[str]]:
    for start in range(0, len(values), size):
        yield values[start : start + size]
