"""Wait for the greenest start of a command. Whatever fails, the command starts at once."""

from __future__ import annotations

import argparse
import glob
import os
import re
import time
from datetime import datetime, timedelta
from datetime import time as time_of_day
from typing import Callable, Mapping, Optional

from labcarbon_collect.api.greener_hours import (
    ExpectedStart,
    GreenerHoursUnavailable,
    GreenestStart,
    query_greenest_start,
)
from labcarbon_collect.config import Login
from labcarbon_collect.errors import CommandError
from labcarbon_collect.processes.procfs import read_stat

MAX_HOURS = 168
# Variables that a scheduler sets in its jobs, with its name.
_JOB_VARIABLES = (
    ("SLURM_JOB_ID", "Slurm"),
    ("PBS_JOBID", "PBS"),
    ("LSB_JOBID", "LSF"),
    ("FLUX_JOB_ID", "Flux"),
    ("OAR_JOB_ID", "OAR"),
    ("COBALT_JOBID", "Cobalt"),
)
_CLOCK = re.compile(r"[0-9]{2}:[0-9]{2}\Z")
_NUMBER = re.compile(r"[0-9]{1,3}\Z")
_STEP_S = 30.0  # a suspended node continues with the right time


def parse_latest_start(text: str, now: datetime) -> datetime:
    """Return the time of ``18:00`` (its next occurrence in local time), ``2026-11-28T18:00``
    (local) or one with an offset, aware. ``now``: aware. Raises CommandError.
    """
    usage = "Write it like 18:00 or 2026-11-28T18:00 (local time)"
    try:
        if "T" not in text:
            if not _CLOCK.match(text):
                raise ValueError(text)
            clock = time_of_day.fromisoformat(text)
            latest = datetime.combine(now.date(), clock).astimezone()
            if latest < now:
                latest = datetime.combine(now.date() + timedelta(days=1), clock).astimezone()
        else:
            latest = datetime.fromisoformat(text)
        latest = latest.astimezone()
    except (ValueError, OverflowError) as error:
        raise CommandError(f"--latest-start {text!r} is no time. {usage}") from error
    if not now <= latest <= now + timedelta(days=7):
        raise CommandError(
            f"--latest-start {text} is in the past or more than 7 days ahead. {usage}"
        )
    return latest


def parse_hours(text: str) -> int:
    """Return the length of a job in hours. Raises argparse.ArgumentTypeError."""
    hours = int(text) if _NUMBER.match(text) else 0
    if not 1 <= hours <= MAX_HOURS:
        raise argparse.ArgumentTypeError(f"{text!r} is not 1 to {MAX_HOURS} whole hours")
    return hours


def find_obstacle(environ: Mapping[str, str], pid: int, *, proc: str = "/proc") -> str:
    """Return why waiting would block a resource, '' if it would not: the process is in a job of a
    scheduler, or one of its parents holds a GPU.
    """
    for variable, name in _JOB_VARIABLES:
        if environ.get(variable):
            return f"this is a {name} job, and waiting would block its GPUs"
    if environ.get("SGE_TASK_ID") and environ.get("JOB_ID"):
        return "this is a Grid Engine job, and waiting would block its GPUs"
    holder = _gpu_holder(pid, proc)
    return f"process {holder} holds a GPU, and waiting would block it" if holder else ""


def _gpu_holder(pid: int, proc: str) -> int:
    """Return the first process from ``pid`` upwards with an open device file of a GPU, 0 for none.
    Files of other users' processes cannot be read.
    """
    for _ in range(64):
        if pid <= 1:
            break
        for descriptor in glob.iglob(f"{proc}/{pid}/fd/*"):
            try:
                target = os.readlink(descriptor)
            except OSError:
                continue
            if target.startswith("/dev/nvidia") and target[len("/dev/nvidia") :].isdigit():
                return pid
        stat = read_stat(proc, pid)
        pid = stat.ppid if stat else 0
    return 0


def wait_for_greenest_start(
    login: Optional[Login],
    *,
    node: Optional[str],
    duration_hours: int,
    latest_start: datetime,
    notify: Callable[[str], None],
    environ: Mapping[str, str],
) -> None:
    """Wait until the greenest start. Ctrl-C ends the wait, and the command starts. An unknown
    start is reported, and the command starts at once.
    """
    obstacle = find_obstacle(environ, os.getpid())
    if not obstacle and login is None:
        obstacle = "you are not logged in (labcarbon-collect login URL)"
    if obstacle or login is None:
        notify(f"Not waiting for a greener hour: {obstacle}. The command starts now.")
        return
    try:
        found = query_greenest_start(
            login, node=node, duration_hours=duration_hours, latest_start=latest_start
        )
    except GreenerHoursUnavailable as error:
        reason = str(error).rstrip(".")
        notify(f"Not waiting for a greener hour: {reason}. The command starts now.")
        return
    if found.best.start_s <= time.time():
        notify(f"No later start is greener than now: {_intensity(found.best)}.")
        return
    try:
        notify(describe_wait(found))
        while time.time() < found.best.start_s:
            time.sleep(max(0.01, min(_STEP_S, found.best.start_s - time.time())))
    except KeyboardInterrupt:
        notify("Interrupted: the command starts now.")


def describe_wait(found: GreenestStart) -> str:
    """Return the sentence that is printed before the wait, with the local time and its zone."""
    moment = datetime.fromtimestamp(found.best.start_s).astimezone()
    text = f"Waiting until {moment:%a %d %b %H:%M %Z}: {_intensity(found.best)}"
    if found.now is not None and found.now.ug_per_kwh > found.best.ug_per_kwh:
        saved = 100 * (found.now.ug_per_kwh - found.best.ug_per_kwh) / found.now.ug_per_kwh
        text += f", {saved:.0f} % less than now ({found.now.ug_per_kwh / 1e6:.0f} g/kWh)"
    return f"{text}. Ctrl-C starts the command now."


def _intensity(start: ExpectedStart) -> str:
    source = f" ({start.source})" if start.source else ""
    return f"{start.ug_per_kwh / 1e6:.0f} g/kWh{source}"
