"""Removal of clear user names from a spool that was filled before names were hashed or dropped."""

from __future__ import annotations

import json
import re
import sqlite3
from typing import Any, Dict, List, Sequence

from labcarbon_collect.pseudonyms import DROPPED, HASH, KEEP, PSEUDONYM, UserNames, user_name_of
from labcarbon_collect.spool.history import forget_all
from labcarbon_collect.spool.store import Spool

_STAMP = "users"
_ID = re.compile(r"[0-9a-f]{64}")
_UID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{32}")


def pseudonymise_spool(spool: Spool, users: UserNames) -> int:
    """Rewrite the spool as if ``users`` had always been the setting. Returns the number of
    rewritten rows.

    Pseudonyms do not change: they cannot be reversed, and a new key yields new ones from now on. A
    window that was sent but not acknowledged is rewritten too. If the server has it already, it
    keeps its version and quarantines this one. Raises SpoolFull.
    """
    before = spool.get_value(_STAMP) or KEEP
    if before == users.stamp:
        return 0
    changed = 0
    if users.mode != KEEP and before.split(" ")[0] != users.mode:
        with spool.transaction() as database:
            database.execute("PRAGMA secure_delete=ON")
            forget_all(database)
            changed = _rewrite_windows(database, users) + _rewrite_anchors_and_messages(
                database, users
            )
        spool.rewrite()
    spool.set_value(_STAMP, users.stamp)
    return changed


def _rewrite_windows(database: sqlite3.Connection, users: UserNames) -> int:
    changed = 0
    for row_id, body in database.execute("SELECT id, body FROM window").fetchall():
        values, shares = json.loads(body)
        renamed = _rename_shares(shares, users)
        if renamed != shares:
            packed = json.dumps([values, renamed], separators=(",", ":"))
            database.execute("UPDATE window SET body = ? WHERE id = ?", (packed, row_id))
            changed += 1
    for row_id, body in database.execute("SELECT id, window FROM dead").fetchall():
        window = json.loads(body)
        renamed = _rename_shares(window["shares"], users)
        if renamed != window["shares"]:
            database.execute(
                "UPDATE dead SET window = ? WHERE id = ?",
                (json.dumps({**window, "shares": renamed}), row_id),
            )
            changed += 1
    return changed


def _rewrite_anchors_and_messages(database: sqlite3.Connection, users: UserNames) -> int:
    """Rewrite anchors, which contain a sole consumer, and messages about runs."""
    changed = 0
    for device, body in database.execute("SELECT device, body FROM anchor").fetchall():
        anchor = json.loads(body)
        sole = anchor.get("sole")
        if sole and pseudonymise_key(sole, users) != sole:
            renamed = json.dumps({**anchor, "sole": pseudonymise_key(sole, users)})
            database.execute("UPDATE anchor SET body = ? WHERE device = ?", (renamed, device))
            changed += 1
    owners = dict(database.execute("SELECT uuid, uid FROM run"))
    for row_id, uuid, body in database.execute("SELECT id, uuid, body FROM outbox").fetchall():
        facts = json.loads(body)
        name = facts.get("user") or (user_name_of(owners[uuid]) if uuid in owners else "")
        masked_facts = users.mask(facts, name) if name and not _is_pseudonym(name, users) else facts
        if masked_facts != facts:
            database.execute(
                "UPDATE outbox SET body = ? WHERE id = ?", (json.dumps(masked_facts), row_id)
            )
            changed += 1
    return changed


def _rename_shares(shares: Sequence[Sequence[Any]], users: UserNames) -> List[List[Any]]:
    """Return shares with public keys. Equal keys are summed; the order is that of windows."""
    sums: Dict[str, int] = {}
    for consumer, energy_mj in shares:
        key = pseudonymise_key(consumer, users)
        sums[key] = sums.get(key, 0) + energy_mj
    return [[key, energy_mj] for key, energy_mj in sorted(sums.items())]


def pseudonymise_key(consumer: str, users: UserNames) -> str:
    """Return a consumer key with public names instead of names that may belong to people.
    Pseudonyms do not change.
    """
    kind, _, rest = consumer.partition(":")
    owner, slash, command = rest.partition("/")
    if kind == "pod" and rest.count("/") == 2:
        rest, _, pod = rest.rpartition("/")
        return consumer if _UID.fullmatch(pod) else f"pod:{rest}/{_rename(pod, users)}"
    if kind == "container" and not slash:
        return consumer if _ID.fullmatch(rest) else f"container:{_rename(rest, users)}"
    if kind in ("proc", "container") and slash:
        renamed = command if _is_pseudonym(owner, users) else users.mask(command, owner)
        return f"{kind}:{_rename(owner, users)}/{renamed}"
    return consumer


def _rename(name: str, users: UserNames) -> str:
    return name if _is_pseudonym(name, users) else users.public_name(name)


def _is_pseudonym(name: str, users: UserNames) -> bool:
    return name == DROPPED or (users.mode == HASH and PSEUDONYM.fullmatch(name) is not None)
