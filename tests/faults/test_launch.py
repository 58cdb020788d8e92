"""The path of `make run`: ready, enrolled, measuring, stopped and started again, killed without
leaving anybody behind.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from labcarbon import launch as launching
from tests.faults.installation import ROOT, Installation
from tests.faults.ledger import LedgerDatabase, integrity
from tests.faults.supervisor import children_of
from tests.services.process import free_port, wait_until

pytestmark = pytest.mark.faults

READY_S = 120.0
ENERGY_S = 180.0
# What Python prints of an interrupt that came within a weakref's callback or a __del__, instead of
# passing it on.
_SWALLOWED = re.compile(
    r"^Exception ignored .*\nTraceback .*\n(?: .*\n)*KeyboardInterrupt.*$", re.MULTILINE
)


def family(pid: int) -> list[int]:
    """Return the process ids of all descendants of ``pid``."""
    inner = children_of(pid)
    return inner + [each for child in inner for each in family(child)]


def _lives(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


class Launcher:
    """A running ``python -m labcarbon.launch``, its lines as they come."""

    def __init__(self, environ: dict[str, str]) -> None:
        self.lines: list[str] = []
        self.process = subprocess.Popen(
            [sys.executable, "-m", "labcarbon.launch"],
            env=environ,
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line.rstrip("\n"))

    def wait_for(self, text: str, seconds: float = READY_S) -> str:
        """Return the first line with ``text``."""

        def found() -> bool:
            assert self.process.poll() is None, "\n".join(self.lines)
            return any(text in line for line in self.lines)

        wait_until(found, what=f"the line {text!r}", seconds=seconds)
        return next(line for line in self.lines if text in line)

    def said(self) -> str:
        return "\n".join(self.lines)

    def family(self) -> list[int]:
        return family(self.process.pid)

    def end(self, number: int) -> int:
        """Signal the launcher alone and return its exit code."""
        self.process.send_signal(number)
        code = self.process.wait(60)
        self._reader.join(30)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return code


SET_UP = ("setup_lab", "--lab", "Launch Lab", "--user", "ann", "--zone", "DE")


@pytest.fixture
def place(tmp_path: Path) -> Installation:
    """A data directory with nothing but its secrets."""
    return Installation(tmp_path / "data")


@pytest.fixture
def environ(place: Installation, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    own = {
        "LABCARBON_DATA": str(place.data_dir),
        "LABCARBON_PORT": str(place.port),
        "LABCARBON_STATIC": str(tmp_path_factory.getbasetemp() / "static"),
        "LABCARBON_SOCKET": str(place.data_dir / "collect.sock"),
        "LABCARBON_SOURCES": "cpu_model",
        "LABCARBON_NODE_ID": str(
            uuid.uuid4()
        ),  # the machine the tests run on may have a collector of its own
        "LABCARBON_INTERVAL_S": "10",
        "PYTHONUNBUFFERED": "1",
    }
    plain = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("LABCARBON_", "DJANGO_"))
    }
    return {**plain, **own}


@pytest.fixture
def launch(environ: dict[str, str]) -> Iterator[Callable[[], Launcher]]:
    with ExitStack() as stack:

        def make() -> Launcher:
            launcher = Launcher(environ)
            stack.callback(
                lambda: launcher.process.poll() is not None or launcher.end(signal.SIGTERM)
            )
            return launcher

        yield make


def _names(pids: list[int]) -> dict[str, int]:
    """Return {what it is: pid} of the launcher's own children."""
    found = {}
    for pid in pids:
        command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
        for name, mark in (
            ("web server", "gunicorn"),
            ("worker", "manage.py worker"),
            ("collector", "labcarbon-collect"),
        ):
            if mark in command:
                found[name] = pid
    return found


def _energy_mj(place: Installation) -> int:
    books = LedgerDatabase(str(place.data_dir / "labcarbon.sqlite3"))
    return int(books.rows("SELECT COALESCE(SUM(energy_mj), 0) FROM energy_ledgerentry")[0][0])


def test_from_nothing_to_energy_in_the_ledger(
    place: Installation, launch: Callable[[], Launcher]
) -> None:
    launcher = launch()
    launcher.wait_for("LabCarbon is ready at")
    assert launcher.lines[-1] == f"LabCarbon is ready at {place.url}"
    assert f"{place.url}/setup/?code=" in launcher.lines[-2]
    place.manage(*SET_UP)
    begun = time.monotonic()
    wait_until(
        lambda: _energy_mj(place) > 0, what="energy in the ledger", seconds=ENERGY_S, every=0.5
    )
    assert time.monotonic() - begun < ENERGY_S
    assert not [line for line in launcher.lines if "ended" in line or "could not" in line], (
        launcher.lines
    )
    everybody = launcher.family()
    assert set(_names(children_of(launcher.process.pid))) == {"web server", "worker", "collector"}
    assert launcher.end(signal.SIGINT) == 0
    assert [pid for pid in everybody if _lives(pid)] == []
    assert "Traceback" not in "\n".join(launcher.lines)
    assert integrity(place.data_dir / "labcarbon.sqlite3") == ["ok"]


def test_a_lab_just_starts_and_what_dies_is_started_again(
    place: Installation, environ: dict[str, str], launch: Callable[[], Launcher]
) -> None:
    place.prepare()
    place.manage(*SET_UP)
    launcher = launch()
    launcher.wait_for("LabCarbon is ready at")
    assert f"{place.url}/signin/?code=" in launcher.lines[-2]
    wait_until(
        lambda: _energy_mj(place) > 0, what="energy in the ledger", seconds=ENERGY_S, every=0.5
    )
    before_mj = _energy_mj(place)
    refused = Launcher({**environ, "LABCARBON_PORT": str(free_port())})
    assert refused.end(0) == 1
    assert f"is already running with the data in {place.data_dir}" in refused.lines[-1]
    assert "LABCARBON_PORT=8001 make run" in refused.lines[-1]
    for name, pid in _names(children_of(launcher.process.pid)).items():
        os.kill(pid, signal.SIGKILL)
        launcher.wait_for(f"The {name} ended (exit code -9); restarting it")

        def is_back(name: str = name, killed: int = pid) -> bool:
            return _names(children_of(launcher.process.pid)).get(name, killed) != killed

        wait_until(is_back, what=f"the new {name}")
    wait_until(
        lambda: _energy_mj(place) > before_mj,
        what="more energy in the ledger",
        seconds=ENERGY_S,
        every=0.5,
    )
    everybody = launcher.family()
    assert len(everybody) >= 4
    launcher.end(signal.SIGKILL)
    wait_until(lambda: not any(_lives(pid) for pid in everybody), what="the end of the orphans")
    launcher = launch()
    launcher.wait_for("LabCarbon is ready at")
    everybody = launcher.family()
    assert launcher.end(signal.SIGTERM) == 0
    assert [pid for pid in everybody if _lives(pid)] == []


def test_ctrl_c_while_it_prepares_is_no_accident(tmp_path: Path, environ: dict[str, str]) -> None:
    launcher = Launcher(
        {**environ, "LABCARBON_DATA": str(tmp_path / "data"), "LABCARBON_PORT": str(free_port())}
    )
    launcher.wait_for("Preparing the database")
    launcher.process.send_signal(signal.SIGINT)
    wait_until(
        lambda: launcher.process.poll() is not None or bool(_SWALLOWED.search(launcher.said())),
        what="the end",
    )
    code = launcher.end(
        signal.SIGINT
    )  # once more where Python kept the first to itself; who has ended hears nothing
    # A shell says 130 either way. Python dies of the signal itself where it came while code was
    # made from text, as that of dataclasses is, whoever caught it (CPython notes such an interrupt
    # as unhandled, Python/pythonrun.c).
    assert code in {130, -signal.SIGINT}
    assert "Traceback" not in _SWALLOWED.sub("", launcher.said())


def test_an_enrolment_that_failed_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop, tries = threading.Event(), iter([False, False, True])
    tried = []

    def enrol(url: str) -> bool:
        tried.append(url)
        done = next(tries)
        if done:
            stop.set()
        return done

    monkeypatch.setattr("apps.accounts.selectors.is_set_up", lambda: True)
    monkeypatch.setattr(launching, "enrol_this_machine", enrol)
    monkeypatch.setattr(launching, "_ENROL_INTERVAL_S", 0.0)
    launching.supervise([], tmp_path, "http://127.0.0.1:8000", stop)
    assert len(tried) == 3
