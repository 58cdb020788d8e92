"""The process that reads a model file: the file on its input, a JSON object on its output.

``process`` starts it without secrets in its environment, with the request as JSON in its arguments.
"""

import json
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any

from apps.planner.model_files.limits import (
    MEMORY_STATUS,
    LimitsUnavailable,
    filter_system_calls,
    limit_resources,
)


def main() -> None:
    """Read the file under limits, and write its costs or why it is refused."""
    try:
        limit_resources()
        read_costs = _load_reader()
        filter_system_calls()
    except LimitsUnavailable:
        _write({"is_unlimited": True})
        return
    given = {name: tuple(sizes) for name, sizes in json.loads(sys.argv[1])["inputs"].items()}
    try:
        _write(read_costs(sys.stdin.buffer.read(), given))
    except MemoryError:
        os._exit(MEMORY_STATUS)


def _load_reader() -> Callable[..., dict[str, Any]]:
    """Return the function that reads a file, with all its modules: later no file can be opened."""
    from apps.planner.model_files.onnx_reader import read_costs

    return read_costs


def _write(content: Mapping[str, Any]) -> None:
    sys.stdout.write(json.dumps(content, separators=(",", ":")))
    sys.stdout.flush()
