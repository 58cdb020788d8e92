"""Start a command and account for its energy. Everything after -- is the command; its exit code and signals pass through.

The work never waits more than two seconds for us and never fails because of us, whether server and daemon are there or not.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
import uuid
from dataclasses import dataclass
from typing import Any, Dict, List, Mapping, Optional

from labcarbon_collect import run_facts
from labcarbon_collect.client import Client, NoDaemon, error_text
from labcarbon_collect.commands import Failed
from labcarbon_collect.config import Login, client_sockets, collector_home, daemon_socket, is_uuid, user_login
from labcarbon_collect.figures import closing_line
from labcarbon_collect.identity import Refused
from labcarbon_collect.job import Ended, Job
from labcarbon_collect.masking import MASK
from labcarbon_collect.reporter import Reporter
from labcarbon_collect.slurm_facts import job_of_environment
from labcarbon_collect.users import own_name, own_names

PATIENCE_S = 2.0
_LOCAL_START_S = 8.0
_HEAR_S = 1.0


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--project", metavar="P", help="slug of the project to charge")
    parser.add_argument("--name", metavar="N", help="name of the run (default: the script's name)")
    parser.add_argument("--param", action="append", default=[], metavar="K=V", help="a parameter of the run; repeatable")
    parser.add_argument(
        "--local", action="store_true", help="measure without a daemon or server; what is kept is pushed later"
    )
    parser.add_argument(
        "--argv",
        action="store_true",
        help="tell the whole command line, with what looks like a secret masked (default: executable and script name)",
    )
    parser.add_argument("work", nargs=argparse.REMAINDER, metavar="-- COMMAND …", help="the command and its arguments")


@dataclass
class _Daemon:
    """The daemon of this machine, if it answers, or why it does not."""

    client: Optional[Client] = None
    node: Optional[str] = None
    url: str = ""
    user: Optional[str] = None  # what it tells instead of our name
    why: str = ""


def carry_out(options: argparse.Namespace) -> int:
    command = options.work[1:] if options.work[:1] == ["--"] else options.work
    if not command:
        raise Failed("no command was given: labcarbon-collect run --project NAME -- python train.py")
    try:
        params = run_facts.parse_params(options.param)
    except ValueError as error:
        raise Failed(str(error)) from error
    for name in run_facts.masked_names(params):
        _say(f"the parameter {name} looks like a secret: it is told as {MASK}")
    login = _login()
    if options.local:
        _start_local_daemon()
    told = _Told(str(uuid.uuid4()), command, options.project, options.name, params, options.argv, time.time_ns() // 1000)
    job = Job(command)
    try:
        daemon = _register(told, job.pid, forwards=login is None, local=options.local)
    except Exception as error:  # noqa: BLE001 - whatever is wrong with us, the work begins
        daemon = _Daemon(why=f"{type(error).__name__}: {error}")
    job.release()
    reporter = Reporter(login, told.run, say=_say, patience_s=PATIENCE_S) if login else None
    if reporter:
        reporter.start(told.facts(daemon))
    ended = job.wait()
    try:
        _close(told, daemon, reporter, ended, server=(login.url if login else "") or daemon.url)
    except Exception as error:  # noqa: BLE001 - and it ends as it ended
        _say(f"this run could not be closed: {type(error).__name__}: {error}")
    return ended.exit_code


@dataclass(frozen=True)
class _Told:
    """What is told of this run."""

    run: str
    command: List[str]
    project: Optional[str]
    name: Optional[str]
    params: Mapping[str, run_facts.Value]
    whole: bool
    started_us: int

    def facts(self, daemon: _Daemon) -> Dict[str, Any]:
        """As the daemon names us; as this machine's setting says where it does not."""
        user = own_names(os.environ).told(own_name()) if daemon.user is None else daemon.user
        told = run_facts.facts(
            command=self.command, project=self.project, name=self.name, params=self.params, node=daemon.node,
            started_us=self.started_us, user=user, whole=self.whole,
        )  # fmt: skip
        job = job_of_environment(os.environ)
        return {**told, "job": job} if job else told


def _close(told: _Told, daemon: _Daemon, reporter: Optional[Reporter], ended: Ended, *, server: str) -> None:
    """Ask what it took, tell the server, say it."""
    figures = _end(daemon, told.run, ended, reporter is None)
    _tell_end(reporter, daemon, told.run, told.facts(daemon), _closing(ended, figures))
    if figures is not None and reporter is None and told.project and daemon.url:
        figures["warning"] = figures.get("warning") or _heard(daemon, told.run)
    _say_closing(daemon, server, told.run, figures)


def _login() -> Optional[Login]:
    try:
        return user_login(os.environ)
    except Refused as refused:
        _say(str(refused))
        return None


def _register(told: _Told, pid: int, *, forwards: bool, local: bool) -> _Daemon:
    """Register with the daemon. ``forwards``: it tells the server, since we have no token of our own."""
    request: Dict[str, Any] = {"op": "register", "run": told.run, "pid": pid}
    if forwards:
        request["facts"] = told.facts(_Daemon())
    daemon = _ask_to_register(request)
    if local and daemon.client is None:
        # The daemon that answered before was another run's, just ending.
        _start_local_daemon()
        daemon = _ask_to_register(request)
    return daemon


def _ask_to_register(request: Mapping[str, Any]) -> _Daemon:
    deadline_s = time.monotonic() + PATIENCE_S
    try:
        client = Client(client_sockets(os.environ), timeout_s=PATIENCE_S / 2)
        answer = client.call(request, timeout_s=max(0.1, deadline_s - time.monotonic()))
    except NoDaemon as error:
        return _Daemon(why=str(error))
    wrong = error_text(answer)
    if wrong:
        return _Daemon(why=f"the daemon did not register this run: {wrong}")
    node, user = answer.get("node"), answer.get("user")
    return _Daemon(
        client, node if is_uuid(node) else None, str(answer.get("url") or ""), user if isinstance(user, str) else None
    )


def _end(daemon: _Daemon, run: str, ended: Ended, forwards: bool) -> Optional[Dict[str, Any]]:
    """Ask the daemon for the run's figures; None when it measured nothing. ``forwards``: it tells the server the end."""
    if daemon.client is None:
        return None
    request: Dict[str, Any] = {"op": "end", "run": run, "children_cpu_us": ended.cpu_us}
    if forwards:
        request["closing"] = _closing(ended, None)
    answer = _ask(daemon, request)
    if answer is None:
        # It may have been restarted under us: it knows the runs of before.
        again = _Daemon()
        try:
            again.client = Client(client_sockets(os.environ), timeout_s=PATIENCE_S / 2)
        except NoDaemon:
            return None
        daemon.client = again.client
        answer = _ask(daemon, request)
    return answer


def _ask(daemon: _Daemon, request: Mapping[str, Any]) -> Optional[Dict[str, Any]]:
    assert daemon.client is not None
    try:
        answer = daemon.client.call(request, timeout_s=PATIENCE_S)
    except NoDaemon as error:
        daemon.why = str(error)
        return None
    wrong = error_text(answer)
    if wrong:
        daemon.why = wrong
        return None
    return answer


def _closing(ended: Ended, figures: Optional[Mapping[str, Any]]) -> Dict[str, Any]:
    return run_facts.closing(
        exit_code=ended.exit_code, killed=bool(ended.killed_by), ended_us=time.time_ns() // 1000,
        energy_mj=None if figures is None else int(figures["energy_mj"]),
    )  # fmt: skip


def _tell_end(
    reporter: Optional[Reporter], daemon: _Daemon, run: str, facts: Mapping[str, Any], closing: Mapping[str, Any]
) -> None:
    """Tell the server the end; what it does not take now, the daemon forwards later."""
    if reporter is None or reporter.finish(facts, closing):
        return
    if daemon.client is not None and _ask(daemon, {"op": "tell", "run": run, "facts": facts, "closing": closing}):
        _say(f"the server does not answer now; the daemon tells it later. ({reporter.why})")
    else:
        _say(f"the server does not know of this run: {reporter.why}")


def _heard(daemon: _Daemon, run: str) -> str:
    """What the server has to say of a run that ended before it could: a project that it does not know."""
    deadline_s = time.monotonic() + _HEAR_S
    while time.monotonic() < deadline_s:
        answer = _ask(daemon, {"op": "heard", "run": run})
        if answer is None or not answer["wait"]:
            return "" if answer is None else str(answer["warning"])
        time.sleep(0.05)
    return ""


def _say_closing(daemon: _Daemon, server: str, run: str, figures: Optional[Mapping[str, Any]]) -> None:
    if figures is None:
        _say(f"the energy of this run was not measured: {daemon.why} (or measure without one: run --local)")
        return
    if figures.get("warning"):
        _say(str(figures["warning"]))
    print(closing_line(figures, link=f"{server}/runs/{run}/" if server else "", server=server), file=sys.stderr)


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


def _say(text: str) -> None:
    print(f"labcarbon: {text}", file=sys.stderr, flush=True)
