"""The complete daemon as one user, jobs on a GPU as two others: energy by registration, and no
environment read.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from labcarbon_collect.daemon.daemon import Daemon, DaemonSettings
from labcarbon_collect.doctor.meters import nvml_check
from labcarbon_collect.ipc.client import Client, DaemonUnavailable
from labcarbon_collect.processes.consumers import ConsumerResolver
from labcarbon_collect.sources.cpu_model import modelled_idle_mw
from labcarbon_collect.spool.store import Spool

from tests.collector.real_users import ALICE, BOB, DAEMON, running, unprivileged
from tests.fakes.nvml_driver import FakeDriver, process

RUN = str(uuid.uuid4())
pytestmark = [
    pytest.mark.skipif(
        os.getuid() != 0, reason="only root can start processes of other users; CI runs as root too"
    ),
    pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning"),
]


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder accessible to all three users. The daemon's data inside are its own."""
    window = Path(tempfile.mkdtemp(prefix="labcarbon-users-"))
    window.chmod(0o755)
    for name, mode in (("daemon", 0o700), ("run", 0o755)):
        (window / name).mkdir(mode=mode)
        os.chown(window / name, DAEMON, DAEMON)
    yield window
    shutil.rmtree(window)


def environment(place: Path) -> dict[str, str]:
    return {
        "LABCARBON_DATA": str(place / "daemon"),
        "LABCARBON_SOCKET": str(place / "run" / "daemon.sock"),
        "LABCARBON_SOURCES": "nvml",
        "LABCARBON_NODE_ID": str(uuid.uuid5(uuid.NAMESPACE_URL, str(place))),
    }


def run_daemon(report, wait, place: Path) -> None:
    """Measure until stopped, then report the uid and the secret files that were opened."""
    secrets: list[str] = []
    opened: list[str] = []

    def audit(event: str, given: tuple[object, ...]) -> None:
        if event == "open":
            (secrets if str(given[0]).endswith("/environ") else opened).append(str(given[0]))

    sys.addaudithook(audit)
    daemon = Daemon(
        environment(place),
        DaemonSettings(interval_s=10, upload=False),
        consumers=ConsumerResolver(cluster="here"),
        log=lambda text: None,
    )
    daemon.run()
    report(*os.getresuid(), len(secrets), sum(name.endswith("/stat") for name in opened) > 10)


def import_late_modules() -> None:
    """Import late modules as root: the test interpreter may be readable by root only."""
    modelled_idle_mw("nobody")
    assert nvml_check().state == "ok"


def query_daemon(report, wait, place: Path, *requests: dict[str, object]) -> None:
    """Send the requests to the daemon's socket as some user and report the responses."""
    os.environ["LABCARBON_SOCKET"] = str(place / "run" / "daemon.sock")
    for _ in range(200):
        try:
            client = Client([place / "run" / "daemon.sock"], timeout_s=5)
            break
        except DaemonUnavailable:
            time.sleep(0.05)
    for request in requests:
        response = client.call(request, timeout_s=5)
        report(response.get("error", {}).get("code", "ok"), response.get("energy_mj"))


def read_responses(uid: int, place: Path, *requests: dict[str, object]) -> list[str]:
    with unprivileged(uid, query_daemon, place, *requests) as fork:
        return [line.strip() for line in fork.reports]


def test_registered_run_gets_only_its_own_energy(place: Path) -> None:
    driver = FakeDriver(place, ["hopper"], live=True)
    gpu = driver.gpus[0]
    with (
        driver.in_process(),
        running("/bin/sh", "-c", "read stop", uid=ALICE) as alice,
        running("/bin/sh", "-c", "read stop", uid=BOB) as bob,
    ):
        gpu.set_processes(
            process(alice.pid, sm_percent=75, memory_mib=900),
            process(bob.pid, sm_percent=25, memory_mib=10),
        )
        gpu.set_power(400_000, util_percent=99)
        with unprivileged(DAEMON, run_daemon, place, first=import_late_modules) as daemon:
            register = {"op": "register", "run": RUN, "pid": alice.pid}
            assert read_responses(BOB, place, register) == ["not_yours None"]
            before_mj = gpu.counter_mj
            assert read_responses(ALICE, place, register) == ["ok None"]
            start_mj = gpu.counter_mj
            time.sleep(2.5)
            ended_mj = gpu.counter_mj
            assert read_responses(BOB, place, {"op": "end", "run": RUN}) == ["unknown_run None"]
            (reports,) = read_responses(
                ALICE, place, {"op": "end", "run": RUN, "children_cpu_us": 0}
            )
            after_mj = gpu.counter_mj
            (status,) = read_responses(BOB, place, {"op": "status"})
            assert status == "ok None"
            os.kill(daemon.pid, signal.SIGTERM)
            assert daemon.reports.read().split() == [str(DAEMON)] * 3 + ["0", "True"]
    run_mj = int(reports.removeprefix("ok "))
    min_mj, max_mj = (ended_mj - start_mj) * 3 // 4, (after_mj - before_mj) * 3 // 4
    second_mj = 400_000
    assert min_mj - second_mj <= run_mj <= max_mj + second_mj, "three quarters, like the CPU time"
    assert_windows(place, run_mj)


def assert_windows(place: Path, run_mj: int) -> None:
    spool = Spool(place / "daemon" / "collector")
    windows = list(spool.windows())
    spool.close()
    shares: dict[str, int] = {}
    for window in windows:
        assert sum(energy_mj for _, energy_mj in window.shares) == window.energy_mj
        for consumer, energy_mj in window.shares:
            shares[consumer] = shares.get(consumer, 0) + energy_mj
    assert set(shares) <= {f"run:{RUN}", f"proc:{ALICE}/sh", f"proc:{BOB}/sh"}
    assert shares[f"run:{RUN}"] >= run_mj
    assert shares[f"proc:{BOB}/sh"] > 0
