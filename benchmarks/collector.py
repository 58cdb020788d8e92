"""Cost of the daemon on 8 simulated GPUs. A bare loop of the same NVML calls, CodeCarbon once a
second, and a sleeping Python with the daemon's imports run beside it. Prints a Markdown table.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
import uuid
from contextlib import ExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.fakes.nvml_driver import FakeDriver
from tests.fakes.nvml_driver import process as gpu_process

GPUS = 8
CODECARBON = Path(sys.executable).parent.parent / "codecarbon" / "bin" / "python"
BARE = """
import sys, time, pynvml
from contextlib import suppress
from pathlib import Path
pynvml.nvmlInit()
handles = [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(pynvml.nvmlDeviceGetCount())]
Path(sys.argv[1]).touch()
n = 0
while True:
    for handle in handles:
        pynvml.nvmlDeviceGetTotalEnergyConsumption(handle)
        if pynvml.nvmlDeviceGetFieldValues(handle, [185])[0].nvmlReturn:
            pynvml.nvmlDeviceGetPowerUsage(handle)
        pynvml.nvmlDeviceGetUtilizationRates(handle)
        pynvml.nvmlDeviceGetMemoryInfo(handle, 0x02000028)
        if n % 5 == 0:
            pynvml.nvmlDeviceGetComputeRunningProcesses(handle)
            pynvml.nvmlDeviceGetGraphicsRunningProcesses(handle)
            for call in (pynvml.nvmlDeviceGetMigMode,
                         lambda handle: pynvml.nvmlDeviceGetProcessUtilization(handle, 0)):
                with suppress(pynvml.NVMLError):
                    call(handle)
    n += 1
    time.sleep(1)
"""
IMPORTS = """
import sys, time, pynvml
from pathlib import Path
import labcarbon_collect.cli, labcarbon_collect.commands.daemon, labcarbon_collect.daemon.daemon
from labcarbon_collect import sources
sources.load()
pynvml.nvmlInit()
Path(sys.argv[1]).touch()
time.sleep(1_000_000)
"""
TRACKER = """
import sys, time
from pathlib import Path
from codecarbon import OfflineEmissionsTracker
tracker = OfflineEmissionsTracker(
    country_iso_code="DEU", measure_power_secs=1, save_to_file=False, log_level="error")
tracker.start()
Path(sys.argv[1]).touch()
time.sleep(1_000_000)
"""


def cpu_s(pid: int) -> float:
    """Return the CPU seconds of a process from its CPU clock, with those of its ended threads."""
    return time.clock_gettime((~pid << 3) | 2)  # as clock_getcpuclockid(3)


def rss_mib(pid: int) -> float:
    """Return the resident memory of a process."""
    pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def wait_for(path: Path, limit_s: float) -> None:
    """Wait until a file appears."""
    started = time.monotonic()
    while not path.exists():
        if time.monotonic() - started > limit_s:
            raise SystemExit(f"{path.name} did not appear within {limit_s:.0f} s")
        time.sleep(0.02)


def end(process: "subprocess.Popen[bytes]") -> None:
    """Terminate a process and wait for its end."""
    process.terminate()
    process.wait()


def measure(processes: int, seconds: int) -> dict[str, tuple[float, float]]:
    """Return CPU seconds per hour and MiB of each contender beside that many processes."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="labcarbon-bench-")))
        driver = FakeDriver(folder, ["hopper"] * GPUS, live=True)
        crowd = []
        for _ in range(processes):
            crowd.append(subprocess.Popen(["sleep", "3600"]))
            stack.callback(end, crowd[-1])
        for index, gpu in enumerate(driver.gpus):
            gpu.set_processes(gpu_process(crowd[index].pid, sm_percent=80, memory_mib=4096))
        data = folder / "data"
        data.mkdir(mode=0o700)
        environ = {
            **os.environ,
            **driver.env,
            "LABCARBON_DATA": str(data),
            "LABCARBON_NODE_ID": str(uuid.uuid4()),
            "LABCARBON_SOCKET": str(data / "collect.sock"),
        }
        ready = {name: folder / f"{name}.ready" for name in ("bare", "imports", "tracker")}
        ready["daemon"] = data / "collect.sock"
        commands = {
            "bare": [sys.executable, "-c", BARE, str(ready["bare"])],
            "imports": [sys.executable, "-c", IMPORTS, str(ready["imports"])],
            "tracker": [str(CODECARBON), "-c", TRACKER, str(ready["tracker"])],
            "daemon": [str(Path(sys.executable).parent / "labcarbon-collect"), "daemon"],
        }
        log = stack.enter_context((folder / "log").open("wb"))
        started = {}
        for name, command in commands.items():
            started[name] = subprocess.Popen(command, env=environ, stdout=log, stderr=log)
            stack.callback(end, started[name])
            wait_for(ready[name], 60)
        time.sleep(20)  # four snapshots: new processes are read in full at first
        before = {name: cpu_s(process.pid) for name, process in started.items()}
        time.sleep(seconds)
        return {
            name: (
                (cpu_s(process.pid) - before[name]) * 3600 / seconds,
                rss_mib(process.pid),
            )
            for name, process in started.items()
        }


def main() -> None:
    """Measure beside each number of processes and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=120, help="seconds to measure (120)")
    parser.add_argument(
        "--processes", type=int, nargs="+", default=[70, 200, 2000], help="sleeping processes"
    )
    options = parser.parse_args()
    if min(options.processes) < GPUS:
        parser.error(f"--processes must be at least {GPUS}: each GPU has one")
    print(
        "| processes | bare loop, CPU s/h | CodeCarbon | collector | / bare loop (mark 3) |", end=""
    )
    print(" / CodeCarbon (mark 0.33) | MiB | / Python with its imports (mark 1.3) |")
    print("|---|---|---|---|---|---|---|---|")
    daemon_cpu = {}
    for processes in options.processes:
        figures = measure(processes, options.seconds)
        (bare, _), (tracker, _), (daemon, memory) = (
            figures[name] for name in ("bare", "tracker", "daemon")
        )
        daemon_cpu[processes] = daemon
        print(
            f"| {processes} | {bare:.2f} | {tracker:.2f} | {daemon:.2f} | {daemon / bare:.1f} |"
            f" {daemon / tracker:.2f} | {memory:.1f} | {memory / figures['imports'][1]:.2f} |",
            flush=True,
        )
    if 200 in daemon_cpu and 2000 in daemon_cpu:
        print(
            f"\n2 000 processes / 200 processes (mark 2): {daemon_cpu[2000] / daemon_cpu[200]:.1f}"
        )


if __name__ == "__main__":
    main()
