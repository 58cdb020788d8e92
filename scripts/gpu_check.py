"""Check the collector against a GPU driver: the energy equals the driver's counter, and a job is
separated from idle.

python scripts/gpu_check.py                 on this machine's NVIDIA driver, with a PyTorch job if
PyTorch is installed python scripts/gpu_check.py --fake          on the simulated driver, with a
plain process as the GPU's job

Starts its own daemon (data in a temporary folder, no upload), leaves the GPU idle, runs a job under
``labcarbon-collect run``, leaves it idle again, and compares the windows with its own counter
readings. Exit code 0: all checks passed. 1: the text names the failed one. 2: there is no GPU to
check.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "collector")]

import pynvml  # noqa: E402 - found beside the collector, or in its environment
from labcarbon_collect.energy.windows import Window  # noqa: E402
from labcarbon_collect.ipc.client import Client, DaemonUnavailable  # noqa: E402
from labcarbon_collect.spool.store import Spool  # noqa: E402

INTERVAL_S = 10
# Process lists are read every five seconds, which limits the accuracy of a job's start and end.
BLUR_S = 6
TORCH_JOB = """
import sys, time, torch
a = torch.randn(8192, 8192, device="cuda", dtype=torch.float16)
end = time.monotonic() + float(sys.argv[1])
while time.monotonic() < end:
    for _ in range(20):
        b = a @ a
    torch.cuda.synchronize()
"""
FAKE_JOB = """
import os, sys, time
open(sys.argv[2], "w").write(str(os.getpid()))
end = time.monotonic() + float(sys.argv[1])
while time.monotonic() < end: time.sleep(0.05)
"""


class CheckFailed(Exception):
    """A condition does not hold. The text names it."""


@dataclass
class Marks:
    """The driver's own counter (mJ) as read by this script, by moment."""

    at: dict[str, int] = field(default_factory=dict)


class RealGpu:
    """The first GPU of this machine's driver, or the one with the given UUID."""

    label = "the real driver"

    def __init__(self, gpu_uuid: str | None = None) -> None:
        pynvml.nvmlInit()
        self.handle = (
            pynvml.nvmlDeviceGetHandleByUUID(gpu_uuid)
            if gpu_uuid
            else pynvml.nvmlDeviceGetHandleByIndex(0)
        )
        self.uuid = _text(pynvml.nvmlDeviceGetUUID(self.handle))
        self.what = (
            f"{_text(pynvml.nvmlDeviceGetName(self.handle))}, driver "
            f"{_text(pynvml.nvmlSystemGetDriverVersion())}"
        )
        self.env: dict[str, str] = {}

    def counter_mj(self) -> int:
        return int(pynvml.nvmlDeviceGetTotalEnergyConsumption(self.handle))

    def job(self, seconds: float, folder: Path) -> list[str] | None:
        """Return the command of a job on this GPU, or None without a PyTorch that can use it."""
        able = subprocess.run(
            [sys.executable, "-c", "import torch; raise SystemExit(not torch.cuda.is_available())"],
            check=False,
            capture_output=True,
        )
        self.env["CUDA_VISIBLE_DEVICES"] = self.uuid
        return [sys.executable, "-c", TORCH_JOB, str(seconds)] if able.returncode == 0 else None

    def while_job_runs(self, job: subprocess.Popen[str]) -> None:
        job.wait()


class FakeGpu(RealGpu):
    """A simulated H100 whose counter runs by the clock: 70 W idle, 400 W while the job's process
    uses it.
    """

    label = "the simulated driver"

    def __init__(self, stack: ExitStack, folder: Path) -> None:
        from tests.fakes.nvml_driver import FakeDriver

        self._folder = folder
        self._driver = stack.enter_context(FakeDriver(folder, ["hopper"], live=True).in_process())
        super().__init__()
        self.env = dict(self._driver.env)

    def job(self, seconds: float, folder: Path) -> list[str] | None:
        return [sys.executable, "-c", FAKE_JOB, str(seconds), str(folder / "job.pid")]

    def while_job_runs(self, job: subprocess.Popen[str]) -> None:
        from tests.fakes.nvml_driver import process

        gpu, pid_file = self._driver.gpus[0], self._folder / "job.pid"
        while not (pid_file.exists() and pid_file.read_text()):
            time.sleep(0.01)
        pid = int(pid_file.read_text())
        gpu.set_processes(process(pid, sm_percent=95, memory_mib=2048))
        gpu.set_power(400_000, util_percent=96)
        while Path(f"/proc/{pid}").exists():
            time.sleep(0.01)
        gpu.set_processes()
        gpu.set_power(70_000, util_percent=0)
        job.wait()


def measure(
    gpu: RealGpu, folder: Path, idle_s: float, job_s: float
) -> tuple[Marks, list[Window], str, list[str]]:
    """Run idle, job and idle under a daemon. Returns counter marks, windows of the GPU, "job" if
    one ran, lines to print.
    """
    marks, run, lines = Marks(), "", []
    env = _environment(gpu, folder)
    marks.at["before the daemon"] = gpu.counter_mj()
    with (folder / "daemon.log").open("w") as log:
        daemon = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "labcarbon_collect",
                "daemon",
                "--no-upload",
                "--interval",
                str(INTERVAL_S),
            ],
            env=env,
            stdout=log,
            stderr=log,
        )
    try:
        node_devices = _wait_for_daemon(env, daemon, folder)
        if f"gpu:{gpu.uuid}" not in node_devices:
            raise CheckFailed(
                f"the daemon does not measure gpu:{gpu.uuid}. Its log: "
                f"{(folder / 'daemon.log').read_text()}"
            )
        marks.at["daemon measures"] = gpu.counter_mj()
        time.sleep(idle_s)
        run, lines = _run_job(gpu, folder, env, marks, job_s)
        time.sleep(idle_s)
        marks.at["before the end"] = gpu.counter_mj()
    finally:
        daemon.send_signal(signal.SIGTERM)
        daemon.wait(30)
    marks.at["after the daemon"] = gpu.counter_mj()
    spool = Spool(folder / "data" / "collector")
    windows = sorted(
        (window for window in spool.windows() if window.device == f"gpu:{gpu.uuid}"),
        key=lambda window: window.seq,
    )
    spool.close()
    return marks, windows, run, lines


def _environment(gpu: RealGpu, folder: Path) -> dict[str, str]:
    path = os.pathsep.join(
        filter(None, [str(ROOT / "collector"), os.environ.get("PYTHONPATH", "")])
    )
    return {
        **os.environ,
        "PYTHONPATH": path,
        "LABCARBON_DATA": str(folder / "data"),
        "LABCARBON_SOURCES": "nvml",
        "LABCARBON_SOCKET": str(folder / "collect.sock"),
        "LABCARBON_NODE_ID": str(uuid.uuid4()),
        "XDG_CONFIG_HOME": str(folder / "config"),
        **gpu.env,
    }


def _wait_for_daemon(
    env: dict[str, str], daemon: subprocess.Popen[bytes], folder: Path
) -> list[str]:
    """Return the measured devices once the daemon responds."""
    for _ in range(300):
        if daemon.poll() is not None:
            raise CheckFailed(f"the daemon ended at once: {(folder / 'daemon.log').read_text()}")
        try:
            client = Client([Path(env["LABCARBON_SOCKET"])], timeout_s=5)
            answer: dict[str, Any] = client.call({"op": "status"}, timeout_s=5)
            client.close()
            return [device["device"] for device in answer["devices"]]
        except DaemonUnavailable:
            time.sleep(0.1)
    raise CheckFailed("the daemon did not respond within 30 s")


def _run_job(
    gpu: RealGpu, folder: Path, env: dict[str, str], marks: Marks, job_s: float
) -> tuple[str, list[str]]:
    command = gpu.job(job_s, folder)
    env = {**env, **gpu.env}
    if command is None:
        return "", ["job: left out, PyTorch is missing or cannot use the GPU"]
    marks.at["job begins"] = gpu.counter_mj()
    job = subprocess.Popen(
        [sys.executable, "-m", "labcarbon_collect", "run", "--", *command],
        env=env,
        stderr=subprocess.PIPE,
        text=True,
    )
    gpu.while_job_runs(job)
    marks.at["job ended"] = gpu.counter_mj()
    assert job.stderr is not None
    output = job.stderr.read().strip()
    job.stderr.close()
    if job.returncode:
        raise CheckFailed(f"the job failed with {job.returncode}: {output}")
    return "job", [f"job: {output}"]


def judge(
    marks: Marks, windows: list[Window], with_job: bool, idle_s: float, job_s: float
) -> list[str]:
    """Compare the windows with the driver's own counter. Raises CheckFailed. Returns the
    results.
    """
    if not windows:
        raise CheckFailed("no window was stored")
    _must_telescope(windows)
    total_mj = sum(window.energy_mj for window in windows)
    first_mj, last_mj = windows[0].counter_start_mj, windows[-1].counter_end_mj
    at = marks.at
    if not at["before the daemon"] <= first_mj <= at["daemon measures"]:
        raise CheckFailed(f"the first reading {first_mj} mJ is not the driver's: {at}")
    if not at["before the end"] <= last_mj <= at["after the daemon"]:
        raise CheckFailed(f"the last reading {last_mj} mJ is not the driver's: {at}")
    if total_mj != last_mj - first_mj:
        raise CheckFailed(
            f"windows hold {total_mj} mJ, the driver's counter moved by {last_mj - first_mj} mJ"
        )
    gpus = [
        (
            f"energy: {len(windows)} windows hold {total_mj} mJ = counter {last_mj} - {first_mj}, "
            "exactly"
        )
    ]
    return gpus + (_judge_job(marks, windows, idle_s, job_s) if with_job else [])


def _must_telescope(windows: list[Window]) -> None:
    for window in windows:
        if sum(energy_mj for _, energy_mj in window.shares) != window.energy_mj:
            raise CheckFailed(f"shares of window {window.seq} do not sum to its energy")
    for before, after in pairwise(windows):
        if (before.counter_end_mj, before.epoch) != (after.counter_start_mj, after.epoch):
            raise CheckFailed(f"window {after.seq} does not start where {before.seq} ended")


def _judge_job(marks: Marks, windows: list[Window], idle_s: float, job_s: float) -> list[str]:
    by_consumer: dict[str, int] = {}
    for window in windows:
        for consumer, energy_mj in window.shares:
            kind = consumer if consumer in ("idle", "unknown") else re.sub(":.*", "", consumer)
            by_consumer[kind] = by_consumer.get(kind, 0) + energy_mj
    run_mj = by_consumer.get("run", 0)
    drawn_mj = marks.at["job ended"] - marks.at["job begins"]
    outside_mj = marks.at["before the end"] - marks.at["daemon measures"] - drawn_mj
    job_mw, idle_mw = drawn_mj / job_s, outside_mj / (2 * idle_s)
    least_mj, most_mj = drawn_mj - round(BLUR_S * job_mw), drawn_mj + round(BLUR_S * job_mw)
    if not 0 < max(1, least_mj) <= run_mj <= most_mj:
        raise CheckFailed(
            f"the run has {run_mj} mJ; the counter moved by {drawn_mj} mJ while it ran: "
            f"{by_consumer}"
        )
    if job_mw <= idle_mw:
        raise CheckFailed(f"the job drew no more ({job_mw:.0f} mW) than idle ({idle_mw:.0f} mW)")
    if (
        any(consumer.startswith("run:") for consumer, _ in windows[0].shares)
        and idle_s > INTERVAL_S
    ):
        raise CheckFailed("the run has energy from before its start")
    return [
        f"separated: {by_consumer}",
        (
            f"counter while the job ran: {drawn_mj} mJ; mean power {job_mw / 1000:.1f} W, idle "
            f"{idle_mw / 1000:.1f} W"
        ),
    ]


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--fake", action="store_true", help="use the simulated driver")
    parser.add_argument(
        "--idle", type=float, default=15, metavar="S", help="seconds of idle before and after (15)"
    )
    parser.add_argument(
        "--job", type=float, default=40, metavar="S", help="seconds of the job (40)"
    )
    parser.add_argument("--gpu", metavar="UUID", help="UUID of the GPU (default: the first)")
    options = parser.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gpu-check-")))
        try:
            gpu = FakeGpu(stack, folder) if options.fake else RealGpu(options.gpu)
            gpu.counter_mj()
        except pynvml.NVMLError as error:
            print(
                f"no GPU to check: {error}. On the simulated driver: python scripts/gpu_check.py "
                "--fake"
            )
            return 2
        print(f"on {gpu.label}: {gpu.what}", flush=True)
        try:
            marks, windows, run, lines = measure(gpu, folder, options.idle, options.job)
            print("\n".join(lines))
            print("\n".join(judge(marks, windows, bool(run), options.idle, options.job)))
        except CheckFailed as problem:
            print(f"FAILED on {gpu.label}: {problem}")
            return 1
    print(f"passed on {gpu.label}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
