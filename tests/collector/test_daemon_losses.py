"""The daemon as a process: kills, damaged or lost spool, unsafe and cloned folders."""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
from pathlib import Path

import pytest
from labcarbon_collect.spool.store import Spool

from tests.collector.collector_process import Collector, wait_for
from tests.collector.readings import GPU, check, write_trace
from tests.fakes import labcarbon_server as fakes


def test_fifteen_kills_lose_and_duplicate_nothing(
    node: Collector, server: fakes.FakeServer, tmp_path: Path
) -> None:
    seed = 20261121
    dice = random.Random(seed)
    counters = write_trace(tmp_path / "trace.jsonl", seconds=600, seed=seed)
    node.settings.update(
        LABCARBON_SOURCES="replay",
        LABCARBON_REPLAY=str(tmp_path / "trace.jsonl"),
        LABCARBON_REPLAY_START_US=str(time.time_ns() // 1000),
    )
    node.start()
    node.stop(signal.SIGKILL)
    spool = Spool(node.home)
    started = min(
        [spool.anchors()[GPU].counter_mj, *(window.counter_start_mj for window in spool.windows())]
    )
    spool.close()
    node.enrol(server.url)
    for _ in range(15):
        server.faults = dice.sample(
            [
                fakes.drop_connection,
                fakes.store_and_drop_connection,
                fakes.truncate_response,
                fakes.error_response(503),
            ],
            2,
        )
        node.start(until_ready=False)
        time.sleep(dice.uniform(0.05, 0.9))
        node.stop(signal.SIGKILL)
    server.faults = []
    node.start()
    assert node.stop() == 0
    spool = Spool(node.home)
    last = spool.anchors()[GPU].counter_mj
    waiting = list(spool.windows())
    check(waiting)
    answered_mj = sum(mj for _, mj in spool.result_totals().values())
    spool.close()
    assert answered_mj + sum(w.energy_mj for w in waiting) == last - started > 0, f"seed {seed}"
    # Windows of the server plus waiting windows that it lacks equal the counter difference, too.
    lock = set(server.windows)
    missing = sum(w.energy_mj for w in waiting if (w.device, w.epoch, w.seq) not in lock)
    assert server.stored_mj + missing == last - started, f"seed {seed}"
    assert {started, last} <= set(counters)


def test_damaged_spool_is_renamed_and_measuring_continues(node: Collector) -> None:
    node.start()
    node.stop()
    path = node.home / "spool.db"
    content = bytearray(path.read_bytes())
    content[4096 : 4096 * 4] = os.urandom(4096 * 3)
    path.write_bytes(bytes(content))
    node.start()
    status = node.status()
    assert status is not None
    assert "renamed" in " ".join(status["notes"])
    assert list(node.home.glob("spool.db.damaged-*"))
    assert status["sources"]["cpu_model"]["state"] == "measuring"


@pytest.mark.parametrize("lost", ["deleted", "of nought bytes"])
def test_deleted_spool_loses_no_energy(node: Collector, lost: str) -> None:
    node.start()
    node.stop()
    spool = Spool(node.home)
    windows = list(spool.windows())
    spool.close()
    for path in node.home.glob("spool.db*"):
        path.unlink() if lost == "deleted" else path.write_bytes(b"")
    node.start()
    assert "continue from their counters" in " ".join((node.status() or {})["notes"])
    node.stop()
    spool = Spool(node.home)
    second = list(spool.windows())
    spool.close()
    check(second)
    assert second[0].counter_start_mj == windows[0].counter_start_mj
    assert {w.epoch for w in second}.isdisjoint({w.epoch for w in windows})


@pytest.mark.parametrize("unsafe", ["writable", "link", "token"])
def test_unsafe_folders_and_tokens_are_refused_with_the_fix(
    node: Collector, server: fakes.FakeServer, unsafe: str
) -> None:
    node.enrol(server.url)
    if unsafe == "writable":
        node.home.chmod(0o777)
        expected = f"chmod 700 {node.home}"
    elif unsafe == "link":
        shutil.move(node.home, node.root / "real")
        node.home.symlink_to(node.root / "real")
        expected = "symbolic link"
    else:
        (node.home / "node-token").chmod(0o644)
        expected = "chmod 600"
    if unsafe == "token":
        node.start()
        assert expected in wait_for(lambda: (node.status() or {}).get("push", {}).get("error"))
        assert server.sent("POST", "ingest/") == []
    else:
        done = node.call("daemon")
        assert done.returncode == 1
        assert expected in done.stderr
    assert expected in node.call("doctor").stdout


def test_cloned_disk_is_a_new_node(tmp_path: Path) -> None:
    from labcarbon_collect.node_identity import node_identity

    first = node_identity(tmp_path, {}, machine="aaa")
    (tmp_path / "node-token").write_text("secret")
    assert node_identity(tmp_path, {}, machine="aaa") == first
    clone = node_identity(tmp_path, {}, machine="bbb")
    assert clone.uuid != first.uuid
    assert "node-token" in clone.foreign_files
    assert not (tmp_path / "node-token").exists()
    assert (tmp_path / f"of-{first.uuid}" / "node-token").exists()
