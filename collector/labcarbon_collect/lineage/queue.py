"""Passes declared artifacts to a process that reads and reports them. Never waits for it and never
fails.
"""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
from contextlib import suppress
from typing import Any, Callable, Dict, List, Mapping, Optional

from labcarbon_collect.fingerprint.builder import home_text
from labcarbon_collect.lineage.messages import title
from labcarbon_collect.runs.background_hash import (
    BYTES_PER_S,
    DETACHED_SHELL,
    MAX_BYTES,
    child_environment,
)

MAX_DECLARATIONS = 10_000
_EXIT_TIMEOUT_S = 1.0
HURRY = '{"hurry": true}\n'


class LineageQueue:
    """Declared artifacts of one run. Starts the process with the first artifact. ``say`` gets at
    most one line of results.
    """

    def __init__(
        self,
        run: str,
        environ: Mapping[str, str],
        *,
        say: Callable[[str], None],
        node: str = "",
        detached: bool = False,
    ) -> None:
        """``node``: node of the paths, "" if unknown. ``detached``: start the process without
        making it a child of this one.
        """
        self._run, self._environ, self._say, self._node, self._detached = (
            run,
            environ,
            say,
            node,
            detached,
        )
        self._child: Optional[subprocess.Popen[bytes]] = None
        self._lines: queue.SimpleQueue[Optional[str]] = queue.SimpleQueue()
        self._thread: Optional[threading.Thread] = None
        self._result: Optional[Dict[str, Any]] = None
        self._refused: List[str] = []
        self._count = 0

    def add(self, artifact: Mapping[str, Any]) -> None:
        """Queue a declared artifact."""
        if self._count >= MAX_DECLARATIONS:
            self.refuse(title(artifact), f"more than {MAX_DECLARATIONS} artifacts in one run")
            return
        if self._child is None and not self._start():
            self.refuse(title(artifact), "the worker process could not be started")
            return
        self._count += 1
        self._lines.put(json.dumps(artifact) + "\n")

    def refuse(self, name: str, why: str) -> None:
        """Record an artifact that cannot be read."""
        self._refused.append(f"{name}: {why}")

    def hurry(self) -> None:
        """The run is over: remaining files are read at full speed."""
        self._lines.put(HURRY)

    def finish(self) -> None:
        """The server knows the run: remaining artifacts are reported."""
        self._lines.put(None)

    def wait(self, wait_s: float) -> bool:
        """Wait for the result. Returns whether it arrived."""
        if self._thread is not None:
            self._thread.join(wait_s)
        return self._thread is None or not self._thread.is_alive()

    def close(self) -> None:
        """Print one line about artifacts that could not be reported, if any."""
        text = self._summary()
        if text:
            self._say(text)

    def _summary(self) -> str:
        if self._thread is not None and self._thread.is_alive():
            artifacts = f"{self._count} artifact{'s' if self._count > 1 else ''} of this run"
            return f"{artifacts}: still being processed in the background, for up to ten minutes"
        result = self._result or {}
        if self._count and self._result is None:
            return "artifacts of this run not recorded: the worker process ended"
        if result.get("why"):
            return f"artifacts of this run not recorded: {result['why']}"
        failed = [*self._refused, *(f"{name}: {why}" for name, why in result.get("failed", []))]
        count = len(self._refused) + int(result.get("lost", 0))
        if not failed:
            return "; ".join(result.get("notes", []))[:300]
        more = f" (and {count - 1} more)" if count > 1 else ""
        return f"artifacts of this run not recorded: {failed[0][:300]}{more}"

    def _start(self) -> bool:
        request = {
            "run": self._run,
            "node": self._node,
            "home": home_text(self._environ),
            "pid": os.getpid(),
            "bytes_per_s": BYTES_PER_S,
            "most_bytes": MAX_BYTES,
        }
        try:
            # A session of its own, so that it gets no signals of the terminal.
            self._child = subprocess.Popen(
                [
                    *(DETACHED_SHELL if self._detached else ()),
                    sys.executable,
                    "-m",
                    "labcarbon_collect.lineage.worker",
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                env=child_environment(self._environ),
            )
        except OSError:
            return False
        if self._detached:
            self._child.wait()
        self._lines.put(json.dumps(request) + "\n")
        self._thread = threading.Thread(target=self._forward, name="lineage", daemon=True)
        self._thread.start()
        return True

    def _forward(self) -> None:
        """Write messages as they arrive, then read the result."""
        child = self._child
        assert child is not None
        assert child.stdin is not None
        assert child.stdout is not None
        try:
            with child.stdin as stdin:
                while True:
                    line = self._lines.get()
                    if line is None:
                        break
                    stdin.write(line.encode("utf-8", "surrogateescape"))
                    stdin.flush()
            with child.stdout as stdout:
                self._result = json.loads(stdout.read())
        except (OSError, ValueError):
            return  # the process ended; the summary reports it
        finally:
            if not self._detached:
                with suppress(subprocess.TimeoutExpired):
                    child.wait(_EXIT_TIMEOUT_S)
