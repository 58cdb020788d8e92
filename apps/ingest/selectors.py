"""Reads of ingest: stored data for comparison with a batch, and the windows of a ledger entry."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from django.db.models import Count, F, Q, Sum

from apps.accounts.models import Lab
from apps.core.sql import fetch_rows, uuid_param
from apps.core.units import US_PER_HOUR
from apps.fleet.models import Device, Node
from apps.ingest.acceptance import CountedWindow
from apps.ingest.choices import Decision, MoveState
from apps.ingest.models import (
    Batch,
    BootClock,
    DeclaredGap,
    DeviceMove,
    EnergyWindow,
    QuarantinedWindow,
)
from apps.ingest.placement import BootOffset


def digests(ranges: dict[int, tuple[int, int]]) -> dict[tuple[int, int], int]:
    """Return {(epoch id, sequence): digest} of the windows in the given ranges of sequence (ends
    included).
    """
    clause = " OR ".join(["(epoch_id = %s AND sequence BETWEEN %s AND %s)"] * len(ranges))
    params = [value for epoch, (low, high) in ranges.items() for value in (epoch, low, high)]
    rows = fetch_rows(
        f"SELECT epoch_id, sequence, digest FROM ingest_energywindow WHERE {clause}", params
    )
    return {(row["epoch_id"], row["sequence"]): row["digest"] for row in rows}


def occupied_intervals(ranges: dict[int, tuple[int, int]]) -> dict[int, list[tuple[int, int]]]:
    """Return {device id: sorted [start, end)s} of the windows that can overlap the given periods.

    Windows of a device never overlap, so only the last earlier one can reach into a period.
    """
    part = (
        "SELECT device_id, start_us, end_us FROM ingest_energywindow WHERE device_id = %s AND "
        "start_us < %s AND start_us >= "
        "COALESCE((SELECT MAX(start_us) FROM ingest_energywindow WHERE device_id = %s AND "
        "start_us < %s), %s)"
    )
    params = [
        value
        for device, (low, high) in ranges.items()
        for value in (device, high, device, low, low)
    ]
    result: dict[int, list[tuple[int, int]]] = {}
    for row in fetch_rows(" UNION ALL ".join([part] * len(ranges)) + " ORDER BY 1, 2", params):
        result.setdefault(row["device_id"], []).append((row["start_us"], row["end_us"]))
    return result


def declared_gaps(node: Node, from_us: int, to_us: int, *, limit: int) -> list[DeclaredGap]:
    """Return the latest gaps that reach into a period, of the devices of a node."""
    gaps = DeclaredGap.objects.filter(device__node=node, from_us__lt=to_us, to_us__gt=from_us)
    return list(gaps.select_related("device").order_by("-from_us", "device_id")[:limit])


def quarantine_reasons(
    device_ids: list[int], sequences: set[int]
) -> dict[tuple[int, str, int, int], str]:
    """Return {(device id, epoch, sequence, digest): reason} of the quarantined windows with
    these sequences.
    """
    rows = QuarantinedWindow.objects.filter(
        device_id__in=device_ids, sequence__range=(min(sequences), max(sequences))
    ).values_list("device_id", "epoch_key", "sequence", "digest", "reason")
    return {
        (device, epoch, sequence, digest): reason
        for device, epoch, sequence, digest, reason in rows
    }


@dataclass(frozen=True, slots=True)
class OverlappingWindow:
    """A window that overlaps another one in time."""

    epoch_id: int
    sequence: int
    start_us: int
    end_us: int
    counter_start: int | None
    counter_end: int | None


def overlapping_windows(device_id: int, start_us: int, end_us: int) -> list[OverlappingWindow]:
    """Return the stored windows of a device that overlap ``[start_us, end_us)``."""
    rows = fetch_rows(
        "SELECT epoch_id, sequence, start_us, end_us, counter_start, counter_end "
        "FROM ingest_energywindow WHERE device_id = %s AND start_us < %s AND end_us > %s "
        "AND start_us >= COALESCE((SELECT MAX(start_us) FROM ingest_energywindow "
        "WHERE device_id = %s AND start_us < %s), %s) ORDER BY start_us",
        [device_id, end_us, start_us, device_id, start_us, start_us],
    )
    return [OverlappingWindow(**row) for row in rows]


@dataclass(frozen=True)
class FormerOwner:
    """This node had the device until ``until_us``. ``move_id``: the move, if none came after."""

    until_us: int
    move_id: int | None


def former_owners(node: Node, devices: Iterable[Device]) -> dict[int, FormerOwner | None]:
    """Return {device id: when this node had it, or None} of the devices of other nodes."""
    foreign: dict[int, FormerOwner | None] = {
        device.pk: None for device in devices if device.node_id != node.pk
    }
    if not foreign:
        return {}
    moves = DeviceMove.objects.filter(device_id__in=foreign, state=MoveState.ACCEPTED)
    for move in moves.order_by("decided_us", "pk"):
        if move.from_node_id == node.pk:
            foreign[move.device_id] = FormerOwner(move.from_us, move.pk)
        elif (former := foreign[move.device_id]) is not None:
            foreign[move.device_id] = FormerOwner(former.until_us, None)
    return foreign


def quarantined_window(lab: Lab, pk: int) -> QuarantinedWindow | None:
    """Return a quarantined window of a lab with its node, device and decider."""
    rows = QuarantinedWindow.objects.filter(pk=pk, node__lab=lab)
    return rows.select_related("node", "device__node", "batch", "decided_by").first()


def withdrawn_moves(lab: Lab, since_us: int) -> list[DeviceMove]:
    """Return the moves of devices that their former nodes contradicted, latest first."""
    moves = DeviceMove.objects.filter(
        device__lab=lab, state=MoveState.WITHDRAWN, decided_us__gte=since_us
    )
    return list(moves.select_related("device", "from_node", "to_node").order_by("-decided_us"))


def pending_moves(lab: Lab) -> list[DeviceMove]:
    """Return the moves of devices that wait for a decision, oldest first."""
    moves = DeviceMove.objects.filter(device__lab=lab, state=MoveState.PENDING)
    return list(moves.select_related("device", "from_node", "to_node").order_by("pk"))


def counted_windows(row: QuarantinedWindow, start_us: int, end_us: int) -> list[CountedWindow]:
    """Return the counted windows that may contain energy of a quarantined one: those that overlap
    a time, and those whose readings of the same counter overlap. Oldest first.
    """
    counter = row.epoch_key.partition("#")[0]  # one counter can have several spools
    low, high = row.content["counter_start"], row.content["counter_end"]
    filters = Q(start_us__lt=end_us, end_us__gt=start_us)
    if low is not None and high is not None:
        filters |= Q(epoch__key__startswith=counter, counter_start__lt=high, counter_end__gt=low)
    windows = EnergyWindow.objects.filter(filters, device_id=row.device_id)
    return [
        CountedWindow(
            window.start_us,
            window.end_us,
            window.energy_mj,
            window.counter_start,
            window.counter_end,
            window.epoch.key.partition("#")[0] == counter,
        )
        for window in windows.select_related("epoch").order_by("start_us")
    ]


def last_batch_us(node: Node, *, up_to_us: int | None = None) -> int | None:
    """Return when the last stored batch of a node arrived (until ``up_to_us``), or None."""
    batches = Batch.objects.filter(node=node)
    if up_to_us is not None:
        batches = batches.filter(received_us__lte=up_to_us)
    newest = batches.order_by("-received_us").values_list("received_us", flat=True)
    return newest.first()


def boot_offsets(node: Node, boots: set[str]) -> dict[str, BootOffset]:
    """Return the offsets of boots from earlier windows."""
    rows = BootClock.objects.filter(node=node, boot__in=boots)
    return {row.boot: BootOffset(row.monotonic_us, row.offset_us) for row in rows}


def windows_of_hour(lab: Lab, device_key: str, hour: int) -> Iterator[dict[str, Any]]:
    """Yield the windows of a device that overlap a UTC hour, with batch and epoch, oldest first."""
    start_us, end_us = hour * US_PER_HOUR, (hour + 1) * US_PER_HOUR
    yield from fetch_rows(
        "SELECT w.epoch_id, w.sequence, ep.key AS epoch, w.start_us, w.end_us, w.energy_mj, "
        "w.counter_start, w.counter_end, "
        "w.measurement, w.energy_quality, w.share_quality, w.placement_quality, w.flags, "
        "w.clock_shift_us, "
        "w.util_mean_pm, w.util_max_pm, w.mem_mean_mib, w.mem_max_mib, w.processes, "
        "b.uuid AS batch, b.received_us, b.skew_us, b.origin, n.hostname, n.uuid AS node, d.id AS "
        "device_id "
        "FROM ingest_energywindow w JOIN fleet_device d ON d.id = w.device_id JOIN ingest_epoch "
        "ep ON ep.id = w.epoch_id "
        "JOIN ingest_batch b ON b.id = w.batch_id JOIN fleet_node n ON n.id = w.node_id "
        "WHERE d.lab_id = %s AND d.key = %s AND w.start_us < %s AND w.end_us > %s AND w.start_us "
        ">= COALESCE("
        "(SELECT MAX(start_us) FROM ingest_energywindow WHERE device_id = d.id AND start_us < "
        "%s), %s) ORDER BY w.start_us",
        [lab.pk, device_key, end_us, start_us, start_us, start_us],
    )


def shares_of(windows: list[dict[str, Any]]) -> dict[tuple[int, int], list[dict[str, Any]]]:
    """Return {(epoch id, sequence): shares} of windows, largest first."""
    result: dict[tuple[int, int], list[dict[str, Any]]] = {}
    if not windows:
        return result
    by_epoch: dict[int, list[int]] = {}
    for window in windows:
        by_epoch.setdefault(window["epoch_id"], []).append(window["sequence"])
    clause = " OR ".join(["(s.epoch_id = %s AND s.sequence BETWEEN %s AND %s)"] * len(by_epoch))
    params = [value for epoch, seqs in by_epoch.items() for value in (epoch, min(seqs), max(seqs))]
    rows = fetch_rows(
        "SELECT s.epoch_id, s.sequence, c.key AS consumer, s.energy_mj FROM ingest_windowshare s "
        f"JOIN ingest_consumer c ON c.id = s.consumer_id WHERE {clause} ORDER BY s.energy_mj "
        "DESC, c.key",
        params,
    )
    for row in rows:
        result.setdefault((row["epoch_id"], row["sequence"]), []).append(row)
    return result


def run_windows(lab: Lab, run_uuid: Any) -> Iterator[dict[str, Any]]:
    """Yield the windows with a share of a run: device key and name, start, end, the run's mJ,
    the window's utilisation.
    """
    yield from fetch_rows(
        "SELECT d.key AS device, d.name AS device_name, w.start_us, w.end_us, s.energy_mj, "
        "w.energy_mj AS window_mj, "
        "w.util_mean_pm, w.mem_max_mib, w.energy_quality FROM ingest_windowshare s "
        "JOIN ingest_consumer c ON c.id = s.consumer_id "
        "JOIN ingest_energywindow w ON w.epoch_id = s.epoch_id AND w.sequence = s.sequence "
        "JOIN fleet_device d ON d.id = w.device_id WHERE c.lab_id = %s AND c.run_uuid = %s ORDER "
        "BY d.key, w.start_us",
        [lab.pk, uuid_param(run_uuid)],
    )


def quarantined(lab: Lab) -> dict[str, tuple[int, int]]:
    """Return {reason: (windows, mJ)} of quarantined windows that nobody decided about."""
    rows = (
        QuarantinedWindow.objects.filter(node__lab=lab, decision=Decision.NONE)
        .values("reason")
        .annotate(windows=Count("pk"), **ENERGY_SUMS)
    )
    return {row["reason"]: (row["windows"], summed_mj(row)) for row in rows}


# Implausible energies can exceed 64 bits in sum, so two halves are summed.
_HALF = 2**32
ENERGY_SUMS = {"high_mj": Sum(F("energy_mj") / _HALF), "low_mj": Sum(F("energy_mj") % _HALF)}


def summed_mj(sums: Mapping[str, Any]) -> int:
    """Return the energy of a query with ENERGY_SUMS, 0 without rows."""
    return int(sums["high_mj"] or 0) * _HALF + int(sums["low_mj"] or 0)
