"""What ``run`` does between fork and exec: look at the work, register it, ask whether it was done before. Bounded."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, Mapping, Optional, Union

from labcarbon_collect import STARTED_S
from labcarbon_collect.api import preflight
from labcarbon_collect.api.preflight import Answer, NotAsked, Question
from labcarbon_collect.config import Login
from labcarbon_collect.files.budget import Budget, Looking
from labcarbon_collect.fingerprint.builder import Survey
from labcarbon_collect.pseudonyms import DROPPED
from labcarbon_collect.runs import daemon_link
from labcarbon_collect.runs import facts as run_facts
from labcarbon_collect.runs.options import Work
from labcarbon_collect.slurm.jobs import job_named
from labcarbon_collect.timeouts import A_WHILE_S, PATIENCE_S

Facts = Callable[[daemon_link.Daemon, Mapping[str, Any]], Dict[str, Any]]
IN_VAIN = 3  # exit code of what is kept back since it would be in vain
_TO_START_S = 0.1  # what Python needs before it comes to us
_GPUS_S = 0.15 * PATIENCE_S


@dataclass
class Beginning:
    """What was found out. ``answer`` None: nobody was asked, or nobody answered, and ``why`` says it."""

    daemon: daemon_link.Daemon
    survey: Survey
    answer: Optional[Answer] = None
    why: str = ""
    notes: List[str] = field(default_factory=list)


def begin(
    work: Work, *, run: str, pid: int, login: Optional[Login], budget: Budget, facts: Facts, check: bool = True
) -> Beginning:
    """Do all of it within ``budget``. ``facts``: the body of PUT, from the daemon's answer and the fingerprint."""
    survey = work.survey(min(A_WHILE_S, budget.left_s / 2))
    forwarded = facts(daemon_link.Daemon(), survey.wire) if login is None else None
    registering = Looking("daemon", lambda: _registered(run, pid, forwarded, budget))
    asking = asked(login, question_of(work, survey, run=run), budget) if login is not None and check else None
    daemon = registering.wait(budget) or daemon_link.Daemon(why=f"the daemon did not answer: {registering.why}")
    gpus = daemon_link.gpu_names(daemon.gpus, os.environ)
    if gpus:
        survey.wire["hardware"] = {"gpus": gpus}
    begun = Beginning(daemon, survey)
    if asking is not None:
        begun.answer, begun.why = heard(asking, login.url if login else "", budget)
    elif check and daemon.url:
        begun.why = f"you are not logged in: labcarbon-collect login {daemon.url}"
    return begun


def _registered(run: str, pid: int, facts: Optional[Mapping[str, Any]], budget: Budget) -> daemon_link.Daemon:
    daemon = daemon_link.register(run, pid, facts=facts, patience_s=max(0.2, budget.left_s))
    if daemon.client is not None:
        daemon_link.look_at_gpus(daemon, patience_s=min(_GPUS_S, budget.left_s))
    return daemon


def patience(seconds: float) -> Budget:
    """The time that the work may wait for us, counted from when our process began: Python takes its share to start."""
    return Budget(max(0.0, seconds - _TO_START_S - (time.monotonic() - STARTED_S)))


def question_of(work: Work, survey: Survey, *, run: Optional[str] = None) -> Question:
    """What the server is asked of a piece of work. Our user's name stands nowhere in it: what is told instead, the daemon
    says, and nobody waits for it before asking."""
    told = run_facts.facts(
        command=work.command, project=work.project, name=work.name, params={}, node=None, started_us=0, user=DROPPED
    )
    return Question(
        run_facts.fingerprint(survey.wire, DROPPED), told["name"], work.project, run, work.parent, job_named(os.environ)
    )


def asked(login: Login, question: Question, budget: Budget) -> Looking[Union[Answer, NotAsked]]:
    """Ask in a thread: a name service may hang for longer than any request."""

    def ask() -> Union[Answer, NotAsked]:
        try:
            return preflight.ask(login, question, deadline_s=budget.left_s)
        except NotAsked as error:
            return error

    return Looking("server", ask)


def heard(asking: Looking[Union[Answer, NotAsked]], url: str, budget: Budget) -> tuple[Optional[Answer], str]:
    """The answer, or why there is none."""
    found = asking.wait(budget)
    if isinstance(found, Answer):
        return found, ""
    return None, str(found) if found is not None else f"{url} did not answer within {budget.seconds:.1f} s"


def tell_outcome(login: Login, answer: Optional[Answer], outcome: str) -> Optional[Looking[bool]]:
    """Tell in a thread what came of an answer; None where it named nothing."""
    if answer is None or answer.verdict == "none":
        return None
    return Looking("outcome", lambda: preflight.tell_outcome(login, answer, outcome, deadline_s=A_WHILE_S))


def wait_for_outcome(telling: Optional[Looking[bool]]) -> None:
    """Give an outcome that is being told a second: our process ends then, and would cut it off."""
    if telling is not None:
        telling.wait(Budget(A_WHILE_S))
