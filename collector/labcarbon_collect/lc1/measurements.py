"""Energy quality of each measurement: the one table that collector and server share."""

from __future__ import annotations

from typing import Dict

QUALITY_BY_MEASUREMENT: Dict[str, str] = {
    "nvml_counter": "counter",
    "rapl": "counter",
    "node_meter": "counter",
    "nvml_power": "sampled",
    "imported": "sampled",
    "rapl_model": "modelled",
    "cpu_model": "modelled",
    "host_static": "modelled",
    "declared": "declared",
}
