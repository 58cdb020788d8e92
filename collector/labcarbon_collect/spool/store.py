"""Unacknowledged measurements on disk: begin a batch, receive a result per window, end the batch.

A window is deleted only after the server's result for it. Each thread has its own Spool object;
SQLite isolates them.
"""

from __future__ import annotations

import json
import sqlite3
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Dict, Iterable, Iterator, List, Optional, Sequence, Tuple

from labcarbon_collect.clock import Clock
from labcarbon_collect.energy import idle_power
from labcarbon_collect.energy.windows import Anchor, Window
from labcarbon_collect.sources.base import Gap
from labcarbon_collect.spool import history
from labcarbon_collect.spool.compaction import merge_spool
from labcarbon_collect.spool.runs import JobStore, RunStore
from labcarbon_collect.spool.schema import (
    SpoolFull,
    is_disk_full,
    open_database,
    pack_window,
    unpack_window,
)

ACCEPTED, DUPLICATE, QUARANTINED, REJECTED, RETRY = (
    "accepted",
    "duplicate",
    "quarantined",
    "rejected",
    "retry",
)
MAX_BATCH = 500
# A window sent this often without a result is sent after the others, so that it does not block
# them.
_OFTEN_SENT = "sent >= 20"
_COLUMNS = "id, device, epoch, seq, start_us, end_us, energy_mj, body"


@dataclass(frozen=True)
class Batch:
    """Windows of one upload. The rows stay in the spool until :meth:`Spool.end_batch`.

    ``acknowledged_us``: when the server received the last acknowledged batch, by its clock.
    """

    ids: Tuple[int, ...]
    windows: Tuple[Window, ...]
    gap_ids: Tuple[int, ...]
    gaps: Tuple[Gap, ...]
    acknowledged_us: Optional[int] = None


@dataclass(frozen=True)
class Received:
    """When the server received the last batch, and when the last acknowledged one that it still
    knows (None: none), by its clock.
    """

    at_us: int
    previous_us: Optional[int]


@dataclass(frozen=True)
class SpoolDepth:
    """Fill level of the spool."""

    rows: int
    dead: int
    bytes: int
    oldest_us: Optional[int]


class Spool:
    """The spool in a private folder."""

    def __init__(self, home: Path, *, check: bool = False) -> None:
        """Open the spool. ``check``: search for damage first. A damaged file is renamed
        (``damaged_file``) and a new one created.
        """
        self.home = home
        self._database, self.damaged_file = open_database(home, check=check)
        self._name_ids: Dict[str, int] = {}
        self._incarnation = self.get_value("incarnation") or ""
        self.runs = RunStore(self._database, self.transaction)
        self.jobs = JobStore(self._database, self.transaction)

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """BEGIN IMMEDIATE … COMMIT. Raises SpoolFull without space."""
        try:
            self._database.execute("BEGIN IMMEDIATE")
            yield self._database
            self._database.execute("COMMIT")
        except BaseException as error:
            self._name_ids.clear()  # a name may have been stored in this transaction
            if self._database.in_transaction:
                self._database.execute("ROLLBACK")
            if isinstance(error, sqlite3.Error) and is_disk_full(error):
                raise SpoolFull(f"{self.home}: {error}") from error
            raise

    # Measuring

    def append(
        self,
        *,
        boot: str,
        windows: Sequence[Window] = (),
        gaps: Sequence[Gap] = (),
        anchors: Sequence[Anchor] = (),
        clock: Optional[Clock] = None,
    ) -> None:
        """Store closed windows and gaps with their anchors in one durable transaction.

        On the wire an epoch is ``<boot>/<source's epoch>#<incarnation>``. The boot identifies the
        monotonic clock of the window. The incarnation identifies the spool: a new spool numbers
        from 0 and must not reuse identities of the lost one. ``clock`` is a reading of both clocks
        of ``boot``: it places windows that are uploaded after a reboot. Raises SpoolFull.
        """
        with self.transaction() as database:
            for window in windows:
                self._insert(database, boot, window)
            idle_power.record(database, windows)
            for gap in gaps:
                database.execute(
                    "INSERT INTO gap (device, epoch, from_us, to_us, reason) VALUES (?,?,?,?,?)",
                    (gap.device, self._epoch(boot, gap.epoch), gap.from_us, gap.to_us, gap.reason),
                )
            for anchor in anchors:
                body = json.dumps(asdict(anchor))
                database.execute(
                    "INSERT OR REPLACE INTO anchor VALUES (?,?)", (anchor.device, body)
                )
            if anchors and clock is not None:
                database.execute(
                    "INSERT OR REPLACE INTO boot_clock VALUES (?,?,?)",
                    (boot, clock.monotonic_us, clock.wall_us),
                )

    def _insert(self, database: sqlite3.Connection, boot: str, window: Window) -> None:
        names = [
            self._name_id(database, text)
            for text in (window.device, self._epoch(boot, window.epoch))
        ]
        row = (
            *names,
            window.seq,
            window.start_us,
            window.end_us,
            window.energy_mj,
            pack_window(window),
        )
        database.execute(
            (
                "INSERT INTO window (device, epoch, seq, start_us, end_us, energy_mj, body) "
                "VALUES (?,?,?,?,?,?,?)"
            ),
            row,
        )
        for consumer, energy_mj in window.shares:
            if consumer.startswith("run:"):
                database.execute(
                    "INSERT INTO run_energy VALUES (?,?,?) ON CONFLICT (uuid, device) "
                    "DO UPDATE SET energy_mj = energy_mj + excluded.energy_mj",
                    (consumer[4:], window.device, energy_mj),
                )
            elif consumer.startswith("job:"):
                JobStore.add_energy(database, consumer, window.device, energy_mj, window.end_us)

    def anchors(self) -> Dict[str, Anchor]:
        """Return the last stored reading of each device."""
        rows = self._database.execute("SELECT body FROM anchor")
        anchors = [Anchor(**json.loads(body)) for (body,) in rows]
        return {anchor.device: anchor for anchor in anchors}

    def idle_mw(self) -> Dict[str, int]:
        """Return the idle power in mW by device, estimated from the idle windows of the last 14
        days.
        """
        return idle_power.estimated_mw(self._database)

    # Upload

    def boot_clocks(self, epochs: Iterable[str], *, running: str) -> Dict[str, Tuple[int, int]]:
        """Return the last (monotonic, wall) reading of each earlier boot of ``epochs``, µs."""
        boots = {epoch.partition("/")[0] for epoch in epochs} - {running}
        rows = self._database.execute("SELECT boot, mono_us, wall_us FROM boot_clock")
        return {boot: (mono_us, wall_us) for boot, mono_us, wall_us in rows if boot in boots}

    def begin_batch(self, *, live_from_us: int, limit: int = MAX_BATCH) -> Optional[Batch]:
        """Return up to ``limit`` windows: first those ending at or after ``live_from_us`` (newest
        first), then the oldest.

        None without windows.
        """
        with self.transaction() as database:
            live_rows = database.execute(
                (
                    f"SELECT {_COLUMNS} FROM window WHERE end_us >= ? ORDER BY {_OFTEN_SENT}, "
                    "end_us DESC, id LIMIT ?"
                ),
                (live_from_us, limit),
            ).fetchall()
            old_rows = database.execute(
                (
                    f"SELECT {_COLUMNS} FROM window WHERE end_us < ? ORDER BY {_OFTEN_SENT}, id "
                    "LIMIT ?"
                ),
                (live_from_us, limit - len(live_rows)),
            ).fetchall()
            rows = live_rows + old_rows
            if not rows:
                return None
            # The server may know these windows from now on, so they must never be merged.
            database.executemany(
                "UPDATE window SET sent = sent + 1 WHERE id = ?", [(row[0],) for row in rows]
            )
            return self._batch(database, rows)

    def _batch(self, database: sqlite3.Connection, rows: List[Tuple[Any, ...]]) -> Batch:
        names = dict(database.execute("SELECT id, text FROM name"))
        gaps = database.execute(
            "SELECT id, device, epoch, from_us, to_us, reason FROM gap ORDER BY id LIMIT 500"
        ).fetchall()
        return Batch(
            ids=tuple(row[0] for row in rows),
            windows=tuple(unpack_window(names[row[1]], names[row[2]], row[3:]) for row in rows),
            gap_ids=tuple(row[0] for row in gaps),
            gaps=tuple(Gap(*row[1:]) for row in gaps),
            acknowledged_us=history.acknowledged_us(database),
        )

    def end_batch(
        self,
        batch: Batch,
        results: Sequence[Tuple[str, str]],
        *,
        now_us: int,
        received: Optional[Received] = None,
    ) -> int:
        """Apply the server's results, ``(result, reason)`` per window, in one transaction.

        accepted, duplicate, quarantined: the server has it. It no longer waits, and is kept for
        three days in case the server is restored from a backup (``received``; None from a server
        that does not report it). rejected: move to the dead letters. Anything else: it waits on.
        Returns the number of earlier windows that the server forgot, which wait again.
        """
        if len(results) != len(batch.ids):
            raise ValueError(f"{len(batch.ids)} windows sent, {len(results)} results received")
        forgotten = 0
        with self.transaction() as database:
            if received is not None:
                if batch.acknowledged_us is not None:
                    forgotten, _ = history.requeue_forgotten(database, received.previous_us)
                history.forget_old(database, received.at_us)
            for row_id, window, (result, reason) in zip(batch.ids, batch.windows, results):
                if result not in (ACCEPTED, DUPLICATE, QUARANTINED, REJECTED):
                    continue
                if result != REJECTED and received is not None:
                    history.keep_window(database, row_id, received.at_us)
                if result == REJECTED:
                    row = (now_us, reason, window.energy_mj, json.dumps(asdict(window)))
                    database.execute(
                        "INSERT INTO dead (at_us, reason, energy_mj, window) VALUES (?,?,?,?)", row
                    )
                database.execute("DELETE FROM window WHERE id = ?", (row_id,))
                database.execute(
                    "INSERT INTO tally VALUES (?, 1, ?) ON CONFLICT (result) "
                    "DO UPDATE SET windows = windows + 1, energy_mj = energy_mj + "
                    "excluded.energy_mj",
                    (result, window.energy_mj),
                )
            database.executemany(
                "DELETE FROM gap WHERE id = ?", [(gap_id,) for gap_id in batch.gap_ids]
            )
        return forgotten

    def note_server(self, url: str) -> None:
        """Note the server of the uploads. What another server received is never sent to this one.
        Raises SpoolFull.
        """
        if self.get_value("server") != url:
            self.forget_uploaded()
            self.set_value("server", url)

    def forget_uploaded(self) -> None:
        """Delete what is kept in case the server is restored. Raises SpoolFull."""
        with self.transaction() as database:
            history.forget_all(database)

    def mark_unsent(self, batch: Batch) -> None:
        """Revert the mark of a batch of which no byte was sent."""
        with self.transaction() as database:
            database.executemany(
                "UPDATE window SET sent = sent - 1 WHERE id = ?", [(i,) for i in batch.ids]
            )

    def merge(self, *, bucket_us: int, before_us: int, max_rows: int = 1 << 62) -> int:
        """Merge adjacent windows within buckets of ``bucket_us`` that ended before ``before_us``.
        Returns the rows freed.

        Stops after about ``max_rows`` rows. Repeat the call until it returns 0.
        """
        with self.transaction() as database:
            return merge_spool(
                database, bucket_us=bucket_us, before_us=before_us, max_rows=max_rows
            )

    def checkpoint(self) -> None:
        """Release the space of the journal and of free pages. Raises SpoolFull if there is no space
        even for that.
        """
        try:
            self._database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            self._database.executescript(
                "PRAGMA incremental_vacuum"
            )  # execute() would stop after the first page
            self._database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        except sqlite3.Error as error:
            if is_disk_full(error):
                raise SpoolFull(f"{self.home}: {error}") from error
            raise

    def rewrite(self) -> None:
        """Rewrite the file, so that no changed or deleted data remains in it. Raises SpoolFull."""
        try:
            self._database.execute("VACUUM")
        except sqlite3.Error as error:
            if is_disk_full(error):
                raise SpoolFull(f"{self.home}: {error}") from error
            raise
        self.checkpoint()

    def acknowledged_anchors(self) -> Dict[str, Anchor]:
        """Return per device the reading up to which the server has all windows. A lost spool
        resumes there.
        """
        anchors = self.anchors()
        rows = self._database.execute(
            "SELECT n.text, w.seq, w.start_us, w.end_us, w.energy_mj, w.body FROM window w JOIN "
            "name n ON n.id = w.device "
            "WHERE w.id IN (SELECT MIN(id) FROM window GROUP BY device)"
        )
        for device, *row in rows.fetchall():
            window, anchor = unpack_window(device, "", row), anchors.get(device)
            if anchor is not None and window.counter_start_mj <= anchor.counter_mj:
                anchors[device] = replace(
                    anchor,
                    wall_us=window.start_us,
                    mono_us=window.mono_start_us,
                    counter_mj=window.counter_start_mj,
                    sole=None,
                )
        return anchors

    # Status

    def depth(self) -> SpoolDepth:
        """Return the waiting rows, dead letters, bytes used (without free pages) and the start of
        the oldest window.
        """
        rows, oldest_us = self._database.execute(
            "SELECT COUNT(*), MIN(start_us) FROM window"
        ).fetchone()
        dead = self._database.execute("SELECT COUNT(*) FROM dead").fetchone()[0]
        return SpoolDepth(rows, dead, self.used_bytes(), oldest_us)

    def used_bytes(self) -> int:
        """Return the bytes of pages in use."""
        pragmas = ("page_count", "freelist_count", "page_size")
        pages, free, size = (
            self._database.execute(f"PRAGMA {name}").fetchone()[0] for name in pragmas
        )
        return int((pages - free) * size)

    def result_totals(self) -> Dict[str, Tuple[int, int]]:
        """Return (windows, mJ) by result over the lifetime of this spool."""
        rows = self._database.execute("SELECT result, windows, energy_mj FROM tally")
        return {result: (windows, energy_mj) for result, windows, energy_mj in rows}

    def spooled_mj(self) -> int:
        """Return the energy of all waiting windows."""
        return int(
            self._database.execute("SELECT COALESCE(SUM(energy_mj), 0) FROM window").fetchone()[0]
        )

    def windows(self) -> Iterator[Window]:
        """Yield all waiting windows, oldest first."""
        names = dict(self._database.execute("SELECT id, text FROM name"))
        for row in self._database.execute(f"SELECT {_COLUMNS} FROM window ORDER BY id").fetchall():
            yield unpack_window(names[row[1]], names[row[2]], row[3:])

    def set_value(self, key: str, value: str) -> None:
        """Store a small value (the server's configuration, the last upload)."""
        with self.transaction() as database:
            database.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, value))

    def get_value(self, key: str) -> Optional[str]:
        """Return a value stored by :meth:`set_value`."""
        row = self._database.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
        return row[0] if row else None

    def _epoch(self, boot: str, epoch: str) -> str:
        return f"{boot}/{epoch}#{self._incarnation}"

    def _name_id(self, database: sqlite3.Connection, text: str) -> int:
        name_id = self._name_ids.get(text)
        if name_id is None:
            database.execute("INSERT OR IGNORE INTO name (text) VALUES (?)", (text,))
            row = database.execute("SELECT id FROM name WHERE text = ?", (text,)).fetchone()
            name_id = self._name_ids[text] = int(row[0])
        return name_id
