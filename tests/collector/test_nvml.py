"""The NVML source on a simulated driver: data of each generation of GPU and driver, read through
pynvml.
"""

from __future__ import annotations

import pynvml
import pytest
from labcarbon_collect.energy.attribution import device_weights
from labcarbon_collect.sources.base import SourceAbsent

from tests.fakes.nvml_driver import LIB_RM_VERSION_MISMATCH, NO_PERMISSION, process
from tests.fakes.nvml_state import MAX_PROCESSES


def test_energy_is_the_counter_of_the_driver(bench):
    machine = bench("hopper")
    gpu = machine.driver.gpus[0]
    gpu.set_power(432_100, util_percent=87)
    first = machine.poll_one()
    machine.clock.step(61.0)
    last = machine.poll_one()
    assert last.counter_mj - first.counter_mj == 432_100 * 61
    assert (last.counter_mj, last.epoch, last.device) == (gpu.counter_mj, first.epoch, gpu.key)
    assert (last.power_mw, last.util_pm, last.measurement) == (432_100, 870, "nvml_counter")
    assert last.monotonic_us - first.monotonic_us == last.wall_us - first.wall_us == 61_000_000


def test_device_facts(bench):
    machine = bench("hopper", "ampere", opened=False)
    hopper, ampere = machine.source.open()
    assert hopper.key == machine.driver.gpus[0].key
    assert (hopper.name, hopper.measurement) == ("NVIDIA H100 80GB HBM3", "nvml_counter")
    assert hopper.facts["power_limit_w"] == "700"
    assert hopper.facts["driver"] == "570.86.15"
    assert hopper.facts["persistence_mode"] == "on"
    assert hopper.facts["power_reading"] == "1 s average"
    assert ampere.facts["power_reading"] == "as the driver reports it", (
        "GA100 has no one-second average"
    )


@pytest.mark.parametrize("with_v3", [True, False], ids=["driver 570", "driver 470, without _v3"])
def test_processes_with_their_memory_and_use(bench, with_v3):
    machine = bench("hopper", with_v3=with_v3)
    machine.driver.gpus[0].set_processes(
        process(4242, sm_percent=70, memory_mib=1500),
        process(77, sm_percent=5, memory_mib=20, graphics=True),
    )
    reading = machine.poll_one()
    assert [(use.pid, use.sm_util_pm, use.memory_mib) for use in reading.processes] == [
        (77, 50, 20),
        (4242, 700, 1500),
    ]
    assert reading.memory_mib == 1520


@pytest.mark.parametrize("with_v3", [True, False], ids=["driver 570", "driver 470, without _v3"])
def test_a_long_list_of_processes_is_complete(bench, with_v3):
    machine = bench("hopper", with_v3=with_v3)
    for count in (MAX_PROCESSES, 1, MAX_PROCESSES, 0):
        machine.driver.gpus[0].set_processes(
            *(process(100 + n, sm_percent=n, memory_mib=n) for n in range(count))
        )
        machine.clock.step(5)
        uses = machine.poll_one().processes
        assert [(use.pid, use.sm_util_pm, use.memory_mib) for use in uses] == [
            (100 + n, 10 * n, n) for n in range(count)
        ]


def test_binding_without_mismatch_error(bench, monkeypatch):
    """nvidia-ml-py 12.535 has no such class. A refused query must still be refused."""
    monkeypatch.delattr(pynvml, "NVMLLibraryMismatchError", raising=False)
    machine = bench("pascal", opened=False)
    (device,) = machine.source.open()
    assert device.measurement == "nvml_power"


def test_empty_process_list_is_not_unknown(bench):
    machine = bench("hopper")
    assert machine.poll_one().processes == ()


def test_poll_without_processes_repeats_the_last_list(bench):
    machine = bench("hopper")
    machine.driver.gpus[0].set_processes(process(9, sm_percent=10))
    machine.poll_one()
    (cheap,) = machine.poll(with_processes=False)
    assert [use.pid for use in cheap.processes] == [9]


def test_memory_change_updates_the_process_list(bench):
    machine = bench("hopper")
    machine.poll_one()
    machine.driver.gpus[0].set_processes(process(9, memory_mib=500))
    (cheap,) = machine.poll(with_processes=False)
    assert [use.pid for use in cheap.processes] == [9]
    machine.driver.gpus[0].set_processes()
    (cheap,) = machine.poll(with_processes=False)
    assert cheap.processes == ()


def test_an_empty_list_on_a_busy_gpu_is_unknown(bench):
    """In a container with its own PID namespace the driver lists no process, at any load of the
    GPU.
    """
    machine = bench("hopper")
    machine.driver.gpus[0].set_power(500_000, util_percent=98)
    assert machine.poll_one().processes == (), "one update may coincide with the end of a job"
    machine.clock.step(5)
    assert machine.poll_one().processes is None
    machine.driver.gpus[0].set_power(70_000, util_percent=0)
    assert machine.poll_one().processes == ()


def test_use_per_process_is_unknown_without_root_where_the_driver_guards_it(bench):
    machine = bench("guarded")
    machine.driver.gpus[0].set_processes(process(5, sm_percent=40, memory_mib=3))
    machine.driver.set(privilege=2)
    (use,) = machine.poll_one().processes
    assert (use.pid, use.sm_util_pm, use.memory_mib) == (5, None, 3)
    machine.driver.set(privilege=1)
    (use,) = machine.poll_one().processes
    assert use.sm_util_pm == 400


def test_each_utilisation_sample_counts_one_time(bench):
    machine = bench("hopper")
    machine.driver.gpus[0].set_processes(process(5, sm_percent=40, at_us=1_000))
    assert machine.poll_one().processes[0].sm_util_pm == 400
    assert machine.poll_one().processes[0].sm_util_pm is None, (
        "no sample since the last update: unknown, not zero"
    )
    machine.driver.gpus[0].set_processes(process(5, sm_percent=90, at_us=2_000))
    assert machine.poll_one().processes[0].sm_util_pm == 900


def test_mig_reads_each_instances_own_list_without_privileges(bench):
    machine = bench("hopper", opened=False)
    gpu = machine.driver.gpus[0]
    machine.driver.set(privilege=2)
    gpu.set_mig(3, 1, 2)
    gpu.set_processes(process(31, instance=0), process(11, instance=1), process(12, instance=1))
    (device,) = machine.source.open()
    assert device.facts["mig"].count("MIG-") == 3
    reading = machine.poll_one()
    assert reading.device == gpu.key, "the parent has the meter"
    assert reading.util_pm is None
    shares = {use.pid: use.slice_share_pm for use in reading.processes}
    assert shares == {31: 750, 11: 125, 12: 125}, "3 and 1 of the 4 slices in use"
    gpu.set_mig()
    gpu.set_processes(process(8, sm_percent=20))
    assert [(use.pid, use.slice_share_pm) for use in machine.poll_one().processes] == [(8, None)]


def test_mig_without_processes_is_idle(bench):
    machine = bench("hopper")
    machine.driver.set(privilege=2)
    machine.driver.gpus[0].set_mig(7)
    assert machine.poll_one().processes == ()


@pytest.mark.parametrize("profile", ["hopper", "ampere", "volta", "guarded"])
def test_generations_with_a_counter(bench, profile):
    machine = bench(profile)
    machine.driver.gpus[0].set_power(123_000)
    first = machine.poll_one()
    machine.clock.step(10)
    assert machine.poll_one().counter_mj - first.counter_mj == 1_230_000


def test_a_vgpu_without_energy_or_power_is_absent_not_zero(bench):
    machine = bench("vgpu", opened=False)
    with pytest.raises(SourceAbsent) as absent:
        machine.source.open()
    assert "neither energy nor power" in str(absent.value)
    assert "host that owns the physical GPU" in absent.value.fix


def test_an_unmeasurable_gpu_beside_a_good_one_is_named(bench):
    machine = bench("vgpu", "hopper")
    assert machine.source.unmeasured == ["GRID A100-10C"]
    assert machine.poll_one().device == machine.driver.gpus[1].key


@pytest.mark.parametrize(
    ("code", "reason", "fix"),
    [
        (LIB_RM_VERSION_MISMATCH, "the old kernel module is still loaded", "reboot"),
        (NO_PERMISSION, "no permission on /dev/nvidiactl", "usermod -aG"),
        (9, "kernel module is not loaded", "modprobe nvidia"),
    ],
)
def test_open_errors_have_reason_and_fix(bench, code, reason, fix):
    machine = bench("hopper", opened=False)
    machine.driver.set(init_error=code)
    with pytest.raises(SourceAbsent) as absent:
        machine.source.open()
    assert reason in absent.value.reason
    assert fix in absent.value.fix


def test_mig_energy_is_shared_by_the_slices_in_use(bench):
    machine = bench("hopper")
    gpu = machine.driver.gpus[0]
    gpu.set_mig(3, 1)
    gpu.set_processes(process(31, instance=0), process(11, instance=1))
    weights = device_weights(
        machine.poll_one().processes, lambda pid: f"pid:{pid}", energy_mj=1000, idle_mj=0
    )
    assert weights["pid:31"] == 3 * weights["pid:11"] > 0
