"""``%load_ext labcarbon_collect`` in a real IPython, with and without daemon and server."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from labcarbon_collect import notebook
from labcarbon_collect.notebook import NotebookRun, Settings
from labcarbon_collect.spool.store import Spool

from tests.collector.collector_process import DEFAULT_TIMEOUT, Collector, wait_for
from tests.collector.test_run import FACTOR
from tests.fakes import labcarbon_server as fakes

LOAD, UNLOAD = "%load_ext labcarbon_collect", "%unload_ext labcarbon_collect"
BUSY = "import time; t = time.process_time()\nwhile time.process_time() - t < 0.6: pass"


@pytest.fixture
def server() -> Iterator[fakes.FakeServer]:
    with fakes.running() as fake:
        fake.config = FACTOR
        yield fake


@pytest.fixture
def lone(tmp_path: Path) -> Collector:
    return Collector(tmp_path)


@pytest.fixture
def node(tmp_path: Path, server: fakes.FakeServer) -> Iterator[Collector]:
    """An enrolled node with a daemon, without a logged-in user."""
    made = Collector(tmp_path)
    assert made.call("enrol", server.url, input="code\n").returncode == 0
    made.start()
    wait_for(lambda: (made.status() or {}).get("config"))
    yield made
    if made.daemon is not None and made.daemon.poll() is None:
        made.stop(signal.SIGKILL)


def ipython(node: Collector, *cells: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run cells one by one in a separate shell, as a user would."""
    settings = {**node.environ, "IPYTHONDIR": str(node.root / "ipython"), "TERM": "dumb", **environ}
    program = (
        "import json, sys\nfrom IPython.terminal.interactiveshell import TerminalInteractiveShell "
        "as Shell\n"
        "shell = Shell.instance(colors='NoColor')\n"
        "for cell in json.loads(sys.argv[1]):\n"
        "    done = shell.run_cell(cell, store_history=False)\n"
        "    print('RAISED' if not done.success else 'ok', flush=True)\n"
    )
    command = [sys.executable, "-c", program, json.dumps(cells)]
    return subprocess.run(
        command, env=settings, capture_output=True, text=True, timeout=60, check=False
    )


def printed_lines(done: subprocess.CompletedProcess[str]) -> list[str]:
    """Return the collector's lines. Nothing was raised and the shell ended with exit code 0."""
    assert done.returncode == 0, done.stderr
    assert "RAISED" not in done.stdout, done.stdout
    assert "Traceback" not in done.stdout + done.stderr
    return [
        line for line in (done.stdout + done.stderr).splitlines() if line.startswith("labcarbon: ")
    ]


def test_a_notebook_is_a_run_from_loading_to_the_kernels_end(
    node: Collector, server: fakes.FakeServer
) -> None:
    done = ipython(
        node,
        LOAD,
        "%labcarbon project=demo name=ablation",
        BUSY,
        "time.sleep(6)",
        "%labcarbon",
        JPY_SESSION_NAME="/home/ana/secret folder/first.ipynb",
    )
    loaded, told, shown, closing = printed_lines(done)
    run = next(iter(server.runs))
    link = f"{server.url}/runs/{run}/"
    assert loaded == f"labcarbon: This notebook is measured as the run first.ipynb {link}"
    assert told == "labcarbon: ablation, project demo"
    for line in (shown, closing):
        assert " Wh (counter 0 %, modelled 100 %) · " in line
        assert " g CO2e · idle " in line
        assert line.endswith(link)
    facts = wait_for(lambda: server.runs[run] if "state" in server.runs[run] else None)
    assert (facts["name"], facts["project"], facts["command"], facts["state"]) == (
        "ablation",
        "demo",
        ["ipython"],
        "finished",
    )
    assert facts["energy_mj"] > 0
    assert facts["node"] == (node.status() or {})["node"]
    assert "secret folder" not in json.dumps(facts)
    assert (node.status() or {})["runs"] == 0


def test_with_a_login_the_run_is_the_persons(node: Collector, server: fakes.FakeServer) -> None:
    node.log_in(server.url)
    printed_lines(ipython(node, LOAD, "%labcarbon project=demo"))
    (run,) = server.runs
    assert server.runs[run]["state"] == "finished"
    assert {request.token for request in server.requests if run in request.path} == {"lc_user_fake"}


@pytest.mark.parametrize("logged_in", [True, False])
def test_an_unknown_project_is_reported_and_the_notebook_continues(
    node: Collector, server: fakes.FakeServer, logged_in: bool
) -> None:
    if logged_in:
        node.log_in(server.url)
    lines = printed_lines(ipython(node, LOAD, "%labcarbon project=nosuch", "print('on')"))
    assert lines[1] == "labcarbon: notebook, project nosuch. There is no project 'nosuch'."


def test_after_unloading_the_kernel_is_not_the_run_any_more(
    node: Collector, server: fakes.FakeServer
) -> None:
    done = ipython(node, LOAD, UNLOAD, f"{BUSY}\ntime.sleep(6)", "%labcarbon")
    assert done.stdout.split().count("RAISED") == 1
    assert "UsageError: Line magic function `%labcarbon` not found" in done.stderr + done.stdout
    node.stop()
    spool = Spool(node.home)
    spent = {consumer: mj for window in spool.windows() for consumer, mj in window.shares}
    spool.close()
    by_run = {**server.shares, **spent}
    (run,) = server.runs
    others = sum(
        mj
        for consumer, mj in by_run.items()
        if consumer.startswith("proc:") and "/python" in consumer
    )
    assert by_run.get(f"run:{run}", 0) < others


def test_loading_twice_is_one_run_and_reloading_begins_another(
    node: Collector, server: fakes.FakeServer
) -> None:
    printed_lines(ipython(node, LOAD, LOAD, "%labcarbon"))
    assert len(server.runs) == 1
    printed_lines(ipython(node, LOAD, "%reload_ext labcarbon_collect"))
    wait_for(lambda: len([run for run in server.runs.values() if "state" in run]) == 3)


def test_a_fork_that_ends_does_not_end_the_notebook(
    node: Collector, server: fakes.FakeServer
) -> None:
    fork = (
        "import os\nfrom labcarbon_collect import notebook\npid = os.fork()\n"
        "if pid == 0:\n    notebook._end_at_exit()\n    os._exit(0)\nos.waitpid(pid, 0);"
    )
    lines = printed_lines(ipython(node, LOAD, fork, "%labcarbon"))
    assert len(lines) == 3
    assert all(" Wh (" in line for line in lines[1:])


def test_without_a_daemon_one_line_is_printed_and_the_magic_retries(lone: Collector) -> None:
    lines = printed_lines(ipython(lone, LOAD, "%labcarbon", "x = 1", UNLOAD))
    assert len(lines) == 2
    for line in lines:
        assert line.startswith("labcarbon: This notebook is not measured: no daemon answers at ")
        assert "labcarbon-collect daemon" in line


@pytest.mark.parametrize("line", ["projct=x", "project", "'", "nonsense"])
def test_invalid_arguments_print_the_usage(lone: Collector, line: str) -> None:
    _, told = printed_lines(ipython(lone, LOAD, f"%labcarbon {line}"))
    assert told.endswith("use %labcarbon, or %labcarbon project=NAME name=NAME")


def test_a_stopped_daemon_never_raises_into_the_notebook(node: Collector) -> None:
    assert node.daemon is not None
    kill = (
        f"import os, time; os.kill({node.daemon.pid}, 15)\n"
        f"while os.path.exists({str(node.socket)!r}): time.sleep(0.05)"  # the socket is closed
    )
    lines = printed_lines(ipython(node, LOAD, kill, "%labcarbon", "%labcarbon project=demo"))
    assert len(lines) == 4
    assert all("no daemon answers" in line for line in lines[1:])


def test_a_setting_that_cannot_be_read_never_raises(lone: Collector) -> None:
    lone.log_in("http://127.0.0.1:1")
    path = lone.root / "home" / ".config" / "labcarbon" / "login.json"
    path.chmod(0o644)
    (line,) = printed_lines(ipython(lone, LOAD))
    assert "This notebook is not measured" in line


def test_an_unreachable_server_delays_little_and_the_daemon_reports_the_run(
    node: Collector, server: fakes.FakeServer
) -> None:
    with fakes.running() as hanging:
        hanging.faults = [fakes.trickle_response] * 9
        begun = time.monotonic()
        printed_lines(
            ipython(
                node,
                LOAD,
                LABCARBON_URL=hanging.url,
                LABCARBON_TOKEN="lc_user_fake",
                **DEFAULT_TIMEOUT,
            )
        )
        assert time.monotonic() - begun < 25
    wait_for(lambda: any(run.get("state") == "finished" for run in server.runs.values()))


def test_where_no_thread_can_start_the_daemon_reports_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As at the shutdown of an interpreter since Python 3.12."""
    asked: list[dict[str, Any]] = []

    class Daemon:
        def __init__(self, *given: Any, **options: Any) -> None: ...

        def call(self, request: dict[str, Any], **options: Any) -> dict[str, Any]:
            asked.append(request)
            return {"ok": True, "energy_mj": 7, "node": None, "url": ""}

        def close(self) -> None: ...

    def refused(thread: threading.Thread) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    monkeypatch.setattr(notebook, "Client", Daemon)
    monkeypatch.setenv("LABCARBON_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("LABCARBON_TOKEN", "lc_user_fake")
    run = NotebookRun(Settings("n", "ipython"))
    run.start()
    monkeypatch.setattr(threading.Thread, "start", refused)
    assert "Wh (" in run.end(process_continues=False)
    assert [request["op"] for request in asked] == ["register", "end", "tell"]
    assert asked[-1]["closing"]["energy_mj"] == 7


def test_ipython_is_not_imported_by_anything_but_ipython() -> None:
    program = (
        "import sys, pkgutil, importlib, labcarbon_collect\n"
        "for found in pkgutil.walk_packages(labcarbon_collect.__path__, 'labcarbon_collect.'):\n"
        "    if not found.name.endswith('__main__'): importlib.import_module(found.name)\n"
        "print('labcarbon_collect.notebook' in sys.modules, any(name.startswith('IPython') for "
        "name in sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env=dict(os.environ),
    )
    assert done.stdout.split() == ["True", "False"]
