"""Cost of the daemon on 8 simulated GPUs, compared with a bare loop of the same NVML calls once a
second.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.fakes.nvml_driver import FakeDriver
from tests.fakes.nvml_driver import process as gpu_process

GPUS = 8
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
BARE = """
import sys, time, pynvml
pynvml.nvmlInit()
handles = [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(pynvml.nvmlDeviceGetCount())]
n = 0
while True:
    for handle in handles:
        pynvml.nvmlDeviceGetTotalEnergyConsumption(handle)
        pynvml.nvmlDeviceGetPowerUsage(handle)
        pynvml.nvmlDeviceGetUtilizationRates(handle)
        pynvml.nvmlDeviceGetMemoryInfo(handle)
        if n % 5 == 0:
            pynvml.nvmlDeviceGetComputeRunningProcesses(handle)
    n += 1
    time.sleep(1)
"""


def cpu_s(pid: int) -> float:
    """Return the CPU seconds a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_S


def rss_mib(pid: int) -> float:
    """Return the resident memory of a process."""
    return (
        int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
        * os.sysconf("SC_PAGE_SIZE")
        / 2**20
    )


def wait_for(path: Path, limit_s: float) -> float:
    """Return how long a file took to appear."""
    started = time.monotonic()
    while not path.exists():
        if time.monotonic() - started > limit_s:
            raise SystemExit(f"{path.name} did not appear within {limit_s:.0f} s")
        time.sleep(0.005)
    return time.monotonic() - started


def main() -> None:
    """Run both in parallel and print their use."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=120, help="seconds to measure (120)")
    parser.add_argument(
        "--processes", type=int, default=200, help="processes on the machine besides the job (200)"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="labcarbon-bench-") as folder:
        driver = FakeDriver(Path(folder), ["hopper"] * GPUS, live=True)
        crowd = [
            subprocess.Popen(["sleep", str(options.seconds + 60)]) for _ in range(options.processes)
        ]
        for index, gpu in enumerate(driver.gpus):
            gpu.set_processes(
                gpu_process(
                    crowd[index].pid if crowd else os.getpid(), sm_percent=80, memory_mib=4096
                )
            )
        data = Path(folder) / "data"
        data.mkdir(mode=0o700)
        environ = {
            **os.environ,
            **driver.env,
            "LABCARBON_DATA": str(data),
            "LABCARBON_NODE_ID": str(uuid.uuid4()),
        }
        environ["LABCARBON_SOCKET"] = str(data / "collect.sock")
        daemon = [str(Path(sys.executable).parent / "labcarbon-collect"), "daemon"]
        with (Path(folder) / "log").open("wb") as log:
            started = [
                subprocess.Popen(daemon, env=environ, stderr=log),
                subprocess.Popen([sys.executable, "-c", BARE], env=environ),
            ]
        try:
            ready_s = wait_for(data / "collect.sock", 30)
            time.sleep(5)
            before = [cpu_s(process.pid) for process in started]
            time.sleep(options.seconds)
            used = [
                cpu_s(process.pid) - earlier
                for process, earlier in zip(started, before, strict=True)
            ]
            memory = [rss_mib(process.pid) for process in started]
        finally:
            for process in [*started, *crowd]:
                process.terminate()
                process.wait()
    per_hour = [seconds * 3600 / options.seconds for seconds in used]
    print(f"{GPUS} simulated GPUs, {options.processes} processes, {options.seconds} s")
    print(f"bare loop   {per_hour[1]:6.2f} CPU s per hour  {memory[1]:6.1f} MiB")
    print(
        f"daemon      {per_hour[0]:6.2f} CPU s per hour  {memory[0]:6.1f} MiB  socket after "
        f"{ready_s:.2f} s"
    )
    print(
        f"daemon / bare  {per_hour[0] / per_hour[1]:.1f}"
        if per_hour[1]
        else "the bare loop used too little CPU time to compare"
    )


if __name__ == "__main__":
    main()
