"""One file per kind of meter. :func:`load` imports them; each registers itself."""

from __future__ import annotations

import importlib
from typing import Tuple

# Order of trust: the first source that claims a device keeps it, a real counter before a model of the same package.
ORDER: Tuple[str, ...] = ("nvml", "rapl", "cpu_model", "replay")


def load() -> None:
    """Import every source, so that base.REGISTRY holds them in order of trust."""
    for name in ORDER:
        importlib.import_module(f"{__name__}.{name}")
