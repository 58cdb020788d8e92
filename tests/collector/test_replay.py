"""Recording and replay of traces."""

from __future__ import annotations

import time
from pathlib import Path

from labcarbon_collect.sources.base import ProcessUse
from labcarbon_collect.sources.replay import Replay

from tests.collector.collector_process import Collector
from tests.collector.readings import GPU, SECOND, T0, write_trace


def test_a_recorded_trace_plays_back_the_same_readings(tmp_path: Path) -> None:
    from labcarbon_collect.clock import Clock

    counters = write_trace(tmp_path / "t", seconds=5, seed=1)
    played = Replay(tmp_path / "t", speed=2)
    assert [device.key for device in played.open()] == [GPU]
    for tenth in (0, 7, 20, 400):
        clock = Clock(tenth * SECOND // 10, T0 + tenth * SECOND // 10)
        (reading,) = played.poll(lambda at=clock: at, with_processes=True)  # type: ignore[misc]
        assert reading.counter_mj == counters[min(2 * tenth, len(counters) - 1)]
        assert reading.processes == (ProcessUse(4_000_000),)
    played.close()


def test_the_daemon_records_a_trace(node: Collector, tmp_path: Path) -> None:
    node.start("--record", str(tmp_path / "t"))
    time.sleep(1.2)
    node.stop()
    (device,) = Replay(tmp_path / "t").open()
    assert device.measurement == "cpu_model"
