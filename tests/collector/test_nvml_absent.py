"""Machines without a driver, and laptops with a sleeping GPU."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from labcarbon_collect.doctor import meters
from labcarbon_collect.sources.base import SourceFailed


def test_missing_driver_names_the_package_to_install():
    """In its own process, because another test may have loaded its library into this one."""
    program = (
        "from labcarbon_collect.sources.nvidia.source import NvmlSource\n"
        "from labcarbon_collect.sources.base import SourceAbsent\n"
        "import ctypes, pynvml\n"
        "real = ctypes.CDLL\n"
        "def missing(name, *rest, **more):\n"
        "    if 'nvidia-ml' in str(name): raise OSError(name)\n"
        "    return real(name, *rest, **more)\n"
        "pynvml.CDLL = missing\n"
        "try: NvmlSource('node', {}).open()\n"
        "except SourceAbsent as absent: print(absent.reason, '|', absent.fix)\n"
    )
    printed = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    ).stdout
    assert "libnvidia-ml.so.1 is missing | if there is an NVIDIA GPU, install its driver" in printed


def _pci(sys_root: Path, slot: str, status: str) -> Path:
    folder = sys_root / "bus/pci/devices" / slot
    (folder / "power").mkdir(parents=True)
    (folder / "vendor").write_text("0x10de\n")
    (folder / "class").write_text("0x030200\n")
    (folder / "power/runtime_status").write_text(f"{status}\n")
    (folder / "power/control").write_text("auto\n")
    return folder


def test_sleeping_gpu_is_never_queried(bench, tmp_path):
    machine = bench("hopper", opened=False)
    folder = _pci(tmp_path / "sys", "0000:01:00.0", "suspended")
    assert machine.source.open() == ()
    assert machine.poll() == []
    output = meters.nvml_check(str(tmp_path / "sys"))
    assert (output.state, "0000:01:00.0" in output.summary, "asleep" in output.summary) == (
        "ok",
        True,
        True,
    )
    assert machine.driver.gpus[0].state.calls == 0

    (folder / "power/runtime_status").write_text("active\n")
    with pytest.raises(SourceFailed, match="woke up"):
        machine.poll()
    (device,) = machine.source.open()
    assert device.facts["runtime_power_management"] == "on"
    before = machine.poll_one()
    calls = machine.driver.gpus[0].state.calls
    (folder / "power/runtime_status").write_text("suspended\n")
    machine.clock.pass_by(600)
    assert machine.poll() == []
    assert machine.driver.gpus[0].state.calls == calls
    (folder / "power/runtime_status").write_text("active\n")
    machine.clock.step(1)
    after = machine.poll_one()
    assert (after.epoch, after.counter_mj - before.counter_mj) == (before.epoch, 70_000)


def test_one_sleeping_gpu_of_two_is_skipped(bench, tmp_path):
    machine = bench("hopper", "ampere", opened=False)
    first = _pci(tmp_path / "sys", "0000:01:00.0", "suspended")
    _pci(tmp_path / "sys", "0000:02:00.0", "active")
    (device,) = machine.source.open()
    assert device.key == machine.driver.gpus[1].key
    before = machine.poll_one()
    assert machine.driver.gpus[0].state.calls == 0
    (first / "power/runtime_status").write_text("active\n")
    machine.clock.step(1)
    with pytest.raises(SourceFailed, match="woke up"):
        machine.poll()
    assert len(machine.source.open()) == 2
    machine.clock.step(1)
    _, after = machine.poll()
    assert (after.device, after.epoch) == (before.device, before.epoch)
    assert after.counter_mj - before.counter_mj == 110_000
