"""Reads the server's database directly, without Django: the SQLite file or PostgreSQL."""

from __future__ import annotations

import json
import sqlite3
from collections import defaultdict
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg


@dataclass(frozen=True)
class CountedWindow:
    """An energy window from any place, with the counter values at both ends."""

    device: str
    epoch: str
    seq: int
    start_us: int
    end_us: int
    counter_start_mj: int
    counter_end_mj: int
    energy_mj: int


@dataclass(frozen=True)
class LedgerDatabase:
    """``place``: path of the SQLite file, or a postgres:// URL."""

    place: str

    def rows(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        """Run a query. Parameters are written ``?``."""
        if self.place.startswith("postgres"):
            with psycopg.connect(self.place, autocommit=True) as server:
                return list(server.execute(sql.replace("?", "%s").encode(), values).fetchall())
        with closing(sqlite3.connect(f"file:{self.place}?mode=ro", uri=True, timeout=20)) as file:
            return file.execute(sql, values).fetchall()

    def accepted(self, node: str) -> list[CountedWindow]:
        sql = (
            "SELECT d.key, e.key, w.sequence, w.start_us, w.end_us, w.counter_start, "
            "w.counter_end, w.energy_mj"
            " FROM ingest_energywindow w JOIN ingest_epoch e ON e.id = w.epoch_id JOIN "
            "fleet_device d ON d.id = w.device_id"
            " JOIN fleet_node n ON n.id = w.node_id WHERE n.hostname = ?"
        )
        return [CountedWindow(*row) for row in self.rows(sql, node)]

    def quarantined(self, node: str) -> list[tuple[CountedWindow, str]]:
        sql = (
            "SELECT d.key, q.epoch_key, q.sequence, q.content, q.energy_mj, q.reason FROM "
            "ingest_quarantinedwindow q"
            " JOIN fleet_device d ON d.id = q.device_id JOIN fleet_node n ON n.id = q.node_id "
            "WHERE n.hostname = ?"
        )
        windows = []
        for device, epoch, seq, content, energy_mj, reason in self.rows(sql, node):
            content_fields = json.loads(content) if isinstance(content, str) else content
            times = (
                content_fields["start_us"],
                content_fields["end_us"],
                content_fields["counter_start"],
                content_fields["counter_end"],
            )
            windows.append((CountedWindow(device, epoch, seq, *times, energy_mj), str(reason)))
        return windows

    def gaps(self, node: str) -> list[tuple[str, str, int, int]]:
        """Return (device, epoch, from, to) of the gaps that a node declared."""
        sql = (
            "SELECT d.key, g.epoch_key, g.from_us, g.to_us FROM ingest_declaredgap g"
            " JOIN fleet_device d ON d.id = g.device_id JOIN fleet_node n ON n.id = d.node_id "
            "WHERE n.hostname = ?"
        )
        return [(row[0], row[1], row[2], row[3]) for row in self.rows(sql, node)]

    def ledger(self, node: str) -> dict[str, int]:
        """Return {device: Σ mJ of the hourly ledger}."""
        sql = (
            "SELECT d.key, CAST(SUM(l.energy_mj) AS BIGINT) FROM energy_ledgerentry l"
            " JOIN fleet_device d ON d.id = l.device_id JOIN fleet_node n ON n.id = l.node_id"
            " WHERE n.hostname = ? GROUP BY d.key"
        )
        return {row[0]: int(row[1]) for row in self.rows(sql, node)}

    def shares_that_differ(self) -> list[tuple[Any, ...]]:
        """Return windows whose shares do not sum to their energy."""
        windows = self.rows("SELECT epoch_id, sequence, energy_mj, shares FROM ingest_energywindow")
        return [row for row in windows if sum(json.loads(row[3]).values()) != row[2]]

    def consumer_hours_that_differ(self) -> set[tuple[int, int, int, int]]:
        """Return the (consumer, device, hour, mJ)s that are not the sums of the windows."""
        sums: dict[tuple[int, int, int], int] = defaultdict(int)
        for device, start_us, shares in self.rows(
            "SELECT device_id, start_us, shares FROM ingest_energywindow"
        ):
            for consumer, energy_mj in json.loads(shares).items():
                sums[int(consumer), device, start_us // 3_600_000_000] += energy_mj
        stored = self.rows(
            "SELECT consumer_id, device_id, hour, energy_mj FROM ingest_consumerhour"
        )
        return {(*place, energy_mj) for place, energy_mj in sums.items()} ^ set(stored)

    def jobs_waiting(self) -> list[tuple[Any, ...]]:
        """Return pending jobs except those that always wait for a later time."""
        return self.rows(
            "SELECT kind, key, leased_by, leased_until_us, last_error FROM core_job "
            "WHERE done < requested AND kind NOT IN ('carbon.roll_up', 'carbon.hour_over', "
            "'accounts.clear_expired', 'assets.orphan_files', 'core.check_tables', "
            "'core.clear_expired', 'core.statistics', 'ingest.seal', 'activity.start_recurring', "
            "'billing.review_months', 'budgets.start_forecasts', 'carbon.extend_hour_prices', "
            "'planner.score') ORDER BY id"
        )

    def request_settling(self) -> None:
        """Request a completed settling job again, as an upload would. It changes no figure, but a
        worker must run it.
        """
        sql = (
            "UPDATE core_job SET requested = requested + 1 WHERE kind = 'energy.settle' AND done "
            "= requested"
        )
        if self.place.startswith("postgres"):
            with (
                suppress(psycopg.OperationalError),
                psycopg.connect(self.place, autocommit=True) as server,
            ):
                server.execute(sql)
            return
        with closing(sqlite3.connect(self.place, timeout=20)) as file:
            file.execute(sql)
            file.commit()

    def leased_by(self, pid: int) -> bool:
        """Return whether a worker with this process id has run a job."""
        try:
            return bool(
                self.rows("SELECT 1 FROM core_job WHERE leased_by LIKE ? LIMIT 1", f"%:{pid}")
            )
        except psycopg.OperationalError:  # PostgreSQL is recovering
            return False


def integrity(path: Path) -> Sequence[str]:
    """Return the result of SQLite's integrity_check."""
    with closing(sqlite3.connect(path, timeout=20)) as file:
        return [row[0] for row in file.execute("PRAGMA integrity_check").fetchall()]
