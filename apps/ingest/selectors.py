"""Reads of ingest: stored data for comparison with a batch, and the windows of a ledger entry."""

from collections.abc import Iterator
from typing import Any

from apps.accounts.models import Lab
from apps.core.sql import fetch_rows, uuid_param
from apps.core.units import US_PER_HOUR
from apps.ingest.models import EnergyWindow, QuarantinedWindow


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


def last_clock_shift(epoch_id: int) -> int | None:
    """Return the shift of the last window of an epoch by the clock rule, None for no shift."""
    last = (
        EnergyWindow.objects.filter(epoch_id=epoch_id)
        .order_by("-sequence")
        .values_list("clock_shift_us", flat=True)
        .first()
    )
    return last or None


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
    """Return {reason: (windows, mJ)} of quarantined windows."""
    result: dict[str, tuple[int, int]] = {}
    for reason, energy_mj in QuarantinedWindow.objects.filter(node__lab=lab).values_list(
        "reason", "energy_mj"
    ):
        count, total = result.get(reason, (0, 0))
        result[reason] = (count + 1, total + energy_mj)
    return result
