"""What the server acknowledged in the last three days, kept in case the server is restored.

A server that is restored from a backup forgot what it received since. Each request says when the
server received the last batch that it acknowledged. Each response contains when the server received
the newest batch up to then that it still knows. If that is older, the rest is sent again.
Identities do not change, so what the server still has is a duplicate.
"""

from __future__ import annotations

import sqlite3
from typing import Optional, Tuple

KEPT_US = 3 * 24 * 3600 * 1_000_000
_WINDOW = "id, device, epoch, seq, start_us, end_us, energy_mj, body"


def keep_window(database: sqlite3.Connection, row_id: int, received_us: int) -> None:
    """Keep a waiting window that the server acknowledged. Call it before the window is deleted."""
    database.execute(
        f"INSERT OR REPLACE INTO uploaded ({_WINDOW}, received_us) "
        f"SELECT {_WINDOW}, ? FROM window WHERE id = ?",
        (received_us, row_id),
    )


def keep_message(database: sqlite3.Connection, message: int) -> None:
    """Keep a message that the server accepted. Call it before the message is deleted.

    Its time is that of the last acknowledged batch, by the server's clock.
    """
    database.execute(
        "INSERT OR REPLACE INTO sent_message (id, uuid, verb, body, received_us) SELECT id, uuid, "
        "verb, body, COALESCE((SELECT MAX(received_us) FROM uploaded), 0) FROM outbox WHERE id = ?",
        (message,),
    )


def acknowledged_us(database: sqlite3.Connection) -> Optional[int]:
    """Return when the server received the last batch of which windows are kept, or None."""
    newest: Optional[int] = database.execute("SELECT MAX(received_us) FROM uploaded").fetchone()[0]
    return newest


def requeue_forgotten(database: sqlite3.Connection, previous_us: Optional[int]) -> Tuple[int, int]:
    """Queue again what the server received after ``previous_us`` (None: everything). Returns the
    numbers of windows and messages.

    ``previous_us``: when the server received the last acknowledged batch that it still knows.
    """
    since_us = -1 if previous_us is None else previous_us
    windows = database.execute(
        f"INSERT OR IGNORE INTO window ({_WINDOW}, sent) SELECT {_WINDOW}, 1 FROM uploaded "
        "WHERE received_us > ? ORDER BY id",
        (since_us,),
    ).rowcount
    if not windows:
        return 0, 0
    database.execute("DELETE FROM uploaded WHERE received_us > ?", (since_us,))
    # A message follows the batch whose time it bears, so one of the same time may be forgotten.
    messages = database.execute(
        "INSERT INTO outbox (uuid, verb, body) SELECT uuid, verb, body FROM sent_message "
        "WHERE received_us >= ? ORDER BY id",
        (since_us,),
    ).rowcount
    database.execute("DELETE FROM sent_message WHERE received_us >= ?", (since_us,))
    return windows, messages


def forget_old(database: sqlite3.Connection, now_us: int) -> None:
    """Delete what was received more than three days before ``now_us``, by the server's clock."""
    for table in ("uploaded", "sent_message"):
        database.execute(f"DELETE FROM {table} WHERE received_us < ?", (now_us - KEPT_US,))


def forget_all(database: sqlite3.Connection) -> None:
    """Delete everything: the space is needed, or its names must not stay."""
    database.execute("DELETE FROM uploaded")
    database.execute("DELETE FROM sent_message")
