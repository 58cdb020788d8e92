"""Registered runs and jobs in the spool: identity, energy, and pending messages to the server."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import dataclass
from typing import Any, Callable, ContextManager, Dict, List, Mapping, Optional, Tuple

from labcarbon_collect.spool.history import keep_message

LINEAGE = "POST"  # verb of a message with artifacts, which is sent to artifacts/
RETENTION_US = 7 * 24 * 3600 * 1_000_000
# A refused message and the later ones of its run are sent again after this time.
REFUSED_RETRY_US = 600 * 1_000_000
_REFUSED_RETENTION_US = 30 * 24 * 3600 * 1_000_000


@dataclass(frozen=True)
class RefusedMessages:
    """Messages that the server refused, with those that wait behind them, and the last reason."""

    count: int
    reason: str


class RunStore:
    """The run tables of a spool. Each writing call is one durable transaction and may raise
    SpoolFull.
    """

    def __init__(
        self,
        database: sqlite3.Connection,
        transaction: Callable[[], ContextManager[sqlite3.Connection]],
    ) -> None:
        self._database = database
        self._transaction = transaction

    def register(self, *, uuid: str, pid: int, uid: int, started_ticks: int, now_us: int) -> None:
        """Store a registered run for a restarted daemon."""
        with self._transaction() as database:
            row = (uuid, pid, uid, started_ticks, now_us)
            database.execute("INSERT OR REPLACE INTO run VALUES (?,?,?,?,?,NULL)", row)

    def end(self, uuid: str, *, now_us: int) -> None:
        """Mark a run as ended. Ended runs are deleted after a week."""
        with self._transaction() as database:
            database.execute(
                "UPDATE run SET ended_us = ? WHERE uuid = ? AND ended_us IS NULL", (now_us, uuid)
            )
            database.execute("DELETE FROM run WHERE ended_us < ?", (now_us - RETENTION_US,))
            database.execute("DELETE FROM run_energy WHERE uuid NOT IN (SELECT uuid FROM run)")

    def active(self) -> List[Dict[str, Any]]:
        """Return the registered runs that have not ended."""
        columns = ("uuid", "pid", "uid", "started_ticks", "registered_us")
        rows = self._database.execute(
            f"SELECT {', '.join(columns)} FROM run WHERE ended_us IS NULL"
        )
        return [dict(zip(columns, row)) for row in rows]

    def uid_of(self, uuid: str) -> Optional[int]:
        """Return the uid of a run that is active or ended within the last week."""
        row = self._database.execute("SELECT uid FROM run WHERE uuid = ?", (uuid,)).fetchone()
        return int(row[0]) if row else None

    def energy(self, uuid: str) -> Dict[str, int]:
        """Return the mJ of a run in closed windows by device."""
        rows = self._database.execute(
            "SELECT device, energy_mj FROM run_energy WHERE uuid = ?", (uuid,)
        )
        return dict(rows.fetchall())

    def add_message(self, uuid: str, verb: str, body: Mapping[str, Any]) -> None:
        """Add a message about a run (PUT or PATCH) to the outbox. Messages are forwarded in
        order.
        """
        with self._transaction() as database:
            database.execute(
                "INSERT INTO outbox (uuid, verb, body) VALUES (?,?,?)",
                (uuid, verb, json.dumps(body)),
            )

    def pending_messages(self, now_us: int) -> List[Tuple[int, str, str, Dict[str, Any]]]:
        """Return the pending messages about runs: (id, uuid, verb, body), oldest first, without
        those of runs that the server refused less than ten minutes ago.
        """
        rows = self._database.execute(
            "SELECT id, uuid, verb, body FROM outbox WHERE uuid NOT IN (SELECT o.uuid FROM "
            "refused_message r JOIN outbox o ON o.id = r.id WHERE r.at_us > ? AND r.at_us <= ?) "
            "ORDER BY id LIMIT 100",
            (now_us - REFUSED_RETRY_US, now_us),
        )
        return [
            (row_id, uuid, verb, json.loads(body)) for row_id, uuid, verb, body in rows.fetchall()
        ]

    def hold_refused(self, message: int, reason: str, *, now_us: int) -> None:
        """Keep a message that the server refused. It is sent again later, for 30 days."""
        with self._transaction() as database:
            database.execute(
                "INSERT INTO refused_message VALUES (?,?,?,?) ON CONFLICT (id) DO UPDATE SET "
                "at_us = excluded.at_us, reason = excluded.reason",
                (message, now_us, now_us, reason[:500]),
            )
            expired_us = now_us - _REFUSED_RETENTION_US
            database.execute(
                "DELETE FROM outbox WHERE id IN (SELECT id FROM refused_message WHERE first_us < "
                "?)",
                (expired_us,),
            )
            database.execute("DELETE FROM refused_message WHERE first_us < ?", (expired_us,))

    def refused_messages(self) -> RefusedMessages:
        """Return the refused messages, with those of the same runs that wait behind them."""
        count = self._database.execute(
            "SELECT COUNT(*) FROM outbox WHERE uuid IN (SELECT o.uuid FROM refused_message r JOIN "
            "outbox o ON o.id = r.id)"
        ).fetchone()[0]
        row = self._database.execute(
            "SELECT reason FROM refused_message ORDER BY at_us DESC, id DESC LIMIT 1"
        ).fetchone()
        return RefusedMessages(int(count), str(row[0]) if row else "")

    def has_pending(self, uuid: str) -> bool:
        """Whether a message about this run waits for the server. Refused ones do not."""
        refused = self._database.execute(
            "SELECT 1 FROM refused_message r JOIN outbox o ON o.id = r.id WHERE o.uuid = ?", (uuid,)
        ).fetchone()
        return refused is None and self.count_pending(uuid) > 0

    def count_pending(self, uuid: str) -> int:
        """Return the number of pending messages about this run."""
        return int(
            self._database.execute(
                "SELECT COUNT(*) FROM outbox WHERE uuid = ?", (uuid,)
            ).fetchone()[0]
        )

    def remove_message(self, message: int) -> None:
        """Remove a message that the server accepted or stored for a decision."""
        with self._transaction() as database:
            keep_message(database, message)
            database.execute("DELETE FROM refused_message WHERE id = ?", (message,))
            database.execute("DELETE FROM outbox WHERE id = ?", (message,))


RETENTION_US = 7 * 24 * 3600 * 1_000_000


class JobStore:
    """The job tables of a spool. Each writing call is one durable transaction and may raise
    SpoolFull.
    """

    def __init__(
        self,
        database: sqlite3.Connection,
        transaction: Callable[[], ContextManager[sqlite3.Connection]],
    ) -> None:
        self._database = database
        self._transaction = transaction

    @staticmethod
    def add_energy(
        database: sqlite3.Connection, job: str, device: str, energy_mj: int, until_us: int
    ) -> None:
        """Add the share of a closed window, inside the transaction that stores the window."""
        database.execute(
            "INSERT INTO job_energy VALUES (?,?,?,?) ON CONFLICT (job, device) "
            "DO UPDATE SET energy_mj = energy_mj + excluded.energy_mj, until_us = MAX(until_us, "
            "excluded.until_us)",
            (job, device, energy_mj, until_us),
        )

    def energy(self, job: str) -> Dict[str, int]:
        """Return the mJ of a job in closed windows by device, without the runs registered inside
        it.
        """
        return dict(
            self._database.execute(
                "SELECT device, energy_mj FROM job_energy WHERE job = ?", (job,)
            ).fetchall()
        )

    def add_run(self, job: str, run_uuid: str, now_us: int) -> None:
        """Store that a registered run belongs to a job."""
        with self._transaction() as database:
            database.execute(
                "INSERT OR REPLACE INTO job_run VALUES (?,?,?)", (run_uuid, job, now_us)
            )

    def runs(self, job: str) -> List[str]:
        """Return the registered runs of a job."""
        return [
            uuid
            for (uuid,) in self._database.execute("SELECT uuid FROM job_run WHERE job = ?", (job,))
        ]

    def delete_old(self, now_us: int) -> None:
        """Delete jobs without energy for a week."""
        with self._transaction() as database:
            database.execute("DELETE FROM job_energy WHERE until_us < ?", (now_us - RETENTION_US,))
            database.execute(
                "DELETE FROM job_run WHERE since_us < ?", (now_us - 10 * RETENTION_US,)
            )
