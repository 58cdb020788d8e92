"""Files of ended runs: read over the network once, hashed and registered as artifacts.

Their contents are not stored. MLflow has no digest of a file, so an unread file cannot be
identified. It is counted with the reason.
"""

import hashlib
from dataclasses import dataclass, field

from django.db import transaction

from apps.artifacts.choices import Kind, LineageRole, LineageSource
from apps.artifacts.models import Artifact
from apps.artifacts.parsing import MAX_PATH, ArtifactRow, CopyRow, EdgeRow
from apps.artifacts.services.register import register, save_edges
from apps.core.clock import now_us
from apps.core.units import US_PER_HOUR, US_PER_S
from apps.trackers.mlflow.artifact_files import FileEntry, entries, kind_of, models_of, proxied_path
from apps.trackers.mlflow.choices import FileOutcome
from apps.trackers.mlflow.client import MlflowError, Server
from apps.trackers.mlflow.models import MlflowFile, MlflowRun, MlflowSource

MAX_FILE_BYTES = 10**9
MAX_RUN_BYTES, MAX_RUN_FILES = 8 * 10**9, 100
MAX_DAY_BYTES = 50 * 10**9  # of one server
MAX_ENTRIES, MAX_FOLDERS, MAX_MODELS = 2000, 50, 10
MAX_TRIES, MAX_FAULTS = 6, 3
_BATCH_SIZE = 50
_FIRST_WAIT_US, _US_PER_DAY = 600 * US_PER_S, 24 * US_PER_HOUR


class _DailyLimitReached(Exception):
    """The daily limit of this server is reached."""


@dataclass(frozen=True)
class _File:
    """A file to read.

    ``below``: its path at MLflow's file proxy, or None. ``step``: of the logged ``model``.
    """

    model: str
    below: str | None
    step: int | None
    listed: FileEntry

    @property
    def path(self) -> str:
        return f"{self.below}/{self.listed.path}" if self.below else self.listed.path


@dataclass
class _FileList:
    """The listed files of a run. ``left``: number of files that are not read."""

    files: list[_File] = field(default_factory=list)
    left: int = 0
    folders: int = 0


def read_files(*, source: MlflowSource, server: Server) -> bool:
    """Read files of ended runs within the time limit; return whether more remain. Raises
    OutOfTime.
    """
    if not source.reads_files:
        return False
    waiting = source.runs.filter(
        run__isnull=False, is_open=False, files_read=False, files_due_us__lte=now_us()
    )
    rows = list(waiting.select_related("run", "source__lab").order_by("pk")[:_BATCH_SIZE])
    faults = 0
    for row in rows:
        try:
            _read(source, server, row)
        except MlflowError as problem:
            _postpone(row, problem)
            faults += 1
            if not problem.is_single or faults >= MAX_FAULTS:
                return False
        except _DailyLimitReached:
            return False
    return len(rows) == _BATCH_SIZE


def _postpone(row: MlflowRun, problem: MlflowError) -> None:
    """Retry later, a limited number of times."""
    tries = row.files_tries + 1
    wait_us = max(_FIRST_WAIT_US << min(tries, 8), problem.wait_s * US_PER_S)
    MlflowRun.objects.filter(pk=row.pk).update(
        files_problem=f"Its files: {problem.message}"[:300],
        files_tries=tries,
        files_due_us=now_us() + wait_us,
        files_read=tries >= MAX_TRIES,
    )


def _read(source: MlflowSource, server: Server, row: MlflowRun) -> None:
    content = server.run(row.mlflow_id)
    file_list = _FileList()
    for model, step in [
        ("", None),
        *list(models_of(content, "outputs", "model_outputs").items())[:MAX_MODELS],
    ]:
        _list(server, row, model, step, file_list)
    problems = _import_files(source, server, row, file_list)
    if problems:  # a problem of these files only, unless the server requests a wait
        patience_s = max(problem.wait_s for problem in problems)
        raise MlflowError(problems[0].message, wait_s=patience_s, is_single=not patience_s)
    _link_inputs(source, row, models_of(content, "inputs", "model_inputs"))
    MlflowRun.objects.filter(pk=row.pk).update(
        files_read=True, files_left=file_list.left, files_problem=""
    )


def _list(
    server: Server, row: MlflowRun, model: str, step: int | None, file_list: _FileList
) -> None:
    """List the files of a run or of a logged model, folder by folder."""
    waiting = [""]
    while waiting:
        if file_list.folders >= MAX_FOLDERS or len(file_list.files) + file_list.left >= MAX_ENTRIES:
            file_list.left += len(waiting)
            return
        file_list.folders += 1
        folder = waiting.pop()
        root, rows = server.listing(row.mlflow_id, model, folder)
        below = proxied_path(root, server.address)
        listed, wrong = entries(rows[:MAX_ENTRIES], folder)
        file_list.left += wrong + max(0, len(rows) - MAX_ENTRIES)
        for each in listed:
            if each.is_folder:
                waiting.append(each.path)
            elif kind_of(each.path) is None or each.bytes == 0:
                file_list.left += 1
            else:
                file_list.files.append(_File(model, below, step, each))


def _import_files(
    source: MlflowSource, server: Server, row: MlflowRun, file_list: _FileList
) -> list[MlflowError]:
    """Read the files without a result; return the problems of those that are retried."""
    known_paths = set(row.files.values_list("model", "path"))
    problems: list[MlflowError] = []
    count = size = 0
    for file in file_list.files:
        outcome, why = _outcome(file, count, size)
        if outcome == FileOutcome.IMPORTED:
            count, size = count + 1, size + (file.listed.bytes or 0)
        if (file.model, file.listed.path) in known_paths:
            continue
        if outcome != FileOutcome.IMPORTED:
            _save_file(row, file, outcome, why=why)
            continue
        try:
            _fetch(source, server, row, file)
        except MlflowError as error:
            if error.too_large or row.files_tries + 1 >= MAX_TRIES:
                _save_file(row, file, FileOutcome.UNREADABLE, why=error.message)
                continue
            problems.append(
                MlflowError(f"{file.listed.name}: {error.message}", wait_s=error.wait_s)
            )
            if error.wait_s or len(problems) >= MAX_FAULTS:
                return problems
    return problems


def _outcome(file: _File, count: int, size: int) -> tuple[FileOutcome, str]:
    """Return the outcome of a file, with a reason if needed.

    ``count`` and ``size``: of the files before it.
    """
    if file.below is None:
        return FileOutcome.ELSEWHERE, ""
    if file.listed.bytes is None:
        return FileOutcome.UNREADABLE, "MLflow reports no size."
    if file.listed.bytes > MAX_FILE_BYTES:
        return FileOutcome.TOO_LARGE, ""
    is_many = count >= MAX_RUN_FILES or size + file.listed.bytes > MAX_RUN_BYTES
    return FileOutcome.TOO_MANY if is_many else FileOutcome.IMPORTED, ""


def _fetch(source: MlflowSource, server: Server, row: MlflowRun, file: _File) -> None:
    """Read one file and register it."""
    size = file.listed.bytes or 0
    _check_daily_limit(source, size)
    digest, got = hashlib.sha256(), [0]

    def take(part: bytes) -> None:
        digest.update(part)
        got[0] += len(part)

    try:
        server.fetch(file.path, most_bytes=size, take=take)
    except MlflowError as wrong:
        if wrong.too_large:
            raise MlflowError("The file is larger than listed.", too_large=True) from wrong
        raise
    finally:
        _count_bytes(source, got[0])
    if got[0] != size:
        raise MlflowError(f"Received {got[0]} bytes, but {size} are listed.", is_single=True)
    with transaction.atomic():
        _save_file(row, file, FileOutcome.IMPORTED, digest=digest.hexdigest())
        _register(server, row, file, digest.hexdigest())


def _register(server: Server, row: MlflowRun, file: _File, digest: str) -> None:
    assert row.run is not None
    address = server.address_of(file.path)
    artifact = ArtifactRow(
        digest=digest,
        name=file.listed.name[:255],
        bytes=file.listed.bytes or 0,
        kind=kind_of(file.listed.path) or Kind.OTHER,
        facts={} if file.step is None else {"step": file.step},
        copies=[CopyRow(path=address)] if len(address) <= MAX_PATH else [],
        runs=[EdgeRow(run=row.run.uuid, role=LineageRole.PRODUCED)],
    )
    answers = register(
        lab=row.source.lab, rows=[artifact], node_uuid=None, by=None, bound_node=None, now=now_us()
    )
    if answers[0][0] == "refused":
        raise MlflowError(" ".join(answers[0][1:]), is_single=True)


def _save_file(
    row: MlflowRun, file: _File, outcome: FileOutcome, *, digest: str = "", why: str = ""
) -> None:
    path = file.listed.path
    path_hash = hashlib.sha256(f"{file.model}\0{path}".encode()).hexdigest()
    facts = {
        "model": file.model,
        "path": path,
        "bytes": file.listed.bytes or 0,
        "digest": digest,
        "outcome": outcome.value,
        "reason": why[:300],
    }
    MlflowFile.objects.update_or_create(tracked_run=row, path_hash=path_hash, defaults=facts)


def _link_inputs(source: MlflowSource, row: MlflowRun, models: dict[str, int | None]) -> None:
    """Link a run with the files of its logged input models, if their content is known."""
    read = MlflowFile.objects.filter(tracked_run__source=source, model__in=list(models)).exclude(
        digest=""
    )
    digests = set(read.values_list("digest", flat=True)) if models else set()
    if not digests or row.run is None:
        return
    artifacts = Artifact.objects.filter(lab=row.source.lab, digest__in=digests).values_list(
        "pk", flat=True
    )
    edges = [
        (row.run.pk, artifact, LineageRole.USED.value, LineageSource.REPORTED.value)
        for artifact in artifacts
    ]
    save_edges(lab=row.source.lab, edges=edges, now=now_us())


def _check_daily_limit(source: MlflowSource, size: int) -> None:
    """Raise _DailyLimitReached if the daily limit of a server is reached."""
    today = now_us() // _US_PER_DAY
    if source.files_day != today:
        source.files_day, source.files_bytes = today, 0
    if source.files_bytes and source.files_bytes + size > MAX_DAY_BYTES:
        raise _DailyLimitReached


def _count_bytes(source: MlflowSource, size: int) -> None:
    source.files_bytes += size
    MlflowSource.objects.filter(pk=source.pk).update(
        files_day=source.files_day, files_bytes=source.files_bytes
    )
