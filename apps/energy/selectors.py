"""Reads of the ledger and of its windows."""

import json
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from django.db.models import Q

from apps.accounts.models import Lab
from apps.core.sql import as_int, fetch_rows, int_pairs_sql, placeholders
from apps.core.units import US_PER_HOUR
from apps.energy.ledger_entries import EntryKey, ShareRow
from apps.energy.models import DeviceHour, UtilizationHour
from apps.energy.source_precedence import COMPONENT, KINDS_OF, whole_minutes
from apps.energy.utilization import UseOfWindow, Utilization, bins_from_text
from apps.fleet.models import Device
from apps.ingest.choices import PlacementQuality
from apps.ingest.models import Consumer

_LAST_BEFORE = (
    "COALESCE((SELECT MAX(start_us) FROM ingest_energywindow WHERE device_id = %s AND start_us < "
    "%s), %s)"
)
# Windows that end in the hour in which they start.
_INSIDE = "w.end_us <= (w.start_us / 3600000000 + 1) * 3600000000"


def sums_inside(device_id: int, from_hour: int, to_hour: int) -> dict[EntryKey, int]:
    """Return the sums of shares of windows inside one hour."""
    shares = int_pairs_sql("w.shares", "s")
    rows = fetch_rows(
        f"SELECT w.start_us / 3600000000 AS hour, w.node_id, {shares.key} AS consumer_id, "
        "w.energy_quality, w.share_quality, w.placement_quality, "
        f"SUM({shares.value}) AS energy_mj FROM ingest_energywindow w {shares.join} "
        f"WHERE w.device_id = %s AND w.start_us >= %s AND w.start_us < %s AND {_INSIDE} "
        "GROUP BY 1, 2, 3, 4, 5, 6",
        [device_id, from_hour * US_PER_HOUR, to_hour * US_PER_HOUR],
    )
    return {
        EntryKey(
            row["hour"],
            row["node_id"],
            row["consumer_id"],
            row["energy_quality"],
            row["share_quality"],
            row["placement_quality"],
        ): as_int(row["energy_mj"])
        for row in rows
    }


def shares_spanning(device_id: int, from_hour: int, to_hour: int) -> Iterator[ShareRow]:
    """Yield the shares of windows that touch the hours and span more than one."""
    from_us, to_us = from_hour * US_PER_HOUR, to_hour * US_PER_HOUR
    shares = int_pairs_sql("w.shares", "s")
    rows = fetch_rows(
        f"SELECT w.start_us, w.end_us, w.node_id, {shares.key} AS consumer_id, w.energy_quality, "
        f"w.share_quality, {shares.value} AS energy_mj "
        f"FROM ingest_energywindow w {shares.join} "
        "WHERE w.device_id = %s AND w.start_us < %s AND w.end_us > %s AND w.start_us >= "
        f"{_LAST_BEFORE} AND NOT ({_INSIDE})",
        [device_id, to_us, from_us, device_id, from_us, from_us],
    )
    for row in rows:
        yield ShareRow(**row)


def shares_touching(device_id: int, from_hour: int, to_hour: int) -> Iterator[ShareRow]:
    """Yield the shares of all windows that touch the hours. One that spans hours is divided, so
    its place is imputed.
    """
    from_us, to_us = from_hour * US_PER_HOUR, to_hour * US_PER_HOUR
    shares = int_pairs_sql("w.shares", "s")
    rows = fetch_rows(
        f"SELECT w.start_us, w.end_us, w.node_id, {shares.key} AS consumer_id, w.energy_quality, "
        f"w.share_quality, {shares.value} AS energy_mj, "
        f"CASE WHEN {_INSIDE} THEN w.placement_quality ELSE {int(PlacementQuality.IMPUTED)} END "
        "AS placement_quality "
        f"FROM ingest_energywindow w {shares.join} "
        "WHERE w.device_id = %s AND w.start_us < %s AND w.end_us > %s AND w.start_us >= "
        f"{_LAST_BEFORE}",
        [device_id, to_us, from_us, device_id, from_us, from_us],
    )
    for row in rows:
        yield ShareRow(**row)


def measured_minutes(
    device: Device, from_hour: int, to_hour: int
) -> dict[int, list[tuple[int, int]]]:
    """Return {node id: minutes} in which collectors measured the component of a tracker's device.

    Reads windows, not the ledger. Empty for a device without a component. Two queries.
    """
    kinds = KINDS_OF.get(str(device.facts.get(COMPONENT, "")), ())
    if not kinds:
        return {}
    here = Q(node_id=device.node_id) | Q(
        pk__in=DeviceHour.objects.filter(
            node_id=device.node_id, lab_id=device.lab_id, hour__range=(from_hour, to_hour - 1)
        ).values("device_id")
    )
    meters = list(
        Device.objects.filter(here, lab_id=device.lab_id, kind__in=kinds).values_list(
            "pk", flat=True
        )
    )
    by_node: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for row in intervals(meters, from_hour, to_hour):
        by_node[row["node_id"]].append((row["start_us"], row["end_us"]))
    return {node_id: whole_minutes(node_intervals) for node_id, node_intervals in by_node.items()}


def intervals(device_ids: list[int], from_hour: int, to_hour: int) -> list[dict[str, Any]]:
    """Return device, node, start and end of all windows of the devices that touch the hours."""
    from_us, to_us = from_hour * US_PER_HOUR, to_hour * US_PER_HOUR
    part = (
        "SELECT device_id, node_id, start_us, end_us FROM ingest_energywindow "
        f"WHERE device_id = %s AND start_us < %s AND end_us > %s AND start_us >= {_LAST_BEFORE}"
    )
    params = [
        value
        for device in device_ids
        for value in (device, to_us, from_us, device, from_us, from_us)
    ]
    return (
        list(fetch_rows(" UNION ALL ".join([part] * len(device_ids)), params)) if device_ids else []
    )


def uses_of_windows(device_id: int, from_hour: int, to_hour: int) -> Iterator[UseOfWindow]:
    """Yield the utilization and memory of the windows of a device that touch the hours."""
    from_us, to_us = from_hour * US_PER_HOUR, to_hour * US_PER_HOUR
    rows = fetch_rows(
        "SELECT start_us, end_us, node_id, util_mean_pm, util_max_pm, mem_mean_mib, mem_max_mib, "
        "shares FROM ingest_energywindow WHERE device_id = %s AND start_us < %s AND end_us > %s "
        f"AND start_us >= {_LAST_BEFORE} "
        "AND (util_mean_pm IS NOT NULL OR mem_mean_mib IS NOT NULL)",
        [device_id, to_us, from_us, device_id, from_us, from_us],
    )
    found = [(row, [int(consumer) for consumer in json.loads(row.pop("shares"))]) for row in rows]
    idle = set(
        Consumer.objects.filter(
            pk__in={consumer for _, consumers in found for consumer in consumers}, kind="idle"
        ).values_list("pk", flat=True)
    )
    for row, consumers in found:
        active = sum(consumer not in idle for consumer in consumers)
        yield UseOfWindow(**row, consumers=consumers, active=active)


def utilization_of_run(lab: Lab, run_uuid: Any) -> dict[str, Utilization]:
    """Return {device key: utilization and memory} over the windows of a run. One query."""
    sums: dict[str, Utilization] = defaultdict(Utilization)
    rows = UtilizationHour.objects.filter(consumer__lab=lab, consumer__run_uuid=run_uuid)
    for row in rows.select_related("device"):
        sums[row.device.key].add(
            Utilization(
                util_us=row.util_us,
                util_pm_us=row.util_pm_us,
                idle_us=row.idle_us,
                util_bins=bins_from_text(row.util_bins),
                mem_us=row.mem_us,
                mem_mib_us=row.mem_mib_us,
                mem_max_mib=row.mem_max_mib,
                mem_bins=bins_from_text(row.mem_bins),
                shared_us=row.shared_us,
                most_consumers=row.most_consumers,
            )
        )
    return dict(sums)


def energy_of_kinds(
    node_id: int, from_hour: int, to_hour: int, kinds: tuple[str, ...]
) -> dict[int, int]:
    """Return {hour: the ledger's energy of a node's devices of some kinds, mJ}."""
    rows = fetch_rows(
        "SELECT e.hour, SUM(e.energy_mj) AS mj FROM energy_ledgerentry e JOIN fleet_device d ON "
        "d.id = e.device_id WHERE e.node_id = %s AND e.hour >= %s AND e.hour < %s "
        f"AND d.kind IN ({placeholders(kinds)}) GROUP BY e.hour",
        [node_id, from_hour, to_hour, *kinds],
    )
    return {row["hour"]: as_int(row["mj"]) for row in rows}
