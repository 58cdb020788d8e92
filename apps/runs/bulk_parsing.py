"""Reading rows of history: one flat check a row, an answer a row. Pure."""

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

import msgspec

from apps.core.errors import InvalidInput
from apps.core.intervals import datetime_to_us
from apps.core.json_input import parse_json
from apps.core.text import has_unstorable
from apps.core.units import INT64_MAX
from apps.runs.choices import RunState, Scheduler
from apps.runs.scheduler_jobs import JobIn

MAX_ROWS = 1000
EARLIEST_US, LATEST_US = 0, 4_102_444_800_000_000  # 1970 to 2100

Short = Annotated[str, msgspec.Meta(max_length=100)]
Id = Annotated[str, msgspec.Meta(pattern=r"^[0-9]{1,20}$")]
Moment = Annotated[datetime, msgspec.Meta(tz=True)]
Count = Annotated[int, msgspec.Meta(ge=0, le=1_000_000)]


class JobRow(msgspec.Struct, forbid_unknown_fields=True):
    """The scheduler's job of a row, and the ``job`` of PUT runs/<uuid>/."""

    cluster: Annotated[str, msgspec.Meta(min_length=1, max_length=100, pattern=r"^[^/\s]+$")]
    id: Id
    scheduler: Annotated[str, msgspec.Meta(max_length=16)] = Scheduler.SLURM.value
    account: Short = ""
    partition: Short = ""
    nodes: Annotated[str, msgspec.Meta(max_length=2000)] = ""
    array_job_id: Annotated[str, msgspec.Meta(max_length=20)] = ""
    array_task: Annotated[str, msgspec.Meta(max_length=20)] = ""
    state: Annotated[str, msgspec.Meta(max_length=64)] = ""
    exit: Annotated[str, msgspec.Meta(max_length=16)] = ""
    reserved_gpus: Count | None = None
    consumed_energy_j: Annotated[int, msgspec.Meta(ge=0, le=INT64_MAX)] | None = None
    submitted_at: Annotated[str, msgspec.Meta(max_length=40)] = ""
    gpus: dict[
        Annotated[str, msgspec.Meta(max_length=255)],
        Annotated[list[Annotated[str, msgspec.Meta(max_length=64)]], msgspec.Meta(max_length=64)],
    ] = {}

    def to_job(self) -> JobIn:
        """Return the job without what was left out."""
        facts = {
            name: value
            for name in (
                "nodes",
                "array_job_id",
                "array_task",
                "state",
                "exit",
                "reserved_gpus",
                "consumed_energy_j",
                "submitted_at",
                "gpus",
            )
            if (value := getattr(self, name)) not in (None, "", {})
        }
        return JobIn(self.scheduler, self.cluster, self.id, self.account, self.partition, facts)


class JobEnd(msgspec.Struct, forbid_unknown_fields=True):
    """How a job stands now, in its scheduler's words."""

    state: Annotated[str, msgspec.Meta(max_length=64)] = ""
    exit: Annotated[str, msgspec.Meta(max_length=16)] = ""
    consumed_energy_j: Annotated[int, msgspec.Meta(ge=0, le=INT64_MAX)] | None = None


class BulkRow(msgspec.Struct, forbid_unknown_fields=True):
    """One job of history."""

    name: Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
    job: JobRow
    started_at: Annotated[str, msgspec.Meta(max_length=40)]
    state: RunState
    ended_at: Annotated[str, msgspec.Meta(max_length=40)] | None = None
    exit_code: Annotated[int, msgspec.Meta(ge=-255, le=255)] | None = None
    user: Short = ""


@dataclass(frozen=True)
class PastRun:
    """A row that can be stored. Times in µs UTC."""

    name: str
    job: JobIn
    started_us: int
    ended_us: int | None
    state: RunState
    exit_code: int | None
    os_user: str


def parse_job(value: Any) -> JobIn:
    """Return the ``job`` object of a request. Raises InvalidInput."""
    try:
        row = msgspec.convert(value, JobRow)
        problem = _job_problem(row)
    except msgspec.ValidationError as error:
        problem = _translate_error(error)
    if problem:
        raise InvalidInput(problem, field="job")
    return row.to_job()


def parse_job_end(value: Any) -> dict[str, Any]:
    """Return what a PATCH says of its job's end. Raises InvalidInput."""
    try:
        job_end = msgspec.convert(value, JobEnd)
    except msgspec.ValidationError as error:
        raise InvalidInput(_translate_error(error), field="job") from error
    return {
        name: part for name, part in msgspec.to_builtins(job_end).items() if part not in (None, "")
    }


def parse_rows(body: bytes) -> list[PastRun | str]:
    """Return what each row is: a run to store, or why it cannot be. Raises InvalidInput for the
    body as a whole.
    """
    content = parse_json(body)
    rows = content.get("runs") if isinstance(content, dict) else None
    if not isinstance(rows, list) or set(content) != {"runs"}:
        raise InvalidInput('The body must be {"runs": [...]}.', field="runs")
    if len(rows) > MAX_ROWS:
        raise InvalidInput(
            f"At most {MAX_ROWS} rows, not {len(rows)}.",
            field="runs",
            hint="Send several requests.",
        )
    return [_parsed(row) for row in rows]


def _parsed(value: Any) -> PastRun | str:
    if has_unstorable(value):
        return "NUL, half characters and infinite numbers cannot be stored."
    try:
        row = msgspec.convert(value, BulkRow)
        problem = _job_problem(row.job)
        started_us, ended_us = (
            moment_us(row.started_at, "started_at"),
            moment_us(row.ended_at, "ended_at") if row.ended_at else None,
        )
    except msgspec.ValidationError as error:
        return _translate_error(error)
    except InvalidInput as error:
        return error.message
    if problem:
        return problem
    if ended_us is not None and ended_us < started_us:
        return "It would end before it starts."
    return PastRun(
        row.name, row.job.to_job(), started_us, ended_us, row.state, row.exit_code, row.user
    )


def _job_problem(job: JobRow) -> str:
    if job.scheduler not in Scheduler.values:
        return (
            f"{job.scheduler!r} is no scheduler that is known here ({', '.join(Scheduler.values)})."
        )
    return ""


def moment_us(text: str, field: str) -> int:
    """Return a moment in ISO 8601 as µs UTC. Raises InvalidInput that names ``field``."""
    try:
        moment = msgspec.convert(text, type=Moment)
    except msgspec.ValidationError as error:
        raise InvalidInput(
            f"{field} {text!r} is not a time like 2026-11-02T08:00:00Z.", field=field
        ) from error
    at_us = datetime_to_us(moment)
    if not EARLIEST_US <= at_us <= LATEST_US:
        raise InvalidInput(f"{field} {text!r} is out of range.", field=field)
    return at_us


def _translate_error(error: msgspec.ValidationError) -> str:
    """Say where and what was wrong, without the machinery's words."""
    text, _, where = str(error).partition(" - at `$")
    return f"{where.strip('.`') or 'row'}: {text}"
