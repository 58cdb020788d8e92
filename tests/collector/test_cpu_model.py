"""The processor model: the right row, the right watts, a stateless counter."""

from __future__ import annotations

import ast
from pathlib import Path

import labcarbon_collect
import pytest
from labcarbon_collect.clock import Clock
from labcarbon_collect.sources.base import SourceAbsent, SourceFailed
from labcarbon_collect.sources.cpu_model import CpuModel, modelled_idle_mw
from labcarbon_collect.sources.cpu_power import identify, thread_power

EPYC = {
    "vendor_id": "AuthenticAMD",
    "cpu family": "25",
    "model": "17",
    "stepping": "1",
    "model name": "AMD EPYC 9354",
}
NODE = "0e7b9c1a-0000-4000-8000-00000000000a"


def machine(
    proc: Path, *, threads: int = 4, packages: int = 1, flags: str = "fpu", ticks: int = 0
) -> Path:
    """A /proc with ``ticks`` of user time on every thread."""
    blocks = []
    for cpu in range(threads):
        block = {
            **EPYC,
            "processor": str(cpu),
            "physical id": str(cpu * packages // threads),
            "flags": flags,
        }
        blocks.append("".join(f"{key}\t: {value}\n" for key, value in block.items()))
    (proc / "sys/kernel/random").mkdir(parents=True, exist_ok=True)
    (proc / "sys/kernel/random/boot_id").write_text("boot-1\n")
    (proc / "cpuinfo").write_text("\n".join(blocks))
    lines = [f"cpu{cpu} {ticks} 0 0 99999 7 0 0 55 0 0" for cpu in range(threads)]
    (proc / "stat").write_text("\n".join(["cpu  1 2 3 4", *lines, "intr 5"]))
    return proc


def now() -> Clock:
    return Clock(5, 7)


@pytest.mark.parametrize(
    ("cpuinfo", "name"),
    [
        (EPYC, "EPYC 4th Gen"),
        ({**EPYC, "model": "1"}, "EPYC 3rd Gen"),
        ({**EPYC, "cpu family": "26", "model": "2"}, "EPYC 5th Gen"),
        (
            {"vendor_id": "GenuineIntel", "cpu family": "6", "model": "85", "stepping": "4"},
            "Skylake",
        ),
        (
            {"vendor_id": "GenuineIntel", "cpu family": "6", "model": "85", "stepping": "7"},
            "Cascade Lake",
        ),
        ({"vendor_id": "GenuineIntel", "cpu family": "6", "model": "143"}, "Sapphire Rapids"),
        ({"CPU implementer": "0x41", "CPU part": "0xd0c"}, "Graviton2"),
        ({"vendor_id": "GenuineIntel", "cpu family": "6", "model": "9999"}, None),
        ({}, None),
    ],
)
def test_processors_are_named_by_family_and_model(
    cpuinfo: dict[str, str], name: str | None
) -> None:
    assert identify(cpuinfo).microarchitecture == name


def test_unknown_processor_gets_the_median_and_range_of_its_vendor() -> None:
    power = thread_power(identify({"vendor_id": "AuthenticAMD", "cpu family": "99", "model": "1"}))
    assert power.basis == "median of amd"
    assert (power.idle_mw, power.max_mw) == (739, 2239)
    assert (power.low_mw, power.high_mw) == (445, 8961)
    assert thread_power(identify({})).basis == "median of all vendors"


def test_energy_is_idle_time_and_busy_time_per_thread(tmp_path: Path) -> None:
    awake = [10_000_000]
    source = CpuModel(NODE, proc=machine(tmp_path), awake=lambda: awake[0])
    (info,) = source.open()
    assert (info.key, info.facts["idle_mw"], info.facts["max_mw"]) == (
        f"cpu:{NODE}/0",
        "2956",
        "8956",
    )
    (before,) = source.poll(now, with_processes=True)
    awake[0] += 10_000_000
    machine(tmp_path, ticks=500)  # 5 s on each of 4 threads
    (after,) = source.poll(lambda: Clock(10_000_005, 10_000_007), with_processes=True)
    # 10 s × 4 × 0.739 W + 20 thread-seconds × 1.5 W
    assert after.counter_mj - before.counter_mj == 29_560 + 30_000
    assert after.util_pm == 500
    assert after.processes is None


def test_restart_yields_the_same_counter_and_epoch(tmp_path: Path) -> None:
    readings = []
    for _ in range(2):
        source = CpuModel(NODE, proc=machine(tmp_path, ticks=77), awake=lambda: 10_000_000)
        source.open()
        readings += source.poll(now, with_processes=True)
    assert readings[0] == readings[1]


def test_each_package_is_a_device_and_a_guest_is_marked(tmp_path: Path) -> None:
    source = CpuModel(NODE, proc=machine(tmp_path, packages=2, flags="fpu hypervisor"))
    infos = source.open()
    assert [info.key for info in infos] == [f"cpu:{NODE}/0", f"cpu:{NODE}/1"]
    assert {info.facts["threads"] for info in infos} == {"2"}
    assert {info.facts["virtual_machine"] for info in infos} == {"yes: host share unknown"}


def test_a_tick_backwards_never_lowers_the_counter_and_a_lost_processor_fails(
    tmp_path: Path,
) -> None:
    source = CpuModel(NODE, proc=machine(tmp_path, ticks=100), awake=lambda: 10_000_000)
    source.open()
    (before,) = source.poll(now, with_processes=True)
    machine(tmp_path, ticks=99)
    assert source.poll(now, with_processes=True)[0].counter_mj == before.counter_mj
    machine(tmp_path, threads=3)
    with pytest.raises(SourceFailed, match="offline"):
        source.poll(now, with_processes=True)


def test_no_model_without_proc(tmp_path: Path) -> None:
    with pytest.raises(SourceAbsent):
        CpuModel(NODE, proc=tmp_path).open()


def test_this_machine_has_a_model() -> None:
    assert all(idle_mw > 0 for idle_mw in modelled_idle_mw(NODE).values())


def test_the_collector_is_python_3_9() -> None:
    """Syntax only: a login node may have an old Python."""
    for path in Path(labcarbon_collect.__file__).parent.rglob("*.py"):
        tree = ast.parse(path.read_text(), feature_version=(3, 9))
        future = [
            node
            for node in tree.body
            if isinstance(node, ast.ImportFrom) and node.module == "__future__"
        ]
        assert future or len(tree.body) <= 3, path


def test_a_poll_without_processes_only_starts_the_interval_of_utilisation(tmp_path: Path) -> None:
    source = CpuModel(NODE, proc=machine(tmp_path), awake=lambda: 10_000_000)
    source.open()
    source.poll(now, with_processes=True)
    machine(tmp_path, ticks=400)
    assert source.poll(lambda: Clock(4_000_005, 7), with_processes=False) == ()
    machine(tmp_path, ticks=425)  # a quarter of a second on each of 4 threads
    (after,) = source.poll(lambda: Clock(5_000_005, 7), with_processes=True)
    assert after.util_pm == 250
    assert after.counter_mj == 29_560 + 4 * 4_250 * 1500 // 1000
    (again,) = source.poll(lambda: Clock(6_000_005, 7), with_processes=True)
    assert (again.util_pm, again.counter_mj) == (0, after.counter_mj)
