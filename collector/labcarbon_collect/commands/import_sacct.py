"""Bring the history of a Slurm cluster to the server: runs, users, accounts, reserved GPUs, how each ended. No energy.

Without FILE, sacct is asked day by day. FILE is what this wrote:
  SLURM_TIME_FORMAT=%s sacct --allusers --allocations --parsable2 --delimiter='|<random>|' --format=COLUMNS
Repeating it changes nothing; after an interruption it goes on where it was.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from datetime import date, datetime, timedelta, timezone, tzinfo
from pathlib import Path
from typing import Any, Dict, List, Tuple, Union

from labcarbon_collect.api.bulk_uploader import MAX_ROWS, BulkPush, PushEnded
from labcarbon_collect.api.transport import BadAddress, Transport
from labcarbon_collect.config import Login, collector_home, data_dir, enrolment, user_login
from labcarbon_collect.errors import Failed
from labcarbon_collect.identity import Refused, node_identity
from labcarbon_collect.processes.cgroups import this_cluster
from labcarbon_collect.progress import Progress
from labcarbon_collect.pseudonyms import UserNames, user_names
from labcarbon_collect.slurm.history import Found, FromFile, FromSacct, SourceEnded
from labcarbon_collect.slurm.jobs import bulk_row
from labcarbon_collect.slurm.parsers import SACCT

_SHOWN_ERRORS = 20
_DAYS = 365
Source = Union[FromFile, FromSacct]


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", nargs="?", metavar="FILE", help=f"a file of sacct; COLUMNS: {','.join(SACCT)}")
    parser.add_argument("--since", type=_day, metavar="DAY", help=f"first day (UTC), default {_DAYS} days ago")
    parser.add_argument("--until", type=_day, metavar="DAY", help="the day after the last, default tomorrow")
    parser.add_argument("--cluster", default="", help="name of the cluster, where the file does not tell")
    parser.add_argument("--time-zone", type=_zone, metavar="ZONE", help="of times in FILE that are not seconds since 1970")
    parser.add_argument("--again", action="store_true", help="from the beginning, not from where the last one ended")


def carry_out(options: argparse.Namespace) -> int:
    source = _source(options)
    login = _login()
    try:
        names = user_names(os.environ)
        transport = Transport(login.url, login.token)
        kept = _Kept(login.url, source.key())
    except (BadAddress, Refused, SourceEnded) as error:
        raise Failed(str(error)) from error
    after = "" if options.again else kept.mark
    if after:
        print(f"going on behind {after} (from the beginning: --again)", file=sys.stderr)
    try:
        return _Import(source, BulkPush(transport, "runs/bulk/", say=_say), kept, names).run(after)
    finally:
        transport.close()


class _Import:
    """One import, from reading to the last line."""

    def __init__(self, source: Source, push: BulkPush, kept: _Kept, names: UserNames) -> None:
        self._source, self._push, self._kept, self._names = source, push, kept, names
        self._progress = Progress("jobs")
        self._waiting: List[Tuple[str, Dict[str, Any]]] = []
        self._not_begun = 0
        self._fraction = 0.0

    def run(self, after: str) -> int:
        """Bring everything behind mark ``after``; returns the exit code."""
        outcome, mark = self._push.outcome, after
        try:
            for found in self._source.jobs(after, outcome.refuse):
                self._take(found)
                mark, self._fraction = found.mark, found.fraction
                if len(self._waiting) >= MAX_ROWS:
                    self._send(mark)
            self._fraction = 1.0
            self._send(mark)
        except (SourceEnded, PushEnded) as error:
            self._close()
            raise Failed(f"{error}. {outcome.rows:,} jobs were answered; the same command goes on from there.") from error
        except KeyboardInterrupt:
            self._close()
            _say("stopped; the same command goes on from here")
            raise
        self._close()
        return 1 if outcome.counts["refused"] else 0

    def _take(self, found: Found) -> None:
        job = found.job
        if job.started_us is None or not job.slurm_state or job.slurm_state.startswith("PENDING"):
            self._not_begun += 1
        elif not job.state:
            self._push.outcome.refuse(found.where, f"the state {job.slurm_state[:40]!r} is not known here")
        elif job.ended_us is not None and job.ended_us < job.started_us:
            self._push.outcome.refuse(found.where, "it ends before it starts")
        else:
            self._waiting.append((found.where, self._names.of_job(bulk_row(job), job.user)))

    def _send(self, mark: str) -> None:
        self._push.send(self._waiting)
        self._waiting.clear()
        self._kept.keep(mark)
        self._progress.show(self._push.outcome.rows, self._fraction)

    def _close(self) -> None:
        outcome = self._push.outcome
        self._progress.show(outcome.rows, self._fraction, last=True)
        said = ", ".join(f"{count:,} {result}" for result, count in outcome.counts.items())
        print(f"{said}; {self._not_begun:,} never began and are no runs")
        for where, why in outcome.errors[:_SHOWN_ERRORS]:
            print(f"  {where}: {why}")
        if outcome.counts["refused"] > _SHOWN_ERRORS:
            print(f"  and {outcome.counts['refused'] - _SHOWN_ERRORS:,} more")


class _Kept:
    """Where an import of this source to this server ended. Losing it costs time only."""

    def __init__(self, url: str, source: str) -> None:
        self._path = data_dir(os.environ) / "import-sacct.json"
        self._key = f"{url} {source}"
        try:
            kept = json.loads(self._path.read_text(encoding="utf-8"))
            self._all: Dict[str, str] = kept if isinstance(kept, dict) else {}
        except (OSError, ValueError):
            self._all = {}
        self.mark = str(self._all.get(self._key, ""))

    def keep(self, mark: str) -> None:
        """Everything up to ``mark`` is stored."""
        self._all[self._key] = mark
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            fresh = self._path.with_suffix(f".{os.getpid()}")
            fresh.write_text(json.dumps(self._all), encoding="utf-8")
            fresh.replace(self._path)
        except OSError:
            return


def _source(options: argparse.Namespace) -> Source:
    if options.file:
        if options.since or options.until:
            raise Failed("--since and --until are for sacct itself: a file is read as a whole")
        return FromFile(Path(options.file), cluster=options.cluster, zone=options.time_zone)
    today = datetime.now(tz=timezone.utc).date()
    since = options.since or today - timedelta(days=_DAYS)
    until = options.until or today + timedelta(days=1)
    if since >= until:
        raise Failed(f"--since {since} is not before --until {until}")
    return FromSacct(since, until, cluster=options.cluster or this_cluster(os.environ))


def _login() -> Login:
    """A person's token, else this node's."""
    try:
        login = user_login(os.environ)
        if login is None:
            home = collector_home(os.environ)
            login = enrolment(home, os.environ, node_identity(home, os.environ).uuid)
    except Refused as error:
        raise Failed(str(error)) from error
    if login is None:
        raise Failed("nobody is logged in here: labcarbon-collect login URL")
    return login


def _day(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no day like 2026-01-31") from error


def _zone(text: str) -> tzinfo:
    from zoneinfo import ZoneInfo

    try:
        return ZoneInfo(text)
    except (KeyError, ValueError, OSError) as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no time zone like Europe/Berlin") from error


def _say(text: str) -> None:
    print(f"labcarbon: {text}", file=sys.stderr, flush=True)
