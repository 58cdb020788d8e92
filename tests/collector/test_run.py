"""``run``: exit codes, signals, the closing line, unavailable servers and daemons."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from labcarbon_collect.figure_text import emission_text, energy_text, percent, summary_line
from labcarbon_collect.ipc.server import SocketServer
from labcarbon_collect.runs import child_process as job
from labcarbon_collect.runs import facts as run_facts
from labcarbon_collect.spool.store import Spool

from tests.collector.collector_process import DEFAULT_TIMEOUT, Collector, shell, wait_for
from tests.fakes import labcarbon_server as fakes

FACTOR = {
    "server_time": 0,
    "site": {"name": "Room 1", "zone": "DE", "pue_ppm": 1_000_000},
    "factor": {"ug_per_kwh": 329_650_000, "zone": "DE", "year": 2025, "edition": 1, "source": "s"},
}


@pytest.fixture(scope="module")
def server() -> Iterator[fakes.FakeServer]:
    with fakes.running() as fake:
        fake.config = FACTOR
        yield fake


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory, server: fakes.FakeServer) -> Iterator[Collector]:
    """An enrolled node with a daemon, and a logged-in user."""
    made = Collector(tmp_path_factory.mktemp("node"))
    made.log_in(server.url)
    assert made.call("enrol", server.url, input="code\n").returncode == 0
    made.start()
    wait_for(lambda: (made.status() or {}).get("config"))
    yield made
    assert made.stop() == 0


@pytest.fixture
def lone(tmp_path: Path) -> Collector:
    """A machine without a daemon."""
    return Collector(tmp_path)


@pytest.mark.parametrize(
    "content", [b"[1]", b'"x"', b"\xff\xfe", b'{"url": 5, "token": "t"}', b"{"]
)
def test_a_damaged_login_is_reported_and_the_command_runs(lone: Collector, content: bytes) -> None:
    """Some of these contents ended in a traceback, and the command was not started."""
    lone.log_in("http://127.0.0.1:9")
    (lone.root / "home" / ".config" / "labcarbon" / "login.json").write_bytes(content)
    done = lone.call("run", "--", "sh", "-c", "echo ran; exit 3")
    assert (done.returncode, done.stdout) == (3, "ran\n")
    assert "Traceback" not in done.stderr
    assert "login.json is damaged" in done.stderr
    assert "labcarbon-collect login URL" in done.stderr


def test_a_run_ends_with_kwh_kg_and_a_link_and_is_reported(
    node: Collector, server: fakes.FakeServer
) -> None:
    busy = "import time; t = time.process_time()\nwhile time.process_time() - t < 0.6: pass"
    done = node.call("run", "--project", "demo", "--param", "lr=0.1", "--", "python3", "-c", busy)
    assert done.returncode == 0
    assert done.stdout == ""
    line = done.stderr.strip().splitlines()[-1]
    run, facts = next((run, facts) for run, facts in server.runs.items() if run in line)
    assert re.match(r"labcarbon: (< 0\.1|0\.\d{3}) Wh \(", line)
    assert "modelled 100 %" in line
    assert " g CO2e · idle " in line
    assert line.endswith(f"{server.url}/runs/{run}/")
    assert (facts["state"], facts["exit_code"], facts["project"], facts["params"]) == (
        "finished",
        0,
        "demo",
        {"lr": 0.1},
    )
    assert facts["command"] == ["python3", "-c"]
    assert facts["energy_mj"] > 100
    assert facts["node"] == (node.status() or {})["node"]
    assert server.sent("PUT", run)[0].token == "lc_user_fake"


@pytest.mark.parametrize("code", [0, 1, 3, 77, 255])
def test_the_exit_code_is_the_works(lone: Collector, code: int) -> None:
    assert lone.call("run", "--", *shell(f"exit {code}")).returncode == code


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV, signal.SIGINT])
def test_work_killed_by_a_signal_gives_128_and_its_number(
    node: Collector, server: fakes.FakeServer, number: int
) -> None:
    done = node.call("run", "--name", f"killed-{number}", "--", *shell(f"kill -{int(number)} $$"))
    assert done.returncode == 128 + number
    facts = next(facts for facts in server.runs.values() if facts["name"] == f"killed-{number}")
    assert (facts["state"], facts["exit_code"]) == ("killed", 128 + number)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGHUP])
def test_signals_sent_to_run_reach_the_work(lone: Collector, number: signal.Signals) -> None:
    script = (
        f"trap 'echo caught; exit 9' {number.name.removeprefix('SIG')}; echo ready; while :; do "
        "sleep 0.05; done"
    )
    process = lone.popen(
        "run", "--", "sh", "-c", script, stdout=subprocess.PIPE, start_new_session=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(number)
    assert process.stdout.read() == "caught\n"
    assert process.wait(10) == 9
    process.stdout.close()


def test_standard_input_and_output_are_the_works(lone: Collector) -> None:
    done = lone.call("run", "--", "cat", input="through\n")
    assert (done.stdout, done.returncode) == ("through\n", 0)


def test_the_work_may_be_ended_by_a_closed_pipe(lone: Collector) -> None:
    done = subprocess.run(
        ["sh", "-c", '"$0" -m labcarbon_collect run -- yes | head -1; true', sys.executable],
        env=lone.environ,
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    assert done.stdout == "y\n"


def test_a_missing_command_is_127_and_one_without_permission_126(
    lone: Collector, tmp_path: Path
) -> None:
    done = lone.call("run", "--", "no-such-command-here")
    assert done.returncode == 127
    assert "no-such-command-here: command not found" in done.stderr
    plain = tmp_path / "plain"
    plain.write_text("x")
    assert lone.call("run", "--", str(plain)).returncode == 126


def test_a_folder_of_the_path_that_may_not_be_searched_hides_no_mistyped_name(
    tmp_path: Path,
) -> None:
    (tmp_path / "plain").write_text("x")
    denied = PermissionError(13, "Permission denied")
    path = f"/closed{os.pathsep}{tmp_path}"
    assert job.exit_code(denied, "no-such-command-here", path) == 127
    assert job.exit_code(denied, "plain", path) == 126
    assert job.exit_code(denied, str(tmp_path / "elsewhere"), path) == 126


def test_a_daemon_that_talks_nonsense_disturbs_nothing(lone: Collector) -> None:
    served = SocketServer(
        lone.socket, lambda request, uid: {"node": 5, "url": [], "energy_mj": "x", "by_quality": 7}
    )
    stop = threading.Event()
    thread = threading.Thread(target=lambda: [served.serve(0.05) for _ in iter(stop.is_set, True)])
    thread.start()
    try:
        done = lone.call("run", "--", *shell("echo worked", "exit 6"))
    finally:
        stop.set()
        thread.join()
        served.close()
    assert (done.stdout, done.returncode) == ("worked\n", 6)
    assert "could not be closed" in done.stderr


def test_without_a_daemon_the_command_starts_immediately_and_the_line_names_the_fix(
    lone: Collector,
) -> None:
    begun = time.monotonic()
    done = lone.call("run", "--", "true")
    assert time.monotonic() - begun < 15  # with a longer timeout
    assert done.returncode == 0
    assert "labcarbon-collect daemon" in done.stderr
    assert "run --standalone" in done.stderr


def test_a_hanging_server_delays_nothing_and_the_daemon_reports_later(
    node: Collector, server: fakes.FakeServer
) -> None:
    with fakes.running() as hanging:
        hanging.faults = [fakes.trickle_response] * 9
        other = Collector(
            node.root,
            {"LABCARBON_URL": hanging.url, "LABCARBON_TOKEN": "lc_user_fake", **DEFAULT_TIMEOUT},
        )
        begun = time.monotonic()
        done = other.call("run", "--name", "told-later", "--", "true")
        assert time.monotonic() - begun < 15  # a request may take 30
    assert done.returncode == 0
    assert "daemon forwards the run" in done.stderr
    facts = wait_for(
        lambda: next(
            (f for f in server.runs.values() if f.get("name") == "told-later" and "state" in f),
            None,
        )
    )
    assert facts["state"] == "finished"


def test_without_a_login_the_daemon_reports_with_its_own_token(
    node: Collector, server: fakes.FakeServer
) -> None:
    stranger = Collector(node.root, {"XDG_CONFIG_HOME": str(node.root / "nobody")})
    done = stranger.call("run", "--name", "by-daemon", "--", *shell("exit 4"))
    assert done.returncode == 4
    facts = wait_for(
        lambda: next(
            (f for f in server.runs.values() if f.get("name") == "by-daemon" and "state" in f), None
        )
    )
    assert (facts["state"], facts["exit_code"]) == ("failed", 4)
    run = next(run for run, each in server.runs.items() if each is facts)
    assert {request.token for request in server.requests if run in request.path} == {"lc_node_fake"}


def test_a_run_with_an_unknown_project_is_unattributed_with_a_warning(node: Collector) -> None:
    done = node.call("run", "--project", "nosuch", "--", "true")
    assert done.returncode == 0
    assert "There is no project 'nosuch'" in done.stderr


def test_without_a_login_an_unknown_project_is_reported_for_the_shortest_run(
    node: Collector,
) -> None:
    stranger = Collector(node.root, {"XDG_CONFIG_HOME": str(node.root / "nobody")})
    done = stranger.call("run", "--project", "nosuch", "--", "true")
    assert done.returncode == 0
    assert "There is no project 'nosuch'" in done.stderr


def test_standalone_measures_without_daemon_and_server_and_stores_the_result(
    lone: Collector,
) -> None:
    busy = "import time; t = time.process_time()\nwhile time.process_time() - t < 0.4: pass"
    done = lone.call("run", "--standalone", "--", "python3", "-c", busy)
    assert done.returncode == 0
    assert "modelled 100 %" in done.stderr

    def stored_runs() -> list[str]:
        spool = Spool(lone.home)
        consumers = [consumer for window in spool.windows() for consumer, _ in window.shares]
        spool.close()
        return [consumer for consumer in consumers if consumer.startswith("run:")]

    assert wait_for(stored_runs)  # when its daemon has ended


def test_run_needs_a_command(lone: Collector) -> None:
    done = lone.call("run", "--project", "demo")
    assert done.returncode == 1
    assert "labcarbon-collect run --project NAME -- python train.py" in done.stderr
    assert "name=value" in lone.call("run", "--param", "lr", "--", "true").stderr


@pytest.mark.parametrize(
    ("command", "reduced"),
    [
        (
            ["/opt/bin/python3.11", "-u", "/home/ana/x/train.py", "--token", "s"],
            ["python3.11", "train.py"],
        ),
        (["python", "-m", "pkg.train", "--key=s"], ["python", "-m", "pkg.train"]),
        (["python", "-c", "secret = 1"], ["python", "-c"]),
        (["/usr/bin/blender", "scene.blend"], ["blender"]),
        (["bash", "go.sh", "password.txt"], ["bash", "go.sh"]),
        (["python"], ["python"]),
    ],
)
def test_only_executable_and_script_name_leave_the_machine(
    command: list[str], reduced: list[str]
) -> None:
    assert run_facts.reduce_command(command) == reduced


def test_params_are_typed_and_secrets_masked() -> None:
    given = [
        "a=1",
        "b=-2.5e3",
        "c=true",
        "d=x=y",
        "e=",
        "api_key=1",
        "url=https://u:p@h/",
        "t=hf_abcdef",
    ]
    assert run_facts.parse_params(given) == {
        "a": 1,
        "b": -2500.0,
        "c": True,
        "d": "x=y",
        "e": "",
        "api_key": "(masked)",
        "url": "(masked)",
        "t": "(masked)",
    }


def test_the_closing_line_names_the_missing_step_for_kg() -> None:
    reply = {
        "energy_mj": 44_280_000,
        "by_quality": {"modelled": 44_280_000},
        "idle_mj": 6_038_182,
        "grams": 4.054695,
    }
    assert summary_line(reply, link="https://a/runs/1/", server="https://a") == (
        "labcarbon: 12.3 Wh (counter 0 %, modelled 100 %) · 4.05 g CO2e · idle 12 % · "
        "https://a/runs/1/"
    )
    assert "set the grid zone of this node's site at https://a/" in summary_line(
        {**reply, "grams": None, "zone": ""}, link="", server="https://a"
    )
    for zone in (None, "DE"):
        early = summary_line({**reply, "grams": None, "zone": zone}, link="", server="https://a")
        assert "set the grid zone" not in early
        assert "see the page of the run" in early
    assert "labcarbon-collect enrol URL" in summary_line(
        {**reply, "grams": None}, link="", server=""
    )


def test_figures_are_readable() -> None:
    assert [
        energy_text(value) for value in (0, 164, 44_280_000, 15_170_400_000, 44_444_160_000_000)
    ] == ["0 Wh", "< 0.1 Wh", "12.3 Wh", "4.21 kWh", "12.3 MWh"]
    assert [emission_text(value) for value in (0, 45_600, 12_300_000, 137_400_000_000)] == [
        "0 g CO2e",
        "< 0.1 g CO2e",
        "12.3 g CO2e",
        "137 kg CO2e",
    ]
    assert [percent(part, 1000) for part in (0, 1, 5, 10, 495, 1000)] == [
        "0",
        "<1",
        "<1",
        "1",
        "50",
        "100",
    ]
