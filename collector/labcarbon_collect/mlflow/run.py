"""An MLflow run of this process: duplicate check, registration, report and end, each with a time
limit.
"""

from __future__ import annotations

import os
import sys
import threading
import time
import uuid
from dataclasses import dataclass
from typing import Any, Dict, Mapping, Optional

from labcarbon_collect.api.preflight import PROCEEDED, STOPPED, PreflightResponse
from labcarbon_collect.api.run_client import RunReporter
from labcarbon_collect.config import Login
from labcarbon_collect.figure_text import summary_line
from labcarbon_collect.files.read_limits import Budget, Deadline
from labcarbon_collect.fingerprint.builder import Survey, format_fingerprint, survey
from labcarbon_collect.runs import active_runs, daemon_link, failure, preflight_text, process_facts
from labcarbon_collect.runs import facts as run_facts
from labcarbon_collect.runs.background_hash import BackgroundHash
from labcarbon_collect.runs.daemon_link import DaemonLink
from labcarbon_collect.runs.options import INTENTS, RunSpec
from labcarbon_collect.runs.payload import RunPayload, start_background_hash
from labcarbon_collect.runs.startup import (
    EXIT_BLOCKED,
    RunStartup,
    report_outcome_in_background,
    start_run,
    wait_for_outcome_report,
)
from labcarbon_collect.startup_timeout import SETTING_WARNING, SHORT_TIMEOUT_S, STARTUP_TIMEOUT_S

# Later runs of a process get no duplicate check. They only change the attribution of energy.
_LATER_S, _CLOSE_WAIT_S, _MIN_S, _MARGIN_S = SHORT_TIMEOUT_S, 0.5, 0.2, 0.2
_COMMAND_PARTS = ("params", "seeds", "told", "dropped")
_NOT_CHECKED = "not_asked"
_PENDING_SEND_S = 1.0  # a thread that still runs while the interpreter shuts down may crash it
_TRUE_VALUES = ("1", "true", "yes", "on")


@dataclass(frozen=True)
class _ProcessSpec(RunSpec):
    """The run description of this process. ``first_survey``: the survey of its first run."""

    first_survey: Optional[Survey] = None

    def survey(self, seconds: float) -> Survey:
        if self.first_survey is not None:
            return self.first_survey
        return survey(
            self.command,
            cwd=process_facts.start_folder(),
            environ=os.environ,
            intent=self.intent,
            sweep=self.sweep,
            seconds=seconds,
        )


class MlflowRun:
    """``thread``: where the run started. ``first_survey``: reused by later runs of the process."""

    def __init__(
        self, *, name: Optional[str], login: Optional[Login], first_survey: Optional[Survey]
    ) -> None:
        self.pid, self.thread = os.getpid(), threading.get_ident()
        self._login, self._is_first = login, first_survey is None
        self._payload = RunPayload(
            str(uuid.uuid4()), _process_spec(name, os.environ, first_survey), time.time_ns() // 1000
        )
        self._startup = RunStartup(DaemonLink(), Survey({}))
        self._reporter: Optional[RunReporter] = None
        self._background_hash: Optional[BackgroundHash] = None
        self._closing: Optional[Deadline[None]] = None
        self._outcome_report: Optional[Deadline[bool]] = None
        self._daemon_ended = threading.Event()  # the daemon no longer counts energy for the run
        self._figures: Optional[Dict[str, Any]] = None
        self.unreported = ""  # why neither server nor daemon know how the run ended

    @property
    def uuid(self) -> str:
        return self._payload.run

    @property
    def node(self) -> str:
        return self._startup.daemon.node or ""

    @property
    def is_reported(self) -> bool:
        """Whether the run is reported to a server or a daemon."""
        return self._login is not None or self._startup.daemon.client is not None

    @property
    def verdict(self) -> str:
        return (
            self._startup.response.verdict if self._startup.response is not None else _NOT_CHECKED
        )

    @property
    def preflight_id(self) -> str:
        return self._startup.response.preflight_id if self._startup.response is not None else ""

    @property
    def fingerprint(self) -> str:
        """Its version and the state of each part, without hashes."""
        return format_fingerprint(self._startup.survey.wire)

    @property
    def first_survey(self) -> Survey:
        """The survey without its command line parts, which do not describe later runs of the
        process.
        """
        return Survey(
            {
                part: value
                for part, value in self._startup.survey.wire.items()
                if part not in _COMMAND_PARTS
            }
        )

    def start_run(self, started_s: float) -> None:
        """Fingerprint, register, check and report the run. Raises SystemExit to block it.
        ``started_s``: start of the waiting time.
        """
        waited_s = time.monotonic() - started_s
        seconds = max(_MIN_S, (STARTUP_TIMEOUT_S if self._is_first else _LATER_S) - waited_s)
        start_call = Deadline("beginning", lambda: self._start_run(Budget(seconds)))
        startup = start_call.wait(Budget(seconds + _MARGIN_S))
        self._startup = startup or RunStartup(
            DaemonLink(error=start_call.error), Survey({}), error=start_call.error
        )
        self._print_startup()
        response = self._startup.response
        if response is not None and response.is_blocking and self._payload.spec.enforce:
            self._block(response)
        if not self.is_reported:
            return
        active_runs.activate(self.uuid, active_runs.MLFLOW)
        if self._login is not None:
            notify_warning = notify if self._is_first else _ignore_warning
            self._reporter = RunReporter(
                self._login, self.uuid, notify=notify_warning, timeout_s=STARTUP_TIMEOUT_S
            )
            self._reporter.start(
                self._payload.facts(self._startup.daemon, self._startup.survey.wire)
            )
            self._outcome_report = report_outcome_in_background(self._login, response, PROCEEDED)
        self._background_hash = start_background_hash(
            self._payload, self._startup, self._reporter, is_detached=True
        )

    @property
    def is_closing(self) -> bool:
        """Whether the end is still being reported."""
        return self._closing is not None and not self._closing.is_done

    def close_in_background(self) -> None:
        """Close this run because another one starts. Returns when the daemon no longer counts
        energy for it.
        """
        self.close(None)
        self._daemon_ended.wait(_CLOSE_WAIT_S)

    def wait(self, budget: Budget) -> None:
        """Wait until end and outcome are reported."""
        for call in (self._closing, self._outcome_report):
            if call is not None:
                call.wait(budget)

    def print_figures(self) -> None:
        """Print the figures if they were measured."""
        if self._figures is None:
            return
        server = self._login.url if self._login is not None else self._startup.daemon.url
        link = f"{server}/runs/{self.uuid}/" if server else ""
        print(summary_line(self._figures, link=link, server=server), file=sys.stderr, flush=True)

    def _start_run(self, budget: Budget) -> RunStartup:
        return start_run(
            self._payload.spec,
            run=self.uuid,
            pid=process_facts.root_pid(os.environ),
            login=self._login,
            budget=budget,
            build_facts=self._payload.facts,
            check=self._is_first,
        )

    def _print_startup(self) -> None:
        if not self._is_first:
            return
        if SETTING_WARNING:
            notify(SETTING_WARNING)
        response = self._startup.response
        if response is not None and response.is_notable:
            lines = preflight_text.format_response(
                response, local_values=self._startup.survey.local_values
            )
            for line in (*lines, *_LATE_PARAMS_NOTE):
                print(line, file=sys.stderr, flush=True)
        elif response is None and self._startup.error and self.is_reported:
            suffix = (
                " (the daemon forwards the run if the server stays unavailable)"
                if self._login and self._startup.daemon.client
                else ""
            )
            notify(f"Duplicate check skipped: {self._startup.error}{suffix}")

    def _block(self, response: PreflightResponse) -> None:
        reason = preflight_text.blocking_reason(response)
        hint = "LABCARBON_ENFORCE=0, or LABCARBON_INTENT=replicate"
        notify(f"Not started: {reason} (LABCARBON_ENFORCE). To run it anyway: {hint}")
        daemon_link.end_run(
            self._startup.daemon, self.uuid, cpu_us=0, closing=None, process_continues=True
        )
        if self._login is not None:
            wait_for_outcome_report(report_outcome_in_background(self._login, response, STOPPED))
        raise SystemExit(EXIT_BLOCKED)

    def close(self, error: Optional[BaseException]) -> None:
        """Report the end of the run in a thread, with its error if any. Only the first call has an
        effect.
        """
        if self._closing is not None:
            return
        active_runs.deactivate(self.uuid)
        closing = run_facts.closing_facts(
            exit_code=process_facts.exit_code(error),
            killed=isinstance(error, KeyboardInterrupt),
            ended_us=time.time_ns() // 1000,
        )
        if error is None:
            closing["exit_code"] = None  # the code of sys.exit is not visible from inside
        failure_part = failure.failure_facts(error, process_facts.start_folder())
        if failure_part:
            closing["failure"] = failure_part
        try:
            self._closing = Deadline("closing", lambda: self._report_end(closing))
        except (
            RuntimeError
        ):  # an interpreter that shuts down starts no thread (Python 3.12.0 and 3.12.1 even here)
            self._report_end(closing)

    def _report_end(self, closing: Dict[str, Any]) -> None:
        forwarded = closing if self._reporter is None else None
        self._figures = daemon_link.end_run(
            self._startup.daemon, self.uuid, cpu_us=0, closing=forwarded, process_continues=True
        )
        self._daemon_ended.set()
        if self._background_hash is not None:
            self._background_hash.stop()
        if self._figures is not None:
            closing["energy_mj"] = int(self._figures["energy_mj"])
        if self._reporter is None:
            return
        facts = self._payload.facts(self._startup.daemon, self._startup.survey.wire)
        try:
            if self._reporter.finish(facts, closing):
                return
        except RuntimeError:
            self._reporter.wait(_PENDING_SEND_S)
            self._reporter.error = "this Python starts no thread at its end"
        if not daemon_link.forward_later(
            self._startup.daemon, self.uuid, facts=facts, closing=closing
        ):
            self.unreported = self._reporter.error


_LATE_PARAMS_NOTE = (
    (
        "  Compared by code, command line and data. Parameters logged to MLflow later are unknown "
        "at this point."
    ),
)


def notify(text: str) -> None:
    """Print one line to standard error."""
    print(f"labcarbon: {text}", file=sys.stderr, flush=True)


def _ignore_warning(warning: str) -> None:
    """Ignore warnings about later runs (an unknown project). They repeat that of the first."""


def _process_spec(
    name: Optional[str], environ: Mapping[str, str], first_survey: Optional[Survey]
) -> _ProcessSpec:
    intent = environ.get("LABCARBON_INTENT", "") or "train"
    if intent not in INTENTS:
        if first_survey is None:
            notify(f"LABCARBON_INTENT={intent} is not one of {', '.join(INTENTS)}: train is used")
        intent = "train"
    return _ProcessSpec(
        process_facts.start_command(),
        environ.get("LABCARBON_PROJECT") or None,
        name,
        {},
        {},
        "",
        intent,
        environ.get("LABCARBON_SWEEP", ""),
        None,
        enforce=environ.get("LABCARBON_ENFORCE", "").lower() in _TRUE_VALUES,
        first_survey=first_survey,
    )
