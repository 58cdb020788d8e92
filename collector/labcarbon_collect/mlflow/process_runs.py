"""The MLflow runs of a process: which are reported, and with which tags. The tags are listed in
docs/mlflow.md.
"""

from __future__ import annotations

import os
import socket
import sys
import threading
from typing import Any, Dict, List, Mapping, Optional

from labcarbon_collect.config import Login, client_sockets, read_login
from labcarbon_collect.files.read_limits import Budget
from labcarbon_collect.mlflow.run import MlflowRun, notify
from labcarbon_collect.node_identity import ConfigurationError
from labcarbon_collect.runs import active_runs, process_facts
from labcarbon_collect.runs.active_runs import MLFLOW, NOTEBOOK, ActiveRun
from labcarbon_collect.startup_timeout import STARTUP_TIMEOUT_S

RUN_UUID, PART_OF, NODE, HOST = (
    "labcarbon.run_uuid",
    "labcarbon.part_of",
    "labcarbon.node",
    "labcarbon.host",
)
FINGERPRINT, VERDICT, PREFLIGHT_ID = (
    "labcarbon.fingerprint",
    "labcarbon.verdict_at_start",
    "labcarbon.asked",
)
_PARENT, _NAME = "mlflow.parentRunId", "mlflow.runName"
_LOCK_S, _CLOSE_WAIT_S, _END_S = STARTUP_TIMEOUT_S + 1.0, 0.5, 2 * STARTUP_TIMEOUT_S
_MAX_CLOSING_RUNS = 8
_lock = threading.Lock()


class _Process:
    """The reported runs of this process.

    ``run``: the latest run. ``closing_runs``: earlier runs that are still being closed.
    ``unreported``: the reasons why the server does not know a run. ``claimed``: outer runs that an
    MLflow run already represents.
    """

    def __init__(self) -> None:
        self.run: Optional[MlflowRun] = None
        self.closing_runs: List[MlflowRun] = []
        self.unreported: List[str] = []
        self.run_count = 0
        self.claimed: set[str] = set()
        self.is_disabled = False  # neither login nor daemon, which is checked once


_state = _Process()


def tags(given_tags: Mapping[str, Any], started_s: float) -> Dict[str, str]:
    """Return the tags of a run that is about to be created. Raises SystemExit to block it.

    ``given_tags``: those of the script. ``started_s``: start of its waiting time, on the monotonic
    clock.
    """
    if not _lock.acquire(timeout=_LOCK_S):
        return {}  # forked while another thread held the lock
    try:
        return _tags(given_tags, started_s)
    finally:
        _lock.release()


def _tags(given_tags: Mapping[str, Any], started_s: float) -> Dict[str, str]:
    active = active_runs.active_run(os.environ)
    if _is_part(given_tags, active):
        return _part_of(active)
    if active is not None and active.source != MLFLOW:
        if active.uuid in _state.claimed:
            return _part_of(active)
        _state.claimed.add(active.uuid)
        return {RUN_UUID: active.uuid, HOST: socket.gethostname()}
    return _start_run(given_tags, started_s)


def _is_part(given_tags: Mapping[str, Any], active: Optional[ActiveRun]) -> bool:
    """Return whether a run is a part of another one, or of an unknown one. It then gets no
    duplicate check.
    """
    if (
        _PARENT in given_tags
        or _has_open_mlflow_run()
        or not process_facts.is_first_rank(os.environ)
    ):
        return True
    if process_facts.is_interactive() or process_facts.is_multiprocessing_worker():
        return True
    if active is None:
        return False
    in_other_thread = (
        active.source == MLFLOW
        and _state.run is not None
        and _state.run.thread != threading.get_ident()
    )
    return active.is_fork or active.source == NOTEBOOK or in_other_thread


def _has_open_mlflow_run() -> bool:
    """Return whether an MLflow run is open in this thread."""
    active = getattr(sys.modules.get("mlflow"), "active_run", None)
    return active is not None and active() is not None


def _part_of(active: Optional[ActiveRun]) -> Dict[str, str]:
    if active is None:
        return {}
    tags = {PART_OF: active.uuid}
    if _state.run is not None and _state.run.uuid == active.uuid and _state.run.node:
        tags[NODE] = _state.run.node
    return tags


def _start_run(given_tags: Mapping[str, Any], started_s: float) -> Dict[str, str]:
    """Start a run of this process. The previous one ends."""
    if _state.is_disabled:
        return {}
    login = _login()
    _state.is_disabled = login is None and not any(
        path.exists() for path in client_sockets(os.environ)
    )
    if _state.is_disabled:
        return {}
    previous = _state.run
    if previous is not None:
        _close_in_background(previous)
    run = MlflowRun(
        name=_text(given_tags.get(_NAME)),
        login=login,
        first_survey=previous.first_survey if previous is not None else None,
    )
    run.start_run(started_s)
    _state.is_disabled = not run.is_reported
    if not run.is_reported:
        return {}
    if previous is None:
        _register_exit_handler()
    _state.run, _state.run_count = run, _state.run_count + 1
    tags = {
        RUN_UUID: run.uuid,
        HOST: socket.gethostname(),
        FINGERPRINT: run.fingerprint,
        VERDICT: run.verdict,
    }
    return {
        **tags,
        **{
            name: text
            for name, text in ((NODE, run.node), (PREFLIGHT_ID, run.preflight_id))
            if text
        },
    }


def _close_in_background(run: MlflowRun) -> None:
    """Close a run in the background. With a slow server, wait briefly so that runs do not
    accumulate.
    """
    run.close_in_background()
    _state.closing_runs.append(run)
    if len(_state.closing_runs) > _MAX_CLOSING_RUNS:
        _state.closing_runs[0].wait(Budget(_CLOSE_WAIT_S))
    _state.unreported += [
        closing_run.unreported
        for closing_run in _state.closing_runs
        if not closing_run.is_closing and closing_run.unreported
    ]
    _state.closing_runs = [
        closing_run for closing_run in _state.closing_runs if closing_run.is_closing
    ]


def _login() -> Optional[Login]:
    try:
        return read_login(os.environ)
    except ConfigurationError as refused:
        if _state.run is None:  # else already reported
            notify(str(refused))
        return None


def _text(value: object) -> Optional[str]:
    return value if isinstance(value, str) and value else None


def _register_exit_handler() -> None:
    """Close the last run when the process ends, while threads can still be started (in atexit they
    cannot).
    """
    try:
        threading._register_atexit(_end)  # type: ignore[attr-defined]  # noqa: SLF001 - as concurrent.futures does
    except (AttributeError, RuntimeError):
        notify(
            "The end of this run will not be reported: this Python version has no exit hook for "
            "threads"
        )


def _end() -> None:
    run = _state.run
    if run is None or run.pid != os.getpid():
        return  # a fork of the script ends, not the script
    try:
        run.close(process_facts.uncaught_error())
        timeout = Budget(_END_S)
        for ending_run in (*_state.closing_runs, run):
            ending_run.wait(timeout)
        _state.unreported += [
            ending_run.unreported
            for ending_run in (*_state.closing_runs, run)
            if ending_run.unreported
        ]
        if _state.unreported:
            affected = (
                "this run"
                if _state.run_count == 1
                else f"{len(_state.unreported)} of this process's {_state.run_count} runs"
            )
            notify(f"The server does not know {affected}: {_state.unreported[-1]}")
        if _state.run_count == 1:
            run.print_figures()
    except Exception as problem:  # noqa: BLE001 - the script's own result counts
        notify(f"This run could not be closed: {type(problem).__name__}: {problem}")
