"""The startup timeout: how long LabCarbon may delay a command before its start, and again after its
end.

The default is two seconds. A shared file system may need more: starting Python alone can take that
long there.
"""

from __future__ import annotations

import os
from typing import Mapping, Tuple

MIN_S, DEFAULT_S, MAX_S = 0.5, 2.0, 60.0


def read_startup_timeout(environ: Mapping[str, str]) -> Tuple[float, str]:
    """Return the timeout in seconds and the error of the setting, "" without one."""
    text = environ.get("LABCARBON_PATIENCE_S", "")
    try:
        seconds = float(text) if text else DEFAULT_S
    except ValueError:
        seconds = 0.0
    if MIN_S <= seconds <= MAX_S:
        return seconds, ""
    return DEFAULT_S, f"LABCARBON_PATIENCE_S={text[:40]} is not {MIN_S} to {MAX_S:g} seconds: {DEFAULT_S:g} is meant"


STARTUP_TIMEOUT_S, SETTING_ERROR = read_startup_timeout(os.environ)
PART_TIMEOUT_S = STARTUP_TIMEOUT_S / 2  # for a part of it: to look at the work, to hear an answer
SHORT_TIMEOUT_S = STARTUP_TIMEOUT_S / 4
