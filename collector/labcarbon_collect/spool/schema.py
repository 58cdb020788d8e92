"""Tables of the spool, opening and repair of its file, and the row format of windows."""

from __future__ import annotations

import json
import os
import sqlite3
import time
import uuid
from pathlib import Path
from typing import Any, Optional, Sequence, Tuple

from labcarbon_collect.energy.windows import Window
from labcarbon_collect.node_identity import ConfigurationError

FILE = "spool.db"
SCHEMA_VERSION = "1"
_SCHEMA = """
CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS name (id INTEGER PRIMARY KEY, text TEXT NOT NULL UNIQUE);
CREATE TABLE IF NOT EXISTS window (
  id INTEGER PRIMARY KEY AUTOINCREMENT, device INTEGER NOT NULL, epoch INTEGER NOT NULL,
  seq INTEGER NOT NULL, start_us INTEGER NOT NULL, end_us INTEGER NOT NULL, energy_mj INTEGER NOT NULL,
  sent INTEGER NOT NULL DEFAULT 0, body TEXT NOT NULL, UNIQUE (device, epoch, seq));
CREATE TABLE IF NOT EXISTS uploaded (
  id INTEGER PRIMARY KEY, device INTEGER NOT NULL, epoch INTEGER NOT NULL, seq INTEGER NOT NULL,
  start_us INTEGER NOT NULL, end_us INTEGER NOT NULL, energy_mj INTEGER NOT NULL, body TEXT NOT NULL,
  received_us INTEGER NOT NULL);
CREATE INDEX IF NOT EXISTS uploaded_received ON uploaded (received_us);
CREATE TABLE IF NOT EXISTS sent_message (
  id INTEGER PRIMARY KEY, uuid TEXT NOT NULL, verb TEXT NOT NULL, body TEXT NOT NULL, received_us INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS dead (
  id INTEGER PRIMARY KEY, at_us INTEGER NOT NULL, reason TEXT NOT NULL, energy_mj INTEGER NOT NULL, window TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS gap (
  id INTEGER PRIMARY KEY, device TEXT NOT NULL, epoch TEXT NOT NULL, from_us INTEGER NOT NULL, to_us INTEGER NOT NULL,
  reason TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS boot_clock (
  boot TEXT PRIMARY KEY, mono_us INTEGER NOT NULL, wall_us INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS anchor (device TEXT PRIMARY KEY, body TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS tally (
  result TEXT PRIMARY KEY, windows INTEGER NOT NULL, energy_mj INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS run (
  uuid TEXT PRIMARY KEY, pid INTEGER NOT NULL, uid INTEGER NOT NULL, started_ticks INTEGER NOT NULL,
  registered_us INTEGER NOT NULL, ended_us INTEGER) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS run_energy (
  uuid TEXT NOT NULL, device TEXT NOT NULL, energy_mj INTEGER NOT NULL, PRIMARY KEY (uuid, device)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS job_energy (
  job TEXT NOT NULL, device TEXT NOT NULL, energy_mj INTEGER NOT NULL, until_us INTEGER NOT NULL,
  PRIMARY KEY (job, device)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS job_run (
  uuid TEXT PRIMARY KEY, job TEXT NOT NULL, since_us INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS idle (
  device TEXT NOT NULL, day INTEGER NOT NULL, bin INTEGER NOT NULL, windows INTEGER NOT NULL,
  PRIMARY KEY (device, day, bin)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS outbox (
  id INTEGER PRIMARY KEY, uuid TEXT NOT NULL, verb TEXT NOT NULL, body TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS refused_message (
  id INTEGER PRIMARY KEY, first_us INTEGER NOT NULL, at_us INTEGER NOT NULL, reason TEXT NOT NULL);
"""  # noqa: E501


class SpoolFull(Exception):
    """The disk or the spool's own limit has no space left."""


def open_database(home: Path, *, check: bool) -> Tuple[sqlite3.Connection, Optional[str]]:
    """Open the spool in ``home``. A damaged file is renamed and a new one created.

    ``check`` reads the complete file for damage first (at the start of the daemon). Returns the
    connection and the new name of the damaged file, if any. Raises SpoolFull, ConfigurationError.
    """
    path = home / FILE
    try:
        return _connect(path, check), None
    except sqlite3.DatabaseError as error:
        if is_disk_full(error) or "locked" in str(error):
            raise SpoolFull(f"{path}: {error}") from error
        if _is_access_refused(error):
            raise ConfigurationError(
                f"{path} cannot be written ({error}): make uid {os.geteuid()} the owner of {home} "
                "and its files, and check that the disk is not mounted read-only"
            ) from error
        damaged_file = rename_damaged(path)
        return _connect(path, False), damaged_file


def _connect(path: Path, check: bool) -> sqlite3.Connection:
    if path.is_symlink():
        raise ConfigurationError(f"{path} is a symbolic link: remove it")
    if not path.exists():
        # Only for a new file. Closing a descriptor of an open database would release this process's
        # locks. Another process that closes the database would then consider itself the last one
        # and delete the journal in use.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    database = sqlite3.connect(str(path), timeout=20, isolation_level=None)
    try:
        database.execute(
            "PRAGMA auto_vacuum=INCREMENTAL"
        )  # lets the file shrink; effective for a new file only
        database.execute("PRAGMA journal_mode=WAL")
        database.execute("PRAGMA synchronous=FULL")
        # A small journal, because it occupies space on a nearly full disk.
        database.execute("PRAGMA wal_autocheckpoint=16")
        database.execute("PRAGMA journal_size_limit=65536")
        if check and database.execute("PRAGMA quick_check(1)").fetchone() != ("ok",):
            raise sqlite3.DatabaseError("quick_check found damage")
        database.executescript(_SCHEMA)
        seeds = (("schema", SCHEMA_VERSION), ("incarnation", uuid.uuid4().hex[:8]))
        database.executemany("INSERT OR IGNORE INTO meta VALUES (?, ?)", seeds)
    except BaseException:
        database.close()
        raise
    return database


def rename_damaged(path: Path) -> str:
    """Rename a damaged spool with its journals. Returns the new name."""
    damaged_path = path.with_name(
        f"{path.name}.damaged-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-"
        f"{uuid.uuid4().hex[:4]}"
    )
    for suffix in ("", "-wal", "-shm"):
        part = path.with_name(path.name + suffix)
        if part.exists():
            part.rename(damaged_path.with_name(damaged_path.name + suffix))
    return damaged_path.name


def is_disk_full(error: sqlite3.Error) -> bool:
    """Whether SQLite failed for lack of space instead of damage (including an I/O error of a full
    tmpfs).
    """
    text = str(error).lower()
    return "full" in text or "disk i/o error" in text


def _is_access_refused(error: sqlite3.Error) -> bool:
    """Whether this process may not write the file: another owner, or a read-only disk."""
    text = str(error).lower()
    return "readonly" in text or "unable to open" in text


def is_corrupt(error: sqlite3.Error) -> bool:
    """Whether the file itself is damaged."""
    text = str(error).lower()
    return "malformed" in text or "not a database" in text or "corrupt" in text


_BODY_FIELDS = (
    "mono_start_us", "mono_end_us", "counter_start_mj", "counter_end_mj", "measurement", "flags",
    "util_mean_pm", "util_max_pm", "mem_mean_mib", "mem_max_mib", "processes",
)  # fmt: skip


def pack_window(window: Window) -> str:
    """Return the columns without queries, and the shares, as compact JSON."""
    values = [getattr(window, name) for name in _BODY_FIELDS]
    return json.dumps([values, window.shares], separators=(",", ":"))


def unpack_window(device: str, epoch: str, row: Sequence[Any]) -> Window:
    """Return a window from (seq, start_us, end_us, energy_mj, body)."""
    seq, start_us, end_us, energy_mj, body = row
    values, shares = json.loads(body)
    return Window(
        device=device,
        epoch=epoch,
        seq=seq,
        start_us=start_us,
        end_us=end_us,
        energy_mj=energy_mj,
        shares=tuple((consumer, mj) for consumer, mj in shares),
        **dict(zip(_BODY_FIELDS, values)),
    )
