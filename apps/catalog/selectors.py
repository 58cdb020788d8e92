"""Reads of the catalogue."""

import csv
from dataclasses import dataclass
from functools import cache

from apps.catalog.calc import match_key
from apps.catalog.models import HardwareModel
from apps.catalog.services import DATA


def model_of(kind: str, name: str) -> HardwareModel | None:
    """Return the catalogue's row for a reported name, or None."""
    return HardwareModel.objects.filter(kind=kind, match_key=match_key(name)).order_by("id").first() if name else None


@dataclass(frozen=True)
class HostPower:
    """A default for the power of a node beside its metered devices."""

    kind: str
    static_mw: int
    low_mw: int
    high_mw: int
    source: str


@cache
def host_powers() -> tuple[HostPower, ...]:
    """Return the shipped defaults. A workstation has none: its owner measures or leaves it unknown."""
    with (DATA / "host_power.csv").open(newline="", encoding="utf-8") as file:
        return tuple(
            HostPower(
                kind=row["kind"],
                static_mw=int(float(row["static_w"]) * 1000),
                low_mw=int(float(row["low_w"]) * 1000),
                high_mw=int(float(row["high_w"]) * 1000),
                source=row["source"],
            )
            for row in csv.DictReader(file)
        )
