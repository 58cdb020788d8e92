"""What is wrong with the machine: drivers, permissions, folders, a second daemon."""

from __future__ import annotations

import ctypes.util
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fakes.nvml_driver import DRIVER_NOT_LOADED, LIB_RM_VERSION_MISMATCH, FakeDriver
from tests.fakes.powercap import FakePowercap
from tests.faults.installation import Machine
from tests.mistakes.conftest import measuring


def _check(said: str, name: str) -> str:
    """Return doctor's line about ``name`` with the line that mends it."""
    lines = said.splitlines()
    at = next(i for i, line in enumerate(lines) if f" {name}: " in line)
    return "\n".join(lines[at : at + 2])


@pytest.mark.parametrize(
    ("error", "mend"), [(DRIVER_NOT_LOADED, "modprobe nvidia"), (LIB_RM_VERSION_MISMATCH, "reboot")]
)
def test_a_driver_that_does_not_start(
    tmp_path: Path, machine: Callable[..., Machine], error: int, mend: str
) -> None:
    driver = FakeDriver(tmp_path)
    driver.set(init_error=error)
    done = machine(**driver.env).collect("doctor")
    assert done.returncode == 1
    assert f"→ {mend}" in _check(done.stdout, "nvml")


@pytest.mark.skipif(
    ctypes.util.find_library("nvidia-ml") is not None, reason="this machine has an NVIDIA driver"
)
def test_no_driver_at_all(machine: Callable[..., Machine]) -> None:
    assert "apt-get install nvidia-driver" in _check(machine().collect("doctor").stdout, "nvml")


def test_counters_that_may_not_be_read(tmp_path: Path, machine: Callable[..., Machine]) -> None:
    tree = FakePowercap(tmp_path / "powercap")
    tree.add("intel-rapl:0", "package-0")
    tree.forbid("intel-rapl:0")
    done = machine(LABCARBON_POWERCAP=str(tree.root)).collect("doctor")
    assert done.returncode == 1
    told = _check(done.stdout, "rapl")
    assert "no permission" in told
    assert "energy_uj" in told.split("→")[1]


def test_a_second_daemon(machine: Callable[..., Machine]) -> None:
    node = machine()
    with measuring(node):
        done = node.collect("daemon")
    assert done.returncode == 1
    assert node.node in done.stderr
    assert "labcarbon-collect status" in done.stderr


@pytest.mark.parametrize("command", [("daemon",), ("enrol", "http://127.0.0.1:9")])
def test_a_data_folder_that_cannot_be_written(
    machine: Callable[..., Machine], command: tuple[str, ...]
) -> None:
    node = machine(LABCARBON_DATA="/proc/nowhere")
    done = node.collect(*command, stdin="CODE\n")
    assert done.returncode == 1
    assert "/proc/nowhere" in done.stderr
    assert "LABCARBON_DATA=" in done.stderr
    assert "Traceback" not in done.stderr
    assert "LABCARBON_DATA=" in _check(node.collect("doctor").stdout, "data")


def test_a_folder_that_everybody_may_write(machine: Callable[..., Machine]) -> None:
    node = machine()
    node.home.mkdir(parents=True)
    node.home.chmod(0o777)
    done = node.collect("daemon")
    assert done.returncode == 1
    assert f"chmod 700 {node.home}" in done.stderr


def test_a_token_that_others_can_read(machine: Callable[..., Machine]) -> None:
    node = machine(LABCARBON_URL="http://127.0.0.1:9")
    node.home.mkdir(parents=True, mode=0o700)
    (node.home / "node-token").write_text("lc_node_secret\n")
    (node.home / "node-token").chmod(0o644)
    done = node.collect("doctor")
    assert f"chmod 600 {node.home / 'node-token'}" in done.stdout
    assert "lc_node_secret" not in done.stdout


def test_a_meter_of_an_unknown_name(machine: Callable[..., Machine]) -> None:
    done = machine(LABCARBON_SOURCES="nvlm").collect("daemon")
    assert done.returncode == 1
    assert "unknown source in LABCARBON_SOURCES: nvlm" in done.stderr
    assert "nvml" in done.stderr.split("valid are")[1]


def test_an_interval_out_of_range(machine: Callable[..., Machine]) -> None:
    done = machine().collect("daemon", "--interval", "5")
    assert done.returncode == 2
    assert "10 to 300" in done.stderr
