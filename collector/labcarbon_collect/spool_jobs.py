"""What jobs of this node used in closed windows, and which registered runs worked inside them."""

from __future__ import annotations

import sqlite3
from typing import Callable, ContextManager, Dict, List

KEEP_US = 7 * 24 * 3600 * 1_000_000


class JobStore:
    """The job tables of a spool. Every writing call is one durable transaction and may raise SpoolFull."""

    def __init__(self, database: sqlite3.Connection, transaction: Callable[[], ContextManager[sqlite3.Connection]]) -> None:
        self._database = database
        self._transaction = transaction

    @staticmethod
    def used(database: sqlite3.Connection, job: str, device: str, energy_mj: int, until_us: int) -> None:
        """Add a closed window's share, within the transaction that stores the window."""
        database.execute(
            "INSERT INTO job_energy VALUES (?,?,?,?) ON CONFLICT (job, device) "
            "DO UPDATE SET energy_mj = energy_mj + excluded.energy_mj, until_us = MAX(until_us, excluded.until_us)",
            (job, device, energy_mj, until_us),
        )

    def energy(self, job: str) -> Dict[str, int]:
        """Device → mJ of a job in closed windows, without the runs registered inside it."""
        return dict(self._database.execute("SELECT device, energy_mj FROM job_energy WHERE job = ?", (job,)).fetchall())

    def has(self, job: str, run_uuid: str, now_us: int) -> None:
        """Remember that a registered run works inside a job."""
        with self._transaction() as database:
            database.execute("INSERT OR REPLACE INTO job_run VALUES (?,?,?)", (run_uuid, job, now_us))

    def runs(self, job: str) -> List[str]:
        """The registered runs of a job."""
        return [uuid for (uuid,) in self._database.execute("SELECT uuid FROM job_run WHERE job = ?", (job,))]

    def forget(self, now_us: int) -> None:
        """Forget jobs that have used nothing for a week."""
        with self._transaction() as database:
            database.execute("DELETE FROM job_energy WHERE until_us < ?", (now_us - KEEP_US,))
            database.execute("DELETE FROM job_run WHERE since_us < ?", (now_us - 10 * KEEP_US,))
