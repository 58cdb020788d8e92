"""Derive from the ledger how long each device was measured and used, by day of the lab.

Use is by project. It includes reservations.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from zoneinfo import ZoneInfo

from django.db import transaction
from django.db.models import Max, Min

from apps.accounts.models import Lab
from apps.assets.models import DeviceDay
from apps.core.clock import now_us
from apps.core.intervals import day_edges
from apps.core.sql import as_int, fetch_rows
from apps.core.units import US_PER_HOUR, largest_remainder
from apps.energy.models import DeviceHour, LedgerEntry
from apps.fleet.models import Device
from apps.runs.models import Run

MS_PER_HOUR = 3_600_000
Place = tuple[int, int]  # device id, node id


@dataclass
class _Hour:
    """One hour of a device on a node: energy (0: project unknown) and reserved ms, by project."""

    energy_mj: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    reserved_ms: dict[int, int] = field(default_factory=lambda: defaultdict(int))

    def used_ms(self) -> dict[int, int]:
        """Return used milliseconds by project.

        Reserved time comes first. The rest of the hour is divided by energy used.
        """
        used_by_project = dict(self.reserved_ms)
        left = MS_PER_HOUR - sum(used_by_project.values())
        projects = sorted(project for project, energy in self.energy_mj.items() if energy > 0)
        if left > 0 and projects:
            parts = largest_remainder(left, [self.energy_mj[project] for project in projects])
            for project, part in zip(projects, parts, strict=True):
                used_by_project[project] = used_by_project.get(project, 0) + part
        return used_by_project


def hours_of_ledger(lab: Lab) -> tuple[int, int]:
    """Return the first hour of the ledger and the hour after its last, (0, 0) if it is empty."""
    seen = LedgerEntry.objects.filter(lab=lab).aggregate(first=Min("hour"), last=Max("hour"))
    return (0, 0) if seen["first"] is None else (seen["first"], seen["last"] + 1)


@transaction.atomic
def roll_up(*, lab: Lab, from_hour: int, to_hour: int) -> set[int]:
    """Recompute the device-days that touch ``[from_hour, to_hour)``. Return the changed devices."""
    edges = day_edges(from_hour, to_hour, ZoneInfo(lab.time_zone))
    start, end = edges[0], edges[-1]
    new_rows = {(row.device_id, row.node_id, row.from_hour): row for row in _days(lab, edges)}
    stored_rows = {
        (row.device_id, row.node_id, row.from_hour): row
        for row in DeviceDay.objects.filter(lab=lab, from_hour__lt=end, to_hour__gt=start)
    }
    stale_rows = [
        row
        for key, row in stored_rows.items()
        if key not in new_rows or _row_values(new_rows[key]) != _row_values(row)
    ]
    new = [
        row
        for key, row in new_rows.items()
        if key not in stored_rows or _row_values(stored_rows[key]) != _row_values(row)
    ]
    DeviceDay.objects.filter(pk__in=[row.pk for row in stale_rows]).delete()
    DeviceDay.objects.bulk_create(new, batch_size=500)
    return {row.device_id for row in (*stale_rows, *new)}


def _row_values(row: DeviceDay) -> tuple[object, ...]:
    return row.to_hour, row.measured_ms, [list(part) for part in row.parts]


def _days(lab: Lab, edges: list[int]) -> Iterable[DeviceDay]:
    start, end = edges[0], edges[-1]
    day_of = {hour: i for i in range(len(edges) - 1) for hour in range(edges[i], edges[i + 1])}
    used: dict[tuple[Place, int], dict[int, int]] = defaultdict(lambda: defaultdict(int))
    for (place, hour), device_hour in _hours(lab, start, end).items():
        for project, part in device_hour.used_ms().items():
            used[place, day_of[hour]][project] += part
    measured: dict[tuple[Place, int], int] = defaultdict(int)
    hours = DeviceHour.objects.filter(lab=lab, hour__gte=start, hour__lt=end)
    for device_id, node_id, hour, covered_us in hours.values_list(
        "device_id", "node_id", "hour", "covered_us"
    ).iterator():
        measured[(device_id, node_id), day_of[hour]] += covered_us // 1000
    for place, day in sorted(set(used) | set(measured)):
        parts = [[project, part] for project, part in sorted(used[place, day].items()) if part]
        yield DeviceDay(
            lab=lab,
            device_id=place[0],
            node_id=place[1],
            from_hour=edges[day],
            to_hour=edges[day + 1],
            measured_ms=measured[place, day],
            parts=parts,
        )


def _hours(lab: Lab, start: int, end: int) -> dict[tuple[Place, int], _Hour]:
    device_hours: dict[tuple[Place, int], _Hour] = defaultdict(_Hour)
    reserving = _reserve(lab, start, end, device_hours)
    entries = fetch_rows(
        "SELECT e.device_id, e.node_id, e.hour, c.run_uuid, t.project_id, SUM(e.energy_mj) AS "
        "energy_mj "
        "FROM energy_ledgerentry e JOIN ingest_consumer c ON c.id = e.consumer_id "
        "LEFT JOIN attribution_attribution t ON t.consumer_id = e.consumer_id AND t.node_id = "
        "e.node_id "
        "AND t.from_hour <= e.hour AND e.hour < t.to_hour "
        "WHERE e.lab_id = %s AND e.hour >= %s AND e.hour < %s AND c.kind NOT IN ('idle', "
        "'overhead') "
        "GROUP BY e.device_id, e.node_id, e.hour, c.run_uuid, t.project_id",
        [lab.pk, start, end],
    )
    for row in entries:
        if _plain(row["run_uuid"]) not in reserving:
            hour = device_hours[(row["device_id"], row["node_id"]), row["hour"]]
            hour.energy_mj[row["project_id"] or 0] += as_int(row["energy_mj"])
    return device_hours


def _plain(uuid: object) -> str:
    return str(uuid).replace("-", "") if uuid else ""


def _reserve(
    lab: Lab, start: int, end: int, device_hours: dict[tuple[Place, int], _Hour]
) -> set[str]:
    """Add reservations of single GPUs by schedulers. Return the runs with such reservations.

    An unfinished run reserves its GPUs until now.
    """
    runs = Run.objects.filter(lab=lab, started_us__lt=end * US_PER_HOUR, job_facts__has_key="gpus")
    runs = runs.exclude(ended_us__lte=start * US_PER_HOUR).exclude(job_facts__gpus={})
    nodes = dict(lab.nodes.values_list("pk", "hostname"))
    devices = dict(Device.objects.filter(lab=lab, kind="gpu").values_list("key", "pk"))
    reserving: set[str] = set()
    now = now_us()
    for run in runs.iterator():
        places = _places(run, nodes, devices)
        start_us, end_us = (
            max(run.started_us, start * US_PER_HOUR),
            min(run.active_until_us(now), end * US_PER_HOUR),
        )
        if not places or start_us >= end_us:
            continue
        reserving.add(run.uuid.hex)
        for hour in range(start_us // US_PER_HOUR, -(-end_us // US_PER_HOUR)):
            reserved_us = min(end_us, (hour + 1) * US_PER_HOUR) - max(start_us, hour * US_PER_HOUR)
            for place in places:
                device_hours[place, hour].reserved_ms[run.charged_project_id or 0] += (
                    reserved_us // 1000
                )
    return reserving


def _places(run: Run, nodes: dict[int, str], devices: dict[str, int]) -> list[Place]:
    """Return the devices that a job reserved, by GPU UUID. Nodes have the scheduler's names."""
    by_name = {name.partition(".")[0]: pk for pk, name in nodes.items()}
    gpu_indices = run.job_facts.get("gpus") or {}
    return [
        (devices[f"gpu:{uuid}"], by_name[name.partition(".")[0]])
        for name, uuids in sorted(gpu_indices.items())
        for uuid in uuids
        if f"gpu:{uuid}" in devices and name.partition(".")[0] in by_name
    ]
