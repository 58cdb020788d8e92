"""``run.log_input(…)`` and ``run.log_output(…)`` of a tracked run. No method raises or waits for
reading.
"""

from __future__ import annotations

import os
from typing import Any, Callable, Dict, Mapping, Optional

from labcarbon_collect.lineage.messages import (
    DISTILLED_FROM,
    INITIALISED_FROM,
    PRODUCED,
    USED,
    ArtifactRef,
    declaration,
)
from labcarbon_collect.lineage.queue import LineageQueue

CLOSE_TIMEOUT_S = 5.0  # maximum delay of a script's end by unreported artifacts


class LineageDeclarations:
    """The artifacts that a run of this process reads and writes."""

    def __init__(
        self, run: str, environ: Mapping[str, str], *, quiet: bool, say: Callable[[str], None]
    ) -> None:
        """``quiet``: another process reports this run."""
        self._run, self._environ, self._quiet, self._say = run, environ, quiet, say
        self._pid, self._has_warned, self._is_over = os.getpid(), False, False
        self._queue: Optional[LineageQueue] = None
        self.node = ""

    def log_input(
        self,
        artifact_ref: ArtifactRef,
        name: str = "",
        *,
        kind: str = "",
        licence: str = "",
        **facts: Any,
    ) -> None:
        """Record that the run reads a file, a folder, or an artifact by its digest."""
        self._declare(USED, artifact_ref, name, kind, licence, facts)

    def log_output(
        self,
        artifact_ref: ArtifactRef,
        name: str = "",
        *,
        kind: str = "",
        licence: str = "",
        **facts: Any,
    ) -> None:
        """Record that the run wrote a file or folder: ``run.log_output("best.pt", step=900)``.
        Call it after writing.
        """
        self._declare(PRODUCED, artifact_ref, name, kind, licence, facts)

    def init_from(
        self,
        artifact_ref: ArtifactRef,
        name: str = "",
        *,
        kind: str = "",
        licence: str = "",
        **facts: Any,
    ) -> None:
        """Record that the run starts from a checkpoint or model."""
        self._declare(INITIALISED_FROM, artifact_ref, name, kind, licence, facts)

    def distilled_from(
        self,
        artifact_ref: ArtifactRef,
        name: str = "",
        *,
        kind: str = "",
        licence: str = "",
        **facts: Any,
    ) -> None:
        """Record that the run is distilled from a model."""
        self._declare(DISTILLED_FROM, artifact_ref, name, kind, licence, facts)

    def over(self) -> None:
        """The run is over: remaining files are read at full speed."""
        self._is_over = True
        if self._queue is not None:
            self._queue.hurry()

    def close(self) -> None:
        """Wait for a short time, then print what could not be reported. The server knows the run by
        now.
        """
        if self._queue is not None:
            self._queue.finish()
            self._queue.wait(CLOSE_TIMEOUT_S)
            self._queue.close()

    def _declare(
        self,
        role: str,
        artifact_ref: ArtifactRef,
        name: str,
        kind: str,
        licence: str,
        facts: Dict[str, Any],
    ) -> None:
        if self._quiet or os.getpid() != self._pid:
            return
        try:
            self._enqueue(
                declaration(role, artifact_ref, name=name, kind=kind, licence=licence, facts=facts)
            )
        except Exception as error:  # noqa: BLE001 - the script goes on
            self._warn(f"{artifact_ref!r:.100} not recorded: {error}")

    def _enqueue(self, artifact: Dict[str, Any]) -> None:
        if self._is_over:
            self._warn("artifacts declared after the end of a run are ignored")
            return
        if self._queue is None:
            self._queue = LineageQueue(
                self._run, self._environ, say=self._say, node=self.node, detached=True
            )
        self._queue.add({**artifact, **_file_stat(artifact)})

    def _warn(self, text: str) -> None:
        if not self._has_warned:
            self._has_warned = True
            self._say(text)


def _file_stat(artifact: Mapping[str, Any]) -> Dict[str, Any]:
    """Return size and mtime of a file, to detect later changes. Empty for a folder, which counts as
    it is read.
    """
    if "path" not in artifact:
        return {}
    try:
        about = os.stat(artifact["path"])
    except OSError:
        return {}  # the worker reports the reason
    return {} if os.path.isdir(artifact["path"]) else {"stood": [about.st_size, about.st_mtime_ns]}
