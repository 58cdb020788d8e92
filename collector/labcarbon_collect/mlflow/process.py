"""Which of the runs that MLflow creates in a process are told of, and as what: docs/mlflow.md has the table of tags."""

from __future__ import annotations

import os
import socket
import sys
import threading
from typing import Any, Dict, List, Mapping, Optional

from labcarbon_collect.config import Login, client_sockets, user_login
from labcarbon_collect.files.budget import Budget
from labcarbon_collect.identity import Refused
from labcarbon_collect.mlflow.run import MlflowRun, say
from labcarbon_collect.runs import current, distributed
from labcarbon_collect.runs import distributed as this_process
from labcarbon_collect.runs.current import MLFLOW, NOTEBOOK, Here
from labcarbon_collect.timeouts import PATIENCE_S

RUN_UUID, PART_OF, NODE, HOST = "labcarbon.run_uuid", "labcarbon.part_of", "labcarbon.node", "labcarbon.host"
FINGERPRINT, VERDICT, ASKED = "labcarbon.fingerprint", "labcarbon.verdict_at_start", "labcarbon.asked"
_PARENT, _NAME = "mlflow.parentRunId", "mlflow.runName"
_LOCK_S, _LEAVE_S, _END_S = PATIENCE_S + 1.0, 0.5, 2 * PATIENCE_S
_MOST_LEFT = 8
_lock = threading.Lock()


class _Process:
    """What this process has told. ``run``: the last run it began; ``left``: those before it that are still being closed;
    ``untold``: why of each the server does not know; ``claimed``: runs that a run of MLflow is already."""

    def __init__(self) -> None:
        self.run: Optional[MlflowRun] = None
        self.left: List[MlflowRun] = []
        self.untold: List[str] = []
        self.runs = 0
        self.claimed: set[str] = set()
        self.nobody = False  # neither a login nor a daemon: it was looked for once


_here = _Process()


def tags(given: Mapping[str, Any], begun_s: float) -> Dict[str, str]:
    """The tags of a run that is about to begin. Raises SystemExit to keep it back.

    ``given``: those its script gave; ``begun_s``: since when it waits for us, on the monotonic clock.
    """
    if not _lock.acquire(timeout=_LOCK_S):
        return {}  # forked while another thread held it
    try:
        return _tags(given, begun_s)
    finally:
        _lock.release()


def _tags(given: Mapping[str, Any], begun_s: float) -> Dict[str, str]:
    here = current.run_here(os.environ)
    if _is_part(given, here):
        return _part_of(here)
    if here is not None and here.by != MLFLOW:
        if here.uuid in _here.claimed:
            return _part_of(here)
        _here.claimed.add(here.uuid)
        return {RUN_UUID: here.uuid, HOST: socket.gethostname()}
    return _begun(given, begun_s)


def _is_part(given: Mapping[str, Any], here: Optional[Here]) -> bool:
    """Whether a run is a part of another, or nobody can say of what: it is not asked about."""
    if _PARENT in given or _mlflow_goes_on() or not distributed.is_first(os.environ):
        return True
    if this_process.is_interactive() or this_process.is_worker():
        return True
    if here is None:
        return False
    beside = here.by == MLFLOW and _here.run is not None and _here.run.thread != threading.get_ident()
    return here.forked or here.by == NOTEBOOK or beside


def _mlflow_goes_on() -> bool:
    """Whether a run of MLflow is open in this thread."""
    active = getattr(sys.modules.get("mlflow"), "active_run", None)
    return active is not None and active() is not None


def _part_of(here: Optional[Here]) -> Dict[str, str]:
    if here is None:
        return {}
    told = {PART_OF: here.uuid}
    if _here.run is not None and _here.run.uuid == here.uuid and _here.run.node:
        told[NODE] = _here.run.node
    return told


def _begun(given: Mapping[str, Any], begun_s: float) -> Dict[str, str]:
    """Begin a run of this process, which ends the one before it."""
    if _here.nobody:
        return {}
    login = _login()
    _here.nobody = login is None and not any(path.exists() for path in client_sockets(os.environ))
    if _here.nobody:
        return {}
    before = _here.run
    if before is not None:
        _leave(before)
    run = MlflowRun(name=_text(given.get(_NAME)), login=login, known=before.known if before is not None else None)
    run.begin(begun_s)
    _here.nobody = not run.is_told
    if not run.is_told:
        return {}
    if before is None:
        _at_exit()
    _here.run, _here.runs = run, _here.runs + 1
    told = {RUN_UUID: run.uuid, HOST: socket.gethostname(), FINGERPRINT: run.fingerprint, VERDICT: run.verdict}
    return {**told, **{name: text for name, text in ((NODE, run.node), (ASKED, run.asked)) if text}}


def _leave(run: MlflowRun) -> None:
    """Close a run beside the next one; with a server that is slow, wait a little rather than let them pile up."""
    run.leave()
    _here.left.append(run)
    if len(_here.left) > _MOST_LEFT:
        _here.left[0].wait(Budget(_LEAVE_S))
    _here.untold += [each.untold for each in _here.left if not each.is_closing and each.untold]
    _here.left = [each for each in _here.left if each.is_closing]


def _login() -> Optional[Login]:
    try:
        return user_login(os.environ)
    except Refused as refused:
        if _here.run is None:  # else it was said
            say(str(refused))
        return None


def _text(value: object) -> Optional[str]:
    return value if isinstance(value, str) and value else None


def _at_exit() -> None:
    """Have the last run closed when the process ends, while threads can still be started (not so in atexit)."""
    try:
        threading._register_atexit(_end)  # type: ignore[attr-defined]  # noqa: SLF001 - as concurrent.futures does
    except (AttributeError, RuntimeError):
        say("how this run ends will not be told: this Python ends without a word")


def _end() -> None:
    run = _here.run
    if run is None or run.pid != os.getpid():
        return  # a fork of the script ends, not the script
    try:
        run.close(this_process.uncaught_error())
        patience = Budget(_END_S)
        for each in (*_here.left, run):
            each.wait(patience)
        _here.untold += [each.untold for each in (*_here.left, run) if each.untold]
        if _here.untold:
            which = "this run" if _here.runs == 1 else f"{len(_here.untold)} of this process's {_here.runs} runs"
            say(f"the server does not know of {which}: {_here.untold[-1]}")
        if _here.runs == 1:
            run.say_figures()
    except Exception as wrong:  # noqa: BLE001 - the script ends as it ends
        say(f"this run could not be closed: {type(wrong).__name__}: {wrong}")
