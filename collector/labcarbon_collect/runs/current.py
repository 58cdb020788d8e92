"""Which run this process is already, so that it is told once, whoever else in it would tell of it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import List, Mapping, Optional

from labcarbon_collect.config import RUN_VARIABLE, is_uuid

WRAPPED, TRACKED, MLFLOW, NOTEBOOK = "run", "track", "mlflow", "notebook"


@dataclass(frozen=True)
class Here:
    """A run that goes on. ``by``: what began it; ``pid``: the process that did, of which this one may be a fork."""

    uuid: str
    by: str
    pid: int

    @property
    def forked(self) -> bool:
        return self.by != WRAPPED and self.pid != os.getpid()


_begun: List[Here] = []


def run_here(environ: Mapping[str, str]) -> Optional[Here]:
    """The run that this process is: that of ``labcarbon-collect run``, else the innermost that was begun in it."""
    outer = environ.get(RUN_VARIABLE, "")
    if is_uuid(outer):
        return Here(outer, WRAPPED, 0)
    return _begun[-1] if _begun else None


def begin(uuid: str, by: str) -> None:
    """This process is that run from now on."""
    _begun.append(Here(uuid, by, os.getpid()))


def end(uuid: str) -> None:
    """It is that run no longer."""
    _begun[:] = [each for each in _begun if each.uuid != uuid]
