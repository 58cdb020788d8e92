"""A training script as a run: ``with labcarbon_collect.track(project="vision", params=vars(args))
as run``.

The start delays the script by at most a quarter of LABCARBON_STARTUP_TIMEOUT_S (0.5 s), the end by
a few seconds. No error of this module makes the script fail. Below ``labcarbon-collect run`` or
within a reported MLflow run, the script joins that run. Of several ranks only the first one
reports.
"""

from __future__ import annotations

import os
import sys
import threading
import time
import uuid
from types import TracebackType
from typing import Any, Dict, Mapping, Optional, Set, Type, Union

from labcarbon_collect.api.preflight import PreflightRequest, PreflightResponse
from labcarbon_collect.api.run_client import RunReporter
from labcarbon_collect.config import Login, read_login
from labcarbon_collect.figure_text import summary_line
from labcarbon_collect.files.read_limits import Budget, Deadline
from labcarbon_collect.fingerprint.builder import Survey, survey
from labcarbon_collect.lc1 import flatten
from labcarbon_collect.lineage.declare import LineageDeclarations
from labcarbon_collect.node_identity import ConfigurationError
from labcarbon_collect.pseudonyms import current_user_name, safe_user_names
from labcarbon_collect.redaction import MASK, is_secret_name, is_secret_value, mask_argument
from labcarbon_collect.runs import active_runs, daemon_link, failure, preflight_text, process_facts
from labcarbon_collect.runs import facts as run_facts
from labcarbon_collect.runs.metrics import MetricSender, parse_points
from labcarbon_collect.runs.probe_reports import StepReports
from labcarbon_collect.runs.process_facts import exit_code
from labcarbon_collect.runs.startup import await_reply, start_preflight
from labcarbon_collect.slurm.jobs import current_job_key
from labcarbon_collect.startup_timeout import SETTING_WARNING, SHORT_TIMEOUT_S, STARTUP_TIMEOUT_S

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
        checkpoint: Union[str, os.PathLike[str], None] = None,
        start: Union[str, os.PathLike[str], None] = None,
        intent: str = "train",
        sweep: str = "",
        parent: Optional[str] = None,
    ) -> None:
        if start is not None:
            _warn_deprecated("track(start=…)", "track(checkpoint=…)")
            if checkpoint is not None:
                notify("track(): start and checkpoint are both given. checkpoint is used.")
        outer = active_runs.active_run(os.environ)
        is_joined = outer is not None and outer.source in (active_runs.WRAPPED, active_runs.MLFLOW)
        self.is_joined = (
            is_joined  # ``labcarbon-collect run`` or MLflow started the run and ends it
        )
        self.uuid = outer.uuid if outer is not None and is_joined else str(uuid.uuid4())
        self.is_silent = not process_facts.is_first_rank(os.environ)
        self._command = process_facts.start_command()
        self._params = mask_params(
            params if isinstance(params, Mapping) else vars(params) if params else {}
        )
        self._project, self._name = project, name
        self._extra_facts = {"intent": intent}
        self._extra_facts.update(
            {key: text[:100] for key, text in (("sweep", sweep), ("parent", parent)) if text}
        )
        self._data, self._checkpoint, self._sweep, self._intent = (
            role_paths(data),
            os.fspath(checkpoint or start or ""),
            sweep,
            intent,
        )
        self._started_us = time.time_ns() // 1000
        self._daemon = daemon_link.DaemonLink()
        self._login = _login()
        if SETTING_WARNING and not (is_joined or self.is_silent):
            notify(SETTING_WARNING)
        self._ready = threading.Event()
        self._nan_since: Optional[int] = None
        self._ended, self._pid = False, os.getpid()
        self._reporter: Optional[RunReporter] = None
        self._survey_call: Optional[Deadline[Survey]] = None
        self._registration: Optional[Deadline[None]] = None
        self._sender = MetricSender(
            None if self.is_silent else self._login,
            self.uuid,
            is_registered=self._ready,
            notify=notify,
        )
        self._step_reports = StepReports(os.environ)
        self._lineage = LineageDeclarations(self.uuid, os.environ, quiet=self.is_silent, say=notify)
        self.log_input, self.log_output = self._lineage.log_input, self._lineage.log_output
        self.init_from, self.distilled_from = self._lineage.init_from, self._lineage.distilled_from

    def __enter__(self) -> TrackedRun:  # noqa: PYI034 - Self requires Python 3.11
        if not self.is_silent:
            self._start()
        return self

    def __exit__(
        self,
        error_type: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        try:
            self._finish(error)
        except Exception as problem:  # noqa: BLE001 - the script's own result counts
            notify(f"This run could not be closed: {type(problem).__name__}: {problem}")

    def log(self, step: int, **metrics: Any) -> None:
        """Queue metrics of a step for upload in the background: ``run.log(100, loss=0.25,
        val_acc=0.9)``.
        """
        if self.is_silent:
            return
        points, invalid_names = parse_points(step, metrics, time.time_ns() // 1000)
        if invalid_names:
            self._sender.warn_first(
                f"Not a number, so not stored as a metric: {', '.join(invalid_names)}"
            )
        for name, at, value, _ in points:
            if "loss" in name.lower():
                self._note_loss(name, at, value)
        self._sender.add(points)
        self._step_reports.report(step)

    @property
    def joined(self) -> bool:
        """Former name of :attr:`is_joined`."""
        _warn_deprecated("run.joined", "run.is_joined")
        return self.is_joined

    @property
    def quiet(self) -> bool:
        """Former name of :attr:`is_silent`."""
        _warn_deprecated("run.quiet", "run.is_silent")
        return self.is_silent

    def used(self, *args: Any, **facts: Any) -> None:
        """Former name of :meth:`log_input`."""
        _warn_deprecated("run.used", "run.log_input")
        self.log_input(*args, **facts)

    def produced(self, *args: Any, **facts: Any) -> None:
        """Former name of :meth:`log_output`."""
        _warn_deprecated("run.produced", "run.log_output")
        self.log_output(*args, **facts)

    def initialised_from(self, *args: Any, **facts: Any) -> None:
        """Former name of :meth:`init_from`."""
        _warn_deprecated("run.initialised_from", "run.init_from")
        self.init_from(*args, **facts)

    def check(self) -> Optional[PreflightResponse]:
        """Check for duplicates, print the response and return it. Returns None without a response
        in time.
        """
        if self.is_silent:
            return None
        try:
            return self._check()
        except Exception as problem:  # noqa: BLE001 - the script continues
            notify(f"Duplicate check skipped: {type(problem).__name__}: {problem}")
            return None

    def _start(self) -> None:
        """Register this process with the daemon and compute its fingerprint in the background."""
        if self.is_joined:
            self._ready.set()
            return
        active_runs.activate(self.uuid, active_runs.TRACKED)
        self._survey_call = Deadline("this", self._survey)
        registration = Deadline(
            "daemon", lambda: daemon_link.register(self.uuid, os.getpid(), facts=self._forwarded())
        )
        self._daemon = registration.wait(Budget(SHORT_TIMEOUT_S)) or daemon_link.DaemonLink(
            error="no response from the daemon in time"
        )
        self._lineage.node = self._daemon.node or ""
        self._registration = Deadline("telling", self._register)

    def _forwarded(self) -> Optional[Dict[str, Any]]:
        return self._facts({}) if self._login is None else None

    def _survey(self) -> Survey:
        return survey(
            self._command,
            cwd=process_facts.start_folder(),
            environ=os.environ,
            declared_params=self._params,
            declared_data=self._data,
            declared_start=self._checkpoint,
            intent=self._intent,
            sweep=self._sweep,
            seconds=STARTUP_TIMEOUT_S,
        )

    def _register(self) -> None:
        """Report the run with its fingerprint to the server, or forward the fingerprint to the
        daemon.
        """
        wire = self._fingerprint_wire()
        if self._login is not None:
            self._reporter = RunReporter(
                self._login, self.uuid, notify=notify, timeout_s=STARTUP_TIMEOUT_S
            )
            self._reporter.start(self._facts(wire))
            self._reporter.wait(STARTUP_TIMEOUT_S)
        elif wire and self._daemon.client is not None:
            daemon_link.forward_detached(
                self.uuid,
                closing={
                    "fingerprint": run_facts.pseudonymise_fingerprint(wire, self._daemon.user)
                },
            )
        self._ready.set()

    def _fingerprint_wire(self) -> Dict[str, Any]:
        if self._survey_call is None:
            self._survey_call = Deadline("this", self._survey)
        survey_result = self._survey_call.wait(Budget(STARTUP_TIMEOUT_S + 1.0))
        return survey_result.wire if survey_result is not None else {}

    def _facts(self, wire: Mapping[str, Any]) -> Dict[str, Any]:
        user = (
            safe_user_names(os.environ).public_name(current_user_name())
            if self._daemon.user is None
            else self._daemon.user
        )
        facts = run_facts.start_facts(
            command=self._command,
            project=self._project,
            name=self._name,
            params=self._params,
            node=self._daemon.node,
            started_us=self._started_us,
            user=user,
        )
        facts.update(self._extra_facts)
        if wire:
            facts["fingerprint"] = run_facts.pseudonymise_fingerprint(wire, user)
        return facts

    def _check(self) -> Optional[PreflightResponse]:
        if self._login is None:
            notify(
                "Duplicate check skipped: you are not logged in. Log in with: labcarbon-collect "
                "login URL"
            )
            return None
        budget = Budget(STARTUP_TIMEOUT_S)
        facts = self._facts(self._fingerprint_wire())
        parent = self._extra_facts.get("parent")
        request = PreflightRequest(
            facts.get("fingerprint", {}),
            facts["name"],
            self._project,
            self.uuid,
            parent,
            current_job_key(os.environ),
        )
        response, error = await_reply(
            start_preflight(self._login, request, budget), self._login.url, budget
        )
        if response is None:
            notify(f"Duplicate check skipped: {error}")
            return None
        for line in preflight_text.format_response(response):
            print(line, file=sys.stderr, flush=True)
        return response

    def _note_loss(self, name: str, step: int, value: float) -> None:
        if value == value:
            self._nan_since = None
        elif self._nan_since is None:
            self._nan_since = step
            notify(f"{name} is not a number since step {step}")

    def _finish(self, error: Optional[BaseException]) -> None:
        if self.is_silent or self._ended or os.getpid() != self._pid:
            return  # a fork of the script ends, not the script
        self._ended = True
        self._lineage.over()
        if not self.is_joined:
            active_runs.deactivate(self.uuid)
        closing = self._closing(error)
        if self._registration is not None:
            self._registration.wait(Budget(STARTUP_TIMEOUT_S))
        figures = None
        if not self.is_joined:
            forwarded = closing if self._login is None else None
            figures = daemon_link.end_run(
                self._daemon, self.uuid, cpu_us=0, closing=forwarded, process_continues=True
            )
            if figures is not None:
                closing["energy_mj"] = int(figures["energy_mj"])
        elif "failure" in closing:
            closing = {"failure": closing["failure"]}
        unsent = self._sender.close(STARTUP_TIMEOUT_S)
        if unsent:
            self._sender.warn_first(f"{unsent} metric points were not sent")
        self._report_end(closing)
        self._lineage.close()
        if figures is not None:
            self._print_figures(figures)

    def _closing(self, error: Optional[BaseException]) -> Dict[str, Any]:
        closing = run_facts.closing_facts(
            exit_code=exit_code(error),
            killed=isinstance(error, KeyboardInterrupt),
            ended_us=time.time_ns() // 1000,
        )
        failure_part = failure.failure_facts(
            error, os.getcwd(), has_nan_loss=self._nan_since is not None
        )
        return {**closing, "failure": failure_part} if failure_part else closing

    def _report_end(self, closing: Mapping[str, Any]) -> None:
        if self._login is None:
            return
        if self.is_joined:
            if "failure" in closing:
                reporter = RunReporter(
                    self._login, self.uuid, notify=notify, timeout_s=STARTUP_TIMEOUT_S
                )
                Deadline("failure", lambda: reporter.patch(closing)).wait(Budget(STARTUP_TIMEOUT_S))
            return
        reporter = self._reporter or RunReporter(
            self._login, self.uuid, notify=notify, timeout_s=STARTUP_TIMEOUT_S
        )
        facts = self._facts(self._fingerprint_wire())
        if not reporter.finish(facts, closing):
            is_forwarded = daemon_link.forward_later(
                self._daemon, self.uuid, facts=facts, closing=closing
            )
            if is_forwarded:
                notify(
                    "The server is unavailable. The daemon forwards the run later. "
                    f"({reporter.error})"
                )
            else:
                notify(f"The server does not know this run: {reporter.error}")

    def _print_figures(self, figures: Mapping[str, Any]) -> None:
        server = self._login.url if self._login else self._daemon.url
        line = summary_line(
            figures, link=f"{server}/runs/{self.uuid}/" if server else "", server=server
        )
        print(line, file=sys.stderr, flush=True)


def mask_params(params: Mapping[str, Any]) -> Dict[str, Any]:
    """Return parameters as they are sent: flat, plain values, with likely secrets masked."""
    masked: Dict[str, Any] = {}
    for name, value in flatten(params).items():
        plain_value = (
            value if isinstance(value, (int, float, bool, type(None))) else str(value)[:1024]
        )
        is_secret = is_secret_name(name) or (
            isinstance(plain_value, str) and is_secret_value(plain_value)
        )
        masked[mask_argument(name)[:256]] = MASK if is_secret else plain_value
    return masked


def role_paths(data: Paths) -> Dict[str, str]:
    """Return a mapping from role to path."""
    if data is None:
        return {}
    if isinstance(data, Mapping):
        return {str(role): os.fspath(path) for role, path in data.items()}
    return {"data": os.fspath(data)}


def notify(text: str) -> None:
    """Print one line to standard error."""
    print(f"labcarbon: {text}", file=sys.stderr, flush=True)


_deprecated_names: Set[str] = set()


def _warn_deprecated(former: str, name: str) -> None:
    """Print the deprecation line of a former name, but only the first time."""
    if former not in _deprecated_names:
        _deprecated_names.add(former)
        notify(f"{former} is deprecated: use {name}")


def _login() -> Optional[Login]:
    try:
        return read_login(os.environ)
    except ConfigurationError as refused:
        notify(str(refused))
        return None
