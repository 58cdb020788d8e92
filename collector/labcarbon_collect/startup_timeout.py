"""The startup timeout: how long LabCarbon may delay a command before its start, and again after its
end.

The default is two seconds. A shared file system may need more: starting Python alone can take that
long there.
"""

from __future__ import annotations

import os
from typing import Mapping, Tuple

MIN_S, DEFAULT_S, MAX_S = 0.5, 2.0, 60.0
VARIABLE, _FORMER = "LABCARBON_STARTUP_TIMEOUT_S", "LABCARBON_PATIENCE_S"


def read_startup_timeout(environ: Mapping[str, str]) -> Tuple[float, str]:
    """Return the timeout in seconds and a warning about the setting, "" without one."""
    name = VARIABLE if environ.get(VARIABLE) or not environ.get(_FORMER) else _FORMER
    deprecation = f"{_FORMER} is deprecated: use {VARIABLE}" if environ.get(_FORMER) else ""
    if deprecation and name == VARIABLE:
        deprecation += f", which is set too and applies. Remove {_FORMER}"
    text = environ.get(name, "")
    try:
        seconds = float(text) if text else DEFAULT_S
    except ValueError:
        seconds = 0.0
    if MIN_S <= seconds <= MAX_S:
        return seconds, deprecation
    warning = f"{name}={text[:40]} is not {MIN_S} to {MAX_S:g} seconds: {DEFAULT_S:g} is used"
    return DEFAULT_S, f"{warning}. {deprecation}" if deprecation else warning


STARTUP_TIMEOUT_S, SETTING_WARNING = read_startup_timeout(os.environ)
PART_TIMEOUT_S = STARTUP_TIMEOUT_S / 2  # for one step: a survey of the command, one response
SHORT_TIMEOUT_S = STARTUP_TIMEOUT_S / 4
