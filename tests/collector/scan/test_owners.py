"""Whose a file is, is told by the name of its user, as people are named to the server; who scans
owns only their own.
"""

from __future__ import annotations

import os
import pwd
import sqlite3
from contextlib import closing
from typing import Any

import pytest

from tests.collector.scan.support import NPY, Disk, safetensors
from tests.fakes.labcarbon_server import FakeServer

NOBODY = 65534
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="giving files away needs root")


def whose(server: FakeServer) -> dict[str, tuple[Any, Any]]:
    """Name → (user, own) of what the server was told of."""
    rows = [
        row for request in server.sent("POST", "/artifacts/") for row in request.body["artifacts"]
    ]
    return {row["name"]: (row.get("user"), row.get("own")) for row in rows}


def two_files_and_a_folder(disk: Disk) -> None:
    disk.put("a.npy", NPY + b"a")
    disk.put("model/config.json", b'{"model_type": "bert"}')
    disk.put("model/model.safetensors", safetensors())


def test_own_files_are_marked(disk: Disk, here: Any, server: FakeServer) -> None:
    two_files_and_a_folder(disk)
    here()
    me, own = pwd.getpwuid(os.getuid()).pw_name, os.getuid() != 0 or None
    assert whose(server) == {"a.npy": (me, own), "model": (me, own)}


@needs_root
def test_files_of_others_have_their_owner(
    disk: Disk, here: Any, server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    two_files_and_a_folder(disk)
    os.chown(disk.root / "a.npy", NOBODY, -1)
    os.chown(disk.root / "model", 4_000_000, -1)  # whom this machine does not know
    here()
    assert whose(server) == {"a.npy": ("nobody", None), "model": ("4000000", None)}
    monkeypatch.setenv("LABCARBON_USERS", "drop")
    here("--resend")
    assert whose(server) == {"a.npy": (None, None), "model": (None, None)}
    monkeypatch.setenv("LABCARBON_USERS", "hash")
    monkeypatch.setenv("LABCARBON_USERS_KEY", "k" * 32)
    here("--resend")
    user, own = whose(server)["a.npy"]
    assert (user.startswith("u-"), len(user), own) == (True, 14, None)


def test_a_database_without_owners_is_upgraded(disk: Disk, here: Any, server: FakeServer) -> None:
    two_files_and_a_folder(disk)
    here()
    with closing(sqlite3.connect(disk.state)) as database, database:
        database.execute("ALTER TABLE entry DROP COLUMN owner")
    disk.put("b.npy", NPY + b"b")
    here("--resend")
    me = pwd.getpwuid(os.getuid()).pw_name
    told = {name: user for name, (user, _) in whose(server).items()}
    assert told == {"a.npy": None, "b.npy": me, "model": None}, (
        "what is not read again has no owner yet"
    )
