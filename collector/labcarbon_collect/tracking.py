"""A training script that tells of itself: ``with labcarbon_collect.track(project="vision", params=vars(args)) as run``.

Beginning makes the script wait for half a second at most (a quarter of LABCARBON_PATIENCE_S), ending for a few; nothing here
makes it fail. Below ``labcarbon-collect run``, or within a run of MLflow that is told, it is the run that is there already;
of several ranks only the first tells anything.
"""

from __future__ import annotations

import os
import sys
import threading
import time
import uuid
from types import TracebackType
from typing import Any, Dict, Mapping, Optional, Type, Union

from labcarbon_collect.api.preflight import Answer, Question
from labcarbon_collect.api.run_client import Reporter
from labcarbon_collect.config import Login, user_login
from labcarbon_collect.files.budget import Budget, Looking
from labcarbon_collect.fingerprint.builder import Survey, survey
from labcarbon_collect.identity import Refused
from labcarbon_collect.lc1 import flat
from labcarbon_collect.lineage.declare import Declaring
from labcarbon_collect.pseudonyms import own_name, own_names
from labcarbon_collect.redaction import MASK, masked_line, secret_name, secret_value
from labcarbon_collect.runs import current, daemon_link, distributed, failure, preflight_text
from labcarbon_collect.runs import distributed as this_process
from labcarbon_collect.runs import facts as run_facts
from labcarbon_collect.runs.distributed import exit_code
from labcarbon_collect.runs.metrics import MetricSender, points_of
from labcarbon_collect.runs.startup import asked, heard
from labcarbon_collect.slurm.jobs import job_named
from labcarbon_collect.timeouts import A_MOMENT_S, PATIENCE_S, WRONG
from labcarbon_collect.totals import closing_line

Paths = Union[None, str, "os.PathLike[str]", Mapping[str, Union[str, "os.PathLike[str]"]]]


class TrackedRun:
    """A run of this process. No method raises."""

    def __init__(
        self,
        *,
        project: Optional[str] = None,
        name: Optional[str] = None,
        params: Any = None,
        data: Paths = None,
        start: Union[str, os.PathLike[str], None] = None,
        intent: str = "train",
        sweep: str = "",
        parent: Optional[str] = None,
    ) -> None:
        outer = current.run_here(os.environ)
        joined = outer is not None and outer.by in (current.WRAPPED, current.MLFLOW)
        self.joined = joined  # ``labcarbon-collect run``, or MLflow, began it and ends it
        self.uuid = outer.uuid if outer is not None and joined else str(uuid.uuid4())
        self.quiet = not distributed.is_first(os.environ)
        self._command = this_process.command()
        self._params = told_params(params if isinstance(params, Mapping) else vars(params) if params else {})
        self._project, self._name = project, name
        self._beside = {"intent": intent}
        self._beside.update({key: text[:100] for key, text in (("sweep", sweep), ("parent", parent)) if text})
        self._data, self._start, self._sweep, self._intent = paths_of(data), os.fspath(start or ""), sweep, intent
        self._started_us = time.time_ns() // 1000
        self._daemon = daemon_link.Daemon()
        self._login = _login()
        if WRONG and not (joined or self.quiet):
            say(WRONG)
        self._ready = threading.Event()
        self._nan_since: Optional[int] = None
        self._ended, self._pid = False, os.getpid()
        self._reporter: Optional[Reporter] = None
        self._looking: Optional[Looking[Survey]] = None
        self._telling: Optional[Looking[None]] = None
        self._sender = MetricSender(None if self.quiet else self._login, self.uuid, ready=self._ready, say=say)
        self._lineage = Declaring(self.uuid, os.environ, quiet=self.quiet, say=say)
        self.used, self.produced = self._lineage.used, self._lineage.produced
        self.initialised_from, self.distilled_from = self._lineage.initialised_from, self._lineage.distilled_from

    def __enter__(self) -> TrackedRun:  # noqa: PYI034 - Self came with Python 3.11
        if not self.quiet:
            self._begin()
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        try:
            self._end(error)
        except Exception as wrong:  # noqa: BLE001 - the script ends as it ends
            say(f"this run could not be closed: {type(wrong).__name__}: {wrong}")

    def log(self, step: int, **metrics: Any) -> None:
        """Keep metrics of a step, to be sent in the background: ``run.log(100, loss=0.25, val_acc=0.9)``."""
        if self.quiet:
            return
        points, wrong = points_of(step, metrics, time.time_ns() // 1000)
        if wrong:
            self._sender.complain(f"{', '.join(wrong)}: no number, so no metric")
        for name, at, value, _ in points:
            if "loss" in name.lower():
                self._note_loss(name, at, value)
        self._sender.add(points)

    def check(self) -> Optional[Answer]:
        """Ask whether this was done before, say it, and return the answer; None where nobody answers in time."""
        if self.quiet:
            return None
        try:
            return self._check()
        except Exception as wrong:  # noqa: BLE001 - the script goes on
            say(f"nobody was asked whether this was run before: {type(wrong).__name__}: {wrong}")
            return None

    def _begin(self) -> None:
        """Register this process, and look at it in the background."""
        if self.joined:
            self._ready.set()
            return
        current.begin(self.uuid, current.TRACKED)
        self._looking = Looking("this", self._survey)
        registering = Looking("daemon", lambda: daemon_link.register(self.uuid, os.getpid(), facts=self._forwarded()))
        self._daemon = registering.wait(Budget(A_MOMENT_S)) or daemon_link.Daemon(why="the daemon took too long")
        self._lineage.node = self._daemon.node or ""
        self._telling = Looking("telling", self._tell)

    def _forwarded(self) -> Optional[Dict[str, Any]]:
        return self._facts({}) if self._login is None else None

    def _survey(self) -> Survey:
        return survey(
            self._command, cwd=this_process.folder(), environ=os.environ, declared_params=self._params,
            declared_data=self._data, declared_start=self._start, intent=self._intent, sweep=self._sweep, seconds=PATIENCE_S,
        )  # fmt: skip

    def _tell(self) -> None:
        """PUT with the fingerprint, or leave both to the daemon."""
        wire = self._wire()
        if self._login is not None:
            self._reporter = Reporter(self._login, self.uuid, say=say, patience_s=PATIENCE_S)
            self._reporter.start(self._facts(wire))
            self._reporter.wait(PATIENCE_S)
        elif wire and self._daemon.client is not None:
            daemon_link.tell_apart(self.uuid, closing={"fingerprint": run_facts.fingerprint(wire, self._daemon.user)})
        self._ready.set()

    def _wire(self) -> Dict[str, Any]:
        if self._looking is None:
            self._looking = Looking("this", self._survey)
        found = self._looking.wait(Budget(PATIENCE_S + 1.0))
        return found.wire if found is not None else {}

    def _facts(self, wire: Mapping[str, Any]) -> Dict[str, Any]:
        user = own_names(os.environ).told(own_name()) if self._daemon.user is None else self._daemon.user
        told = run_facts.facts(
            command=self._command, project=self._project, name=self._name, params=self._params, node=self._daemon.node,
            started_us=self._started_us, user=user,
        )  # fmt: skip
        told.update(self._beside)
        if wire:
            told["fingerprint"] = run_facts.fingerprint(wire, user)
        return told

    def _check(self) -> Optional[Answer]:
        if self._login is None:
            say("nobody was asked whether this was run before: you are not logged in: labcarbon-collect login URL")
            return None
        budget = Budget(PATIENCE_S)
        facts = self._facts(self._wire())
        parent = self._beside.get("parent")
        question = Question(
            facts.get("fingerprint", {}), facts["name"], self._project, self.uuid, parent, job_named(os.environ)
        )
        answer, why = heard(asked(self._login, question, budget), self._login.url, budget)
        if answer is None:
            say(f"nobody was asked whether this was run before: {why}")
            return None
        for line in preflight_text.lines(answer):
            print(line, file=sys.stderr, flush=True)
        return answer

    def _note_loss(self, name: str, step: int, value: float) -> None:
        if value == value:
            self._nan_since = None
        elif self._nan_since is None:
            self._nan_since = step
            say(f"{name} is not a number since step {step}")

    def _end(self, error: Optional[BaseException]) -> None:
        if self.quiet or self._ended or os.getpid() != self._pid:
            return  # a fork of the script ends, not the script
        self._ended = True
        self._lineage.over()
        if not self.joined:
            current.end(self.uuid)
        closing = self._closing(error)
        if self._telling is not None:
            self._telling.wait(Budget(PATIENCE_S))
        figures = None
        if not self.joined:
            forwarded = closing if self._login is None else None
            figures = daemon_link.end(self._daemon, self.uuid, cpu_us=0, closing=forwarded, goes_on=True)
            if figures is not None:
                closing["energy_mj"] = int(figures["energy_mj"])
        elif "failure" in closing:
            closing = {"failure": closing["failure"]}
        left = self._sender.close(PATIENCE_S)
        if left:
            self._sender.complain(f"{left} points of metrics were not sent")
        self._tell_end(closing)
        self._lineage.close()
        if figures is not None:
            self._say_figures(figures)

    def _closing(self, error: Optional[BaseException]) -> Dict[str, Any]:
        closing = run_facts.closing(
            exit_code=exit_code(error), killed=isinstance(error, KeyboardInterrupt), ended_us=time.time_ns() // 1000
        )
        failed = failure.told_of(error, os.getcwd(), nan_seen=self._nan_since is not None)
        return {**closing, "failure": failed} if failed else closing

    def _tell_end(self, closing: Mapping[str, Any]) -> None:
        if self._login is None:
            return
        if self.joined:
            if "failure" in closing:
                reporter = Reporter(self._login, self.uuid, say=say, patience_s=PATIENCE_S)
                Looking("failure", lambda: reporter.patch(closing)).wait(Budget(PATIENCE_S))
            return
        reporter = self._reporter or Reporter(self._login, self.uuid, say=say, patience_s=PATIENCE_S)
        facts = self._facts(self._wire())
        if not reporter.finish(facts, closing):
            later = daemon_link.tell_later(self._daemon, self.uuid, facts=facts, closing=closing)
            known = "answer now; the daemon tells it later" if later else "know of this run"
            say(f"the server does not {known}: {reporter.why}")

    def _say_figures(self, figures: Mapping[str, Any]) -> None:
        server = self._login.url if self._login else self._daemon.url
        line = closing_line(figures, link=f"{server}/runs/{self.uuid}/" if server else "", server=server)
        print(line, file=sys.stderr, flush=True)


def told_params(params: Mapping[str, Any]) -> Dict[str, Any]:
    """Parameters as they may be told: flat, plain values, without what looks like a secret."""
    told: Dict[str, Any] = {}
    for name, value in flat(params).items():
        plain = value if isinstance(value, (int, float, bool, type(None))) else str(value)[:1024]
        secret = secret_name(name) or (isinstance(plain, str) and secret_value(plain))
        told[masked_line(name)[:256]] = MASK if secret else plain
    return told


def paths_of(data: Paths) -> Dict[str, str]:
    """Role → path."""
    if data is None:
        return {}
    if isinstance(data, Mapping):
        return {str(role): os.fspath(path) for role, path in data.items()}
    return {"data": os.fspath(data)}


def say(text: str) -> None:
    """One line to the person at the terminal."""
    print(f"labcarbon: {text}", file=sys.stderr, flush=True)


def _login() -> Optional[Login]:
    try:
        return user_login(os.environ)
    except Refused as refused:
        say(str(refused))
        return None
