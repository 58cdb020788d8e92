"""The work's side of telling what it read and made: hands it to a process of its own, never waits for it, never fails."""

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
from labcarbon_collect.runs.background_hash import BYTES_PER_S, DETACHED_SHELL, MOST_BYTES, child_environment

MOST_DECLARED = 10_000
_END_S = 1.0
HURRY = '{"hurry": true}\n'


class LineageJob:
    """What one run declares. Starts a process when something is declared first; ``say`` gets at most one line of it."""

    def __init__(
        self, run: str, environ: Mapping[str, str], *, say: Callable[[str], None], node: str = "", apart: bool = False
    ) -> None:
        """``node``: that the paths lie on, "" where it is not known; ``apart``: this process is somebody's work, and gets no
        child."""
        self._run, self._environ, self._say, self._node, self._apart = run, environ, say, node, apart
        self._child: Optional[subprocess.Popen[bytes]] = None
        self._lines: queue.SimpleQueue[Optional[str]] = queue.SimpleQueue()
        self._thread: Optional[threading.Thread] = None
        self._answer: Optional[Dict[str, Any]] = None
        self._refused: List[str] = []
        self._count = 0

    def add(self, told: Mapping[str, Any]) -> None:
        """Have something that was declared read and told."""
        if self._count >= MOST_DECLARED:
            self.refuse(title(told), f"more than {MOST_DECLARED} artifacts of one run are not taken")
            return
        if self._child is None and not self._start():
            self.refuse(title(told), "the process that reads it could not be started")
            return
        self._count += 1
        self._lines.put(json.dumps(told) + "\n")

    def refuse(self, name: str, why: str) -> None:
        """Note something that cannot even be read."""
        self._refused.append(f"{name}: {why}")

    def hurry(self) -> None:
        """The work is over: what is left is read as fast as it goes."""
        self._lines.put(HURRY)

    def over(self) -> None:
        """The server was told of the run: it is told of the rest."""
        self._lines.put(None)

    def wait(self, wait_s: float) -> bool:
        """Wait for the answer; whether it came."""
        if self._thread is not None:
            self._thread.join(wait_s)
        return self._thread is None or not self._thread.is_alive()

    def close(self) -> None:
        """Say what could not be told, in one line; nothing where all was."""
        text = self._summary()
        if text:
            self._say(text)

    def _summary(self) -> str:
        if self._thread is not None and self._thread.is_alive():
            many = f"{self._count} artifact{'s' if self._count > 1 else ''} of this run"
            return f"{many} cannot all be told yet: that is gone on with for up to ten minutes"
        answer = self._answer or {}
        if self._count and self._answer is None:
            return "what this run read and made could not be told: the process that reads it ended"
        if answer.get("why"):
            return f"what this run read and made is not told: {answer['why']}"
        lost = [*self._refused, *(f"{name}: {why}" for name, why in answer.get("failed", []))]
        count = len(self._refused) + int(answer.get("lost", 0))
        if not lost:
            return "; ".join(answer.get("notes", []))[:300]
        more = f" (and {count - 1} more)" if count > 1 else ""
        return f"not told of what this run read and made: {lost[0][:300]}{more}"

    def _start(self) -> bool:
        asked = {
            "run": self._run, "node": self._node, "home": home_text(self._environ), "pid": os.getpid(),
            "bytes_per_s": BYTES_PER_S, "most_bytes": MOST_BYTES,
        }  # fmt: skip
        try:
            # A session of its own: what the terminal sends is meant for the work.
            self._child = subprocess.Popen(
                [*(DETACHED_SHELL if self._apart else ()), sys.executable, "-m", "labcarbon_collect.lineage.worker"],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True,
                env=child_environment(self._environ),
            )  # fmt: skip
        except OSError:
            return False
        if self._apart:
            self._child.wait()
        self._lines.put(json.dumps(asked) + "\n")
        self._thread = threading.Thread(target=self._hand_on, name="lineage", daemon=True)
        self._thread.start()
        return True

    def _hand_on(self) -> None:
        """Write lines as they come, then take the answer."""
        child = self._child
        assert child is not None
        assert child.stdin is not None
        assert child.stdout is not None
        try:
            with child.stdin as given:
                while True:
                    line = self._lines.get()
                    if line is None:
                        break
                    given.write(line.encode("utf-8", "surrogateescape"))
                    given.flush()
            with child.stdout as told:
                self._answer = json.loads(told.read())
        except (OSError, ValueError):
            return  # its process was ended: the summary says so
        finally:
            if not self._apart:
                with suppress(subprocess.TimeoutExpired):
                    child.wait(_END_S)
