"""The entry point that MLflow calls before it creates a run, in group
``mlflow.run_context_provider`` (docs/mlflow.md).

Every process that imports MLflow imports this module. The rest of the package is imported when a
run starts.
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
    """One per process. On an error it prints one line and returns no tags. Only
    ``LABCARBON_ENFORCE`` ends a script.
    """

    def in_context(self) -> bool:
        """Return whether the provider is enabled."""
        return os.environ.get("LABCARBON_MLFLOW", "").strip().lower() not in _FALSE_VALUES

    def tags(self) -> Dict[str, str]:
        """Return the tags of the run that MLflow is about to create. Raises SystemExit to block a
        duplicate.
        """
        started_s = time.monotonic()
        given_tags = caller_tags(inspect.currentframe())
        if given_tags is None:
            return {}
        try:
            from labcarbon_collect.mlflow import process_runs

            return process_runs.tags(given_tags, started_s)
        except Exception as problem:  # noqa: BLE001 - an error of the collector must not prevent the run
            print(
                f"labcarbon: This run is not reported: {type(problem).__name__}: {problem}",
                file=sys.stderr,
                flush=True,
            )
            return {}


def caller_tags(frame: Optional[FrameType]) -> Optional[Mapping[str, Any]]:
    """Return the tags that the caller gives the run, or None if no run is being created.

    MLflow also requests tags to describe a trace, a model or a data set. A run is created if
    ``start_run`` or a program outside MLflow (Lightning's logger) requests them.
    """
    tags: Any = None
    while frame is not None:
        module = str(frame.f_globals.get("__name__", ""))
        if module.startswith(_REGISTRY):
            tags = frame.f_locals.get("tags")
        elif module.partition(".")[0] != _PACKAGE:
            starts_run = (
                module.partition(".")[0] != "mlflow" or frame.f_code.co_name == _START_FUNCTION
            )
            return (tags if isinstance(tags, Mapping) else {}) if starts_run else None
        frame = frame.f_back
    return None
