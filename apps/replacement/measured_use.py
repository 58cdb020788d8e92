"""Measured power of an asset in use and idle, and hours of both, from the ledger of its meter, and
the memory that its jobs used.
"""

from dataclasses import dataclass

from django.db.models import Max

from apps.accounts.models import Lab
from apps.assets.models import Asset, AssetMeter
from apps.core.sql import as_int, fetch_rows
from apps.core.units import US_PER_HOUR
from apps.fleet.dated_facts import dated_intervals
from apps.fleet.models import ACTIVE, Device, Node
from apps.ingest.models import EnergyWindow


@dataclass(frozen=True)
class Meter:
    """Current meter of an asset, from ``from_hour`` on: a device, or the devices of a node."""

    from_hour: int
    device: Device | None
    node: Node | None

    @property
    def place(self) -> Node:
        """Return the node whose grid and PUE apply: where the device was last measured."""
        node = self.node or (self.device.node if self.device else None)
        assert node is not None
        return node


def meter_of(asset: Asset, hour: int) -> Meter | None:
    """Return the meter of an asset at an hour, or None. One query."""
    meters = AssetMeter.objects.filter(ACTIVE, asset=asset).select_related("device__node", "node")
    for start, end, row in dated_intervals([(row.from_hour, row) for row in meters]):
        if start <= hour and (end is None or hour < end) and (row.device or row.node):
            return Meter(start, row.device, row.node)
    return None


@dataclass(frozen=True)
class Measured:
    """Energy (mJ) and measured time (µs) over ``[from_hour, to_hour)``, in used and in idle hours.

    An hour with any use counts as used. Unmeasured time is in neither. ``quality``: the lowest
    energy quality in it, a number of EnergyQuality, or 0 without measurements.
    """

    from_hour: int
    to_hour: int
    used_mj: int = 0
    used_us: int = 0
    idle_mj: int = 0
    idle_us: int = 0
    quality: int = 0

    @property
    def hours(self) -> int:
        return self.to_hour - self.from_hour

    @property
    def measured_us(self) -> int:
        return self.used_us + self.idle_us

    @property
    def used_mw(self) -> int | None:
        """Return mean power while used, mW; None: never used."""
        return _mean_mw(self.used_mj, self.used_us)

    @property
    def idle_mw(self) -> int | None:
        return _mean_mw(self.idle_mj, self.idle_us)


def _mean_mw(energy_mj: int, time_us: int) -> int | None:
    return (
        max(0, (energy_mj * 2_000_000 + time_us) // (2 * time_us)) if time_us else None
    )  # mJ per s is mW


def measured(lab: Lab, meter: Meter, from_hour: int, to_hour: int) -> Measured | None:
    """Return the measurements of a meter from its first hour in ``[from_hour, to_hour)`` on, or
    None. One query.
    """
    start = max(from_hour, meter.from_hour)
    column, of, clock = (
        ("device_id", meter.device, "SUM") if meter.device else ("node_id", meter.node, "MAX")
    )
    assert of is not None
    rows = fetch_rows(
        "SELECT e.used, MIN(e.hour) AS first, SUM(e.energy_mj) AS energy_mj, SUM(h.covered_us) AS "
        "covered_us, "
        "MAX(e.quality) AS quality FROM (SELECT l.hour, SUM(l.energy_mj) AS energy_mj, "
        "MAX(l.energy_quality) AS quality, "
        "MAX(CASE WHEN c.kind NOT IN ('idle', 'overhead') AND l.energy_mj > 0 THEN 1 ELSE 0 END) "
        "AS used "
        "FROM energy_ledgerentry l JOIN ingest_consumer c ON c.id = l.consumer_id "
        f"WHERE l.lab_id = %s AND l.{column} = %s AND l.hour >= %s AND l.hour < %s GROUP BY "
        "l.hour) e LEFT JOIN ("
        f"SELECT hour, {clock}(covered_us) AS covered_us FROM energy_devicehour "
        f"WHERE {column} = %s AND hour >= %s AND hour < %s GROUP BY hour) h ON h.hour = e.hour "
        "GROUP BY e.used",
        [lab.pk, of.pk, start, to_hour, of.pk, start, to_hour],
    )
    parts = {row["used"]: row for row in rows}
    if not parts:
        return None
    used, idle = parts.get(1, {}), parts.get(0, {})
    return Measured(
        from_hour=min(row["first"] for row in parts.values()),
        to_hour=to_hour,
        used_mj=as_int(used.get("energy_mj")),
        used_us=as_int(used.get("covered_us")),
        idle_mj=as_int(idle.get("energy_mj")),
        idle_us=as_int(idle.get("covered_us")),
        quality=max(row["quality"] for row in parts.values()),
    )


MEMORY_DAYS = 90


def most_memory_mib(meter: Meter, from_hour: int, to_hour: int) -> int | None:
    """Return the most memory in use on a device in ``[from_hour, to_hour)``, or None if it is not
    measured. At most the last 90 days are read. The meter of a machine has no one memory.
    """
    if meter.device is None:
        return None
    start = max(from_hour, meter.from_hour, to_hour - MEMORY_DAYS * 24)
    windows = EnergyWindow.objects.filter(
        device=meter.device, start_us__gte=start * US_PER_HOUR, start_us__lt=to_hour * US_PER_HOUR
    )
    most: int | None = windows.aggregate(most=Max("mem_max_mib"))["most"]
    return most
