"""Which run this process is already, so that it is told once, whoever else in it would tell of it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import List, Mapping, Optional

from labcarbon_collect.config import RUN_VARIABLE, is_uuid

WRAPPED, TRACKED, MLFLOW, NOTEBOOK = "run", "track", "mlflow", "notebook"


@dataclass(frozen=True)
class ActiveRun:
    """A run that goes on. ``by``: what began it; ``pid``: the process that did, of which this one may be a fork."""

    uuid: str
    source: str
    pid: int

    @property
    def is_fork(self) -> bool:
        return self.source != WRAPPED and self.pid != os.getpid()


_active_runs: List[ActiveRun] = []


def active_run(environ: Mapping[str, str]) -> Optional[ActiveRun]:
    """The run that this process is: that of ``labcarbon-collect run``, else the innermost that was begun in it."""
    outer = environ.get(RUN_VARIABLE, "")
    if is_uuid(outer):
        return ActiveRun(outer, WRAPPED, 0)
    return _active_runs[-1] if _active_runs else None


def activate(uuid: str, source: str) -> None:
    """This process is that run from now on."""
    _active_runs.append(ActiveRun(uuid, source, os.getpid()))


def deactivate(uuid: str) -> None:
    """It is that run no longer."""
    _active_runs[:] = [run for run in _active_runs if run.uuid != uuid]
