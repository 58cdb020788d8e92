"""Import the history of a Slurm cluster: runs, users, accounts, reserved GPUs and exit states.

It contains no energy.

Without FILE, sacct is queried day by day. FILE is the output of: SLURM_TIME_FORMAT=%s sacct
--allusers --allocations --parsable2 --delimiter='|<random>|' --format=COLUMNS Repeating an import
changes nothing. After an interruption it resumes at its last position.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from datetime import date, datetime, timedelta, timezone, tzinfo
from pathlib import Path
from typing import Any, Dict, List, Tuple, Union

from labcarbon_collect.api.bulk_uploader import MAX_ROWS, BulkUploader, UploadError
from labcarbon_collect.api.transport import InvalidUrlError, Transport
from labcarbon_collect.commands import add_alias
from labcarbon_collect.config import Login, collector_dir, data_dir, read_enrolment, read_login
from labcarbon_collect.errors import CommandError
from labcarbon_collect.node_identity import ConfigurationError, node_identity
from labcarbon_collect.processes.cgroups import local_cluster
from labcarbon_collect.progress import Progress
from labcarbon_collect.pseudonyms import UserNames, user_names
from labcarbon_collect.slurm.history import HistoryError, HistoryJob, SacctFile, SacctQuery
from labcarbon_collect.slurm.jobs import bulk_row
from labcarbon_collect.slurm.parsers import SACCT

_MAX_PRINTED_ERRORS = 20
_DEFAULT_DAYS = 365
Source = Union[SacctFile, SacctQuery]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file", nargs="?", metavar="FILE", help=f"output of sacct; COLUMNS: {','.join(SACCT)}"
    )
    parser.add_argument(
        "--since",
        type=_parse_day,
        metavar="DAY",
        help=f"first day (UTC), default {_DEFAULT_DAYS} days ago",
    )
    parser.add_argument(
        "--until",
        type=_parse_day,
        metavar="DAY",
        help="the day after the last one, default tomorrow",
    )
    parser.add_argument(
        "--cluster", default="", help="name of the cluster, if the file has no such column"
    )
    parser.add_argument(
        "--time-zone",
        type=_parse_zone,
        metavar="ZONE",
        help="time zone of FILE, unless its times are seconds since 1970",
    )
    restart = parser.add_argument(
        "--restart",
        action="store_true",
        help="start from the beginning instead of the last position",
    )
    add_alias(parser, "--again", restart)


def run(args: argparse.Namespace) -> int:
    source = _source(args)
    login = _login()
    try:
        names = user_names(os.environ)
        transport = Transport(login.url, login.token)
        resume_file = _ResumeFile(login.url, source.key())
    except (InvalidUrlError, ConfigurationError, HistoryError) as error:
        raise CommandError(str(error)) from error
    after = "" if args.restart else resume_file.position
    if after:
        print(f"Resuming after {after} (from the beginning: --restart)", file=sys.stderr)
    try:
        return _Import(
            source, BulkUploader(transport, "runs/bulk/", notify=_notify), resume_file, names
        ).run(after)
    finally:
        transport.close()


class _Import:
    """One import, from reading to its summary."""

    def __init__(
        self, source: Source, uploader: BulkUploader, resume_file: _ResumeFile, names: UserNames
    ) -> None:
        self._source, self._uploader, self._resume_file, self._names = (
            source,
            uploader,
            resume_file,
            names,
        )
        self._progress = Progress("jobs")
        self._rows: List[Tuple[str, Dict[str, Any]]] = []
        self._pending_count = 0
        self._fraction = 0.0

    def run(self, after: str) -> int:
        """Upload everything after position ``after``. Returns the exit code."""
        outcome, position = self._uploader.outcome, after
        try:
            for entry in self._source.jobs(after, outcome.add_error):
                self._add(entry)
                position, self._fraction = entry.position, entry.fraction
                if len(self._rows) >= MAX_ROWS:
                    self._send(position)
            self._fraction = 1.0
            self._send(position)
        except (HistoryError, UploadError) as error:
            self._close()
            raise CommandError(
                f"{error}. {outcome.rows:,} jobs have results. The same command resumes from there."
            ) from error
        except KeyboardInterrupt:
            self._close()
            _notify("Interrupted. The same command resumes from here.")
            raise
        self._close()
        return 1 if outcome.counts["refused"] else 0

    def _add(self, entry: HistoryJob) -> None:
        job = entry.job
        if job.started_us is None or not job.slurm_state or job.slurm_state.startswith("PENDING"):
            self._pending_count += 1
        elif not job.state:
            self._uploader.outcome.add_error(
                entry.source, f"unknown state {job.slurm_state[:40]!r}"
            )
        elif job.ended_us is not None and job.ended_us < job.started_us:
            self._uploader.outcome.add_error(entry.source, "the end is before the start")
        else:
            self._rows.append((entry.source, self._names.mask_job(bulk_row(job), job.user)))

    def _send(self, position: str) -> None:
        self._uploader.send(self._rows)
        self._rows.clear()
        self._resume_file.save(position)
        self._progress.update(self._uploader.outcome.rows, self._fraction)

    def _close(self) -> None:
        outcome = self._uploader.outcome
        self._progress.update(outcome.rows, self._fraction, is_final=True)
        counts = ", ".join(f"{count:,} {result}" for result, count in outcome.counts.items())
        print(f"{counts}; {self._pending_count:,} never started and are not runs")
        for source, reason in outcome.errors[:_MAX_PRINTED_ERRORS]:
            print(f"  {source}: {reason}")
        if outcome.counts["refused"] > _MAX_PRINTED_ERRORS:
            print(f"  and {outcome.counts['refused'] - _MAX_PRINTED_ERRORS:,} more")


class _ResumeFile:
    """The resume positions of imports, by server and source. Losing them only costs time."""

    def __init__(self, url: str, source: str) -> None:
        self._path = data_dir(os.environ) / "import-sacct.json"
        self._key = f"{url} {source}"
        try:
            content = json.loads(self._path.read_text(encoding="utf-8"))
            self._positions: Dict[str, str] = content if isinstance(content, dict) else {}
        except (OSError, ValueError):
            self._positions = {}
        self.position = str(self._positions.get(self._key, ""))

    def save(self, position: str) -> None:
        """Store that everything up to ``position`` is uploaded."""
        self._positions[self._key] = position
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            temporary = self._path.with_suffix(f".{os.getpid()}")
            temporary.write_text(json.dumps(self._positions), encoding="utf-8")
            temporary.replace(self._path)
        except OSError:
            return


def _source(options: argparse.Namespace) -> Source:
    if options.file:
        if options.since or options.until:
            raise CommandError("--since and --until require sacct: a file is read as a whole")
        return SacctFile(Path(options.file), cluster=options.cluster, zone=options.time_zone)
    today = datetime.now(tz=timezone.utc).date()
    since = options.since or today - timedelta(days=_DEFAULT_DAYS)
    until = options.until or today + timedelta(days=1)
    if since >= until:
        raise CommandError(f"--since {since} must be before --until {until}")
    return SacctQuery(since, until, cluster=options.cluster or local_cluster(os.environ))


def _login() -> Login:
    """Return the user's login, else this node's."""
    try:
        login = read_login(os.environ)
        if login is None:
            home = collector_dir(os.environ)
            login = read_enrolment(home, os.environ, node_identity(home, os.environ).uuid)
    except ConfigurationError as error:
        raise CommandError(str(error)) from error
    if login is None:
        raise CommandError("You are not logged in. Log in with: labcarbon-collect login URL")
    return login


def _parse_day(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not a day like 2026-01-31") from error


def _parse_zone(text: str) -> tzinfo:
    from zoneinfo import ZoneInfo

    try:
        return ZoneInfo(text)
    except (KeyError, ValueError, OSError) as error:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a time zone like Europe/Berlin"
        ) from error


def _notify(text: str) -> None:
    print(f"labcarbon: {text}", file=sys.stderr, flush=True)
