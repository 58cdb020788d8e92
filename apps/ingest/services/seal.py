"""Seal old hours: move their windows from the database to the archive (docs/adr/0030).

A file is written and read back first. Then one transaction per part records its blocks and sealed
hours and deletes the windows, if nothing changed meanwhile. After an interruption the next pass
finds its own file again, because its name is a digest of its content.
"""

import json
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from hashlib import sha256
from itertools import groupby
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import Min, Q

from apps.core.intervals import hours_touched
from apps.core.locks import write_lock
from apps.core.sql import bulk_insert, fetch_rows
from apps.core.units import US_PER_HOUR
from apps.fleet.models import Device, Node
from apps.ingest.archive import ArchivedWindow, encode_block, sorted_windows, windows_sha256
from apps.ingest.archive_files import ArchiveProblem, remove_partial_files, write_file
from apps.ingest.choices import Decision
from apps.ingest.models import (
    DirtyHour,
    EnergyWindow,
    QuarantinedWindow,
    SealedBlock,
)
from apps.ingest.sealed_selectors import is_readable, sealed_hours

HOURS_PER_DAY = 24
PART_WINDOWS = 1_000  # windows per transaction: some tens of milliseconds on SQLite
_COLUMNS = ", ".join(field.name for field in fields(ArchivedWindow))

Place = tuple[int, int, int]  # device id, hour, node id


@dataclass(frozen=True)
class _Source:
    """A day of the devices of a node."""

    node: Node
    device_ids: tuple[int, ...]
    from_hour: int


@dataclass(frozen=True)
class _Part:
    """Hours of a day that are sealed in one transaction.

    ``windows`` start in these hours. ``places``: all device-hours that windows touch. ``blocks``:
    the windows by device, node and epoch.
    """

    source: _Source
    from_hour: int
    to_hour: int
    windows: list[ArchivedWindow]
    places: set[Place]
    blocks: list[list[ArchivedWindow]]


@dataclass
class Progress:
    """Numbers of a pass. ``waiting_hours``: node-hours that are too uncertain to be sealed."""

    windows: int = 0
    hours: int = 0
    bytes: int = 0
    waiting_hours: int = 0
    is_complete: bool = True


def cutoff_hour(now: int) -> int:
    """Return the hour before which windows are sealed: whole UTC days, by the setting."""
    day = now // US_PER_HOUR // HOURS_PER_DAY - settings.KEEP_WINDOWS_DAYS
    return day * HOURS_PER_DAY


def seal_windows(
    *,
    before_hour: int,
    is_dry_run: bool = False,
    budget_s: float | None = None,
    report: Callable[[Node, int, Progress], None] | None = None,
) -> Progress:
    """Seal all hours before ``before_hour`` whose ledger is settled.

    ``budget_s``: stop after this time, with ``is_complete`` False. ``report`` is called for each
    day of a node. Raises ArchiveProblem if this machine does not have the archive.
    """
    _require_archive()
    if not is_dry_run:
        remove_partial_files(settings.ARCHIVE_DIR)
    started_s = time.monotonic()
    progress = Progress()
    for node in Node.objects.order_by("pk"):
        device_ids = list(node.devices.order_by("pk").values_list("pk", flat=True))
        day = _next_day(device_ids, 0)
        while day is not None and day * HOURS_PER_DAY < before_hour:
            if budget_s is not None and time.monotonic() - started_s > budget_s:
                progress.is_complete = False
                return progress
            source = _Source(node, tuple(device_ids), day * HOURS_PER_DAY)
            reach_us = _seal_day(source, before_hour, progress, is_dry_run=is_dry_run)
            if report is not None:
                report(node, day, progress)
            is_spanned = reach_us > (day + 1) * HOURS_PER_DAY * US_PER_HOUR
            day = day + 1 if is_spanned else _next_day(device_ids, day + 1)
    return progress


def _require_archive() -> None:
    """Refuse to seal where the newest file of the archive is missing: another machine has it."""
    newest = SealedBlock.objects.order_by("-pk").first()
    if newest is not None and not is_readable(newest):
        raise ArchiveProblem(
            f"The archive file {newest.file} is not readable in {settings.ARCHIVE_DIR}.",
            hint="All web servers and workers need the same archive folder. Restore or mount it.",
        )


def _next_day(device_ids: Sequence[int], day: int) -> int | None:
    """Return the first UTC day (since 1970) from ``day`` on in which a window of devices starts."""
    day_us = HOURS_PER_DAY * US_PER_HOUR
    starts = []
    for device_id in device_ids:  # one by one: each reads one entry of the index
        own = EnergyWindow.objects.filter(device_id=device_id, start_us__gte=day * day_us)
        starts.append(own.aggregate(first=Min("start_us"))["first"])
    first_us = min((start for start in starts if start is not None), default=None)
    return None if first_us is None else first_us // day_us


def _seal_day(source: _Source, before_hour: int, progress: Progress, *, is_dry_run: bool) -> int:
    """Seal a day of a node. Return until when its windows reach, in µs."""
    to_hour = min(source.from_hour + HOURS_PER_DAY, before_hour)
    windows = _touching(source.device_ids, source.from_hour, to_hour)
    undecided = _undecided(source, windows)
    waiting = _unsettled(undecided.node_ids, source.device_ids, source.from_hour, to_hour)
    waiting |= undecided.hours(source.from_hour, to_hour)
    parts = list(_parts(source, windows, to_hour, waiting))
    progress.waiting_hours += len(waiting)
    encoded = (
        [] if is_dry_run else [[encode_block(block) for block in part.blocks] for part in parts]
    )
    file, offsets = _write(source, [block for blocks in encoded for block in blocks])
    for part, blocks in zip(parts, encoded, strict=not is_dry_run):
        rows = _block_rows(part, file, offsets[: len(blocks)], blocks)
        offsets = offsets[len(blocks) :]
        if not _seal_part(part, rows, undecided):
            progress.waiting_hours += part.to_hour - part.from_hour
            continue
        progress.bytes += sum(map(len, blocks))
        progress.windows += len(part.windows)
        progress.hours += len(part.places)
    if is_dry_run:
        progress.windows += sum(len(part.windows) for part in parts)
        progress.hours += sum(len(part.places) for part in parts)
    return max((window.end_us for window in windows), default=0)


def _write(source: _Source, blocks: Sequence[bytes]) -> tuple[str, list[int]]:
    if not blocks:
        return "", []
    day = datetime.fromtimestamp(source.from_hour * 3_600, tz=UTC).date().isoformat()
    return write_file(settings.ARCHIVE_DIR, day, blocks)


def _touching(device_ids: Sequence[int], from_hour: int, to_hour: int) -> list[ArchivedWindow]:
    """Return the stored windows of devices that touch the hours, in the order of the archive."""
    from_us, to_us = from_hour * US_PER_HOUR, to_hour * US_PER_HOUR
    windows = []
    for device_id in device_ids:
        rows = fetch_rows(
            f"SELECT {_COLUMNS} FROM ingest_energywindow WHERE device_id = %s AND start_us < %s "
            "AND end_us > %s AND start_us >= COALESCE((SELECT MAX(start_us) FROM "
            "ingest_energywindow WHERE device_id = %s AND start_us < %s), %s)",
            [device_id, to_us, from_us, device_id, from_us, from_us],
        )
        windows += [_archived(row) for row in rows]
    return sorted_windows(windows)


def _archived(row: dict[str, Any]) -> ArchivedWindow:
    shares = json.loads(row.pop("shares"))
    parts = tuple((int(consumer), part_mj) for consumer, part_mj in shares.items())
    return ArchivedWindow(**row, shares=parts)


def _unsettled(
    node_ids: Collection[int], device_ids: Collection[int], from_hour: int, to_hour: int
) -> set[int]:
    """Return the hours whose ledger must be recomputed, of devices or of nodes."""
    dirty = DirtyHour.objects.filter(
        Q(device_id__in=device_ids) | Q(device__node_id__in=node_ids),
        hour__gte=from_hour,
        hour__lt=to_hour,
    )
    return set(dirty.values_list("hour", flat=True))


@dataclass(frozen=True)
class _Undecided:
    """Times of quarantined windows that a manager can still accept. ``last_id``: of the newest."""

    node_ids: tuple[int, ...]
    last_id: int
    times: tuple[tuple[int, int], ...]

    def hours(self, from_hour: int, to_hour: int) -> set[int]:
        """Return the hours of a period that these windows touch."""
        from_us, to_us = from_hour * US_PER_HOUR, to_hour * US_PER_HOUR
        return {
            hour
            for start_us, end_us in self.times
            if start_us < to_us and end_us > from_us
            for hour in hours_touched(max(start_us, from_us), min(end_us, to_us))
        }


def _undecided(source: _Source, windows: Sequence[ArchivedWindow], after_id: int = 0) -> _Undecided:
    node_ids = tuple(sorted({source.node.pk, *(window.node_id for window in windows)}))
    rows = QuarantinedWindow.objects.filter(
        Q(device_id__in=source.device_ids)
        | Q(device__node_id__in=node_ids)
        | Q(node_id__in=node_ids),
        decision=Decision.NONE,
        pk__gt=after_id,
    )
    times: list[tuple[int, int]] = []
    last_id = after_id
    for pk, content, possible in rows.values_list("pk", "content", "possible"):
        last_id = max(last_id, pk)
        times.append((content["start_us"], content["end_us"]))
        times += [(time[0], time[1]) for time in possible]
    return _Undecided(node_ids, last_id, tuple(times))


def _parts(
    source: _Source, windows: Sequence[ArchivedWindow], to_hour: int, waiting: Collection[int]
) -> Iterator[_Part]:
    """Divide the hours that can be sealed into parts of about PART_WINDOWS windows."""
    hours = range(source.from_hour, to_hour)
    sealed = {device_id: sealed_hours(device_id, hours) for device_id in source.device_ids}
    starting: dict[int, list[ArchivedWindow]] = defaultdict(list)
    places: dict[int, set[Place]] = defaultdict(set)
    for window in windows:
        touched = hours_touched(window.start_us, window.end_us)
        for hour in range(max(touched[0], hours[0]), min(touched[-1] + 1, to_hour)):
            if hour not in sealed[window.device_id]:
                places[hour].add((window.device_id, hour, window.node_id))
                if hour == touched[0]:
                    starting[hour].append(window)
    at = source.from_hour
    while at < to_hour:
        start, chosen, touching = at, list[ArchivedWindow](), set[Place]()
        while at < to_hour and at not in waiting and len(chosen) < PART_WINDOWS:
            chosen += starting[at]
            touching |= places[at]
            at += 1
        if touching:
            yield _Part(source, start, at, chosen, touching, _blocks(chosen))
        at += at == start  # a waiting hour


def _blocks(windows: Sequence[ArchivedWindow]) -> list[list[ArchivedWindow]]:
    """Group windows by device, node and epoch, in the order of the archive."""

    def group(window: ArchivedWindow) -> tuple[int, int, int]:
        return window.device_id, window.node_id, window.epoch_id

    return [list(block) for _, block in groupby(sorted(windows, key=group), key=group)]


def _block_rows(
    part: _Part, file: str, offsets: Sequence[int], encoded: Sequence[bytes]
) -> list[SealedBlock]:
    rows = []
    for windows, offset, block in zip(part.blocks, offsets, encoded, strict=True):
        readings = [
            reading
            for window in windows
            for reading in (window.counter_start, window.counter_end)
            if reading is not None
        ]
        sequences = [window.sequence for window in windows]
        rows.append(
            SealedBlock(
                device_id=windows[0].device_id,
                epoch_id=windows[0].epoch_id,
                node_id=windows[0].node_id,
                first_sequence=min(sequences),
                last_sequence=max(sequences),
                start_us=windows[0].start_us,
                end_us=max(window.end_us for window in windows),
                counter_low=min(readings, default=None),
                counter_high=max(readings, default=None),
                windows=len(windows),
                file=file,
                offset=offset,
                length=len(block),
                sha256=sha256(block).digest(),
            )
        )
    return rows


def _hour_columns(part: _Part) -> dict[str, tuple[str, list[Any]]]:
    by_place: dict[Place, list[ArchivedWindow]] = {place: [] for place in sorted(part.places)}
    for window in part.windows:
        place = (window.device_id, window.start_us // US_PER_HOUR, window.node_id)
        by_place[place].append(window)
    sums = [sum(window.energy_mj for window in windows) for windows in by_place.values()]
    return {
        "device_id": ("bigint", [device_id for device_id, _, _ in by_place]),
        "hour": ("bigint", [hour for _, hour, _ in by_place]),
        "node_id": ("bigint", [node_id for _, _, node_id in by_place]),
        "windows": ("integer", [len(windows) for windows in by_place.values()]),
        "energy_mj": ("bigint", sums),
        "sha256": ("bytea", [windows_sha256(windows) for windows in by_place.values()]),
    }


def _seal_part(part: _Part, blocks: Sequence[SealedBlock], undecided: _Undecided) -> bool:
    """Record a part and delete its windows. Return False if it changed since it was read."""
    hours = _hour_columns(part)
    with write_lock(), transaction.atomic():
        # Ingest, settling and decisions hold these locks while they change hours of the devices.
        devices = Device.objects.select_for_update(no_key=True).filter(
            Q(pk__in=part.source.device_ids) | Q(node_id__in=undecided.node_ids)
        )
        list(devices.order_by("pk").values_list("pk", flat=True))
        if not _is_unchanged(part, undecided):
            return False
        SealedBlock.objects.bulk_create(blocks)
        bulk_insert("ingest_sealedhour", hours)
        _delete_windows(part)
    return True


def _is_unchanged(part: _Part, undecided: _Undecided) -> bool:
    source, hours = part.source, range(part.from_hour, part.to_hour)
    stored: set[tuple[int, int]] = set()
    for device_id in source.device_ids:
        sealed = sealed_hours(device_id, hours)
        if any(place[0] == device_id and place[1] in sealed for place in part.places):
            return False
        rows = EnergyWindow.objects.filter(
            device_id=device_id,
            start_us__gte=part.from_hour * US_PER_HOUR,
            start_us__lt=part.to_hour * US_PER_HOUR,
        )
        stored.update(
            (epoch_id, sequence)
            for epoch_id, sequence, start_us in rows.values_list("epoch_id", "sequence", "start_us")
            if start_us // US_PER_HOUR not in sealed
        )
    if stored != {(window.epoch_id, window.sequence) for window in part.windows}:
        return False
    if _unsettled(undecided.node_ids, source.device_ids, part.from_hour, part.to_hour):
        return False
    newer = _undecided(source, part.windows, undecided.last_id)
    return not newer.hours(part.from_hour, part.to_hour)


def _delete_windows(part: _Part) -> None:
    """Delete the windows all of whose hours are sealed.

    A window that also touches an hour that is not sealed stays stored until that hour is.
    """
    from_us, to_us = part.from_hour * US_PER_HOUR, part.to_hour * US_PER_HOUR
    for device_id in part.source.device_ids:
        EnergyWindow.objects.filter(
            device_id=device_id, start_us__gte=from_us, start_us__lt=to_us, end_us__lte=to_us
        ).delete()
    for window in _touching(part.source.device_ids, part.from_hour, part.to_hour):
        hours = hours_touched(window.start_us, window.end_us)
        if len(sealed_hours(window.device_id, hours)) == len(hours):
            EnergyWindow.objects.filter(epoch_id=window.epoch_id, sequence=window.sequence).delete()
