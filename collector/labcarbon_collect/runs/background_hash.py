"""Background hashing of a run's data: the child process, its messages and its end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from contextlib import suppress
from typing import Any, Callable, Dict, Mapping, Optional

from labcarbon_collect.fingerprint.builder import Survey, home_text
from labcarbon_collect.lc1 import VERSION

BYTES_PER_S, MAX_BYTES = 200_000_000, 200_000_000_000
NEARLY_DONE_SHARE, NEARLY_DONE_WAIT_S = 0.9, 1.0
_UNBOUNDED = 1 << 62
# A shell that starts the worker and exits, so that the worker is no child of this process and its
# own waits never return it.
DETACHED_SHELL = ("sh", "-c", 'exec 3<&0; "$@" <&3 3<&- &', "sh")


class BackgroundHash:
    """A child process that hashes what ``survey`` left out. A thread passes the new fingerprint
    parts to ``on_ready``, if any.
    """

    def __init__(
        self,
        survey: Survey,
        environ: Mapping[str, str],
        on_ready: Callable[[Dict[str, Any]], None],
        *,
        on_progress: Optional[Callable[[int, int], None]] = None,
        is_unbounded: bool = False,
        is_detached: bool = False,
    ) -> None:
        """Start the child. Raises OSError.

        ``is_unbounded``: no limits of rate and size, because the caller waits. ``is_detached``:
        this process is the user's own and gets no child.
        """
        self._on_ready, self._on_progress = on_ready, on_progress
        self._fraction, self.error = 0.0, ""
        request = {
            "data": survey.data,
            "start": survey.start,
            "home": home_text(environ),
            "bytes_per_s": _UNBOUNDED if is_unbounded else BYTES_PER_S,
            "most_bytes": _UNBOUNDED if is_unbounded else MAX_BYTES,
        }
        # The child has its own session because terminal signals are meant for the command. It ends
        # when this end of the pipe closes.
        self._child = subprocess.Popen(
            [
                *(DETACHED_SHELL if is_detached else ()),
                sys.executable,
                "-m",
                "labcarbon_collect.fingerprint.hash_worker",
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            env=child_environment(environ),
        )
        assert self._child.stdin is not None
        try:
            self._child.stdin.write(json.dumps(request).encode("utf-8", "surrogateescape") + b"\n")
            self._child.stdin.flush()
        except OSError:
            self.error = "the hash process could not be started"
        if is_detached:
            self._child.wait()
        self._thread = threading.Thread(target=self._read_messages, name="digest", daemon=True)
        self._thread.start()

    def wait(self) -> None:
        """Wait for the end of the hashing."""
        self._thread.join()

    def stop(self) -> None:
        """Stop the hashing when the command has ended, unless it is nearly done."""
        if self._fraction >= NEARLY_DONE_SHARE:
            self._thread.join(NEARLY_DONE_WAIT_S)
        if self._child.poll() is None:
            self._child.kill()
        self._child.wait()
        if self._child.stdin is not None:
            with suppress(OSError):
                self._child.stdin.close()  # which ends a detached worker
        self._thread.join(NEARLY_DONE_WAIT_S)

    def _read_messages(self) -> None:
        assert self._child.stdout is not None
        message: Dict[str, Any] = {}
        with self._child.stdout as lines:
            for line in lines:
                try:
                    message = json.loads(line)
                except ValueError:
                    continue
                if message.get("total"):
                    self._fraction = message["done"] / message["total"]
                    if self._on_progress is not None:
                        self._on_progress(message["done"], message["total"])
        self.error = str(message.get("why", "")) or self.error
        fingerprint_parts: Dict[str, Any] = {
            part: message[part] for part in ("data", "start") if part in message
        }
        if fingerprint_parts:
            self._on_ready({"version": VERSION, **fingerprint_parts})


def child_environment(environ: Mapping[str, str]) -> Dict[str, str]:
    """Return the environment in which the child finds this package."""
    folder = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    python_path = environ.get("PYTHONPATH", "")
    return {
        **environ,
        "PYTHONPATH": os.pathsep.join([folder, python_path] if python_path else [folder]),
    }
