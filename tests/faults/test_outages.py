"""The server is away for an hour, in every way that a server can be away; and a network delivers
what it likes.
"""

from __future__ import annotations

import itertools
import random
import uuid
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from django.db.models import Sum
from labcarbon_collect.api.transport import Transport
from labcarbon_collect.api.uploader import Uploader, UploadState
from labcarbon_collect.clock import Clock
from labcarbon_collect.energy.windows import Window
from labcarbon_collect.monitor.monitor import NodeMonitor
from labcarbon_collect.node_identity import boot_id
from labcarbon_collect.sources.poller import SourcePoller
from labcarbon_collect.spool.capacity import SpoolCapacity
from labcarbon_collect.spool.store import MAX_BATCH, Spool

from apps.accounts.services.labs import issue_node_token
from apps.core.clock import now_us
from apps.core.jobs import run_until_idle
from apps.energy.models import LedgerEntry
from apps.fleet.models import Node
from apps.ingest.models import EnergyWindow, QuarantinedWindow
from tests.builders import small_lab
from tests.collector.readings import GPU
from tests.collector.simulated_node import FakeConsumers, Machine, MachineSource
from tests.faults.proxy import (
    BUSY_429,
    BUSY_503,
    CUT,
    DATE_AFTER_S,
    HUNG,
    NOISY,
    PASS,
    REFUSED,
    RETRY_AFTER_S,
    FaultProxy,
    standing,
)
from tests.faults.seed import SEED
from tests.services.process import free_port

pytestmark = [pytest.mark.faults, pytest.mark.django_db(transaction=True)]

SECOND_US = 1_000_000
GRID_S = 10
# the clock is stepped so that the server is back when it is as late as the server's own clock
LATE_S = 40
# How long the server is away in each way: an hour in all.
AWAY = ((REFUSED, 900), (BUSY_503, 900), (BUSY_429, 900), (HUNG, 770), (CUT, 130))
HUNG_S = 0.3  # of patience with a server that says nothing; really waited for
# The first part of the jitter only: at most 121 s between two tries, so that each way of being away
# is met.
SHARE_OF_JITTER = 0.4


@dataclass
class Collector:
    """The daemon's loop on a stepped clock: polls each second, pushes when the push thread
    would.
    """

    home: Path
    url: str
    token: str
    node: Node
    machine: Machine
    rng: random.Random
    state: UploadState = field(default_factory=lambda: UploadState(ok=True, at_us=0))
    push_at_s: float = 0.0
    states: list[UploadState] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.spool = Spool(self.home, check=True)
        self.monitor = NodeMonitor(
            spool=self.spool,
            capacity=SpoolCapacity(self.spool),
            sources=SourcePoller(
                [("machine", MachineSource(self.machine, cpu=False))], now=self.machine.now
            ),
            consumers=FakeConsumers(self.machine),
            boot=boot_id(),
            grid_us=GRID_S * SECOND_US,
            now=self.machine.now,
            busy_us=lambda: 0,
        )
        self.transport = Transport(self.url, self.token, deadline_s=20.0)
        self.pusher = Uploader(
            self.spool,
            self.transport,
            node=str(self.node.uuid),
            boot=boot_id(),
            interval_us=GRID_S * SECOND_US,
            now=self.machine.now,
            random_unit=lambda: self.rng.random() * SHARE_OF_JITTER,
        )
        self.monitor.poll(with_processes=True)

    def close(self) -> None:
        self.transport.close()
        self.spool.close()

    def now_s(self) -> float:
        return self.machine.clock.monotonic_us / SECOND_US

    def second(self) -> None:
        """A second passes; energy is used."""
        self.machine.step(gpu_mj=self.rng.randint(60_000, 600_000))
        closed = self.monitor.poll(with_processes=self.now_s() % 5 == 0)
        if self.now_s() >= self.push_at_s or (self.state.ok and closed):
            self.upload_batch()

    def upload_batch(self) -> None:
        self.state = self.pusher.upload_batch()
        self.states.append(self.state)
        self.push_at_s = self.now_s() + (0 if self.state.more else self.state.wait_s or GRID_S)


@pytest.fixture
def enrolled() -> tuple[Node, str]:
    small = small_lab()
    return small.node, issue_node_token(lab=small.lab, node_uuid=small.node.uuid, now=now_us())


@pytest.fixture
def collector(
    tmp_path: Path, enrolled: tuple[Node, str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Collector]:
    """The server receives at the machine's stepped time: an hour passes for both."""
    node, token = enrolled
    started = Clock(
        5000 * SECOND_US, now_us() - (sum(seconds for _, seconds in AWAY) + LATE_S) * SECOND_US
    )
    made = Collector(
        tmp_path,
        f"http://127.0.0.1:{free_port()}",
        token,
        node,
        Machine(clock=started),
        random.Random(SEED),
    )
    monkeypatch.setattr("apps.ingest.api.now_us", lambda: made.machine.clock.wall_us)
    yield made
    made.close()


def _away(collector: Collector, gate: FaultProxy) -> None:
    port = int(collector.url.rpartition(":")[2])
    for mode, seconds in AWAY:
        gate.mode = mode
        gate.released.clear()
        collector.transport._deadline_s = HUNG_S if mode == HUNG else 20.0
        if mode == REFUSED:
            for _ in range(seconds):
                collector.second()
            continue
        with standing(gate, port):
            for _ in range(seconds):
                collector.second()
        collector.transport.close()


def _waits_s(gate: FaultProxy, mode: str) -> list[float]:
    """Return the seconds between arrivals, counted from each arrival in ``mode``."""
    return [
        after.at_s - before.at_s
        for before, after in itertools.pairwise(gate.arrivals)
        if before.mode == mode
    ]


def test_an_hour_away_loses_nothing_and_doubles_nothing(
    collector: Collector, live_server: object
) -> None:
    gate = FaultProxy(str(getattr(live_server, "url")), now_s=collector.now_s)  # noqa: B009 - pytest-django does not type it
    begun_mj = collector.machine.gpu_mj
    _away(collector, gate)
    assert {arrival.mode for arrival in gate.arrivals} == {BUSY_503, BUSY_429, HUNG, CUT}, SEED
    assert collector.spool.depth().rows >= 3600 // GRID_S - 3, SEED
    assert any("connection refused" in state.error for state in collector.states), SEED
    assert all(wait_s >= RETRY_AFTER_S for wait_s in _waits_s(gate, BUSY_503)), SEED
    assert all(wait_s >= DATE_AFTER_S - 2 for wait_s in _waits_s(gate, BUSY_429)), SEED
    assert max(state.wait_s for state in collector.states) <= max(121, DATE_AFTER_S), SEED
    gate.mode, back_s = PASS, collector.now_s()
    with standing(gate, int(collector.url.rpartition(":")[2])):
        while collector.spool.depth().rows or not collector.state.ok:
            collector.second()
            assert collector.now_s() - back_s < 150, f"{SEED}: not drained, {collector.state}"
        collector.monitor.flush()
        collector.upload_batch()
        collector.transport.close()
    assert collector.spool.depth().rows == collector.spool.depth().dead == 0
    drawn_mj = collector.machine.gpu_mj - begun_mj
    assert EnergyWindow.objects.aggregate(sum=Sum("energy_mj"))["sum"] == drawn_mj, SEED
    assert not QuarantinedWindow.objects.exists()
    run_until_idle(worker="test")
    assert LedgerEntry.objects.aggregate(sum=Sum("energy_mj"))["sum"] == drawn_mj, SEED
    tally = collector.spool.result_totals()
    assert sum(energy_mj for _, energy_mj in tally.values()) == drawn_mj, (SEED, tally)
    assert tally["duplicate"][0] > 0, "the reply that was cut after the commit came to nothing"


def test_live_windows_are_uploaded_first(collector: Collector, live_server: object) -> None:
    gate = FaultProxy(str(getattr(live_server, "url")), now_s=collector.now_s)  # noqa: B009
    collector.push_at_s = float("inf")
    collector.state = UploadState(ok=False, at_us=0)
    while collector.spool.depth().rows <= MAX_BATCH + 50:
        collector.machine.step(GRID_S, gpu_mj=1_000_000)
        collector.monitor.poll(with_processes=True)
    live_us = collector.machine.clock.wall_us - 3 * GRID_S * SECOND_US
    with standing(gate, int(collector.url.rpartition(":")[2])):
        while collector.spool.depth().rows:
            collector.upload_batch()
        collector.transport.close()
    first, second = (arrival.ends_us for arrival in gate.arrivals[:2])
    assert len(first) == MAX_BATCH
    live = [end_us for end_us in first if end_us >= live_us]
    assert first[: len(live)] == sorted(live, reverse=True)
    assert len(live) >= 3
    assert first[len(live) :] == sorted(first[len(live) :])
    assert max(second) < live_us


def _window(rng: random.Random, device: str, seq: int, start_us: int) -> Window:
    energy_mj, idle_mj = rng.randint(1, 400_000), 0
    idle_mj = rng.randint(0, energy_mj)
    return Window(
        device=device,
        epoch="e",
        seq=seq,
        start_us=start_us,
        end_us=start_us + SECOND_US,
        mono_start_us=seq * SECOND_US,
        mono_end_us=(seq + 1) * SECOND_US,
        counter_start_mj=seq * 500_000,
        counter_end_mj=seq * 500_000 + energy_mj,
        energy_mj=energy_mj,
        measurement="nvml_counter",
        flags=0,
        util_mean_pm=None,
        util_max_pm=None,
        mem_mean_mib=None,
        mem_max_mib=None,
        processes=1,
        shares=tuple(
            sorted({"idle": idle_mj, f"proc:user{seq % 3}/python": energy_mj - idle_mj}.items())
        ),
    )


@pytest.mark.parametrize("seed", range(3))
def test_requests_delivered_one_to_five_times_in_any_order(
    seed: int, tmp_path: Path, enrolled: tuple[Node, str], live_server: object
) -> None:
    rng, (node, token), port = random.Random(seed), enrolled, free_port()
    gate = FaultProxy(str(getattr(live_server, "url")), rng=rng, mode=NOISY)  # noqa: B009
    devices, spool = [GPU, f"gpu:GPU-{uuid.UUID(int=seed)}"], Spool(tmp_path)
    transport = Transport(f"http://127.0.0.1:{port}", token, deadline_s=20)
    clock = Clock(10**12, now_us())
    pusher = Uploader(
        spool,
        transport,
        node=str(node.uuid),
        boot=boot_id(),
        interval_us=SECOND_US,
        now=lambda: clock,
    )
    begun_us, sent_mj, windows = clock.wall_us - 7200 * SECOND_US, defaultdict(int), 0
    with standing(gate, port):
        for seq in itertools.count():
            if seq < 300:
                fresh = [
                    _window(rng, device, seq, begun_us + seq * SECOND_US) for device in devices
                ]
                spool.append(boot=boot_id(), windows=fresh)
                windows += len(fresh)
                for window in fresh:
                    sent_mj[window.device] += window.energy_mj
            if rng.random() < 0.1 or seq >= 300:
                pusher.upload_batch()
            if seq >= 300 and not spool.depth().rows:
                break
            assert seq < 600, "the spool does not empty"
        gate.send_delayed()
        transport.close()
    run_until_idle(worker="test")
    stored = EnergyWindow.objects.values_list("device__key").annotate(Sum("energy_mj"))
    ledger = LedgerEntry.objects.values_list("device__key").annotate(Sum("energy_mj"))
    assert dict(stored) == dict(ledger) == sent_mj
    assert EnergyWindow.objects.count() == windows
    assert not QuarantinedWindow.objects.exists()
    assert spool.depth().dead == 0
    assert gate.forwarded > len(gate.arrivals)
    spool.close()
