"""A probe: run a command for a minute, measure its steps, power and memory, and end it.

It is a run of intent ``probe``: its energy counts like that of any other run.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
import tempfile
import time
import uuid
from contextlib import suppress
from dataclasses import dataclass
from signal import Signals
from typing import Callable, Dict, List, Optional, Sequence, Tuple

from labcarbon_collect.api.run_client import RunReporter
from labcarbon_collect.config import RUN_VARIABLE, Login
from labcarbon_collect.files.read_limits import Budget
from labcarbon_collect.fingerprint.builder import Survey
from labcarbon_collect.plan.probe.changed_files import FileSurvey, changed_files, survey_folder
from labcarbon_collect.plan.probe.power_samples import PowerSampler, PowerSamples, now_us
from labcarbon_collect.plan.probe.probed_command import (
    ITSELF,
    Observations,
    ProbedCommand,
    ProbeTiming,
)
from labcarbon_collect.plan.probe.scratch import python_path, resolve_command
from labcarbon_collect.plan.probe.step_series import Line, Moment, steps_of_output
from labcarbon_collect.runs.child_process import ExitStatus
from labcarbon_collect.runs.daemon_link import DaemonLink
from labcarbon_collect.runs.destination import destination_line
from labcarbon_collect.runs.failure import OomKillCounter
from labcarbon_collect.runs.options import RunSpec
from labcarbon_collect.runs.own_daemon import start_own_daemon
from labcarbon_collect.runs.payload import RunPayload
from labcarbon_collect.runs.probe_reports import COUNT_VARIABLE, PROBE_VARIABLE, STEPS_VARIABLE
from labcarbon_collect.runs.run_end import close_run
from labcarbon_collect.runs.startup import RunStartup, start_run
from labcarbon_collect.startup_timeout import STARTUP_TIMEOUT_S

INTENT = "probe"
DEFAULT_TIMING = ProbeTiming()
Notify = Callable[[str], None]
_REPORTS_CHECK_US, _OUTPUT_CHECK_US = 100_000, 1_000_000
_MISSING = re.compile(r"No such file or directory: '([^'/][^']*)'")
_HOW_TO_END = {
    Signals.SIGINT: "The probe ends the command with SIGINT",
    Signals.SIGTERM: "The command did not end: SIGTERM",
    Signals.SIGKILL: "The command did not end: SIGKILL",
}


@dataclass(frozen=True)
class ProbeOptions:
    """What is probed and how long. ``steps``: end after so many steps, at the latest after
    ``length_us``.
    """

    command: Sequence[str]
    length_us: int
    steps: Optional[int] = None
    is_in_place: bool = False
    is_standalone: bool = False
    project: Optional[str] = None
    name: Optional[str] = None
    timing: ProbeTiming = DEFAULT_TIMING


@dataclass
class Probe:
    """What was observed in a finished probe."""

    run: str
    options: ProbeOptions
    observations: Observations
    exit_status: ExitStatus
    power: PowerSamples
    reports: Sequence[Moment]
    lines: Sequence[Line]
    is_interrupted: bool
    energy_mj: Optional[int]
    changed: Sequence[str] = ()
    is_survey_complete: bool = True
    missing_file: str = ""  # a relative path that the command did not find in the scratch folder

    @property
    def ended_itself(self) -> bool:
        return self.observations.how_ended == ITSELF


@dataclass(frozen=True)
class _Start:
    """The command as it is started. ``work``: private folder with the scratch folder and the
    reported steps.
    """

    command: List[str]
    folder: str
    work: str
    environ: Dict[str, str]

    @property
    def reports(self) -> str:
        return os.path.join(self.work, "steps")


def run_probe(options: ProbeOptions, login: Optional[Login], notify: Notify) -> Probe:
    """Start the command, observe it, end it, and report it as a run."""
    origin = os.getcwd()
    work = tempfile.mkdtemp(prefix="labcarbon-probe-")
    try:
        start = _prepare(options, origin, work)
        _announce(start, options, notify)
        before = survey_folder(origin)
        probe = _measure(options, start, login, notify)
        _add_changes(probe, before, survey_folder(origin))
        probe.missing_file = "" if options.is_in_place else _missing_file(probe.lines, origin)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return probe


def _prepare(options: ProbeOptions, origin: str, work: str) -> _Start:
    environ = {PROBE_VARIABLE: "1", RUN_VARIABLE: str(uuid.uuid4())}
    command, folder = list(options.command), origin
    if not options.is_in_place:
        folder = os.path.join(work, "scratch")
        os.mkdir(folder)
        command = resolve_command(command, origin)
        variable = python_path(command, origin, os.environ)
        environ.update([variable] if variable else [])
    start = _Start(command, folder, work, environ)
    with open(start.reports, "wb"):
        environ[STEPS_VARIABLE] = start.reports
    if options.steps:
        environ[COUNT_VARIABLE] = str(options.steps)
    return start


def _announce(start: _Start, options: ProbeOptions, notify: Notify) -> None:
    notify(f"Probe of {options.length_us // 1_000_000} s")
    notify(f"  command: {shlex.join(start.command)}")
    kind = "the current one" if options.is_in_place else "scratch, deleted at the end"
    notify(f"  folder: {start.folder} ({kind})")
    shown = [name for name in ("PYTHONPATH",) if name in start.environ]
    variables = " ".join(
        [f"{PROBE_VARIABLE}=1", *(f"{name}={start.environ[name]}" for name in shown)]
    )
    notify(f"  environment: {variables}")


def _measure(options: ProbeOptions, start: _Start, login: Optional[Login], notify: Notify) -> Probe:
    if options.is_standalone:
        start_own_daemon(notify)
    run = start.environ[RUN_VARIABLE]
    payload = RunPayload(run, _run_spec(options), time.time_ns() // 1000)
    oom_kills = OomKillCounter()
    sys.stderr.flush()
    command = ProbedCommand(
        start.command,
        folder=start.folder,
        environ=start.environ,
        timing=options.timing,
        guarded_folder=start.work,
        passed_to=2,
    )
    startup = _register(payload, command.process.pid, login)
    line = destination_line(startup.daemon, login)
    if line:
        notify(line)
    reporter = (
        RunReporter(login, run, notify=notify, timeout_s=STARTUP_TIMEOUT_S) if login else None
    )
    command.start()
    if reporter:
        reporter.start(payload.facts(startup.daemon, startup.survey.wire))
    sampler = PowerSampler(run, options.timing.poll_us) if startup.daemon.client else None
    command.observe(
        command.observations.started_us + options.length_us,
        _step_limit(options.steps, start.reports, command),
    )
    is_interrupted = command.interruptions > 0
    power = sampler.stop() if sampler else PowerSamples()
    exit_status = command.end(lambda number: notify(_HOW_TO_END[number]))
    figures = close_run(
        payload,
        startup,
        reporter,
        _reported_status(exit_status, command.observations),
        oom_kills,
        server=(login.url if login else "") or startup.daemon.url,
        budget=Budget(STARTUP_TIMEOUT_S),
        notify=notify,
        command="plan",
    )
    return Probe(
        run,
        options,
        command.observations,
        exit_status,
        power,
        _read_reports(start.reports),
        command.output.lines,
        is_interrupted,
        None if figures is None else int(figures["energy_mj"]),
    )


def _run_spec(options: ProbeOptions) -> RunSpec:
    return RunSpec(
        command=list(options.command),
        project=options.project,
        name=options.name,
        params={},
        data={},
        checkpoint="",
        intent=INTENT,
        sweep="",
        parent=None,
        enforce=False,
    )


def _register(payload: RunPayload, pid: int, login: Optional[Login]) -> RunStartup:
    """Register the run with the daemon, without a duplicate check. Errors do not prevent the
    probe.
    """
    try:
        return start_run(
            payload.spec,
            run=payload.run,
            pid=pid,
            login=login,
            budget=Budget(STARTUP_TIMEOUT_S),
            build_facts=payload.facts,
            check=False,
        )
    except Exception as error:  # noqa: BLE001
        return RunStartup(DaemonLink(error=f"{type(error).__name__}: {error}"), Survey({}))


def _step_limit(steps: Optional[int], reports: str, command: ProbedCommand) -> Callable[[], bool]:
    """Return a function that tells whether the command has done ``steps`` steps: by its own reports
    at a step boundary, else by its output.
    """
    checked_us = {"reports": 0, "output": 0}

    def is_due(name: str, interval_us: int) -> bool:
        at_us = now_us()
        if at_us - checked_us[name] < interval_us:
            return False
        checked_us[name] = at_us
        return True

    def is_enough() -> bool:
        if steps is None:
            return False
        if is_due("reports", _REPORTS_CHECK_US):
            numbers = [number for _, number in _read_reports(reports)]
            if numbers and numbers[-1] - numbers[0] + 1 >= steps:
                return True
        if is_due("output", _OUTPUT_CHECK_US) and not os.path.getsize(reports):
            series = steps_of_output(command.output.lines)
            return series is not None and series.events[-1][1] + 1 >= steps
        return False

    return is_enough


def _reported_status(exit_status: ExitStatus, observations: Observations) -> ExitStatus:
    """Return the status of the run: a command that the probe ended has not failed."""
    if observations.how_ended == ITSELF:
        return exit_status
    return ExitStatus(0, 0, exit_status.cpu_us)


def _read_reports(path: str) -> List[Moment]:
    moments: List[Tuple[int, int]] = []
    with suppress(OSError, ValueError), open(path, encoding="ascii") as lines:
        for line in lines:
            at_us, number = line.split()
            moments.append((int(at_us), int(number)))
    return moments


def _add_changes(probe: Probe, before: FileSurvey, after: FileSurvey) -> None:
    probe.changed = changed_files(before, after)
    probe.is_survey_complete = before.is_complete and after.is_complete


def _missing_file(lines: Sequence[Line], origin: str) -> str:
    """Return a relative path that the command did not find and that exists in ``origin``."""
    for _, text in reversed(lines):
        match = _MISSING.search(text)
        if match and os.path.exists(os.path.join(origin, match.group(1))):
            return match.group(1)
    return ""
