"""RAPL through a fake powercap tree: wraps, long gaps, mirrors, missing permission."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from labcarbon_collect.clock import Clock
from labcarbon_collect.sources.base import SourceAbsent, SourceFailed
from labcarbon_collect.sources.rapl import RaplSource

from tests.fakes.powercap import RANGE_UJ, FakePowercap

BOOT = "11111111-2222-3333-4444-555555555555"
PACKAGE, DRAM = "intel-rapl:0", "intel-rapl:0:1"


@dataclass(frozen=True)
class Stored:
    epoch: str
    counter_mj: int
    mono_us: int
    wall_us: int = 0
    boot: str = BOOT


class Machine:
    """A tree, a clock and a source. The tree changes while the source compares domains."""

    def __init__(self, root):
        self.tree = FakePowercap(root)
        self.monotonic_us = 10**9
        self.while_comparing = lambda: None
        self.cpuinfo = root.with_name("cpuinfo")
        self.cpu("GenuineIntel", 6, 106, "Intel(R) Xeon(R) Gold 6338")
        self.source = self.new_source()

    def new_source(self):
        return RaplSource(
            "n1",
            {"LABCARBON_POWERCAP": str(self.tree.root)},
            boot=BOOT,
            cpuinfo=str(self.cpuinfo),
            pause=lambda seconds: self.while_comparing(),
        )

    def cpu(self, vendor, family, model, name):
        block = (
            f"processor\t: 0\nvendor_id\t: {vendor}\ncpu family\t: {family}\nmodel\t\t: {model}\n"
            f"model name\t: {name}\n"
        )
        self.cpuinfo.write_text(block + "\n" + block.replace(": 0", ": 1"))

    def now(self):
        return Clock(self.monotonic_us, 1_790_000_000_000_000 + self.monotonic_us)

    def poll(self, after_s=0.0):
        self.monotonic_us += round(after_s * 1_000_000)
        return {
            reading.device: reading for reading in self.source.poll(self.now, with_processes=False)
        }

    def one(self, after_s=0.0):
        (reading,) = self.poll(after_s).values()
        return reading


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path / "powercap")


def test_package_and_memory_are_devices_and_other_domains_are_not(machine):
    machine.tree.add(PACKAGE, "package-0")
    machine.tree.add("intel-rapl:0:0", "core")
    machine.tree.add(DRAM, "dram", raw_uj=7)
    machine.tree.add("intel-rapl:1", "psys")
    devices = {info.key: info for info in machine.source.open()}
    assert set(devices) == {"cpu:n1/0", "dram:n1/0"}
    assert "not summed" in devices["cpu:n1/0"].facts["psys"]
    assert devices["cpu:n1/0"].measurement == "rapl"


@pytest.mark.parametrize(
    ("cpu", "measurement"),
    [
        (("GenuineIntel", 6, 106, "Intel(R) Xeon(R) Gold 6338"), "rapl"),
        (("GenuineIntel", 6, 62, "Intel(R) Xeon(R) CPU E5-2670 v2"), "rapl_model"),
        (("AuthenticAMD", 25, 17, "AMD EPYC 9354 32-Core Processor"), "rapl_model"),
    ],
)
def test_estimated_rapl_is_not_called_measured(machine, cpu, measurement):
    machine.cpu(*cpu)
    machine.tree.add(PACKAGE, "package-0")
    (info,) = machine.source.open()
    assert (info.measurement, machine.one().measurement, info.name) == (
        measurement,
        measurement,
        cpu[3],
    )


def test_microjoules_are_floored_on_the_running_total(machine):
    machine.tree.add(PACKAGE, "package-0", raw_uj=0)
    machine.source.open()
    first = machine.one()
    for _ in range(1000):
        machine.tree.draw(PACKAGE, 1999)
        last = machine.one(0.01)
    assert last.counter_mj - first.counter_mj == 1999
    assert last.epoch == first.epoch


def test_a_wrap_is_counted_through(machine):
    machine.tree.add(PACKAGE, "package-0", raw_uj=RANGE_UJ - 30_000_000)
    machine.source.open()
    first = machine.one()
    machine.tree.draw(PACKAGE, 100_000_000)
    last = machine.one(1)
    assert (last.counter_mj - first.counter_mj, last.epoch) == (100_000, first.epoch)
    assert last.power_mw == 100_000


def test_gap_longer_than_a_wrap_is_unknown(machine):
    machine.tree.add(PACKAGE, "package-0")
    machine.source.open()
    first = machine.one()
    machine.tree.draw(PACKAGE, 5_000_000)
    last = machine.one(RANGE_UJ / 1e6 / 300 + 1)  # 1.5 × 200 W
    (gap,) = machine.source.gaps()
    assert last.epoch != first.epoch
    assert (gap.reason, gap.epoch, gap.from_us, gap.to_us) == (
        "wrap",
        first.epoch,
        first.wall_us,
        last.wall_us,
    )
    assert machine.source.gaps() == []


def test_counter_fall_is_no_wrap(machine):
    """Some machines lose the counter in sleep. Read as a wrap, a fall would be 262 kJ in a
    second.
    """
    machine.tree.add(PACKAGE, "package-0", raw_uj=9_000_000_000)
    machine.source.open()
    first = machine.one()
    machine.tree.set(PACKAGE, 5)
    last = machine.one(1)
    assert last.epoch != first.epoch
    assert [gap.reason for gap in machine.source.gaps()] == ["lost"]


def test_unreadable_range_excludes_the_domain_with_a_note(machine):
    machine.tree.add(PACKAGE, "package-0")
    machine.tree.add(DRAM, "dram", range_uj=None)
    (info,) = machine.source.open()
    assert info.key == "cpu:n1/0"
    assert "dram:n1/0 is left out" in info.facts["left_out"]
    assert "max_energy_range_uj cannot be read" in info.facts["left_out"]


def test_two_dies_are_one_package(machine):
    machine.tree.add(PACKAGE, "package-0-die-0", raw_uj=100)
    machine.tree.add("intel-rapl:1", "package-0-die-1", raw_uj=5_000_000)
    (info,) = machine.source.open()
    assert info.key == "cpu:n1/0", "the same key as a model of the package"
    first = machine.one()
    machine.tree.draw(PACKAGE, 1_000_000)
    machine.tree.draw("intel-rapl:1", 2_000_000)
    assert machine.one(1).counter_mj - first.counter_mj == 3_000


def test_incomplete_package_is_excluded(machine):
    machine.tree.add(PACKAGE, "package-0-die-0")
    machine.tree.add("intel-rapl:1", "package-0-die-1", range_uj=None)
    with pytest.raises(SourceAbsent, match="no usable RAPL domain: cpu:n1/0 is left out"):
        machine.source.open()


@pytest.mark.parametrize(
    "names", [("package-0", "package-1"), ("package-0-die-0", "package-0-die-1")]
)
def test_mirrored_counter_counts_one_time(machine, names):
    machine.tree.add(PACKAGE, names[0], raw_uj=77)
    machine.tree.add("intel-rapl:1", names[1], raw_uj=77)

    def both_move():
        machine.tree.draw(PACKAGE, 1500)
        machine.tree.draw("intel-rapl:1", 1500)

    machine.while_comparing = both_move
    (info,) = machine.source.open()
    assert info.key == "cpu:n1/0"
    assert "intel-rapl:1 mirrors the counter of intel-rapl:0: excluded" in info.facts["left_out"]
    first = machine.one()
    both_move()
    assert machine.one(1).counter_mj - first.counter_mj in (1, 2)


def test_two_packages_that_merely_begin_alike_are_two(machine):
    machine.tree.add(PACKAGE, "package-0", raw_uj=77)
    machine.tree.add("intel-rapl:1", "package-1", raw_uj=77)
    machine.while_comparing = lambda: machine.tree.draw("intel-rapl:1", 1500)
    assert [info.key for info in machine.source.open()] == ["cpu:n1/0", "cpu:n1/1"]


def test_package_of_two_drivers_counts_one_time(machine):
    machine.tree.add(PACKAGE, "package-0", raw_uj=1)
    machine.tree.add("intel-rapl-mmio:0", "package-0", raw_uj=900)
    (info,) = machine.source.open()
    assert "of another driver" in info.facts["left_out"]


def test_missing_tree_and_missing_permission_have_their_own_fixes(machine):
    with pytest.raises(SourceAbsent, match="no RAPL domain") as absent:
        machine.source.open()
    assert "modprobe intel_rapl_msr" in absent.value.fix
    machine.tree.add(PACKAGE, "package-0")
    machine.tree.forbid(PACKAGE)
    with pytest.raises(SourceAbsent, match="no permission to read") as absent:
        machine.source.open()
    assert "m /sys/class/powercap/*/energy_uj 0440 root labcarbon" in absent.value.fix
    assert "systemd-tmpfiles --create" in absent.value.fix


def test_removed_counter_is_a_failure_and_returns_complete(machine):
    machine.tree.add(PACKAGE, "package-0")
    machine.source.open()
    first = machine.one()
    machine.tree.forbid(PACKAGE)
    with pytest.raises(SourceFailed):
        machine.poll(1)
    (machine.tree.root / PACKAGE / "energy_uj").rmdir()
    machine.tree.draw(PACKAGE, 44_000_000)
    last = machine.one(1)
    assert (last.counter_mj - first.counter_mj, last.epoch) == (44_000, first.epoch)


@pytest.mark.parametrize(
    ("away_s", "boot", "is_same_epoch"),
    [(30, BOOT, True), (2000, BOOT, False), (30, "another", False)],
)
def test_epoch_continues_over_a_short_restart_with_a_wrap(machine, away_s, boot, is_same_epoch):
    machine.tree.add(PACKAGE, "package-0", raw_uj=RANGE_UJ - 1_234_567)
    machine.source.open()
    first = machine.one()
    machine.tree.draw(PACKAGE, 3_000_000_999)
    machine.source = machine.new_source()
    machine.source.resume(
        {"cpu:n1/0": Stored(first.epoch, first.counter_mj, first.monotonic_us, boot=boot)}
    )
    machine.source.open()
    last = machine.one(away_s)
    assert (last.epoch == first.epoch) is is_same_epoch
    if is_same_epoch:
        start_uj = RANGE_UJ - 1_234_567
        assert (
            last.counter_mj - first.counter_mj
            == (start_uj + 3_000_000_999) // 1000 - start_uj // 1000
        )


@settings(max_examples=80, deadline=None)
@given(
    start_uj=st.integers(0, RANGE_UJ - 1),
    steps=st.lists(
        st.tuples(st.integers(1, 800), st.integers(0, 200_000_000), st.booleans()), max_size=25
    ),
)
def test_any_history_telescopes_exactly(tmp_path_factory, start_uj, steps):
    """For any draws, wraps and restarts: last minus first counter = floor of the total energy, to
    the mJ.
    """
    machine = Machine(tmp_path_factory.mktemp("powercap") / "tree")
    machine.tree.add(PACKAGE, "package-0", raw_uj=start_uj)
    machine.source.open()
    first = last = machine.one()
    drawn_uj = 0
    for seconds, power_uw, restart in steps:
        machine.tree.draw(PACKAGE, power_uw * seconds)
        drawn_uj += power_uw * seconds
        if restart:
            machine.source = machine.new_source()
            machine.source.resume(
                {"cpu:n1/0": Stored(last.epoch, last.counter_mj, last.monotonic_us)}
            )
            machine.source.open()
        last = machine.one(seconds)
    assert last.epoch == first.epoch
    assert last.counter_mj - first.counter_mj == (start_uj + drawn_uj) // 1000 - start_uj // 1000
