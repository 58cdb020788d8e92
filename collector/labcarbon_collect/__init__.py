"""Measures the energy of one node, attributes it to consumers, and uploads it to LabCarbon."""

from __future__ import annotations

import time
from typing import Any

__version__ = "0.1.0"
STARTED_S = time.monotonic()  # startup timeouts are counted from this moment


def track(**options: Any) -> Any:
    """Report a script as a run: ``with labcarbon_collect.track(project="vision", params=vars(args))
    as run``.

    Options: ``project``, ``name``, ``params`` (nested or flat), ``data`` (a path, or role → path),
    ``checkpoint`` (a path), ``intent``, ``sweep``, ``parent``. ``run.log(step, loss=0.25)`` stores
    metrics, ``run.check()`` checks for duplicates. ``run.log_input(path)``,
    ``run.init_from(path)``, ``run.distilled_from(path)`` and ``run.log_output("best.pt",
    step=900)`` register artifacts.
    """
    from labcarbon_collect.tracking import TrackedRun

    return TrackedRun(**options)


def load_ipython_extension(shell: Any) -> None:
    """Run ``%load_ext labcarbon_collect``: register the notebook as a run. Never raises."""
    from labcarbon_collect import notebook

    notebook.load(shell)


def unload_ipython_extension(shell: Any) -> None:
    """Run ``%unload_ext labcarbon_collect``: end the run. Never raises."""
    from labcarbon_collect import notebook

    notebook.unload(shell)
