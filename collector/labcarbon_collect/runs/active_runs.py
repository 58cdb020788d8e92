"""The active runs of this process. Each run is reported by one reporter only."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import List, Mapping, Optional

from labcarbon_collect.config import RUN_VARIABLE, is_uuid

WRAPPED, TRACKED, MLFLOW, NOTEBOOK = "run", "track", "mlflow", "notebook"


@dataclass(frozen=True)
class ActiveRun:
    """An active run. ``source``: what started it. ``pid``: the process that started it; this
    process may be a fork of it.
    """

    uuid: str
    source: str
    pid: int

    @property
    def is_fork(self) -> bool:
        return self.source != WRAPPED and self.pid != os.getpid()


_active_runs: List[ActiveRun] = []


def active_run(environ: Mapping[str, str]) -> Optional[ActiveRun]:
    """Return the active run: that of ``labcarbon-collect run``, else the innermost one started in
    this process.
    """
    outer = environ.get(RUN_VARIABLE, "")
    if is_uuid(outer):
        return ActiveRun(outer, WRAPPED, 0)
    return _active_runs[-1] if _active_runs else None


def activate(uuid: str, source: str) -> None:
    """Make a run the active one of this process."""
    _active_runs.append(ActiveRun(uuid, source, os.getpid()))


def deactivate(uuid: str) -> None:
    """Remove a run from the active ones."""
    _active_runs[:] = [run for run in _active_runs if run.uuid != uuid]
