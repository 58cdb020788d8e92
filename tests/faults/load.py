"""Load beside the measured machine: a second node that uploads windows continuously."""

from __future__ import annotations

import random
import threading
import time
from pathlib import Path

from labcarbon_collect.api.transport import Transport
from labcarbon_collect.api.uploader import Uploader
from labcarbon_collect.config import read_enrolment
from labcarbon_collect.energy.windows import Window
from labcarbon_collect.node_identity import boot_id, ensure_private_dir, read_clock
from labcarbon_collect.spool.store import Spool

from tests.faults.installation import Machine

SECOND_US = 1_000_000
BATCH = 40
BACKLOG_S = 20 * 86_400  # far enough back that even the longest soak stays in the past


class Load:
    """Uploads from its own spool with the collector's Uploader. Failures are retried."""

    def __init__(self, machine: Machine, rng: random.Random) -> None:
        self._machine, self._rng = machine, rng
        self._boot = boot_id()
        self._at_us = read_clock().wall_us - BACKLOG_S * SECOND_US
        self._counter_mj = self._seq = 0
        self.sent_mj = self.failures = self.pushes = 0
        self.device = f"gpu:GPU-{machine.node}"
        self._stop, self._given_up = threading.Event(), threading.Event()
        self._failed: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="load", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def finish(self, seconds: float) -> None:
        """Stop creating windows, and return when the server has accepted all."""
        self._stop.set()
        self._thread.join(seconds)
        if self._failed is not None:
            raise self._failed
        assert not self._thread.is_alive(), "the load's spool was not emptied"

    def give_up(self) -> None:
        """End regardless of the spool: the test is over."""
        self._stop.set()
        self._given_up.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            self._push_all()
        except BaseException as error:  # noqa: BLE001 - a thread's failure must fail the test
            self._failed = error

    def _push_all(self) -> None:
        home = ensure_private_dir(self._machine.home)
        login = read_enrolment(home, self._machine.environ, self._machine.node)
        assert login is not None
        spool = Spool(home)
        transport = Transport(login.url, login.token, deadline_s=20.0)
        pusher = Uploader(
            spool,
            transport,
            node=self._machine.node,
            boot=self._boot,
            interval_us=SECOND_US,
            now=read_clock,
        )
        while not self._given_up.is_set() and (not self._stop.is_set() or spool.depth().rows):
            if not self._stop.is_set() and spool.depth().rows < 5 * BATCH:
                spool.append(boot=self._boot, windows=[self._window() for _ in range(BATCH)])
            done = pusher.upload_batch()
            self.pushes += 1
            self.failures += not done.ok
            time.sleep(0.1)
        transport.close()
        spool.close()

    def _window(self) -> Window:
        """Return the next second of a GPU that two processes share."""
        energy_mj, start_mj, start_us = self._rng.randint(0, 300_000), self._counter_mj, self._at_us
        self._counter_mj += energy_mj
        self.sent_mj += energy_mj
        self._at_us += SECOND_US
        self._seq += 1
        monotonic_us = start_us % (1 << 40)
        part_mj = self._rng.randint(0, energy_mj)
        return Window(
            device=self.device,
            epoch="load",
            seq=self._seq,
            start_us=start_us,
            end_us=self._at_us,
            mono_start_us=monotonic_us,
            mono_end_us=monotonic_us + SECOND_US,
            counter_start_mj=start_mj,
            counter_end_mj=self._counter_mj,
            energy_mj=energy_mj,
            measurement="nvml_counter",
            flags=0,
            util_mean_pm=None,
            util_max_pm=None,
            mem_mean_mib=None,
            mem_max_mib=None,
            processes=1,
            shares=(("idle", energy_mj - part_mj), ("proc:someone/python3", part_mj)),
        )


def spool_of(machine: Machine) -> Path:
    return machine.home / "spool.db"
