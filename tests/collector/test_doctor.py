"""The checks of doctor for meters and visibility. Each problem has a fix."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from labcarbon_collect.doctor import base, data_folder, meters
from labcarbon_collect.doctor import node as node_checks
from labcarbon_collect.doctor.base import Check

from tests.collector.collector_process import Collector, wait_for
from tests.fakes import labcarbon_server as fakes
from tests.fakes.nvml_driver import LIB_RM_VERSION_MISMATCH
from tests.fakes.powercap import FakePowercap


@pytest.fixture
def sysfs(tmp_path):
    return str(tmp_path / "sys")


def test_every_question_is_registered_and_answers():
    names = [
        "nvml",
        "gpu_processes",
        "persistence",
        "mig",
        "rapl",
        "hidepid",
        "pid_namespace",
        "cgroups",
    ]
    assert [name for name in base.CHECKS if name in names] == names
    for name in names:
        assert base.CHECKS[name]().name == name


def test_a_check_that_breaks_is_an_answer(monkeypatch):
    def broken() -> Check:
        raise RuntimeError("odd")

    monkeypatch.setattr(base, "CHECKS", {"broken": broken})
    (answer,) = base.run_checks()
    assert (answer.state, answer.summary) == ("bad", "the check itself failed: RuntimeError: odd")


def test_a_state_outside_the_four_is_refused():
    with pytest.raises(ValueError, match="not one of ok, warn, bad, absent"):
        Check("x", "fine", "y")


def test_good_gpus(bench, sysfs):
    bench("hopper", "pascal", opened=False)
    answer = meters.nvml_check(sysfs)
    assert answer.state == "ok"
    assert "H100 80GB HBM3: energy counter" in answer.summary
    assert "GTX 1080 Ti: no energy counter, power is sampled" in answer.summary
    assert meters.gpu_processes_check(sysfs).state == "ok"
    assert meters.persistence_check(sysfs).state == "ok"
    assert meters.mig_check(sysfs).state == "absent"


def test_a_vgpu_beside_a_good_gpu(bench, sysfs):
    bench("hopper", "vgpu", opened=False)
    answer = meters.nvml_check(sysfs)
    assert (answer.state, "GRID A100-10C" in answer.summary, bool(answer.fix)) == (
        "warn",
        True,
        True,
    )


def test_a_driver_out_of_step(bench, sysfs):
    bench("hopper", opened=False).driver.set(init_error=LIB_RM_VERSION_MISMATCH)
    answer = meters.nvml_check(sysfs)
    assert (answer.state, answer.fix.startswith("reboot")) == ("bad", True)
    assert meters.gpu_processes_check(sysfs).state == "absent"
    assert meters.persistence_check(sysfs).state == "absent"


def test_persistence_off(bench, sysfs):
    bench("hopper", opened=False).driver.gpus[0].set(persistence=0)
    answer = meters.persistence_check(sysfs)
    assert (answer.state, "nvidia-persistenced" in answer.fix) == ("warn", True)


def test_hidden_gpu_processes(bench, sysfs):
    gpu = bench("vgpu_zero", opened=False).driver.gpus[0]
    gpu.set(capabilities=gpu.state.capabilities & ~128)
    answer = meters.gpu_processes_check(sysfs)
    assert (answer.state, "--pid=host" in answer.fix) == ("warn", True)


def test_mig(bench, sysfs):
    gpu = bench("hopper", opened=False).driver.gpus[0]
    gpu.set_mig(3, 4)
    answer = meters.mig_check(sysfs)
    assert (answer.state, answer.summary.count("MIG-")) == ("ok", 2)
    gpu.set_mig(0)
    assert meters.mig_check(sysfs).state == "warn"


def test_rapl(tmp_path):
    environ = {"LABCARBON_POWERCAP": str(tmp_path / "powercap")}
    assert meters.rapl_check(environ).state == "absent"
    tree = FakePowercap(tmp_path / "powercap")
    tree.add("intel-rapl:0", "package-0")
    assert meters.rapl_check(environ) == Check("rapl", "ok", "cpu 0")
    tree.add("intel-rapl:0:0", "dram", range_uj=None)
    answer = meters.rapl_check(environ)
    assert (answer.state, "dram" in answer.summary) == ("warn", True)
    tree.forbid("intel-rapl:0")
    (tmp_path / "powercap/intel-rapl:0:0/energy_uj").unlink()
    answer = meters.rapl_check(environ)
    assert (answer.state, "tmpfiles" in answer.fix) == ("bad", True)


def test_hidepid(tmp_path):
    (tmp_path / "self").mkdir()
    (tmp_path / "self/mounts").write_text("proc /proc proc rw,nosuid,hidepid=invisible 0 0\n")
    answer = meters.hidepid_check(str(tmp_path))
    assert answer.state == "warn"
    assert "hidepid=invisible" in answer.summary
    assert "gid=labcarbon /proc" in answer.fix
    (tmp_path / "1").mkdir()
    (tmp_path / "1/stat").write_text("1 (init) S 0 1 1 0 -1 64 1 2 3 4 5 6 7 8 20 0 1 0 2 1 1\n")
    answer = meters.hidepid_check(str(tmp_path))
    assert (answer.state, answer.summary) == (
        "ok",
        "all processes are visible despite hidepid=invisible",
    )


def test_pid_namespace(tmp_path):
    assert meters.pid_namespace_check(str(tmp_path)).state == "absent"
    (tmp_path / "self/ns").mkdir(parents=True)
    (tmp_path / "self/ns/pid").symlink_to("pid:[4026531999]")
    answer = meters.pid_namespace_check(str(tmp_path))
    assert (answer.state, "--pid=host" in answer.fix) == ("warn", True)
    (tmp_path / "self/ns/pid").unlink()
    (tmp_path / "self/ns/pid").symlink_to("pid:[4026531836]")
    assert meters.pid_namespace_check(str(tmp_path)).state == "ok"


def test_cgroups(tmp_path):
    assert meters.cgroups_check(str(tmp_path), str(tmp_path)).state == "warn"
    (tmp_path / "self").mkdir()
    (tmp_path / "self/cgroup").write_text("0::/\n")
    assert "cgroup v1" in meters.cgroups_check(str(tmp_path), str(tmp_path)).summary
    (tmp_path / "cgroup.controllers").write_text("cpu memory\n")
    assert "cgroup v2" in meters.cgroups_check(str(tmp_path), str(tmp_path)).summary


def _checks(collector: Collector) -> dict[str, dict[str, str]]:
    return {each["name"]: each for each in json.loads(collector.call("doctor", "--json").stdout)}


def _elsewhere(node: Collector, root: Path, **settings: str) -> Collector:
    """A user of the node's daemon whose default data folder is another one."""
    settings = {"LABCARBON_SOCKET": str(node.socket), "XDG_STATE_HOME": str(root), **settings}
    return Collector(root, {"LABCARBON_DATA": "", **settings}, node_id=node.node_id)


def test_the_data_folder_of_the_running_daemon_is_examined(
    node: Collector, server: fakes.FakeServer, tmp_path: Path
) -> None:
    """`make run` of a checkout uses a folder that no other shell names."""
    node.enrol(server.url)
    node.start()
    wait_for(lambda: (node.status() or {}).get("enrolled"))
    (tmp_path / "user").mkdir()
    user = _elsewhere(node, tmp_path / "user")
    checks = _checks(user)
    assert checks["data"]["state"] == "ok"
    assert str(node.home) in checks["data"]["what"]
    assert checks["server"]["state"] == "ok"
    assert server.url in checks["server"]["what"]
    assert [path.name for path in (tmp_path / "user").iterdir()] == []


def test_a_named_data_folder_is_examined_and_that_of_the_daemon_named(
    node: Collector, tmp_path: Path
) -> None:
    node.start()
    other = tmp_path / "other"
    other.mkdir()
    what = _checks(_elsewhere(node, other, LABCARBON_DATA=str(other)))["data"]["what"]
    assert what.index(str(other)) < what.index(str(node.home.parent))


def test_without_a_daemon_the_examined_data_folder_and_the_way_to_another_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LABCARBON_DATA", raising=False)
    monkeypatch.setenv("LABCARBON_SOCKET", str(tmp_path / "none.sock"))
    monkeypatch.setattr(data_folder, "data_dir", lambda environ: tmp_path / "default")
    monkeypatch.setattr(data_folder, "checkout_data_dir", lambda: tmp_path / "checkout" / "var")
    what = node_checks.data().summary
    assert what.startswith(str(tmp_path / "default"))
    assert f"LABCARBON_DATA={tmp_path / 'checkout' / 'var'} " in what
