"""Reads of sealed hours and archived windows. They open files only for windows that are
archived.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from django.conf import settings
from django.db.models import Q

from apps.core.intervals import hours_touched
from apps.core.sql import fetch_rows
from apps.core.units import US_PER_HOUR
from apps.ingest.archive import ArchivedWindow, windows_sha256
from apps.ingest.archive_files import RESTORE_HINT, ArchiveProblem, read_block
from apps.ingest.models import SealedBlock, SealedHour

Key = tuple[int, int]  # epoch id, sequence


@dataclass(frozen=True)
class SealedLimits:
    """The latest sealed hours of devices and of a node, and the highest archived sequences of
    epochs. Later hours and sequences are not sealed.
    """

    node_id: int
    device_hours: Mapping[int, int] = field(default_factory=dict)
    node_hour: int = -1
    sequences: Mapping[int, int] = field(default_factory=dict)

    def is_sealed(self, device_id: int, start_us: int, end_us: int) -> bool:
        """Return whether a window of a device may not be added in this time."""
        latest = max(self.node_hour, self.device_hours.get(device_id, -1))
        if start_us // US_PER_HOUR > latest:
            return False
        return is_sealed(device_id, self.node_id, start_us, end_us)


def sealed_limits(
    node_id: int, device_ids: Sequence[int], epoch_ids: Sequence[int]
) -> SealedLimits:
    """Return the limits of a batch. One query, by indexes only."""

    def marks(ids: Sequence[int]) -> str:
        return ", ".join(["%s"] * len(ids))

    rows = fetch_rows(
        "SELECT 'node' AS kind, n.id, (SELECT MAX(hour) FROM ingest_sealedhour WHERE node_id = "
        "n.id) AS latest FROM fleet_node n WHERE n.id = %s UNION ALL "
        "SELECT 'device', d.id, (SELECT MAX(hour) FROM ingest_sealedhour WHERE device_id = d.id) "
        f"FROM fleet_device d WHERE d.id IN ({marks(device_ids)}) UNION ALL "
        "SELECT 'epoch', e.id, (SELECT MAX(last_sequence) FROM ingest_sealedblock WHERE epoch_id "
        f"= e.id) FROM ingest_epoch e WHERE e.id IN ({marks(epoch_ids)})",
        [node_id, *device_ids, *epoch_ids],
    )
    latest: dict[str, dict[int, int]] = defaultdict(dict)
    for row in rows:
        if row["latest"] is not None:
            latest[row["kind"]][row["id"]] = row["latest"]
    return SealedLimits(node_id, latest["device"], latest["node"].get(node_id, -1), latest["epoch"])


def is_sealed(device_id: int, node_id: int, start_us: int, end_us: int) -> bool:
    """Return whether a sealed hour of a device or node overlaps ``[start_us, end_us)``."""
    hours = hours_touched(start_us, end_us)
    return SealedHour.objects.filter(
        Q(device_id=device_id) | Q(node_id=node_id), hour__range=(hours[0], hours[-1])
    ).exists()


def sealed_hours(device_id: int, hours: Collection[int]) -> set[int]:
    """Return which of ``hours`` are sealed for a device."""
    sealed = SealedHour.objects.filter(device_id=device_id, hour__range=(min(hours), max(hours)))
    return set(sealed.values_list("hour", flat=True)).intersection(hours)


def sealed_device_hours(
    device_ids: Collection[int], hours: Collection[int]
) -> set[tuple[int, int]]:
    """Return the sealed (device id, hour)s of some devices between the first and last hour."""
    sealed = SealedHour.objects.filter(
        device_id__in=device_ids, hour__range=(min(hours), max(hours))
    )
    return set(sealed.values_list("device_id", "hour"))


def sealed_hours_of_node(node_id: int, hours: Collection[int]) -> set[int]:
    """Return the hours in which a device that the node measured is sealed."""
    sealed = SealedHour.objects.filter(node_id=node_id, hour__range=(min(hours), max(hours)))
    return set(sealed.values_list("hour", flat=True)).intersection(hours)


def _open(blocks: Iterable[SealedBlock]) -> Iterator[ArchivedWindow]:
    for block in blocks:
        yield from read_block(
            settings.ARCHIVE_DIR, block.file, block.offset, block.length, bytes(block.sha256)
        )


def is_readable(block: SealedBlock) -> bool:
    """Return whether the archive of this machine contains a block."""
    try:
        list(_open([block]))
    except ArchiveProblem:
        return False
    return True


def archived_digests(sequences: Mapping[int, Collection[int]]) -> tuple[dict[Key, int], set[Key]]:
    """Return the digests of archived windows with these sequences by epoch id, and the keys that
    an unreadable block may contain.
    """
    digests: dict[Key, int] = {}
    unreadable: set[Key] = set()
    for epoch_id, wanted in sequences.items():
        blocks = SealedBlock.objects.filter(
            epoch_id=epoch_id, first_sequence__lte=max(wanted), last_sequence__gte=min(wanted)
        )
        for block in blocks:
            keys = {
                (epoch_id, sequence)
                for sequence in wanted
                if block.first_sequence <= sequence <= block.last_sequence
            }
            try:
                for window in _open([block]) if keys else ():
                    if (epoch_id, window.sequence) in keys:
                        digests[epoch_id, window.sequence] = window.digest
            except ArchiveProblem:
                unreadable |= keys
    return digests, unreadable - digests.keys()


def archived_windows(device_id: int, start_us: int, end_us: int) -> list[ArchivedWindow]:
    """Return the archived windows of a device that overlap ``[start_us, end_us)``. Raises
    ArchiveProblem.
    """
    blocks = SealedBlock.objects.filter(
        device_id=device_id, start_us__lt=end_us, end_us__gt=start_us
    )
    return [
        window
        for window in _open(blocks.order_by("start_us", "pk"))
        if window.start_us < end_us and window.end_us > start_us
    ]


def archived_windows_of_hour(device_id: int, hour: int) -> list[ArchivedWindow]:
    """Return the archived windows of a device that overlap a sealed hour, compared with its record.
    Raises ArchiveProblem. Windows of other hours are stored.
    """
    records = list(SealedHour.objects.filter(device_id=device_id, hour=hour))
    if not records:
        return []
    windows = archived_windows(device_id, hour * US_PER_HOUR, (hour + 1) * US_PER_HOUR)
    for record in records:
        own = [
            window
            for window in windows
            if window.node_id == record.node_id and window.start_us // US_PER_HOUR == hour
        ]
        if windows_sha256(own) != bytes(record.sha256):
            raise ArchiveProblem(
                f"The archive contains {len(own)} windows of this hour that differ from the "
                f"{record.windows} windows with {record.energy_mj} mJ that were sealed.",
                hint=RESTORE_HINT,
            )
    return windows


def archived_shares(
    consumer_ids: Collection[int], hours: Mapping[int, set[int]]
) -> Iterator[tuple[ArchivedWindow, int]]:
    """Yield the archived windows that start in sealed ``hours`` by device id and have a share of
    the consumers, each with its mJ. Raises ArchiveProblem.
    """
    for device_id, sealed in hours.items():
        first_us, end_us = min(sealed) * US_PER_HOUR, (max(sealed) + 1) * US_PER_HOUR
        blocks = SealedBlock.objects.filter(
            device_id=device_id, start_us__lt=end_us, end_us__gt=first_us
        )
        for block in blocks.order_by("start_us", "pk"):
            touched = hours_touched(block.start_us, block.end_us)
            if not any(hour in touched for hour in sealed):
                continue
            for window in _open([block]):
                if window.start_us // US_PER_HOUR in sealed:
                    for consumer_id, part_mj in window.shares:
                        if consumer_id in consumer_ids:
                            yield window, part_mj


def archived_readings(device_id: int, counter: str, low: int, high: int) -> list[ArchivedWindow]:
    """Return the archived windows of a counter whose readings overlap ``[low, high)``. Raises
    ArchiveProblem.
    """
    blocks = SealedBlock.objects.filter(
        device_id=device_id,
        epoch__key__startswith=counter,
        counter_low__lt=high,
        counter_high__gt=low,
    ).select_related("epoch")
    return [
        window
        for window in _open(
            block for block in blocks if block.epoch.key.partition("#")[0] == counter
        )
        if window.counter_start is not None
        and window.counter_end is not None
        and window.counter_start < high
        and window.counter_end > low
    ]


def first_window_us_sql(device: str) -> str:
    """Return SQL for the start of the first window of a device, archived or not. NULL for none."""
    return (
        "(SELECT MIN(t) FROM (SELECT MIN(start_us) AS t FROM ingest_sealedblock WHERE device_id = "
        f"{device} UNION ALL SELECT MIN(start_us) FROM ingest_energywindow WHERE device_id = "
        f"{device}) x)"
    )


def last_window_us_sql(device: str) -> str:
    """Return SQL for the end of the last window of a device, archived or not. NULL for none."""
    return (
        f"COALESCE((SELECT end_us FROM ingest_energywindow WHERE device_id = {device} ORDER BY "
        "start_us DESC LIMIT 1), (SELECT MAX(end_us) FROM ingest_sealedblock WHERE device_id = "
        f"{device}))"
    )
