"""The check for real GPUs passes on the simulated driver, and can fail."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from labcarbon_collect.energy.windows import Window

SCRIPT = Path(__file__).parents[2] / "scripts" / "gpu_check.py"


@pytest.fixture(scope="module")
def gpu_check():
    spec = importlib.util.spec_from_file_location("gpu_check", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    sys.modules["gpu_check"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["gpu_check"]


def test_energy_and_job_on_the_simulated_driver():
    """A real daemon, a real job, a counter that runs by the clock: from pynvml to the spool."""
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--fake", "--idle", "3", "--job", "14"],
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith(
        "on the simulated driver: NVIDIA H100 80GB HBM3, driver 570.86.15\n"
    )
    assert "exactly" in done.stdout
    assert "separated: {" in done.stdout
    assert done.stdout.endswith("passed on the simulated driver\n")


def _window(seq, start_mj, end_mj, **shares):
    return Window(
        "gpu:x",
        "e",
        seq,
        seq * 10,
        seq * 10 + 10,
        0,
        10,
        start_mj,
        end_mj,
        end_mj - start_mj,
        "nvml_counter",
        0,
        None,
        None,
        None,
        None,
        0,
        tuple(shares.items()),
    )


GOOD = [
    _window(0, 100, 200, idle=100),
    _window(1, 200, 1200, idle=200, **{"run:a": 800}),
    _window(2, 1200, 1300, idle=100),
]
AT = {
    "before the daemon": 90, "daemon measures": 105, "job begins": 250, "job ended": 1100,
    "before the end": 1290, "after the daemon": 1310,
}  # fmt: skip


def judged(gpu_check, windows=GOOD, at=AT):
    return gpu_check.judge(gpu_check.Marks(dict(at)), windows, True, 20, 14)


def test_a_good_measurement_is_judged_good(gpu_check):
    assert judged(gpu_check)[0] == "energy: 3 windows hold 1200 mJ = counter 1300 - 100, exactly"


@pytest.mark.parametrize(
    ("windows", "at", "wrong"),
    [
        ([], AT, "no window"),
        ([GOOD[0], GOOD[2]], AT, "does not start where"),
        ([GOOD[0], replace(GOOD[1], shares=(("idle", 999),)), GOOD[2]], AT, "do not sum"),
        ([replace(window, epoch=str(window.seq)) for window in GOOD], AT, "does not start where"),
        (GOOD, {**AT, "daemon measures": 99}, "first reading 100 mJ is not the driver's"),
        (GOOD, {**AT, "after the daemon": 1299}, "last reading 1300 mJ is not the driver's"),
        ([GOOD[0], replace(GOOD[1], shares=(("idle", 1000),)), GOOD[2]], AT, "the run has 0 mJ"),
        (GOOD, {**AT, "job begins": 1090}, "the counter moved by 10 mJ while it ran"),
        ([replace(GOOD[0], shares=(("run:a", 100),)), *GOOD[1:]], AT, "from before its start"),
    ],
)
def test_a_failed_check_is_reported(gpu_check, windows, at, wrong):
    with pytest.raises(gpu_check.CheckFailed, match=wrong):
        judged(gpu_check, windows, at)


def test_without_a_gpu_it_names_the_replay():
    program = (
        "import ctypes, runpy, sys, pynvml\n"
        "def missing(name, *rest, **more): raise OSError(name)\n"
        "pynvml.CDLL = missing\n"
        f"sys.argv = ['gpu_check.py']; runpy.run_path({str(SCRIPT)!r}, run_name='__main__')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], check=False, capture_output=True, text=True
    )
    assert done.returncode == 2
    assert "no GPU to check" in done.stdout
    assert "--fake" in done.stdout
