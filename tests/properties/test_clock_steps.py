"""The wall clock of a node is set at any moment, by any amount: no energy is lost or misplaced.

A simulated node measures its GPUs at each poll. Its true time, which is the server's, is known.
"""

import os
import random
import tempfile
import uuid
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from labcarbon_collect.api.wire import encode_batch
from labcarbon_collect.clock import Clock
from labcarbon_collect.energy.windows import ClosedWindows, Window, WindowBuilder
from labcarbon_collect.sources.base import Reading
from labcarbon_collect.spool.store import Spool

from apps.core.jobs import run_until_idle
from apps.energy.models import LedgerEntry
from apps.ingest.models import EnergyWindow, QuarantinedWindow
from apps.ingest.parsing import parse_batch
from apps.ingest.services import accept_batch
from tests.builders import MINUTE, T0, SmallLab, small_lab
from tests.examples import examples
from tests.properties.histories import undone

pytestmark = pytest.mark.django_db

SECOND = 1_000_000
POWER_W = 460
COUNTER_MJ = 10**9


@dataclass
class Node:
    """A node with a wall clock that is ``error_us`` ahead of the true time."""

    small: SmallLab
    spool: Spool
    gpus: int = 1
    poll_s: int = 1
    true_us: int = T0
    error_us: int = 0
    booted_us: int = T0 - 1000 * SECOND
    boot: str = field(default_factory=lambda: str(uuid.uuid4()))
    counter_mj: int = COUNTER_MJ
    spooled_before_reboot_mj: int = 0
    builders: dict[str, WindowBuilder] = field(default_factory=dict)
    booted_at_us: dict[str, int] = field(default_factory=dict)
    # Boots whose time the server can only learn from a wrong wall clock.
    uncertain_boots: set[str] = field(default_factory=set)
    uploaded_boots: set[str] = field(default_factory=set)
    true_times: dict[tuple[str, str, int], tuple[int, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.booted_at_us[self.boot] = self.booted_us

    @property
    def clock(self) -> Clock:
        return Clock(self.true_us - self.booted_us, self.true_us + self.error_us)

    @property
    def measured_mj(self) -> int:
        """The integral of the simulated driver."""
        return self.gpus * (self.counter_mj - COUNTER_MJ)

    def measure(self, seconds: int) -> None:
        """Measure poll by poll."""
        until_us = self.true_us + seconds * SECOND
        while self.true_us < until_us:
            self.true_us += self.poll_s * SECOND
            self.counter_mj += POWER_W * 1000 * self.poll_s
            self.read()

    def read(self) -> None:
        for number in range(self.gpus):
            device = f"gpu:GPU-0000-{number:04}"
            if device not in self.builders:
                self.builders[device] = WindowBuilder(
                    device=device,
                    boot=self.boot,
                    grid_us=MINUTE,
                    tolerance_us=1_500_000,
                    anchor=None,
                )
            reading = Reading(
                device=device,
                monotonic_us=self.clock.monotonic_us,
                wall_us=self.clock.wall_us,
                counter_mj=self.counter_mj,
                epoch="1",
                measurement="nvml_counter",
            )
            self._store(self.builders[device].add(reading, {"idle": 1}))

    def close(self) -> None:
        """Close and store the open windows."""
        for builder in self.builders.values():
            self._store(builder.flush())
        self.builders = {}

    def _store(self, closed: ClosedWindows) -> None:
        if not closed.windows and closed.anchor is None:
            return
        self.spool.append(
            boot=self.boot,
            windows=closed.windows,
            anchors=[closed.anchor] if closed.anchor else [],
            clock=self.clock,
        )

    def reboot(self) -> None:
        """Restart the machine: another boot, another monotonic clock."""
        self.close()
        self.spooled_before_reboot_mj += self.spool.spooled_mj()
        if self.boot not in self.uploaded_boots and abs(self.error_us) > 20 * SECOND:
            self.uncertain_boots.add(self.boot)
        self.true_us += 90 * SECOND
        self.booted_us, self.boot = self.true_us, str(uuid.uuid4())
        self.booted_at_us[self.boot] = self.booted_us
        self.true_us += 10 * SECOND
        self.read()

    def upload(self, delay_us: int) -> None:
        """Upload everything in batches, as the daemon does."""
        while True:
            batch = self.spool.begin_batch(live_from_us=self.clock.wall_us - 3 * MINUTE, limit=500)
            if batch is None:
                return
            self._note_true_times(batch.windows)
            body = encode_batch(
                batch=str(uuid.uuid4()),
                sent_at_us=self.clock.wall_us,
                node=str(self.small.node.uuid),
                boot=self.boot,
                monotonic_us=self.clock.monotonic_us,
                windows=batch.windows,
                gaps=(),
                health={},
                device_facts={},
                boot_clocks=self.spool.boot_clocks(
                    {window.epoch for window in batch.windows}, running=self.boot
                ),
            )
            results = accept_batch(
                node=self.small.node,
                batch=parse_batch(msgspec.json.encode(body)),
                received_us=self.true_us + delay_us,
            )
            self.spool.end_batch(
                batch, [(r[0], r[1] if len(r) > 1 else "") for r in results], now_us=self.true_us
            )

    def _note_true_times(self, windows: Sequence[Window]) -> None:
        for window in windows:
            boot = window.epoch.partition("/")[0]
            if boot == self.boot:
                self.uploaded_boots.add(boot)
            if boot not in self.uncertain_boots:
                booted_us = self.booted_at_us[boot]
                self.true_times[window.device, window.epoch, window.seq] = (
                    window.mono_start_us + booted_us,
                    window.mono_end_us + booted_us,
                )


steps_us = st.one_of(
    st.integers(-SECOND, SECOND),
    st.integers(-300 * SECOND, 300 * SECOND),
    st.integers(-3 * 86_400 * SECOND, 3 * 86_400 * SECOND),
    st.sampled_from([-100 * SECOND, 100 * SECOND, -30 * SECOND, 30 * SECOND]),
)
events = st.lists(
    st.one_of(
        st.tuples(st.just("measure"), st.integers(1, 400)),
        st.tuples(st.just("step"), steps_us),
        st.tuples(st.just("correct"), st.just(0)),
        st.tuples(st.just("upload"), st.integers(0, 2 * SECOND)),
        st.tuples(st.just("reboot"), st.just(0)),
    ),
    min_size=3,
    max_size=25,
)


def play(node: Node, history: list[tuple[str, int]]) -> None:
    node.read()
    for event, value in history:
        if event == "measure":
            node.measure(value)
        elif event == "step":
            node.error_us += value
        elif event == "correct":
            node.error_us = 0
        elif event == "upload":
            node.upload(value)
        else:
            node.reboot()
    node.close()
    node.upload(5_000)


def assert_nothing_is_lost(node: Node) -> None:
    """Compare ledger and quarantine with the counters, and the placed with the true times."""
    assert node.spool.depth().rows == node.spool.depth().dead == 0
    run_until_idle(worker="test")
    ledger_mj = sum(LedgerEntry.objects.values_list("energy_mj", flat=True))
    quarantined_mj = sum(QuarantinedWindow.objects.values_list("energy_mj", flat=True))
    assert ledger_mj + quarantined_mj == node.measured_mj
    assert quarantined_mj <= node.spooled_before_reboot_mj
    placed = EnergyWindow.objects.values_list(
        "device__key", "epoch__key", "sequence", "start_us", "end_us"
    )
    assert placed or not node.measured_mj or quarantined_mj
    for device, epoch, sequence, start_us, end_us in placed:
        true = node.true_times.get((device, epoch, sequence))
        if true is not None:
            assert abs(start_us - true[0]) <= MINUTE
            assert abs(end_us - true[1]) <= MINUTE


@settings(max_examples=examples(60))
@given(events)
def test_no_step_of_the_clock_loses_energy(history: list[tuple[str, int]]) -> None:
    with undone(), tempfile.TemporaryDirectory() as folder:
        with closing(Spool(Path(folder))) as spool:
            node = Node(small_lab(), spool)
            play(node, history)
            assert_nothing_is_lost(node)


def test_a_day_of_eight_gpus_with_steps_and_reboots(tmp_path: Path) -> None:
    """20 steps of one second to three days and 3 reboots; uploads each minute but for some hours
    without a connection.
    """
    rng = random.Random(os.environ["LABCARBON_SEED"])
    minutes = 24 * 60
    steps = set(rng.sample(range(minutes), 20))
    reboots = set(rng.sample(range(minutes), 3))
    away = [range(at, at + rng.randint(10, 180)) for at in rng.sample(range(minutes), 3)]
    with closing(Spool(tmp_path)) as spool:
        node = Node(small_lab(), spool, gpus=8, poll_s=10)
        node.read()
        for minute in range(minutes):
            before = rng.randint(0, 6) * 10
            node.measure(before)
            if minute in steps:
                node.error_us += rng.choice((-1, 1)) * int(259_200 ** rng.random() * SECOND)
            if minute in reboots:
                node.reboot()
            node.measure(60 - before)
            if not any(minute in hours for hours in away):
                node.upload(rng.randint(0, 2 * SECOND))
        node.close()
        node.upload(5_000)
        assert_nothing_is_lost(node)
