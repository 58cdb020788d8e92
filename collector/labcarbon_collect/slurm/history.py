"""Sources of job history: sacct, queried day by day, or a file of its output."""

from __future__ import annotations

import hashlib
import os
import subprocess
import tempfile
from dataclasses import dataclass
from datetime import date, timedelta, tzinfo
from pathlib import Path
from typing import IO, Callable, Iterator, Optional, Sequence, TextIO

from labcarbon_collect.slurm.commands import new_delimiter, sacct_command, slurm_environment
from labcarbon_collect.slurm.jobs import JobFacts
from labcarbon_collect.slurm.parsers import SacctFormatError, parse_sacct_jobs

OnInvalidRow = Callable[[str, str], None]  # (source, reason) of an unreadable row


@dataclass(frozen=True)
class HistoryJob:
    """A job, its source, and the position in that source (0 to 1)."""

    job: JobFacts
    source: str
    fraction: float
    position: str  # resume position once all jobs up to this one are stored


class HistoryError(Exception):
    """The source cannot be read (further). The text has the reason."""


class SacctFile:
    """A file written by ``sacct --parsable2``. The resume position is a count of jobs."""

    def __init__(self, path: Path, *, cluster: str, zone: Optional[tzinfo]) -> None:
        self._path, self._cluster, self._zone = path, cluster, zone

    def key(self) -> str:
        """Return an identifier of the file's content."""
        try:
            with self._path.open("rb") as file:
                head = file.read(1 << 16)
            return f"file {self._path.stat().st_size} {hashlib.sha256(head).hexdigest()[:16]}"
        except OSError as error:
            raise HistoryError(f"cannot read {self._path}: {error.strerror}") from error

    def jobs(self, after: str, on_invalid_row: OnInvalidRow) -> Iterator[HistoryJob]:
        """Yield the jobs after position ``after``."""
        skip = int(after or 0)
        with self._path.open(encoding="utf-8", errors="replace", newline="\n") as file:
            size = max(1, os.fstat(file.fileno()).st_size)
            lines = _CountedLines(file)
            try:
                jobs = parse_sacct_jobs(
                    lines,
                    cluster=self._cluster,
                    zone=self._zone,
                    on_invalid_row=lambda line, reason: on_invalid_row(f"line {line}", reason),
                )
                for number, job in enumerate(jobs, start=1):
                    if number > skip:
                        yield HistoryJob(
                            job,
                            f"job {job.cluster}/{job.job_id}",
                            min(1.0, lines.bytes / size),
                            str(number),
                        )
            except SacctFormatError as error:
                raise HistoryError(
                    f"{self._path} is not in the expected format of sacct: {error}"
                ) from error


class _CountedLines:
    """The lines of a file, with a count of their bytes."""

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self.bytes = 0

    def __iter__(self) -> Iterator[str]:
        for line in self._file:
            self.bytes += len(line.encode("utf-8", "replace")) if not line.isascii() else len(line)
            yield line


class SacctQuery:
    """sacct, queried day by day. The resume position is a day."""

    def __init__(self, since: date, until: date, *, cluster: str) -> None:
        self._since, self._until, self._cluster = since, until, cluster

    def key(self) -> str:
        return f"sacct {self._cluster} {self._since} {self._until}"

    def jobs(self, after: str, on_invalid_row: OnInvalidRow) -> Iterator[HistoryJob]:
        """Yield the jobs of the days from ``after``. A job that ran over midnight appears on each
        of its days.
        """
        day = max(self._since, date.fromisoformat(after)) if after else self._since
        days = max(1, (self._until - self._since).days)
        while day < self._until:
            elapsed_days = (day - self._since).days
            for job in self._query_day(day, on_invalid_row):
                yield HistoryJob(
                    job,
                    f"job {job.cluster}/{job.job_id}",
                    (elapsed_days + 0.5) / days,
                    day.isoformat(),
                )
            day += timedelta(days=1)

    def _query_day(self, day: date, on_invalid_row: OnInvalidRow) -> Iterator[JobFacts]:
        # Days of UTC, because sacct is started with that time zone.
        period = (f"--starttime={day}T00:00:00", f"--endtime={day + timedelta(days=1)}T00:00:00")
        command = [*sacct_command(new_delimiter(), cluster=self._cluster or None), *period]
        with tempfile.TemporaryFile() as errors:
            process = self._start_sacct(command, errors)
            assert process.stdout is not None
            format_error = ""
            with process:
                try:
                    yield from parse_sacct_jobs(
                        process.stdout,
                        cluster=self._cluster,
                        on_invalid_row=lambda line, reason: on_invalid_row(
                            f"{day}, line {line}", reason
                        ),
                    )
                except SacctFormatError as error:
                    format_error = (
                        f"the output of sacct for {day} has an unexpected format: {error}"
                    )
            errors.seek(0)
            error_output = errors.read().decode("utf-8", "replace").strip()
        if process.returncode:
            raise HistoryError(
                f"sacct failed on {day}: {error_output[-300:] or f'exit code {process.returncode}'}"
            )
        if format_error:
            raise HistoryError(format_error)

    @staticmethod
    def _start_sacct(command: Sequence[str], errors: IO[bytes]) -> subprocess.Popen[str]:
        try:
            return subprocess.Popen(
                command,
                env=slurm_environment(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                encoding="utf-8",
                errors="replace",
            )
        except OSError as error:
            raise HistoryError(
                f"sacct cannot be started ({error.strerror}): run this on a node with Slurm's "
                "programs, or pass a file"
            ) from error
