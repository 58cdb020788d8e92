"""PyTorch, which is imported only by the commands that need it."""

from __future__ import annotations

import importlib
import re
import sys
from typing import Any

from labcarbon_collect.errors import CommandError

OLDEST = (2, 2)


def import_torch() -> Any:
    """Return the module torch. Raises CommandError if it is missing or too old."""
    oldest = ".".join(map(str, OLDEST))
    advice = (
        f"Install it in this Python environment: {sys.executable} -m pip install 'torch>={oldest}'"
    )
    try:
        torch = importlib.import_module("torch")
    except ImportError as error:
        raise CommandError(f"PyTorch is needed for --model ({error}). {advice}") from error
    version = str(getattr(torch, "__version__", ""))
    numbers = re.match(r"(\d+)\.(\d+)", version)
    if numbers is None or (int(numbers[1]), int(numbers[2])) < OLDEST:
        raise CommandError(f"PyTorch {version or 'of unknown version'} is too old. {advice}")
    for name in (
        "_subclasses.fake_tensor",
        "utils._python_dispatch",
        "utils.flop_counter",
        "autograd.graph",
    ):
        importlib.import_module(f"torch.{name}")
    return torch
