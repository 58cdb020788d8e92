"""``top`` in terminals of all kinds, in a real pty, and its responses to several users of one
machine.
"""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from labcarbon_collect.commands.top import display_width

from tests.collector.collector_process import COMMAND, Collector, wait_for
from tests.collector.real_users import ALICE, BOB, running
from tests.fakes.nvml_driver import FakeDriver, process

ESCAPES = re.compile(r"\x1b\[[?0-9;]*[A-Za-z]")
COLOURS = re.compile(r"\x1b\[[0-9;]*m")


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Collector]:
    node = Collector(tmp_path)
    node.start()
    yield node
    if node.daemon is not None and node.daemon.poll() is None:
        node.stop(signal.SIGKILL)


class Terminal:
    """A pty that runs a program."""

    def __init__(
        self, node: Collector, *arguments: str, rows: int = 24, width: int = 80, **environ: str
    ) -> None:
        self.controller, terminal_fd = pty.openpty()
        fcntl.ioctl(terminal_fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, width, 0, 0))
        self.before = termios.tcgetattr(terminal_fd)
        self.terminal = terminal_fd
        settings = {
            name: value
            for name, value in node.environ.items()
            if name not in ("NO_COLOR", "COLUMNS", "LINES")
        }
        self.program = subprocess.Popen(
            [*COMMAND, "top", *arguments],
            env={**settings, "TERM": "xterm", **environ},
            stdin=terminal_fd,
            stdout=terminal_fd,
            stderr=terminal_fd,
            start_new_session=True,
        )
        self.output = ""

    def read(self, until: str, *, seconds: float = 20) -> str:
        deadline = time.monotonic() + seconds
        while until not in self.output:
            assert time.monotonic() < deadline, f"no {until!r} in {self.output!r}"
            if select.select([self.controller], [], [], 0.1)[0]:
                self.output += os.read(self.controller, 65536).decode()
        return self.output

    def press(self, keys: bytes) -> None:
        os.write(self.controller, keys)

    def restored(self) -> bool:
        """Whether settings, cursor and screen of the terminal are restored."""
        self.read("\x1b[?25h\x1b[?1049l")
        return termios.tcgetattr(self.terminal)[3] == self.before[3]


@contextmanager
def terminal(node: Collector, *arguments: str, **options: Any) -> Iterator[Terminal]:
    screen = Terminal(node, *arguments, **options)
    try:
        yield screen
    finally:
        if screen.program.poll() is None:
            screen.program.kill()
        screen.program.wait(20)
        os.close(screen.controller)
        os.close(screen.terminal)


def test_it_refreshes_until_q(node: Collector) -> None:
    with terminal(node, "--interval", "1") as screen:
        screen.read("Wh since")
        first = screen.output.count("\x1b[H")
        wait_for(lambda: screen.read("\x1b[H").count("\x1b[H") and _more(screen, first))
        assert COLOURS.search(screen.output)
        screen.press(b"q")
        assert screen.program.wait(10) == 0
        assert screen.restored()


def _more(screen: Terminal, before: int) -> bool:
    if select.select([screen.controller], [], [], 0.1)[0]:
        screen.output += os.read(screen.controller, 65536).decode()
    return screen.output.count("\x1b[H") >= before + 2


def test_it_fits_eighty_columns_and_few_rows(node: Collector) -> None:
    with terminal(node, rows=4) as screen:
        screen.read("more lines")
        picture = screen.output.split("\x1b[H")[1].split("\x1b[J")[0].split("\r\n")
        assert len(picture) <= 4
        assert max(display_width(ESCAPES.sub("", line)) for line in picture) <= 80


def test_no_color_is_honoured(node: Collector) -> None:
    with terminal(node, NO_COLOR="1") as screen:
        screen.read("Wh since")
        assert not COLOURS.search(screen.output)
        screen.press(b"q")
        assert screen.program.wait(10) == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_leaves_the_terminal_as_it_was(node: Collector, number: signal.Signals) -> None:
    with terminal(node) as screen:
        screen.read("Wh since")
        screen.program.send_signal(number)
        assert screen.program.wait(10) == 128 + number
        assert screen.restored()


def test_daemon_stop_and_restart_are_displayed(node: Collector) -> None:
    with terminal(node, "--interval", "1") as screen:
        screen.read("Wh since")
        node.stop()
        screen.read("no daemon answers")
        node.start()
        screen.output = ""
        screen.read("Wh since")


@pytest.mark.parametrize("arguments", [[], ["--once"]])
def test_one_plain_snapshot_is_printed_without_a_terminal(
    node: Collector, arguments: list[str]
) -> None:
    done = node.call("top", *arguments)
    assert done.returncode == 0
    assert "\x1b" not in done.stdout
    assert "labcarbon top" in done.stdout
    assert max(display_width(line) for line in done.stdout.splitlines()) <= 80


def test_a_dumb_terminal_gets_plain_text(node: Collector) -> None:
    with terminal(node, TERM="dumb") as screen:
        assert screen.program.wait(20) == 0
        assert "\x1b" not in screen.read("labcarbon top")


def test_json_is_for_programs(node: Collector) -> None:
    def measured() -> Any:
        text = json.loads(node.call("top", "--json").stdout)
        return text if text["devices"][0]["power_mw"] is not None else None

    response = wait_for(measured)
    (device,) = [row for row in response["devices"] if row["device"].endswith("/0")]
    assert device["power_mw"] > 0
    assert set(device) == {
        "device",
        "name",
        "measurement",
        "read_us",
        "power_mw",
        "util_pm",
        "memory_mib",
        "since_us",
        "energy_mj",
        "who",
    }


def test_missing_daemon_is_one_error_line(tmp_path: Path) -> None:
    lone = Collector(tmp_path)
    done = lone.call("top")
    assert (done.returncode, done.stdout) == (1, "")
    assert "labcarbon-collect daemon" in done.stderr
    with terminal(lone) as screen:
        assert screen.program.wait(20) == 1
        assert "\x1b" not in screen.read("labcarbon-collect daemon")
    assert "1 to 60" in lone.call("top", "--interval", "0.1").stderr


# The socket, to several users

QUERY = (
    "import json, os, socket, sys; os.setgroups([]); os.setgid(int(sys.argv[2])); "
    "os.setuid(int(sys.argv[2])); "
    's = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); s.sendall(b\'{"op":"top"}\\n\'); '
    "print(s.makefile().readline())"
)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs several users: run as root")
def test_two_users_on_one_gpu_do_not_see_each_other(tmp_path: Path) -> None:
    driver = FakeDriver(tmp_path, ["hopper"], live=True)
    driver.gpus[0].set_power(400_000, util_percent=99)
    node = Collector(tmp_path, {**driver.env, "LABCARBON_SOURCES": "nvml"})
    for folder in (tmp_path, *tmp_path.parents):
        if folder.stat().st_uid == 0 and folder != Path("/"):
            folder.chmod(folder.stat().st_mode | 0o011)
    with (
        running("/bin/sh", "-c", "read x", uid=ALICE) as alice,
        running("/bin/sh", "-c", "read x", uid=BOB) as bob,
    ):
        driver.gpus[0].set_processes(
            process(alice.pid, sm_percent=75), process(bob.pid, sm_percent=25)
        )
        node.start()
        run = str(uuid.uuid4())
        assert (node.request({"op": "register", "run": run, "pid": alice.pid}) or {}).get("ok")

        def rows_for(uid: int) -> dict[str, dict[str, Any]]:
            command = [COMMAND[0], "-c", QUERY, str(node.socket), str(uid)]
            done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
            (device,) = json.loads(done.stdout)["devices"]
            return {row["who"]: row for row in device["who"] if row["power_mw"]}

        # Root registered the run for Alice: it is root's run, and root sees all names.
        wait_for(
            lambda: f"run:{run}" in rows_for(0) and f"proc:{BOB}/sh" in rows_for(0), seconds=15
        )
        rows = rows_for(BOB)
        assert set(rows) == {f"proc:{BOB}/sh", "others' runs"}
        assert rows[f"proc:{BOB}/sh"]["yours"] is True
        assert not any(str(ALICE) in name or run in name for name in rows)
        assert set(rows_for(64_199)) == {"others' processes", "others' runs"}
    node.stop()
