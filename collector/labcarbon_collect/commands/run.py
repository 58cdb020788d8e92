"""Start a command and account for its energy. Everything after -- is the command. Its exit code and
signals pass through.

Before the start, the server checks whether the command duplicates another run. LabCarbon delays
your command by at most 2 s (LABCARBON_STARTUP_TIMEOUT_S) and never makes it fail, even if server or
daemon are down. With --enforce, a certain duplicate is not started (exit code 3).
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import uuid
from datetime import datetime, timedelta
from typing import Optional

from labcarbon_collect.api.preflight import PROCEEDED, STOPPED
from labcarbon_collect.api.run_client import RunReporter
from labcarbon_collect.commands import add_alias
from labcarbon_collect.config import (
    RUN_VARIABLE,
    Login,
    read_login,
)
from labcarbon_collect.errors import CommandError
from labcarbon_collect.files.read_limits import Budget
from labcarbon_collect.fingerprint.builder import Survey
from labcarbon_collect.lineage.cli import report_lineage
from labcarbon_collect.node_identity import ConfigurationError
from labcarbon_collect.redaction import MASK
from labcarbon_collect.runs import daemon_link, preflight_text
from labcarbon_collect.runs import facts as run_facts
from labcarbon_collect.runs import options as work_options
from labcarbon_collect.runs.child_process import GatedProcess
from labcarbon_collect.runs.daemon_link import DaemonLink
from labcarbon_collect.runs.destination import destination_line, mismatch_warning
from labcarbon_collect.runs.failure import OomKillCounter
from labcarbon_collect.runs.greenest_start import (
    parse_hours,
    parse_latest_start,
    wait_for_greenest_start,
)
from labcarbon_collect.runs.options import RunSpec
from labcarbon_collect.runs.own_daemon import start_own_daemon
from labcarbon_collect.runs.payload import RunPayload, start_background_hash, start_late_survey
from labcarbon_collect.runs.run_end import close_run
from labcarbon_collect.runs.startup import (
    EXIT_BLOCKED,
    RunStartup,
    report_outcome_in_background,
    start_run,
    startup_budget,
    wait_for_outcome_report,
)
from labcarbon_collect.startup_timeout import SETTING_WARNING, STARTUP_TIMEOUT_S

_USAGE = "labcarbon-collect run --project NAME -- python train.py"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--no-check", action="store_true", help="skip the duplicate check")
    parser.add_argument(
        "--estimate",
        default="",
        metavar="UUID",
        help="the estimate of this run, which is compared with it at its end",
    )
    standalone = parser.add_argument(
        "--standalone",
        action="store_true",
        help="measure without daemon and server; the result is stored and uploaded later",
    )
    full_command = parser.add_argument(
        "--full-command",
        action="store_true",
        help=(
            "send the whole command line, with likely secrets masked (default: executable and "
            "script name)"
        ),
    )
    inputs = parser.add_argument(
        "--input",
        action="append",
        default=[],
        metavar="PATH",
        help="a file or folder that the command reads; repeatable",
    )
    outputs = parser.add_argument(
        "--output",
        action="append",
        default=[],
        metavar="PATH",
        help="a file or folder that the command writes, read after its end; repeatable",
    )
    parser.add_argument(
        "--wait-greenest",
        action="store_true",
        help="wait for the start with the least grid intensity; Ctrl-C starts the command at once",
    )
    parser.add_argument(
        "--latest-start",
        metavar="TIME",
        help="with --wait-greenest: last start, as 18:00 or 2026-11-28T18:00 in local time "
        "(default: in 24 hours)",
    )
    parser.add_argument(
        "--hours",
        metavar="N",
        type=parse_hours,
        help="with --wait-greenest: expected length of the command in hours (default: 1)",
    )
    checkpoint = work_options.add_arguments(parser)
    for former, option in (
        ("--local", standalone),
        ("--argv", full_command),
        ("--used", inputs),
        ("--produced", outputs),
        ("--start", checkpoint),
    ):
        add_alias(parser, former, option)


def run(args: argparse.Namespace) -> int:
    spec = work_options.parse_spec(args, _USAGE)
    for name in run_facts.masked_params(spec.params):
        _notify(f"The parameter {name} looks like a secret. It is sent as {MASK}")
    if SETTING_WARNING:
        _notify(SETTING_WARNING)
    login = _login()
    _wait_for_greenest_start(args, login)
    budget = startup_budget(STARTUP_TIMEOUT_S)
    if args.standalone:
        start_own_daemon(_notify)
        budget = Budget(STARTUP_TIMEOUT_S)
    payload = RunPayload(str(uuid.uuid4()), spec, time.time_ns() // 1000)
    oom_kills = OomKillCounter()
    os.environ[RUN_VARIABLE] = payload.run  # for labcarbon_collect.track in the command
    process = GatedProcess(spec.command)
    process.on_signal = budget.expire  # the command ends before it starts: stop waiting
    startup = _start_run(
        payload, process, login, budget, check=not args.no_check, is_standalone=args.standalone
    )
    if startup.response is not None and startup.response.is_blocking and spec.enforce:
        return _block(payload, process, startup, login)
    if startup.daemon.url or not startup.error:  # the error names the only server
        _print_destination(startup.daemon, login)
    process.release()
    reporter = (
        RunReporter(login, payload.run, notify=_notify, timeout_s=STARTUP_TIMEOUT_S)
        if login
        else None
    )
    if reporter:
        reporter.start(payload.facts(startup.daemon, startup.survey.wire))
    outcome_report = (
        report_outcome_in_background(login, startup.response, PROCEEDED) if login else None
    )
    background_hash = start_background_hash(payload, startup, reporter)
    start_late_survey(payload, startup, reporter)
    exit_status = process.wait()
    try:
        if background_hash is not None:
            background_hash.stop()
        budget = Budget(STARTUP_TIMEOUT_S)
        process.on_signal = budget.expire
        server = (login.url if login else "") or startup.daemon.url
        close_run(
            payload,
            startup,
            reporter,
            exit_status,
            oom_kills,
            server=server,
            budget=budget,
            notify=_notify,
        )
        if args.input or args.output:
            _register_lineage(args, payload, startup, reporter)
        wait_for_outcome_report(outcome_report)
    except Exception as error:  # noqa: BLE001 - the command's own result counts
        _notify(f"This run could not be closed: {type(error).__name__}: {error}")
    return exit_status.exit_code


def _wait_for_greenest_start(args: argparse.Namespace, login: Optional[Login]) -> None:
    """Wait if the options request it. Raises CommandError for options that do not fit."""
    if not args.wait_greenest:
        if args.latest_start or args.hours:
            option = "--latest-start" if args.latest_start else "--hours"
            raise CommandError(f"{option} has no effect without --wait-greenest")
        return
    now = datetime.now().astimezone()
    latest_start = (
        parse_latest_start(args.latest_start, now)
        if args.latest_start
        else now + timedelta(hours=24)
    )
    wait_for_greenest_start(
        login,
        node=daemon_link.query_node(timeout_s=STARTUP_TIMEOUT_S),
        duration_hours=args.hours or 1,
        latest_start=latest_start,
        notify=_notify,
        environ=os.environ,
    )


def _start_run(
    payload: RunPayload,
    process: GatedProcess,
    login: Optional[Login],
    budget: Budget,
    *,
    check: bool,
    is_standalone: bool,
) -> RunStartup:
    """Fingerprint, register and check the run, and print the response. Errors do not prevent the
    start.
    """
    try:
        startup = start_run(
            payload.spec,
            run=payload.run,
            pid=process.pid,
            login=login,
            budget=budget,
            build_facts=payload.facts,
            check=check,
        )
        if is_standalone and startup.daemon.client is None:
            # The daemon that responded before belonged to another run and has just ended.
            start_own_daemon(_notify)
            facts = payload.facts(DaemonLink(), startup.survey.wire) if login is None else None
            startup.daemon = daemon_link.register(payload.run, process.pid, facts=facts)
        if startup.error:
            suffix = (
                " (the daemon forwards the run if the server stays unavailable)"
                if login and startup.daemon.client
                else ""
            )
            _notify(f"Duplicate check skipped: {startup.error}{suffix}")
        if startup.response is not None:
            lines = preflight_text.format_response(
                startup.response, colour=_use_colour(), local_values=startup.survey.local_values
            )
            _print_lines(lines)
    except Exception as error:  # noqa: BLE001
        return RunStartup(DaemonLink(error=f"{type(error).__name__}: {error}"), Survey({}))
    return startup


def _print_destination(daemon: DaemonLink, login: Optional[Login]) -> None:
    for line in (destination_line(daemon, login), mismatch_warning(daemon, os.environ)):
        if line:
            _notify(line)


def _block(
    payload: RunPayload, process: GatedProcess, startup: RunStartup, login: Optional[Login]
) -> int:
    """Block the command. The server counts the saved energy."""
    process.abandon()
    reason = preflight_text.blocking_reason(startup.response)
    _notify(f"Not started: {reason} (--enforce). To run it anyway: {_override_hint(payload.spec)}")
    daemon_link.end_run(startup.daemon, payload.run, cpu_us=0, closing=None)
    if login is not None:
        wait_for_outcome_report(report_outcome_in_background(login, startup.response, STOPPED))
    return EXIT_BLOCKED


def _override_hint(spec: RunSpec) -> str:
    return (
        "omit --enforce, or use --intent replicate" if spec.intent == "train" else "omit --enforce"
    )


def _login() -> Optional[Login]:
    try:
        return read_login(os.environ)
    except ConfigurationError as refused:
        _notify(str(refused))
        return None


def _register_lineage(
    args: argparse.Namespace,
    payload: RunPayload,
    startup: RunStartup,
    reporter: Optional[RunReporter],
) -> None:
    """Register inputs and outputs of the command if the server knows the run or the daemon forwards
    it.
    """
    is_unreported = (
        startup.daemon.client is None if reporter is None else not reporter.is_registered
    )
    if is_unreported:
        reason = (
            f"you are not logged in, and {startup.daemon.error}"
            if reporter is None
            else reporter.error
        )
        _notify(f"Inputs and outputs of this run were not registered: {reason}")
        return
    report_lineage(
        payload.run,
        used=args.input,
        produced=args.output,
        node=startup.daemon.node or "",
        started_us=payload.started_us,
        say=_notify,
    )


def _use_colour() -> bool:
    return (
        sys.stderr.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    )


def _print_lines(lines: list[str]) -> None:
    for line in lines:
        print(line, file=sys.stderr, flush=True)


def _notify(text: str) -> None:
    print(f"labcarbon: {text}", file=sys.stderr, flush=True)
