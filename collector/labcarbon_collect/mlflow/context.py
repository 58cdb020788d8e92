"""What MLflow calls before it creates a run: its entry point group ``mlflow.run_context_provider`` (docs/mlflow.md).

MLflow imports this wherever it is itself imported: the rest of this package is, when a run begins.
"""

from __future__ import annotations

import inspect
import os
import sys
import time
from types import FrameType
from typing import Any, Dict, Mapping, Optional

_PACKAGE, _REGISTRY = "labcarbon_collect", "mlflow.tracking.context"
_START_FUNCTION = "start_run"
_FALSE_VALUES = ("off", "0", "no", "false")


class RunContext:
    """One for each process. An error of ours is one line and no tags; only ``LABCARBON_ENFORCE`` ends a script."""

    def in_context(self) -> bool:
        """Whether we are wanted here."""
        return os.environ.get("LABCARBON_MLFLOW", "").strip().lower() not in _FALSE_VALUES

    def tags(self) -> Dict[str, str]:
        """Tags for the run that MLflow is about to create, after the server was asked. Raises SystemExit to keep it back."""
        started_s = time.monotonic()
        given_tags = caller_tags(inspect.currentframe())
        if given_tags is None:
            return {}
        try:
            from labcarbon_collect.mlflow import process

            return process.tags(given_tags, started_s)
        except Exception as problem:  # noqa: BLE001 - whatever is wrong with us, the run begins
            print(f"labcarbon: this run is not told: {type(problem).__name__}: {problem}", file=sys.stderr, flush=True)
            return {}


def caller_tags(frame: Optional[FrameType]) -> Optional[Mapping[str, Any]]:
    """What the caller wants the run to be tagged with; None where no run is about to begin.

    MLflow asks for the same tags where it describes a trace, a model or a data set. A run begins where ``start_run`` asks,
    or a program that is not MLflow's (Lightning's logger).
    """
    tags: Any = None
    while frame is not None:
        module = str(frame.f_globals.get("__name__", ""))
        if module.startswith(_REGISTRY):
            tags = frame.f_locals.get("tags")
        elif module.partition(".")[0] != _PACKAGE:
            starts_run = module.partition(".")[0] != "mlflow" or frame.f_code.co_name == _START_FUNCTION
            return (tags if isinstance(tags, Mapping) else {}) if starts_run else None
        frame = frame.f_back
    return None
