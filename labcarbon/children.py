"""The processes that `make run` starts, watches and stops."""

import ctypes
import logging
import os
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

log = logging.getLogger(__name__)

_PR_SET_PDEATHSIG = 1
_STOP_S = 15.0
_BACKOFF_MAX_S = 60.0


def die_with_parent(number: int = signal.SIGTERM) -> None:
    """Ask the kernel to end this process with signal ``number`` when its parent is gone, however it went."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(number))


@dataclass
class Child:
    """One supervised process: started again, with back-off, when it ends unasked."""

    name: str
    command: Sequence[str]
    log_path: Path
    environ: dict[str, str]
    process: subprocess.Popen[bytes] | None = None
    failures: int = 0
    not_before: float = 0.0
    started: float = field(default=0.0)

    def start(self) -> None:
        """Start the process; its output goes to the log file."""
        with self.log_path.open("ab") as output:
            self.process = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={**os.environ, **self.environ},
                start_new_session=True,  # Ctrl-C reaches the launcher alone, which stops them in order
                preexec_fn=die_with_parent,
            )
        self.started = time.monotonic()

    def watch(self) -> str:
        """Start the process again if it ended and its time has come; return what to tell the user, or ''."""
        if self.process is None:
            if time.monotonic() >= self.not_before:
                self.start()
            return ""
        code = self.process.poll()
        if code is None:
            if self.failures and time.monotonic() - self.started > _BACKOFF_MAX_S:
                self.failures = 0
            return ""
        self.process = None
        self.failures += 1
        wait = min(2.0 ** min(self.failures, 6), _BACKOFF_MAX_S)
        self.not_before = time.monotonic() + wait
        return f"The {self.name} ended (exit code {code}); starting it again in {wait:.0f} s. Its words: {self.log_path}"

    def stop(self) -> None:
        """Ask the process to end; after a while, make it."""
        if self.process is None or self.process.poll() is not None:
            return
        self.process.terminate()
        try:
            self.process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            log.warning("the %s did not stop within %.0f s", self.name, _STOP_S)
            self.process.kill()
            self.process.wait()
