"""Steps of ``run`` between fork and exec: fingerprint, registration and duplicate check, within a
time budget.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, Mapping, Optional, Union

from labcarbon_collect import STARTED_S
from labcarbon_collect.api import preflight
from labcarbon_collect.api.preflight import (
    PreflightRequest,
    PreflightResponse,
    PreflightUnavailable,
)
from labcarbon_collect.config import Login
from labcarbon_collect.files.read_limits import Budget, Deadline, no_response_text
from labcarbon_collect.fingerprint.builder import Survey
from labcarbon_collect.pseudonyms import DROPPED
from labcarbon_collect.runs import daemon_link
from labcarbon_collect.runs import facts as run_facts
from labcarbon_collect.runs.options import RunSpec
from labcarbon_collect.slurm.jobs import current_job_key
from labcarbon_collect.startup_timeout import PART_TIMEOUT_S, STARTUP_TIMEOUT_S

FactsBuilder = Callable[[daemon_link.DaemonLink, Mapping[str, Any]], Dict[str, Any]]
EXIT_BLOCKED = 3  # exit code of a blocked duplicate
_PYTHON_START_S = 0.1  # start of Python itself, before our first line
_MIN_DAEMON_S = 0.2
_GPU_QUERY_S = 0.15 * STARTUP_TIMEOUT_S


@dataclass
class RunStartup:
    """Results of the startup. Without ``response``, ``error`` has the reason, if there is one."""

    daemon: daemon_link.DaemonLink
    survey: Survey
    response: Optional[PreflightResponse] = None
    error: str = ""
    notes: List[str] = field(default_factory=list)


def start_run(
    spec: RunSpec,
    *,
    run: str,
    pid: int,
    login: Optional[Login],
    budget: Budget,
    build_facts: FactsBuilder,
    check: bool = True,
) -> RunStartup:
    """Do all startup steps within ``budget``.

    ``build_facts`` returns the body of PUT from the daemon's response and the fingerprint. Without
    a login there is no duplicate check, which is an error only if the run enforces it.
    """
    survey = spec.survey(min(PART_TIMEOUT_S, budget.remaining_s / 2))
    forwarded = build_facts(daemon_link.DaemonLink(), survey.wire) if login is None else None
    registration = Deadline("daemon", lambda: _register(run, pid, forwarded, budget))
    preflight_call = (
        start_preflight(login, preflight_request(spec, survey, run=run), budget)
        if login is not None and check
        else None
    )
    daemon = _await_registration(registration, budget)
    gpus = daemon_link.describe_gpus(daemon.gpus, os.environ)
    if gpus:
        survey.wire["hardware"] = {"gpus": gpus}
    startup = RunStartup(daemon, survey)
    if preflight_call is not None:
        startup.response, startup.error = await_reply(
            preflight_call, login.url if login else "", budget
        )
    elif check and spec.enforce and daemon.url:
        startup.error = f"you are not logged in. Log in with: labcarbon-collect login {daemon.url}"
    return startup


def _await_registration(
    registration: Deadline[daemon_link.DaemonLink], budget: Budget
) -> daemon_link.DaemonLink:
    """Wait for the daemon's response, for a short time even if the start of Python took the whole
    timeout: without it the run is not measured.
    """
    is_late = not budget.is_expired and budget.remaining_s < _MIN_DAEMON_S
    daemon = registration.wait(Budget(_MIN_DAEMON_S) if is_late else budget)
    if daemon is not None:
        return daemon
    if registration.is_done:
        return daemon_link.DaemonLink(error=f"no response from the daemon: {registration.error}")
    return daemon_link.DaemonLink(
        error=no_response_text("the daemon", registration.elapsed_s, budget)
    )


def _register(
    run: str, pid: int, facts: Optional[Mapping[str, Any]], budget: Budget
) -> daemon_link.DaemonLink:
    daemon = daemon_link.register(
        run, pid, facts=facts, timeout_s=max(_MIN_DAEMON_S, budget.remaining_s)
    )
    if daemon.client is not None:
        daemon_link.query_gpus(daemon, timeout_s=min(_GPU_QUERY_S, budget.remaining_s))
    return daemon


def startup_budget(seconds: float) -> Budget:
    """Return the remaining startup time, counted from the start of our process, including Python's
    own start.
    """
    return Budget(max(0.0, seconds - _PYTHON_START_S - (time.monotonic() - STARTED_S)))


def preflight_request(
    spec: RunSpec, survey: Survey, *, run: Optional[str] = None
) -> PreflightRequest:
    """Return the preflight request of a run. The user's name is dropped from it, because the
    pseudonym comes from the daemon and the request does not wait for it.
    """
    facts = run_facts.start_facts(
        command=spec.command,
        project=spec.project,
        name=spec.name,
        params={},
        node=None,
        started_us=0,
        user=DROPPED,
    )
    return PreflightRequest(
        run_facts.pseudonymise_fingerprint(survey.wire, DROPPED),
        facts["name"],
        spec.project,
        run,
        spec.parent,
        current_job_key(os.environ),
    )


def start_preflight(
    login: Login, request: PreflightRequest, budget: Budget
) -> Deadline[Union[PreflightResponse, PreflightUnavailable]]:
    """Send the request in a thread, because a name service can block longer than any request
    timeout.
    """

    def send() -> Union[PreflightResponse, PreflightUnavailable]:
        try:
            return preflight.check_duplicates(login, request, deadline_s=budget.remaining_s)
        except PreflightUnavailable as error:
            return error

    return Deadline("server", send)


def await_reply(
    preflight_call: Deadline[Union[PreflightResponse, PreflightUnavailable]],
    url: str,
    budget: Budget,
) -> tuple[Optional[PreflightResponse], str]:
    """Return the response, or the reason why there is none."""
    result = preflight_call.wait(budget)
    if isinstance(result, PreflightResponse):
        return result, ""
    if result is not None:
        return None, str(result)
    return None, no_response_text(url, preflight_call.elapsed_s, budget)


def report_outcome_in_background(
    login: Login, response: Optional[PreflightResponse], outcome: str
) -> Optional[Deadline[bool]]:
    """Report the outcome in a thread. Returns None if the response named no match."""
    if response is None or response.verdict == "none":
        return None
    return Deadline(
        "outcome",
        lambda: preflight.report_outcome(login, response, outcome, deadline_s=PART_TIMEOUT_S),
    )


def wait_for_outcome_report(report: Optional[Deadline[bool]]) -> None:
    """Wait for the outcome report, because the end of our process would abort it."""
    if report is not None:
        report.wait(Budget(PART_TIMEOUT_S))
