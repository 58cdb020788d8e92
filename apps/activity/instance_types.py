"""Sizes of instance types of cloud providers. Pure but for the shipped table
(``data/instance_types.csv``).
"""

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_FILE = Path(__file__).parent / "data" / "instance_types.csv"
_SIZE = ("vcpus", "memory_gb", "gpus", "gpu")
SOURCE = "size of the instance type: Cloud Carbon Footprint, ccf-coefficients, Apache-2.0"
SOURCE_OF_PROVIDER = "size of the instance type: documentation of the provider"


@dataclass(frozen=True)
class InstanceType:
    """An instance type. Values are texts as entered in a form, '' for none."""

    provider: str
    name: str
    vcpus: str
    memory_gb: str
    gpus: str
    gpu: str
    source: str


@cache
def instance_types() -> dict[tuple[str, str], InstanceType]:
    """Return the shipped instance types by provider and folded name."""
    with _FILE.open(encoding="utf-8", newline="") as file:
        rows = [InstanceType(*row) for row in list(csv.reader(file))[1:]]
    return {_key(row.provider, row.name): row for row in rows}


def _key(provider: str, name: str) -> tuple[str, str]:
    """Return the key of a type. Azure's NC24ads A100 v4 is also Standard_NC24ads_A100_v4."""
    return provider, name.casefold().replace("_", " ").removeprefix("standard ").strip()


def gpu_instance_types() -> list[str]:
    """Return the names of the types with GPUs, each once, for suggestions."""
    return sorted({row.name for row in instance_types().values() if row.gpus})


def with_size(inputs: Mapping[str, str]) -> tuple[dict[str, str], str]:
    """Return inputs of cloud compute with the size of their instance type, and its source ('': the
    size is as entered). A size that is entered, even in part, is not changed.
    """
    known = instance_types().get(_key(inputs.get("provider", ""), inputs.get("instance_type", "")))
    if known is None or any(inputs.get(name) for name in _SIZE):
        return dict(inputs), ""
    size = {name: value for name in _SIZE if (value := getattr(known, name))}
    source = SOURCE_OF_PROVIDER if known.source == "provider" else SOURCE
    return {**inputs, **size}, source
