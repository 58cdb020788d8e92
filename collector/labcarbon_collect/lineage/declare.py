"""``run.used(…)`` and ``run.produced(…)`` of a tracked run. No method raises, or waits for what it is told of."""

from __future__ import annotations

import os
from typing import Any, Callable, Dict, Mapping, Optional

from labcarbon_collect.lineage.messages import DISTILLED_FROM, INITIALISED_FROM, PRODUCED, USED, What, declared
from labcarbon_collect.lineage.queue import LineageJob

END_S = 5.0  # that a script waits at its end for what is not told yet


class Declaring:
    """What a run of this process read and made."""

    def __init__(self, run: str, environ: Mapping[str, str], *, quiet: bool, say: Callable[[str], None]) -> None:
        """``quiet``: another process tells of this run."""
        self._run, self._environ, self._quiet, self._say = run, environ, quiet, say
        self._pid, self._said, self._is_over = os.getpid(), False, False
        self._job: Optional[LineageJob] = None
        self.node = ""

    def used(self, what: What, name: str = "", *, kind: str = "", licence: str = "", **facts: Any) -> None:
        """Tell that the run reads a file, a folder, or an artifact by its digest."""
        self._declare(USED, what, name, kind, licence, facts)

    def produced(self, what: What, name: str = "", *, kind: str = "", licence: str = "", **facts: Any) -> None:
        """Tell that the run made a file or folder, which is written by now: ``run.produced("best.pt", step=900)``."""
        self._declare(PRODUCED, what, name, kind, licence, facts)

    def initialised_from(self, what: What, name: str = "", *, kind: str = "", licence: str = "", **facts: Any) -> None:
        """Tell that the run begins from a checkpoint or model."""
        self._declare(INITIALISED_FROM, what, name, kind, licence, facts)

    def distilled_from(self, what: What, name: str = "", *, kind: str = "", licence: str = "", **facts: Any) -> None:
        """Tell that the run learns from a model."""
        self._declare(DISTILLED_FROM, what, name, kind, licence, facts)

    def over(self) -> None:
        """The run is over: what is left is read as fast as it goes."""
        self._is_over = True
        if self._job is not None:
            self._job.hurry()

    def close(self) -> None:
        """The server was told of the run: wait for a moment, and say what could not be told of the rest."""
        if self._job is not None:
            self._job.over()
            self._job.wait(END_S)
            self._job.close()

    def _declare(self, role: str, what: What, name: str, kind: str, licence: str, facts: Dict[str, Any]) -> None:
        if self._quiet or os.getpid() != self._pid:
            return
        try:
            self._add(declared(role, what, name=name, kind=kind, licence=licence, facts=facts))
        except Exception as wrong:  # noqa: BLE001 - the script goes on
            self._complain(f"{what!r:.100} is not told of: {wrong}")

    def _add(self, told: Dict[str, Any]) -> None:
        if self._is_over:
            self._complain("what is told of a run after its end is not taken")
            return
        if self._job is None:
            self._job = LineageJob(self._run, self._environ, say=self._say, node=self.node, apart=True)
        self._job.add({**told, **_stood(told)})

    def _complain(self, text: str) -> None:
        if not self._said:
            self._said = True
            self._say(text)


def _stood(told: Mapping[str, Any]) -> Dict[str, Any]:
    """How a file stands now, so that what is written over it later is not taken for it. A folder counts as it is read."""
    if "path" not in told:
        return {}
    try:
        about = os.stat(told["path"])
    except OSError:
        return {}  # who reads it finds out why
    return {} if os.path.isdir(told["path"]) else {"stood": [about.st_size, about.st_mtime_ns]}
