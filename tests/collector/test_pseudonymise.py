"""A spool that was filled before user names were hashed or dropped."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from labcarbon_collect.energy.windows import Anchor
from labcarbon_collect.pseudonyms import DROP, HASH, UserNames
from labcarbon_collect.spool.pseudonymise import pseudonymise_key, pseudonymise_spool
from labcarbon_collect.spool.store import Spool

from tests.collector.readings import GPU, T0, minute

HASHED, DROPPED = UserNames(HASH, b"5b" * 32), UserNames(DROP)
RUN = "0b1c7d60-0000-4000-8000-000000000001"


def filled(home: Path) -> Spool:
    """A spool with the work of two people, with clear names in all places."""
    spool = Spool(home)
    shares = (
        ("proc:anabelle/python3", 7),
        ("proc:anabelle/anabelle-job", 2),
        ("proc:benedict/python3", 3),
        ("idle", 4),
    )
    spool.append(
        boot="b",
        windows=[
            minute(0, 16, shares=tuple(sorted(shares))),
            minute(1, 5, shares=(("proc:anabelle/vi", 5),)),
        ],
        anchors=[Anchor(GPU, "e", 2, T0, T0, 1, "b", "nvml_counter", sole="proc:anabelle/vi")],
    )
    batch = spool.begin_batch(live_from_us=0, limit=1)
    assert batch is not None
    spool.end_batch(batch, [("rejected", "no")], now_us=T0)
    spool.append(boot="b", windows=[minute(2, 9, shares=(("container:anabelle/" + "a" * 64, 9),))])
    spool.runs.add_message(
        RUN, "PUT", {"user": "anabelle", "name": "of anabelle", "params": {"d": "/home/benedict"}}
    )
    spool.runs.add_message(RUN, "PATCH", {"state": "finished"})
    return spool


@pytest.mark.parametrize("users", [HASHED, DROPPED])
def test_existing_spool_is_rewritten_without_loss_of_energy(
    tmp_path: Path, users: UserNames
) -> None:
    spool = filled(tmp_path)
    before_mj, depth = spool.spooled_mj(), spool.depth()
    assert pseudonymise_spool(spool, users) == 5
    assert pseudonymise_spool(spool, users) == 0
    assert spool.spooled_mj() == before_mj
    assert (spool.depth().rows, spool.depth().dead) == (depth.rows, depth.dead)
    for window in spool.windows():
        assert sum(energy_mj for _, energy_mj in window.shares) == window.energy_mj
        assert len({consumer for consumer, _ in window.shares}) == len(window.shares)
    (put, patch) = spool.runs.pending_messages(0)
    assert put[3]["user"] == users.public_name("anabelle")
    assert put[3]["params"] == {"d": "/home/-"}
    assert patch[3] == {"state": "finished"}
    assert spool.anchors()[GPU].sole == f"proc:{users.public_name('anabelle')}/vi"
    for path in tmp_path.glob("spool.db*"):
        assert not re.search(rb"anabelle|benedict", path.read_bytes()), path
    spool.close()


def test_drop_sums_consumers_of_equal_names(tmp_path: Path) -> None:
    spool = filled(tmp_path)
    pseudonymise_spool(spool, DROPPED)
    first = next(window for window in spool.windows() if window.energy_mj == 16)
    assert dict(first.shares) == {"idle": 4, "proc:-/--job": 2, "proc:-/python3": 10}
    spool.close()


def test_pseudonyms_are_not_hashed_again_and_can_be_dropped(tmp_path: Path) -> None:
    spool = filled(tmp_path)
    pseudonymise_spool(spool, HASHED)
    hashed = [window.shares for window in spool.windows()]
    assert pseudonymise_spool(spool, UserNames(HASH, b"n" * 32)) == 0
    assert pseudonymise_spool(spool, UserNames()) == 0
    assert [window.shares for window in spool.windows()] == hashed
    pseudonymise_spool(spool, HASHED)
    assert [window.shares for window in spool.windows()] == hashed
    assert pseudonymise_spool(spool, DROPPED) > 0
    assert all("u-" not in consumer for window in spool.windows() for consumer, _ in window.shares)
    spool.close()


@pytest.mark.parametrize(
    ("key", "hashed"),
    [
        ("pod:hpc/vision/jupyter-ana", f"pod:hpc/vision/{HASHED.public_name('jupyter-ana')}"),
        (
            "pod:hpc/vision/0f3c9a51-7b1e-4c1a-9d7e-1234567890ab",
            "pod:hpc/vision/0f3c9a51-7b1e-4c1a-9d7e-1234567890ab",
        ),
        ("container:ana-dev", f"container:{HASHED.public_name('ana-dev')}"),
        ("container:" + "4e" * 32, "container:" + "4e" * 32),
        ("proc:-/python3", "proc:-/python3"),
        (f"run:{RUN}", f"run:{RUN}"),
        ("job:hpc/7", "job:hpc/7"),
        ("idle", "idle"),
    ],
)
def test_each_kind_of_consumer_is_pseudonymised(key: str, hashed: str) -> None:
    assert pseudonymise_key(key, HASHED) == hashed
