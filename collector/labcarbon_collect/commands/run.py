"""Start a command and account for its energy. Everything after -- is the command; its exit code and signals pass through.

Before it starts, the server is asked whether the same was done before. The work never waits more than two seconds for us, or
LABCARBON_PATIENCE_S, and never fails because of us, whether server and daemon are there or not; --enforce alone keeps back,
with exit code 3, what is certain to be in vain.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
import uuid
from typing import Any, Mapping, Optional

from labcarbon_collect.api.preflight import STOPPED, WENT_ON
from labcarbon_collect.api.run_client import Reporter
from labcarbon_collect.config import RUN_VARIABLE, Login, client_sockets, collector_home, daemon_socket, user_login
from labcarbon_collect.files.budget import Budget
from labcarbon_collect.fingerprint.builder import Survey
from labcarbon_collect.identity import Refused
from labcarbon_collect.ipc.client import Client, NoDaemon
from labcarbon_collect.lineage.cli import tell_lineage
from labcarbon_collect.redaction import MASK
from labcarbon_collect.runs import daemon_link, preflight_text
from labcarbon_collect.runs import facts as run_facts
from labcarbon_collect.runs import options as work_options
from labcarbon_collect.runs.daemon_link import Daemon
from labcarbon_collect.runs.failure import OomKills, failure_class
from labcarbon_collect.runs.options import Work
from labcarbon_collect.runs.payload import ToldRun, hash_the_rest
from labcarbon_collect.runs.process import Ended, Job
from labcarbon_collect.runs.startup import IN_VAIN, Beginning, begin, patience, tell_outcome, wait_for_outcome
from labcarbon_collect.timeouts import PATIENCE_S, WRONG
from labcarbon_collect.totals import closing_line

_LOCAL_START_S = 8.0
_USAGE = "labcarbon-collect run --project NAME -- python train.py"


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--no-check", action="store_true", help="do not ask whether this was run before")
    parser.add_argument(
        "--local", action="store_true", help="measure without a daemon or server; what is kept is pushed later"
    )
    parser.add_argument(
        "--argv",
        action="store_true",
        help="tell the whole command line, with what looks like a secret masked (default: executable and script name)",
    )
    parser.add_argument(
        "--used", action="append", default=[], metavar="PATH", help="a file or folder that the command reads; repeatable"
    )
    parser.add_argument(
        "--produced", action="append", default=[], metavar="PATH",
        help="a file or folder that the command writes, read once it has ended; repeatable",
    )  # fmt: skip
    work_options.arguments(parser)


def carry_out(options: argparse.Namespace) -> int:
    work = work_options.work_of(options, _USAGE)
    for name in run_facts.masked_names(work.params):
        _say(f"the parameter {name} looks like a secret: it is told as {MASK}")
    if WRONG:
        _say(WRONG)
    login = _login()
    budget = patience(PATIENCE_S)
    if options.local:
        _start_local_daemon()
        budget = Budget(PATIENCE_S)
    told = ToldRun(str(uuid.uuid4()), work, time.time_ns() // 1000)
    kills = OomKills()
    os.environ[RUN_VARIABLE] = told.run  # for labcarbon_collect.track in the work
    job = Job(work.command)
    job.on_signal = budget.cut  # it ends before it began: nothing is waited for
    begun = _begin(told, job, login, budget, check=not options.no_check, local=options.local)
    if begun.answer is not None and begun.answer.in_vain and work.enforce:
        return _stop(told, job, begun, login)
    job.release()
    reporter = Reporter(login, told.run, say=_say, patience_s=PATIENCE_S) if login else None
    if reporter:
        reporter.start(told.facts(begun.daemon, begun.survey.wire))
    telling = tell_outcome(login, begun.answer, WENT_ON) if login else None
    digest = hash_the_rest(told, begun, reporter)
    ended = job.wait()
    try:
        if digest is not None:
            digest.end()
        budget = Budget(PATIENCE_S)
        job.on_signal = budget.cut
        server = (login.url if login else "") or begun.daemon.url
        _close(told, begun, reporter, ended, kills, server=server, budget=budget)
        if options.used or options.produced:
            _tell_lineage(options, told, begun, reporter)
        wait_for_outcome(telling)
    except Exception as error:  # noqa: BLE001 - and it ends as it ended
        _say(f"this run could not be closed: {type(error).__name__}: {error}")
    return ended.exit_code


def _begin(told: ToldRun, job: Job, login: Optional[Login], budget: Budget, *, check: bool, local: bool) -> Beginning:
    """Look, register, ask, and say what the server says. Whatever is wrong with us, the work begins."""
    try:
        begun = begin(told.work, run=told.run, pid=job.pid, login=login, budget=budget, facts=told.facts, check=check)
        if local and begun.daemon.client is None:
            # The daemon that answered before was another run's, just ending.
            _start_local_daemon()
            facts = told.facts(Daemon(), begun.survey.wire) if login is None else None
            begun.daemon = daemon_link.register(told.run, job.pid, facts=facts)
        if begun.why:
            later = " If it stays so, the daemon tells it later." if login and begun.daemon.client else ""
            _say(f"nobody was asked whether this was run before: {begun.why}{later}")
        if begun.answer is not None:
            _show(preflight_text.lines(begun.answer, colour=_colour()))
    except Exception as error:  # noqa: BLE001
        return Beginning(Daemon(why=f"{type(error).__name__}: {error}"), Survey({}))
    return begun


def _stop(told: ToldRun, job: Job, begun: Beginning, login: Optional[Login]) -> int:
    """Keep the work back; the server counts what was not spent."""
    job.abandon()
    _say(f"not started, since it would be in vain (--enforce); to run it anyway: {_anyway(told.work)}")
    daemon_link.end(begun.daemon, told.run, cpu_us=0, closing=None)
    if login is not None:
        wait_for_outcome(tell_outcome(login, begun.answer, STOPPED))
    return IN_VAIN


def _anyway(work: Work) -> str:
    return "without --enforce, or with --intent replicate" if work.intent == "train" else "without --enforce"


def _close(
    told: ToldRun,
    begun: Beginning,
    reporter: Optional[Reporter],
    ended: Ended,
    kills: OomKills,
    *,
    server: str,
    budget: Budget,
) -> None:
    """Ask what it took, tell the server, say it."""
    daemon = begun.daemon
    closing = run_facts.closing(exit_code=ended.exit_code, killed=bool(ended.killed_by), ended_us=time.time_ns() // 1000)
    failed_by = failure_class(ended.killed_by, ended.exit_code, kills)
    if failed_by:
        closing["failure"] = {"class": failed_by}
    figures = daemon_link.end(daemon, told.run, cpu_us=ended.cpu_us, closing=closing if reporter is None else None)
    if figures is not None:
        closing["energy_mj"] = int(figures["energy_mj"])
    _tell_end(reporter, begun, told, closing, budget)
    if figures is not None and reporter is None and told.work.project and daemon.url:
        figures["warning"] = figures.get("warning") or daemon_link.heard(daemon, told.run)
    _say_closing(daemon, server, told.run, figures)


def _login() -> Optional[Login]:
    try:
        return user_login(os.environ)
    except Refused as refused:
        _say(str(refused))
        return None


def _tell_end(
    reporter: Optional[Reporter], begun: Beginning, told: ToldRun, closing: Mapping[str, Any], budget: Budget
) -> None:
    """Tell the server the end; what it does not take now, the daemon forwards later."""
    if reporter is None:
        return
    facts = told.facts(begun.daemon, begun.survey.wire)
    if reporter.finish(facts, closing, budget):
        return
    if daemon_link.tell_later(begun.daemon, told.run, facts=facts, closing=closing):
        if not begun.why:  # that the server does not answer was said at the start
            _say(f"the server does not answer now; the daemon tells it later. ({reporter.why})")
    else:
        _say(f"the server does not know of this run: {reporter.why}")


def _say_closing(daemon: Daemon, server: str, run: str, figures: Optional[Mapping[str, Any]]) -> None:
    if figures is None:
        _say(f"the energy of this run was not measured: {daemon.why} (or measure without one: run --local)")
        return
    if figures.get("warning"):
        _say(str(figures["warning"]))
    print(closing_line(figures, link=f"{server}/runs/{run}/" if server else "", server=server), file=sys.stderr)


def _tell_lineage(options: argparse.Namespace, told: ToldRun, begun: Beginning, reporter: Optional[Reporter]) -> None:
    """Tell what the command read and wrote, where the server knows of the run, or the daemon will tell it."""
    nobody = begun.daemon.client is None if reporter is None else not reporter.put_done
    if nobody:
        why = f"you are not logged in, and {begun.daemon.why}" if reporter is None else reporter.why
        _say(f"what this run read and made is not told: {why}")
        return
    tell_lineage(
        told.run, used=options.used, produced=options.produced, node=begun.daemon.node or "", started_us=told.started_us,
        say=_say,
    )  # fmt: skip


def _start_local_daemon() -> None:
    """Start a daemon for the time of this run, unless one answers already; two would measure the same meters."""
    try:
        Client(client_sockets(os.environ), timeout_s=PATIENCE_S).close()
        return
    except NoDaemon:
        pass
    try:
        log = (collector_home(os.environ) / "local.log").open("ab")
    except (Refused, OSError) as error:
        _say(f"cannot measure: {error}")
        return
    command = [sys.executable, "-m", "labcarbon_collect", "daemon", "--until-idle"]
    with log:
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
    deadline_s = time.monotonic() + _LOCAL_START_S
    while time.monotonic() < deadline_s and child.poll() is None:
        try:
            Client([daemon_socket(os.environ)], timeout_s=PATIENCE_S).close()
            return
        except NoDaemon:
            time.sleep(0.02)
    _say(f"measuring did not begin; see {log.name}")


def _colour() -> bool:
    return sys.stderr.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _show(lines: list[str]) -> None:
    for line in lines:
        print(line, file=sys.stderr, flush=True)


def _say(text: str) -> None:
    print(f"labcarbon: {text}", file=sys.stderr, flush=True)
