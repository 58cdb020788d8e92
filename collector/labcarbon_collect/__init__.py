"""Measures the energy of one machine, says who used it, and pushes it to LabCarbon."""

from __future__ import annotations

from typing import Any

__version__ = "0.1.0"


def load_ipython_extension(shell: Any) -> None:
    """``%load_ext labcarbon_collect``: the notebook becomes a run. Never raises."""
    from labcarbon_collect import notebook

    notebook.load(shell)


def unload_ipython_extension(shell: Any) -> None:
    """``%unload_ext labcarbon_collect``: the run ends. Never raises."""
    from labcarbon_collect import notebook

    notebook.unload(shell)
