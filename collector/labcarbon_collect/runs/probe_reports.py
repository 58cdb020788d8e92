"""Steps that a script reports to ``labcarbon-collect plan --probe``, which measures it."""

from __future__ import annotations

import os
import time
from typing import Mapping, Optional

PROBE_VARIABLE = "LABCARBON_PROBE"  # "1" in the environment of a probed command
STEPS_VARIABLE = "LABCARBON_PROBE_STEPS"  # file in which reported steps are collected
COUNT_VARIABLE = "LABCARBON_PROBE_STEP_COUNT"  # the probe ends after so many steps
_HOLD_S = 10.0  # for the signal that ends the probe at a step boundary


class StepReports:
    """Appends each reported step to the file of the probe, if there is one. ``report`` raises
    nothing of its own.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._path = environ.get(STEPS_VARIABLE, "")
        count = environ.get(COUNT_VARIABLE, "")
        self._count = int(count) if count.isdecimal() else 0
        self._file: Optional[int] = None
        self._first: Optional[int] = None

    def report(self, step: int) -> None:
        """Report that a step is done. After the last step of the probe, wait for its signal."""
        if not self._path:
            return
        try:
            number = int(step)
            if self._file is None:
                flags = os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC
                self._file = os.open(self._path, flags)
            os.write(self._file, b"%d %d\n" % (time.monotonic_ns() // 1000, number))
        except (OSError, ValueError, TypeError, OverflowError):
            self._path = ""
            return
        self._first = number if self._first is None else self._first
        if self._count and number - self._first + 1 >= self._count:
            self._path = ""
            time.sleep(_HOLD_S)
