"""The parent's side of hashing data beside the work: a child of its own, its answer, and its end."""

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

BYTES_PER_S, MOST_BYTES = 200_000_000, 200_000_000_000
_NEARLY, _NEARLY_S = 0.9, 1.0
_UNBOUNDED = 1 << 62
# A shell that starts it and ends: whoever waits for any child of this process must not come upon one of ours.
APART = ("sh", "-c", 'exec 3<&0; "$@" <&3 3<&- &', "sh")


class DigestJob:
    """Hashes what ``survey`` left. ``ready`` gets the fingerprint's better parts, in a thread; it is not called in vain."""

    def __init__(
        self,
        survey: Survey,
        environ: Mapping[str, str],
        ready: Callable[[Dict[str, Any]], None],
        *,
        progress: Optional[Callable[[int, int], None]] = None,
        unbounded: bool = False,
        apart: bool = False,
    ) -> None:
        """``unbounded``: as fast as it goes and however much; somebody waits for it. ``apart``: this process is somebody's
        work, and gets no child. Raises OSError.
        """
        self._ready, self._progress = ready, progress
        self._fraction, self.why = 0.0, ""
        asked = {
            "data": survey.data, "start": survey.start, "home": home_text(environ),
            "bytes_per_s": _UNBOUNDED if unbounded else BYTES_PER_S, "most_bytes": _UNBOUNDED if unbounded else MOST_BYTES,
        }  # fmt: skip
        # A session of its own: what the terminal sends is meant for the work. It ends when our end of the pipe closes.
        self._child = subprocess.Popen(
            [*(APART if apart else ()), sys.executable, "-m", "labcarbon_collect.fingerprint.hash_worker"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True,
            env=child_environ(environ),
        )  # fmt: skip
        assert self._child.stdin is not None
        try:
            self._child.stdin.write(json.dumps(asked).encode("utf-8", "surrogateescape") + b"\n")
            self._child.stdin.flush()
        except OSError:
            self.why = "it could not be started"
        if apart:
            self._child.wait()
        self._thread = threading.Thread(target=self._listen, name="digest", daemon=True)
        self._thread.start()

    def wait(self) -> None:
        """Until it is done."""
        self._thread.join()

    def end(self) -> None:
        """The work is done: abandon it, unless it is nearly ready."""
        if self._fraction >= _NEARLY:
            self._thread.join(_NEARLY_S)
        if self._child.poll() is None:
            self._child.kill()
        self._child.wait()
        if self._child.stdin is not None:
            with suppress(OSError):
                self._child.stdin.close()  # which ends one that is apart
        self._thread.join(_NEARLY_S)

    def _listen(self) -> None:
        assert self._child.stdout is not None
        told: Dict[str, Any] = {}
        with self._child.stdout as lines:
            for line in lines:
                try:
                    told = json.loads(line)
                except ValueError:
                    continue
                if told.get("total"):
                    self._fraction = told["done"] / told["total"]
                    if self._progress is not None:
                        self._progress(told["done"], told["total"])
        self.why = str(told.get("why", "")) or self.why
        better: Dict[str, Any] = {part: told[part] for part in ("data", "start") if part in told}
        if better:
            self._ready({"version": VERSION, **better})


def child_environ(environ: Mapping[str, str]) -> Dict[str, str]:
    """The child finds this package where we found it."""
    folder = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    given = environ.get("PYTHONPATH", "")
    return {**environ, "PYTHONPATH": os.pathsep.join([folder, given] if given else [folder])}
