"""Reads of ingest: stored data for comparison with a batch, and the windows of a ledger entry."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from django.db.models import Count, Exists, F, OuterRef, Q, Sum

from apps.accounts.models import Lab
from apps.core.sql import fetch_rows, fetch_tuples, int_pairs_sql, placeholders, uuid_param
from apps.core.units import INT64_MAX, US_PER_HOUR
from apps.fleet.models import Device, Node
from apps.ingest.acceptance import CountedWindow
from apps.ingest.archive import ArchivedWindow
from apps.ingest.choices import Decision, MoveState
from apps.ingest.models import (
    Batch,
    Consumer,
    ConsumerHour,
    DeclaredGap,
    DeviceMove,
    EnergyWindow,
    Epoch,
    QuarantinedWindow,
    SealedHour,
)
from apps.ingest.placement import BootOffset
from apps.ingest.sealed_selectors import (
    archived_readings,
    archived_shares,
    archived_windows_of_hour,
)


def digests(ranges: dict[int, tuple[int, int]]) -> dict[tuple[int, int], int]:
    """Return {(epoch id, sequence): digest} of the windows in the given ranges of sequence (ends
    included).
    """
    clause = " OR ".join(["(epoch_id = %s AND sequence BETWEEN %s AND %s)"] * len(ranges))
    params = [value for epoch, (low, high) in ranges.items() for value in (epoch, low, high)]
    rows = fetch_tuples(
        f"SELECT epoch_id, sequence, digest FROM ingest_energywindow WHERE {clause}", params
    )
    return {(epoch, sequence): digest for epoch, sequence, digest in rows}


def epoch_ids(device_ids: set[int], keys: set[str]) -> dict[tuple[int, str], int]:
    """Return {(device id, epoch key): epoch id}."""
    rows = fetch_tuples(
        "SELECT device_id, key, id FROM ingest_epoch "
        f"WHERE device_id IN ({placeholders(device_ids)}) AND key IN ({placeholders(keys)})",
        [*device_ids, *keys],
    )
    return {(device, key): epoch for device, key, epoch in rows}


def consumer_ids(lab_id: int, keys: set[str]) -> dict[str, int]:
    """Return {consumer key: consumer id}."""
    if not keys:
        return {}
    sql = f"SELECT key, id FROM ingest_consumer WHERE lab_id = %s AND key IN ({placeholders(keys)})"
    return dict(fetch_tuples(sql, [lab_id, *keys]))


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
    sql = " UNION ALL ".join([part] * len(ranges)) + " ORDER BY 1, 2"
    for device, start_us, end_us in fetch_tuples(sql, params):
        result.setdefault(device, []).append((start_us, end_us))
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
    rows = fetch_tuples(
        "SELECT device_id, epoch_key, sequence, digest, reason FROM ingest_quarantinedwindow "
        f"WHERE device_id IN ({placeholders(device_ids)}) AND sequence BETWEEN %s AND %s",
        [*device_ids, min(sequences), max(sequences)],
    )
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


def has_pending_moves(node: Node) -> bool:
    """Return whether another node claims a device of this one."""
    sql = "SELECT 1 FROM ingest_devicemove WHERE from_node_id = %s AND state = %s LIMIT 1"
    return bool(fetch_tuples(sql, [node.pk, MoveState.PENDING]))


def pending_moves(lab: Lab) -> list[DeviceMove]:
    """Return the moves of devices that wait for a decision, oldest first."""
    moves = DeviceMove.objects.filter(device__lab=lab, state=MoveState.PENDING)
    return list(moves.select_related("device", "from_node", "to_node").order_by("pk"))


def counter_of(epoch_key: str) -> str:
    """Return the counter of an epoch: one counter can have several spools."""
    return epoch_key.partition("#")[0]


def counted_windows(row: QuarantinedWindow, start_us: int, end_us: int) -> list[CountedWindow]:
    """Return the counted windows that may contain energy of a quarantined one: those that overlap
    a time that is not sealed, and those whose readings of the same counter overlap. Oldest first.
    Raises ArchiveProblem.
    """
    counter = counter_of(row.epoch_key)
    low, high = row.content["counter_start"], row.content["counter_end"]
    filters = Q(start_us__lt=end_us, end_us__gt=start_us)
    if low is not None and high is not None:
        filters |= Q(epoch__key__startswith=counter, counter_start__lt=high, counter_end__gt=low)
    windows = EnergyWindow.objects.filter(filters, device_id=row.device_id)
    counted = {
        window.pk: CountedWindow(
            window.start_us,
            window.end_us,
            window.energy_mj,
            window.counter_start,
            window.counter_end,
            counter_of(window.epoch.key) == counter,
        )
        for window in windows.select_related("epoch")
    }
    if low is not None and high is not None:
        for old in archived_readings(row.device_id, counter, low, high):
            counted[old.epoch_id, old.sequence] = CountedWindow(
                old.start_us, old.end_us, old.energy_mj, old.counter_start, old.counter_end, True
            )
    return sorted(counted.values(), key=lambda window: window.start_us)


def last_batch_us(node: Node, *, up_to_us: int | None = None) -> int | None:
    """Return when the last stored batch of a node arrived (until ``up_to_us``), or None."""
    latest_us = INT64_MAX if up_to_us is None else up_to_us
    sql = "SELECT MAX(received_us) FROM ingest_batch WHERE node_id = %s AND received_us <= %s"
    received_us: int | None = fetch_tuples(sql, [node.pk, latest_us])[0][0]
    return received_us


def boot_offsets(node: Node, boots: set[str]) -> dict[str, BootOffset]:
    """Return the offsets of boots from earlier windows."""
    rows = fetch_tuples(
        "SELECT boot, monotonic_us, offset_us FROM ingest_bootclock "
        f"WHERE node_id = %s AND boot IN ({placeholders(boots)})",
        [node.pk, *boots],
    )
    return {boot: BootOffset(monotonic_us, offset_us) for boot, monotonic_us, offset_us in rows}


def windows_of_hour(device: Device, hour: int) -> list[dict[str, Any]]:
    """Return the windows of a device that overlap a UTC hour, with batch and epoch, oldest first.
    Raises ArchiveProblem if archived ones cannot be read.
    """
    windows = list(_stored_windows_of_hour(device, hour))
    stored = {(window["epoch_id"], window["sequence"]) for window in windows}
    archived = [
        window
        for window in archived_windows_of_hour(device.pk, hour)
        if (window.epoch_id, window.sequence) not in stored
    ]
    windows += _with_batches(archived) if archived else []
    return sorted(windows, key=lambda window: int(window["start_us"]))


def _with_batches(windows: list[ArchivedWindow]) -> list[dict[str, Any]]:
    """Return archived windows in the form of stored ones."""
    epochs = Epoch.objects.in_bulk({window.epoch_id for window in windows})
    batches = Batch.objects.in_bulk({window.batch_id for window in windows})
    nodes = Node.objects.in_bulk({window.node_id for window in windows})
    return [
        asdict(window)
        | {
            "epoch": epochs[window.epoch_id].key,
            "shares": json.dumps(dict(window.shares)),
            "batch": batches[window.batch_id].uuid,
            "received_us": batches[window.batch_id].received_us,
            "skew_us": batches[window.batch_id].skew_us,
            "origin": batches[window.batch_id].origin,
            "hostname": nodes[window.node_id].hostname,
            "node": nodes[window.node_id].uuid,
        }
        for window in windows
    ]


def _stored_windows_of_hour(device: Device, hour: int) -> Iterator[dict[str, Any]]:
    start_us, end_us = hour * US_PER_HOUR, (hour + 1) * US_PER_HOUR
    yield from fetch_rows(
        "SELECT w.epoch_id, w.sequence, ep.key AS epoch, w.start_us, w.end_us, w.energy_mj, "
        "w.counter_start, w.counter_end, "
        "w.measurement, w.energy_quality, w.share_quality, w.placement_quality, w.flags, "
        "w.clock_shift_us, "
        "w.util_mean_pm, w.util_max_pm, w.mem_mean_mib, w.mem_max_mib, w.processes, w.shares, "
        "b.uuid AS batch, b.received_us, b.skew_us, b.origin, n.hostname, n.uuid AS node, "
        "w.device_id "
        "FROM ingest_energywindow w JOIN ingest_epoch ep ON ep.id = w.epoch_id "
        "JOIN ingest_batch b ON b.id = w.batch_id JOIN fleet_node n ON n.id = w.node_id "
        "WHERE w.device_id = %s AND w.start_us < %s AND w.end_us > %s AND w.start_us >= COALESCE("
        "(SELECT MAX(start_us) FROM ingest_energywindow WHERE device_id = %s AND start_us < %s), "
        "%s) ORDER BY w.start_us",
        [device.pk, end_us, start_us, device.pk, start_us, start_us],
    )


def shares_of(windows: list[dict[str, Any]]) -> dict[tuple[int, int], list[tuple[str, int]]]:
    """Return {(epoch id, sequence): (consumer key, mJ)s} of windows, largest first."""
    shares = {
        (window["epoch_id"], window["sequence"]): json.loads(window["shares"]) for window in windows
    }
    ids = {int(consumer) for parts in shares.values() for consumer in parts}
    keys = dict(Consumer.objects.filter(pk__in=ids).values_list("pk", "key"))
    return {
        identity: sorted(
            ((keys[int(consumer)], part_mj) for consumer, part_mj in parts.items()),
            key=lambda share: (-share[1], share[0]),
        )
        for identity, parts in shares.items()
    }


def run_windows(lab: Lab, run_uuid: Any) -> list[dict[str, Any]]:
    """Return the windows with a share of a run: device key and name, start, end, the run's mJ,
    the window's utilisation. Raises ArchiveProblem if archived ones cannot be read.
    """
    windows = list(_stored_run_windows(lab, run_uuid))
    sealed = ConsumerHour.objects.filter(
        Exists(SealedHour.objects.filter(device=OuterRef("device"), hour=OuterRef("hour"))),
        consumer__lab=lab,
        consumer__run_uuid=run_uuid,
    )
    consumers: set[int] = set()
    hours: dict[int, set[int]] = {}
    for consumer_id, device_id, hour in sealed.values_list("consumer_id", "device_id", "hour"):
        consumers.add(consumer_id)
        hours.setdefault(device_id, set()).add(hour)
    if not hours:
        return windows
    stored = {(window["epoch_id"], window["sequence"]) for window in windows}
    devices = Device.objects.in_bulk(hours)
    windows += [
        {
            "device": devices[window.device_id].key,
            "device_name": devices[window.device_id].name,
            "start_us": window.start_us,
            "end_us": window.end_us,
            "energy_mj": part_mj,
            "window_mj": window.energy_mj,
            "util_mean_pm": window.util_mean_pm,
            "mem_max_mib": window.mem_max_mib,
            "energy_quality": window.energy_quality,
        }
        for window, part_mj in archived_shares(consumers, hours)
        if (window.epoch_id, window.sequence) not in stored
    ]
    return sorted(windows, key=lambda window: (window["device"], window["start_us"]))


def _stored_run_windows(lab: Lab, run_uuid: Any) -> Iterator[dict[str, Any]]:
    shares = int_pairs_sql("w.shares", "s")
    yield from fetch_rows(
        "SELECT w.epoch_id, w.sequence, d.key AS device, d.name AS device_name, w.start_us, "
        f"w.end_us, {shares.value} AS "
        "energy_mj, w.energy_mj AS window_mj, w.util_mean_pm, w.mem_max_mib, w.energy_quality "
        "FROM ingest_consumer c JOIN ingest_consumerhour h ON h.consumer_id = c.id "
        "JOIN ingest_energywindow w ON w.device_id = h.device_id "
        f"AND w.start_us >= h.hour * {US_PER_HOUR} AND w.start_us < (h.hour + 1) * {US_PER_HOUR} "
        f"{shares.join} JOIN fleet_device d ON d.id = w.device_id "
        f"WHERE c.lab_id = %s AND c.run_uuid = %s AND {shares.key} = c.id "
        "ORDER BY d.key, w.start_us",
        [lab.pk, uuid_param(run_uuid)],
    )


def last_ends(device_id: int, hour: int, consumer_ids: Iterable[int]) -> dict[int, int]:
    """Return {consumer id: end in µs} of the latest window of a device that starts in a UTC hour
    and has a share of the consumer.
    """
    shares = int_pairs_sql("w.shares", "s")
    rows = fetch_rows(
        f"SELECT {shares.key} AS consumer_id, MAX(w.end_us) AS end_us FROM ingest_energywindow w "
        f"{shares.join} WHERE w.device_id = %s AND w.start_us >= %s AND w.start_us < %s GROUP BY 1",
        [device_id, hour * US_PER_HOUR, (hour + 1) * US_PER_HOUR],
    )
    ids = set(consumer_ids)
    return {row["consumer_id"]: row["end_us"] for row in rows if row["consumer_id"] in ids}


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
