"""Measures the energy of one machine, says who used it, and pushes it to LabCarbon."""

from __future__ import annotations

import time
from typing import Any

__version__ = "0.1.0"
STARTED_S = time.monotonic()  # what a command may wait is counted from here


def track(**options: Any) -> Any:
    """``with labcarbon_collect.track(project="vision", params=vars(args)) as run``: a script that tells of itself.

    ``project``, ``name``, ``params`` (nested or flat), ``data`` (a path, or role → path), ``start`` (a checkpoint),
    ``intent``, ``sweep``, ``parent``. ``run.log(step, loss=0.25)`` keeps metrics, ``run.check()`` asks whether it was done
    before. ``run.used(path)``, ``run.initialised_from(path)``, ``run.distilled_from(path)`` and
    ``run.produced("best.pt", step=900)`` tell what it read and made.
    """
    from labcarbon_collect.tracking import TrackedRun

    return TrackedRun(**options)


def load_ipython_extension(shell: Any) -> None:
    """``%load_ext labcarbon_collect``: the notebook becomes a run. Never raises."""
    from labcarbon_collect import notebook

    notebook.load(shell)


def unload_ipython_extension(shell: Any) -> None:
    """``%unload_ext labcarbon_collect``: the run ends. Never raises."""
    from labcarbon_collect import notebook

    notebook.unload(shell)
