"""A run of MLflow that this process tells of: asked about, registered, told to the server, closed. Bounded throughout."""

from __future__ import annotations

import os
import sys
import threading
import time
import uuid
from dataclasses import dataclass
from typing import Any, Dict, Mapping, Optional

from labcarbon_collect.api.preflight import STOPPED, WENT_ON, Answer
from labcarbon_collect.api.run_client import Reporter
from labcarbon_collect.config import Login
from labcarbon_collect.files.budget import Budget, Looking
from labcarbon_collect.fingerprint.builder import Survey, shown, survey
from labcarbon_collect.runs import current, daemon_link, distributed, failure, preflight_text
from labcarbon_collect.runs import distributed as this_process
from labcarbon_collect.runs import facts as run_facts
from labcarbon_collect.runs.background_hash import DigestJob
from labcarbon_collect.runs.daemon_link import Daemon
from labcarbon_collect.runs.options import INTENTS, Work
from labcarbon_collect.runs.payload import ToldRun, hash_the_rest
from labcarbon_collect.runs.startup import IN_VAIN, Beginning, begin, tell_outcome, wait_for_outcome
from labcarbon_collect.timeouts import A_MOMENT_S, PATIENCE_S, WRONG
from labcarbon_collect.totals import closing_line

# A later run of a process is not asked about: it only changes whose energy it is.
_LATER_S, _LEAVE_S, _LEAST_S, _MARGIN_S = A_MOMENT_S, 0.5, 0.2, 0.2
_OF_COMMAND = ("params", "seeds", "told", "dropped")
_NOT_ASKED = "not_asked"
_UNDER_WAY_S = 1.0  # a thread that is still at work while the interpreter goes may crash it
_ON = ("1", "true", "yes", "on")


@dataclass(frozen=True)
class _ThisWork(Work):
    """This process. ``known``: what is known of it from its first run."""

    known: Optional[Survey] = None

    def survey(self, seconds: float) -> Survey:
        if self.known is not None:
            return self.known
        return survey(
            self.command,
            cwd=this_process.folder(),
            environ=os.environ,
            intent=self.intent,
            sweep=self.sweep,
            seconds=seconds,
        )


class MlflowRun:
    """``thread``: where it began; ``known``: what a later run of this process need not look at again."""

    def __init__(self, *, name: Optional[str], login: Optional[Login], known: Optional[Survey]) -> None:
        self.pid, self.thread = os.getpid(), threading.get_ident()
        self._login, self._first = login, known is None
        self._told = ToldRun(str(uuid.uuid4()), _work(name, os.environ, known), time.time_ns() // 1000)
        self._begun = Beginning(Daemon(), Survey({}))
        self._reporter: Optional[Reporter] = None
        self._digest: Optional[DigestJob] = None
        self._closing: Optional[Looking[None]] = None
        self._telling: Optional[Looking[bool]] = None  # what came of the answer
        self._left = threading.Event()  # the daemon counts no more for it
        self._figures: Optional[Dict[str, Any]] = None
        self.untold = ""  # why neither server nor daemon know how it ended

    @property
    def uuid(self) -> str:
        return self._told.run

    @property
    def node(self) -> str:
        return self._begun.daemon.node or ""

    @property
    def is_told(self) -> bool:
        """Whether anybody is told of it."""
        return self._login is not None or self._begun.daemon.client is not None

    @property
    def verdict(self) -> str:
        return self._begun.answer.verdict if self._begun.answer is not None else _NOT_ASKED

    @property
    def asked(self) -> str:
        return self._begun.answer.asked if self._begun.answer is not None else ""

    @property
    def fingerprint(self) -> str:
        """Its version and how well each part is known: no hash."""
        return shown(self._begun.survey.wire)

    @property
    def known(self) -> Survey:
        """What holds of later runs of this process too: not what its command line says, which is no more about them."""
        return Survey({part: each for part, each in self._begun.survey.wire.items() if part not in _OF_COMMAND})

    def begin(self, begun_s: float) -> None:
        """Look, register, ask and tell. Raises SystemExit where it is to be kept back. ``begun_s``: since when it waits."""
        waited_s = time.monotonic() - begun_s
        seconds = max(_LEAST_S, (PATIENCE_S if self._first else _LATER_S) - waited_s)
        beginning = Looking("beginning", lambda: self._begin(Budget(seconds)))
        begun = beginning.wait(Budget(seconds + _MARGIN_S))
        self._begun = begun or Beginning(Daemon(why=beginning.why), Survey({}), why=beginning.why)
        self._say()
        answer = self._begun.answer
        if answer is not None and answer.in_vain and os.environ.get("LABCARBON_ENFORCE", "").lower() in _ON:
            self._keep_back(answer)
        if not self.is_told:
            return
        current.begin(self.uuid, current.MLFLOW)
        if self._login is not None:
            heard = say if self._first else _said_before
            self._reporter = Reporter(self._login, self.uuid, say=heard, patience_s=PATIENCE_S)
            self._reporter.start(self._told.facts(self._begun.daemon, self._begun.survey.wire))
            self._telling = tell_outcome(self._login, answer, WENT_ON)
        self._digest = hash_the_rest(self._told, self._begun, self._reporter, apart=True)

    @property
    def is_closing(self) -> bool:
        """Whether somebody is still being told that it is over."""
        return self._closing is not None and not self._closing.is_done

    def leave(self) -> None:
        """Another run of this process begins: close this one beside it, once the daemon counts no more for it."""
        self.close(None)
        self._left.wait(_LEAVE_S)

    def wait(self, budget: Budget) -> None:
        """Until everybody was told that it is over, and what came of the answer."""
        for telling in (self._closing, self._telling):
            if telling is not None:
                telling.wait(budget)

    def say_figures(self) -> None:
        """What it took, where that was measured."""
        if self._figures is None:
            return
        server = self._login.url if self._login is not None else self._begun.daemon.url
        link = f"{server}/runs/{self.uuid}/" if server else ""
        print(closing_line(self._figures, link=link, server=server), file=sys.stderr, flush=True)

    def _begin(self, budget: Budget) -> Beginning:
        return begin(
            self._told.work, run=self.uuid, pid=distributed.root_pid(os.environ), login=self._login, budget=budget,
            facts=self._told.facts, check=self._first,
        )  # fmt: skip

    def _say(self) -> None:
        if not self._first:
            return
        if WRONG:
            say(WRONG)
        answer = self._begun.answer
        if answer is not None and answer.worth_saying:
            for line in (*preflight_text.lines(answer), *_UNKNOWN_YET):
                print(line, file=sys.stderr, flush=True)
        elif answer is None and self._begun.why and self.is_told:
            later = " If it stays so, the daemon tells it later." if self._login and self._begun.daemon.client else ""
            say(f"nobody was asked whether this was run before: {self._begun.why}{later}")

    def _keep_back(self, answer: Answer) -> None:
        say(
            "not started, since it would be in vain (LABCARBON_ENFORCE); to run it anyway: LABCARBON_ENFORCE=0, or "
            "LABCARBON_INTENT=replicate"
        )
        daemon_link.end(self._begun.daemon, self.uuid, cpu_us=0, closing=None, goes_on=True)
        if self._login is not None:
            wait_for_outcome(tell_outcome(self._login, answer, STOPPED))
        raise SystemExit(IN_VAIN)

    def close(self, error: Optional[BaseException]) -> None:
        """It is over, by ``error`` if there was one: tell that in a thread. Once, whoever says so first."""
        if self._closing is not None:
            return
        current.end(self.uuid)
        closing = run_facts.closing(
            exit_code=this_process.exit_code(error),
            killed=isinstance(error, KeyboardInterrupt),
            ended_us=time.time_ns() // 1000,
        )
        if error is None:
            closing["exit_code"] = None  # sys.exit cannot be seen from inside
        failed = failure.told_of(error, this_process.folder())
        if failed:
            closing["failure"] = failed
        try:
            self._closing = Looking("closing", lambda: self._tell_end(closing))
        except RuntimeError:  # an interpreter that ends starts no thread: Python 3.12.0 and 3.12.1, already here
            self._tell_end(closing)

    def _tell_end(self, closing: Dict[str, Any]) -> None:
        forwarded = closing if self._reporter is None else None
        self._figures = daemon_link.end(self._begun.daemon, self.uuid, cpu_us=0, closing=forwarded, goes_on=True)
        self._left.set()
        if self._digest is not None:
            self._digest.end()
        if self._figures is not None:
            closing["energy_mj"] = int(self._figures["energy_mj"])
        if self._reporter is None:
            return
        facts = self._told.facts(self._begun.daemon, self._begun.survey.wire)
        try:
            if self._reporter.finish(facts, closing):
                return
        except RuntimeError:
            self._reporter.wait(_UNDER_WAY_S)
            self._reporter.why = "this Python starts no thread when it ends"
        if not daemon_link.tell_later(self._begun.daemon, self.uuid, facts=facts, closing=closing):
            self.untold = self._reporter.why


_UNKNOWN_YET = ("  Parameters that MLflow is told of later are not known yet: compared are code, command line and data.",)


def say(text: str) -> None:
    """One line to the person at the terminal."""
    print(f"labcarbon: {text}", file=sys.stderr, flush=True)


def _said_before(warning: str) -> None:
    """What the server says of a later run (there is no such project) it said of the first."""


def _work(name: Optional[str], environ: Mapping[str, str], known: Optional[Survey]) -> _ThisWork:
    intent = environ.get("LABCARBON_INTENT", "") or "train"
    if intent not in INTENTS:
        if known is None:
            say(f"LABCARBON_INTENT={intent} is none of {', '.join(INTENTS)}: train is meant")
        intent = "train"
    return _ThisWork(
        this_process.command(), environ.get("LABCARBON_PROJECT") or None, name, {}, {}, "", intent,
        environ.get("LABCARBON_SWEEP", ""), None, enforce=False, known=known,
    )  # fmt: skip
