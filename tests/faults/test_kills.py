"""Seeded SIGKILLs of collector, web server and worker under load; then not a millijoule may be
missing or double. On PostgreSQL its backends are killed too, and Redis, which wakes the Celery
worker, is flushed and killed.

``LABCARBON_KILLS`` (50 on SQLite, 10 on PostgreSQL) says how many, ``LABCARBON_SEED`` repeats a
run: the seed is printed with every result.
"""

from __future__ import annotations

import os
import random
import sqlite3
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import pytest
from celery import Celery
from kombu.exceptions import OperationalError
from labcarbon_collect.ipc.client import Client, DaemonUnavailable
from redis import Redis as RedisClient
from redis.exceptions import RedisError

from tests.fakes.nvml_driver import FakeDriver
from tests.faults.counters import FULL_MJ, CounterSimulator
from tests.faults.installation import Installation, Machine
from tests.faults.ledger import LedgerDatabase, integrity
from tests.faults.load import Load, spool_of
from tests.faults.oracle import audit, read_spool
from tests.faults.seed import KILLS, SEED
from tests.faults.supervisor import BACK_S, SupervisedProcess, Supervisor, children_of
from tests.services.data_directories import MIGRATED, postgres
from tests.services.postgres import programs
from tests.services.process import wait_until
from tests.services.redis import Redis

pytestmark = pytest.mark.faults

WINDOW_S = 2
DATABASE_BACK_S = 30.0  # where PostgreSQL itself has to recover first
START_S = 120.0  # for all to be there; how soon each was is asked afterwards
CELERY = [
    "-m",
    "celery",
    "-A",
    "labcarbon",
    "worker",
    "--pool",
    "solo",
    "--without-gossip",
    "--without-mingle",
]
FALLS = 3
PAUSE_S = (0.2, 2.2)


def _answers(url: str) -> Callable[[int], bool]:
    """Return whether the web server that was started last has a worker, and answers."""

    def ready(pid: int) -> bool:
        if not children_of(pid):
            return False
        try:
            urllib.request.urlopen(f"{url}/api/v1/config/", timeout=2).close()
        except urllib.error.HTTPError as error:
            error.close()
            return error.code == 401
        except OSError:
            return False
        return False

    return ready


def _measures(machine: Machine) -> Callable[[int], bool]:
    """Return whether the daemon that was started last answers and measures."""

    def ready(pid: int) -> bool:
        try:
            client = Client([machine.socket], timeout_s=1.0)
        except DaemonUnavailable:
            return False
        try:
            status = client.call({"op": "status"}, timeout_s=1.0)
        except DaemonUnavailable:
            return False
        finally:
            client.close()
        return status["pid"] == pid and status["sources"]["nvml"]["state"] == "measuring"

    return ready


class Waker:
    """Sends what `celery beat` sends, once a second: "run due jobs". Redis may be away."""

    def __init__(self, url: str) -> None:
        self._app = Celery(broker=url, set_as_current=False)  # type: ignore[no-untyped-call]
        self._app.conf.broker_transport_options = {"socket_connect_timeout": 1, "max_retries": 0}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="waker", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.wait(1.0):
            with suppress(OperationalError, RedisError):
                self._app.send_task("labcarbon.work_on_jobs", retry=False)  # type: ignore[no-untyped-call]

    def close(self) -> None:
        self._stop.set()
        self._thread.join(30)
        self._app.close()  # type: ignore[no-untyped-call]


def _works(books: LedgerDatabase) -> Callable[[int], bool]:
    """Return whether the worker that was started last takes jobs, whether or not anybody can
    push new ones now.
    """
    asked_s = 0.0

    def ready(pid: int) -> bool:
        nonlocal asked_s
        if time.monotonic() - asked_s > 0.5:
            asked_s = time.monotonic()
            books.request_settling()
        return books.leased_by(pid)

    return ready


@dataclass
class Scene:
    """Everything that runs."""

    rng: random.Random
    server: Installation
    machine: Machine
    driver: FakeDriver
    feeder: CounterSimulator
    load: Load
    books: LedgerDatabase
    supervisor: Supervisor
    web: SupervisedProcess
    worker: SupervisedProcess
    collector: SupervisedProcess

    def victims(self, each: SupervisedProcess) -> list[int]:
        """A process and, of the web server, the child that answers."""
        return [each.pid, *children_of(each.pid)] if each is self.web else [each.pid]


def _children(stack: ExitStack, count: int) -> list[int]:
    """Start processes that the simulated GPUs can name."""
    processes = [subprocess.Popen(["sleep", "3600"]) for _ in range(count)]
    for each in processes:
        stack.callback(each.wait)
        stack.callback(each.kill)
    return [each.pid for each in processes]


def _scene(
    stack: ExitStack, folder: Path, rng: random.Random, books: str = "", redis_url: str = ""
) -> Scene:
    """Start everything; with ``redis_url`` the worker is Celery's."""
    server = Installation(folder / "server", database_url=books)
    server.prepare()
    driver = FakeDriver(folder, ["hopper"] * rng.randint(2, 4))
    for gpu in driver.gpus:
        gpu.set_counter_mj(FULL_MJ)
    machine = Machine(folder / "node", {**driver.env, "LABCARBON_SOURCES": "nvml"}, name="measured")
    loaded = Machine(folder / "load", name="load")
    books_ = LedgerDatabase(books or str(server.data_dir / "labcarbon.sqlite3"))
    logs = server.data_dir / "logs"
    web = SupervisedProcess(
        "web", server.command("web server"), server.environ, logs / "web.log", _answers(server.url)
    )
    work, environ = server.command("worker"), server.environ
    if redis_url:
        work = [sys.executable, *CELERY]
        environ = {**environ, "LABCARBON_REDIS_URL": redis_url}
        stack.callback(Waker(redis_url).close)
    worker = SupervisedProcess("worker", work, environ, logs / "worker.log", _works(books_))
    daemon = [sys.executable, "-m", "tests.faults.quick_daemon", str(WINDOW_S)]
    collector = SupervisedProcess(
        "collector", daemon, machine.environ, logs / "collector.log", _measures(machine)
    )
    feeder, load = (
        CounterSimulator(driver, rng, [*_children(stack, 3), 4_000_000]),
        Load(loaded, rng),
    )
    machine.data_dir.mkdir(exist_ok=True)
    supervisor = stack.enter_context(Supervisor([web, worker, collector]))
    wait_until(lambda: web.since is None, what="the web server's first answer")
    wait_until(lambda: collector.since is None, what="the first reading")
    for node, code in zip((machine, loaded), server.codes(2), strict=True):
        node.enrol(server.url, code)
    feeder.start()
    stack.callback(feeder.freeze)
    load.start()
    stack.callback(load.give_up)
    supervisor.wait_until_back(START_S)
    return Scene(
        rng, server, machine, driver, feeder, load, books_, supervisor, web, worker, collector
    )


def _kill(scene: Scene, kills: int, also: Callable[[], None] | None = None) -> dict[str, int]:
    """SIGKILL at random until ``kills`` were done; return how many of whom."""
    falls = set(scene.rng.sample(range(kills), min(FALLS, kills)))
    done = {each.name: 0 for each in scene.supervisor.processes}
    while sum(done.values()) < kills:
        time.sleep(scene.rng.uniform(*PAUSE_S))
        each = scene.rng.choice(
            [scene.collector, scene.collector, scene.web, scene.web, scene.worker]
        )
        victim = scene.rng.choice(scene.victims(each))
        if not scene.supervisor.kill(each, victim):
            continue
        if sum(done.values()) in falls:
            scene.feeder.fall()
        if also is not None:
            also()
        done[each.name] += 1
        if sum(done.values()) % 10 == 0:
            scene.supervisor.wait_until_back(START_S)
    scene.supervisor.wait_until_back(START_S)
    return done


def _settle(scene: Scene) -> None:
    """Nobody kills any more, nobody helps: the spools empty themselves and the worker's jobs are
    done.
    """
    scene.load.finish(120)
    scene.feeder.freeze()
    time.sleep(1.5)  # the daemon polls once more: the last word of the counters
    scene.supervisor.end(scene.collector)
    left = scene.machine.collect("upload")
    assert left.returncode == 0, left.stderr
    wait_until(
        lambda: not scene.books.jobs_waiting(), what=f"the end of {scene.books.jobs_waiting()}"
    )


def _balance(scene: Scene, told: str) -> str:
    """Compare the books with the counters; return what was found, as text."""
    accounts = audit(
        scene.books, "measured", read_spool(spool_of(scene.machine)), scene.feeder.records
    )
    ledger = scene.books.ledger("measured")
    for device, account in accounts.items():
        assert account.accounted_mj == account.counted_mj, f"{told}: {device}: {account}"
        assert account.spooled_mj == account.dead_mj == account.quarantined_mj == 0, (
            f"{told}: {device}: {account}"
        )
        assert ledger[device] == account.accepted_mj, (
            f"{told}: {device}: ledger {ledger[device]}, {account}"
        )
    assert sum(window.energy_mj for window in scene.books.accepted("load")) == scene.load.sent_mj, (
        told
    )
    assert scene.books.ledger("load") == {scene.load.device: scene.load.sent_mj}, told
    assert scene.books.shares_that_differ() == [], told
    assert scene.books.consumer_hours_that_differ() == set(), told
    windows = len(scene.books.accepted("measured"))
    gap_mj = sum(account.gap_mj for account in accounts.values())
    counted_mj = sum(account.counted_mj for account in accounts.values())
    return (
        f"{len(accounts)} GPUs, {windows} windows, {counted_mj} mJ counted, {gap_mj} mJ of it in "
        "declared gaps"
    )


def _assert_a_missing_window_is_detected(scene: Scene, folder: Path) -> None:
    """The oracle is no rubber stamp: without any one window it does not balance."""
    copy = folder / "tampered.sqlite3"
    with (
        closing(sqlite3.connect(scene.books.place)) as file,
        closing(sqlite3.connect(copy)) as tampered,
    ):
        file.backup(tampered)
        measured = "SELECT id FROM fleet_node WHERE hostname = 'measured'"
        rows = tampered.execute(
            f"SELECT rowid FROM ingest_energywindow WHERE energy_mj > 0 AND node_id = ({measured})"
        ).fetchall()
        tampered.execute("PRAGMA foreign_keys = OFF")
        tampered.execute("DELETE FROM ingest_energywindow WHERE rowid = ?", scene.rng.choice(rows))
        tampered.commit()
    spool = read_spool(spool_of(scene.machine))
    try:
        accounts = audit(LedgerDatabase(str(copy)), "measured", spool, scene.feeder.records)
    except AssertionError:
        return
    assert any(account.accounted_mj != account.counted_mj for account in accounts.values())


def _back(scene: Scene, told: str, limit_s: float = BACK_S) -> str:
    """Every kill was followed by a return within ``limit_s``; return the slowest of each.

    The server's parts load Django first: where even the median return takes longer than a quarter
    of the limit, the machine is busy with other things, and they get four times that median. The
    collector gets no such grace.
    """
    slowest = {each.name: max(each.back_s[1:], default=0.0) for each in scene.supervisor.processes}
    for each in scene.supervisor.processes:
        grace_s = 0.0 if each is scene.collector else 4 * median(each.back_s)
        words = f"{told}: {slowest} s, limit {max(limit_s, grace_s):.1f} s\n{each.log_tail()}"
        assert slowest[each.name] < max(limit_s, grace_s), words
    still_s = max(each.stalled_s for each in scene.supervisor.processes)
    found = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in slowest.items())
    return f"{found} (the machine stood still for {still_s:.1f} s)"


@pytest.fixture
def rng(capsys: pytest.CaptureFixture[str]) -> random.Random:
    with capsys.disabled():
        print(f"\nLABCARBON_SEED={SEED}", flush=True)
    return random.Random(SEED)


def test_kills_on_sqlite_lose_nothing_and_count_nothing_twice(
    tmp_path: Path, rng: random.Random, capsys: pytest.CaptureFixture[str]
) -> None:
    told, begun = f"LABCARBON_SEED={SEED}", time.monotonic()
    with ExitStack() as stack:
        scene = _scene(stack, tmp_path, rng)
        done = _kill(scene, KILLS or 50)
        back = _back(scene, told)
        _settle(scene)
        found = _balance(scene, told)
        assert integrity(scene.server.data_dir / "labcarbon.sqlite3") == ["ok"], told
        _assert_a_missing_window_is_detected(scene, tmp_path)
        assert integrity(spool_of(scene.machine)) == ["ok"], told
    with capsys.disabled():
        print(
            (
                f"{told}: killed {done}; slowest back: {back}; {found}; "
                f"{time.monotonic() - begun:.0f} s"
            ),
            flush=True,
        )


def _client_backends(postmaster: int) -> list[int]:
    """Return the processes that serve a connection; to kill the one that recovers would end
    PostgreSQL for good.
    """
    found = []
    for pid in children_of(postmaster):
        with suppress(OSError):
            if b"[local]" in Path(f"/proc/{pid}/cmdline").read_bytes():
                found.append(pid)
    return found


@pytest.mark.redis
@pytest.mark.skipif(
    programs() is None, reason="PostgreSQL is not installed (apt-get install postgresql)"
)
def test_kills_on_postgres_of_its_backends_too_and_of_redis(
    tmp_path: Path, rng: random.Random, capsys: pytest.CaptureFixture[str]
) -> None:
    told, begun = f"LABCARBON_SEED={SEED}", time.monotonic()
    with ExitStack() as stack:
        database = stack.enter_context(postgres(durable=True))
        broker = Redis()
        stack.callback(broker.close)
        scene = _scene(stack, tmp_path, rng, database.url_of(MIGRATED), broker.url)
        also = {"backends of PostgreSQL": 0, "Redis flushed": 0, "Redis killed": 0}

        def kill_a_backend() -> None:
            """SIGKILL of one backend: PostgreSQL ends all connections and recovers."""
            if living := _client_backends(database.pid):
                victim = rng.choice(living)
                with suppress(
                    ProcessLookupError
                ):  # its client was killed just before, and it went by itself
                    os.kill(victim, 9)
                    also["backends of PostgreSQL"] += 1

        def flush_redis() -> None:
            with closing(RedisClient.from_url(broker.url)) as client:
                client.flushall()
            also["Redis flushed"] += 1

        def kill_redis() -> None:
            broker.kill()
            time.sleep(rng.uniform(0.0, 2.0))
            broker.start()
            also["Redis killed"] += 1

        def kill_more() -> None:
            chance = rng.random()
            if chance < 0.5:
                kill_a_backend()
            elif chance < 0.65:
                flush_redis()
            elif chance < 0.8:
                kill_redis()

        done = _kill(scene, KILLS or 10, also=kill_more)
        flush_redis()
        kill_redis()
        back = _back(scene, told, DATABASE_BACK_S)
        _settle(scene)
        found = _balance(scene, told)
    with capsys.disabled():
        print(
            f"{told}: killed {done}, also {also}; slowest back: {back}; {found}; "
            f"{time.monotonic() - begun:.0f} s",
            flush=True,
        )
