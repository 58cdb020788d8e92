"""Sources: one module for each kind of meter."""

from __future__ import annotations

import importlib
from typing import Mapping, Tuple

# Source name → its module. The order is the order of trust: the first source that claims a device
# measures it, so that a counter takes precedence over a model of the same package.
MODULES: Mapping[str, str] = {
    "nvml": "nvidia.source",
    "rapl": "rapl",
    "cpu_model": "cpu_model",
    "replay": "replay",
}
ORDER: Tuple[str, ...] = tuple(MODULES)


def load() -> None:
    """Import every source, so that each registers itself in base.REGISTRY."""
    for module in MODULES.values():
        importlib.import_module(f"{__name__}.{module}")
