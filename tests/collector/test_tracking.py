"""``track``: the report of a script, its metrics and its end, and failures that never disturb
it.
"""

from __future__ import annotations

import math
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from labcarbon_collect.config import Login
from labcarbon_collect.runs import failure
from labcarbon_collect.runs.metrics import MAX_POINTS, MetricSender, parse_points
from labcarbon_collect.tracking import exit_code, mask_params

from tests.collector.collector_process import DEFAULT_TIMEOUT, Collector, wait_for
from tests.collector.preflight_responses import DUPLICATE
from tests.fakes import labcarbon_server as fakes

LOGGING = "for step in range(20000):\n    run.log(step, loss=1)"


def track(
    person: Collector,
    body: str,
    *,
    settings: str = "project='demo'",
    before: tuple[str, ...] = (),
    **environ: str,
) -> subprocess.CompletedProcess[str]:
    """Run a script that trains within ``track``."""
    script = person.root / "work" / "train.py"
    script.parent.mkdir(exist_ok=True)
    lines = "\n    ".join(body.splitlines())
    script.write_text(
        f"import labcarbon_collect\nwith labcarbon_collect.track({settings}) as run:\n    {lines}\n"
    )
    return subprocess.run(
        [*before, sys.executable, "train.py", "--lr", "0.1"],
        cwd=script.parent,
        env={**person.environ, **environ},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def points(server: fakes.FakeServer) -> list[list[Any]]:
    return [
        point for request in server.sent("POST", "/metrics/") for point in request.body["points"]
    ]


def test_a_script_reports_itself_its_metrics_and_its_end(
    person: Collector, server: fakes.FakeServer
) -> None:
    body = (
        "for step in range(3):\n    run.log(step, loss=1 / (step + 1), val_acc=step)\nprint('done')"
    )
    settings = (
        "project='demo', name='mine', params={'optim': {'lr': 0.1}, 'api_key': 'x'}, "
        "intent='debug', sweep='s'"
    )
    done = track(person, body, settings=settings)
    assert (done.returncode, done.stdout) == (0, "done\n")
    ((run, facts),) = server.runs.items()
    assert (facts["name"], facts["project"], facts["intent"], facts["sweep"]) == (
        "mine",
        "demo",
        "debug",
        "s",
    )
    assert facts["params"] == {"optim.lr": 0.1, "api_key": "(masked)"}
    assert set(facts["fingerprint"]["params"]) == {"lr", "optim.lr"}
    assert facts["fingerprint"]["code"]["state"] == "verified"
    assert (facts["state"], facts["exit_code"]) == ("finished", 0)
    assert [point[:3] for point in points(server)] == [
        [name, step, value]
        for step in range(3)
        for name, value in (("loss", 1 / (step + 1)), ("val_acc", step))
    ]
    assert all(run in request.path for request in server.sent("POST", "/metrics/"))


@pytest.mark.parametrize(
    ("body", "state", "code", "kind"),
    [
        ("raise ValueError('my words')", "failed", 1, "user_error"),
        ("raise MemoryError", "failed", 1, "host_memory"),
        ("raise OSError('disk')", "failed", 1, None),
        ("raise RuntimeError('CUDA out of memory. Tried')", "failed", 1, "cuda_memory"),
        ("import sys; sys.exit(4)", "failed", 4, ()),
        ("import sys; sys.exit(0)", "finished", 0, ()),
        ("raise KeyboardInterrupt", "killed", 130, ()),
        ("run.log(1, loss=float('nan')); raise RuntimeError('x')", "failed", 1, "nan"),
        (
            "run.log(1, loss=float('nan')); run.log(2, loss=1.0); raise RuntimeError('x')",
            "failed",
            1,
            None,
        ),
    ],
)
def test_how_it_ended_and_why_without_texts(
    person: Collector, server: fakes.FakeServer, body: str, state: str, code: int, kind: Any
) -> None:
    done = track(person, body)
    assert done.returncode == (code if code != 130 else -2)
    (facts,) = server.runs.values()
    assert (facts["state"], facts["exit_code"]) == (state, code)
    if kind == ():
        assert "failure" not in facts
    else:
        assert facts["failure"].get("class") == kind
        assert len(facts["failure"]["point"]) == 64
    assert not any(
        b"my words" in request.content or b"Tried" in request.content for request in server.requests
    )


def test_the_point_of_a_failure_is_the_same_whatever_its_text_and_line(
    person: Collector, server: fakes.FakeServer
) -> None:
    for body in ("raise ValueError('a')", "x = 1\nraise ValueError('b')", "raise TypeError('a')"):
        track(person, body)
    first, second, other = (facts["failure"]["point"] for facts in server.runs.values())
    assert first == second != other


def test_below_run_the_wrapped_run_is_reused(person: Collector, server: fakes.FakeServer) -> None:
    before = (sys.executable, "-m", "labcarbon_collect", "run", "--name", "outer", "--")
    done = track(person, "run.log(1, loss=2)\nraise ValueError('x')", before=before)
    assert done.returncode == 1
    ((run, facts),) = server.runs.items()
    assert (facts["name"], facts["state"], facts["failure"]["class"]) == (
        "outer",
        "failed",
        "user_error",
    )
    assert len(server.sent("PUT", "runs/")) == 1
    assert [request.path for request in server.sent("POST", "/metrics/")] == [
        f"/api/v1/runs/{run}/metrics/"
    ]


@pytest.mark.parametrize("rank", ["RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK"])
def test_other_ranks_send_nothing(person: Collector, server: fakes.FakeServer, rank: str) -> None:
    done = track(person, "run.log(1, loss=2); print(run.check())", **{rank: "3"})
    assert (done.returncode, done.stdout, server.requests) == (0, "None\n", [])


def test_check_prints_and_returns_the_response(person: Collector, server: fakes.FakeServer) -> None:
    server.preflight = DUPLICATE
    done = track(person, "answer = run.check(); print(answer.verdict, answer.is_blocking)")
    assert done.stdout == "duplicate True\n"
    assert "Ben did exactly this" in done.stderr
    (asked,) = server.sent("POST", "preflight/")
    assert asked.body["run"] in server.runs


def test_without_login_and_daemon_the_script_runs(tmp_path: Path) -> None:
    alone = Collector(tmp_path)
    done = track(alone, "run.log(1, loss=2); run.log(2, loss='x'); run.check(); print('done')")
    assert (done.returncode, done.stdout) == (0, "done\n")
    assert done.stderr.count("Metrics require your own login") == 1


def test_a_server_that_hangs_delays_neither_beginning_nor_logging(
    person: Collector, server: fakes.FakeServer
) -> None:
    server.faults = [fakes.trickle_response] * 50
    told = "print(time.monotonic(), flush=True)"
    begun = time.monotonic()
    done = track(
        person,
        f"import os, time\n{told}\n{LOGGING}\n{told}\nos._exit(0)",
        LABCARBON_STARTUP_TIMEOUT_S="60",
    )
    assert done.returncode == 0
    first, last = map(float, done.stdout.split())
    assert first - begun < 8, "a minute, or a quarter of it, if it waited for the server"
    assert last - first < 8, "ten seconds if it waited for the server to take metrics"


def test_a_server_that_hangs_delays_the_end_by_seconds(
    person: Collector, server: fakes.FakeServer
) -> None:
    server.faults = [fakes.trickle_response] * 50
    begun = time.monotonic()
    done = track(person, LOGGING, **DEFAULT_TIMEOUT)
    assert done.returncode == 0
    assert time.monotonic() - begun < 15
    assert "were not sent" in done.stderr or "does not know this run" in done.stderr


def test_a_fork_of_the_script_ends_nothing(person: Collector, server: fakes.FakeServer) -> None:
    body = (
        "import os, sys, time\nif os.fork() == 0:\n    sys.exit(5)\nos.wait()\ntime.sleep(0.3)\n"
        "print('parent')"
    )
    done = track(person, body)
    assert done.stdout == "parent\n"
    (facts,) = server.runs.values()
    assert (facts["state"], len(server.sent("PATCH", "runs/"))) == ("finished", 1)


def test_with_a_daemon_the_energy_is_measured_and_printed(
    person: Collector, server: fakes.FakeServer
) -> None:
    person.enrol(server.url)
    person.start()
    try:
        busy = "import time; t = time.process_time()\nwhile time.process_time() - t < 0.6: pass"
        done = track(person, busy)
        assert done.returncode == 0
        facts = next(facts for facts in server.runs.values() if facts.get("name") == "train.py")
        assert facts["energy_mj"] > 100
        assert facts["node"] == person.node_id
        assert " Wh (" in done.stderr
        stranger = Collector(
            person.root, {"XDG_CONFIG_HOME": str(person.root / "nobody")}, node_id=person.node_id
        )
        assert track(stranger, "pass", settings="name='by-daemon'").returncode == 0
        facts = wait_for(
            lambda: next(
                (f for f in server.runs.values() if f.get("name") == "by-daemon" and "state" in f),
                None,
            )
        )
        assert (facts["state"], facts["fingerprint"]["code"]["state"]) == ("finished", "verified")
    finally:
        person.stop()


class Awkward:
    def __float__(self) -> float:
        raise RuntimeError


def test_what_is_logged_is_a_number_or_nothing() -> None:
    found, wrong = parse_points(
        7, {"a": 1, "b": True, "c": "0.5", "d": None, "e": Awkward(), "f": math.inf}, 5
    )
    assert found == [("a", 7, 1.0, 5), ("b", 7, 1.0, 5), ("f", 7, math.inf, 5)]
    assert wrong == ["c", "d", "e"]


def sender(url: str) -> tuple[MetricSender, list[str]]:
    ready, said = threading.Event(), list[str]()
    ready.set()
    return MetricSender(
        Login(url, "lc_user_fake"), "r", is_registered=ready, notify=said.append
    ), said


def test_non_finite_values_are_sent_as_text(server: fakes.FakeServer) -> None:
    made, _ = sender(server.url)
    made.add([("a", 1, math.nan, 10**15), ("a", 2, math.inf, 10**15), ("a", 3, -math.inf, 10**15)])
    assert made.close(10) == 0
    assert [point[2] for point in points(server)] == ["NaN", "Infinity", "-Infinity"]


def test_points_are_resent_in_order_when_the_server_recovers(server: fakes.FakeServer) -> None:
    server.faults = [fakes.error_response(503)]
    made, said = sender(server.url)
    made.add([("a", step, 1.0, 10**15) for step in range(6000)])
    wait_for(lambda: len(server.requests) >= 1)
    made.close(20)
    assert len(said) == 1


def test_what_is_refused_for_good_is_given_up_and_counted(server: fakes.FakeServer) -> None:
    server.faults = [fakes.error_response(400, "The metric is wrong.")]
    made, said = sender(server.url)
    made.add([("a", 1, 1.0, 10**15)])
    assert made.close(10) == 1
    assert said == ["The server rejected metrics: The metric is wrong."]


def test_memory_is_bounded_and_the_oldest_give_way() -> None:
    made, _ = sender("http://127.0.0.1:1")
    made.add([("a", step, 1.0, 10**15) for step in range(MAX_POINTS + 10)])
    assert made.dropped == 10
    assert made.close(5) == MAX_POINTS + 10


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (type("OutOfMemoryError", (RuntimeError,), {})("x"), "cuda_memory"),
        (MemoryError(), "host_memory"),
        (
            RuntimeError(
                "DataLoader worker (pid 3) is killed by signal: Bus error. It is possible"
            ),
            "shared_memory",
        ),
        (RuntimeError("DataLoader worker (pid 3) is killed by signal: Killed."), "host_memory"),
        (
            type("XlaRuntimeError", (RuntimeError,), {})("RESOURCE_EXHAUSTED: Out of memory"),
            "cuda_memory",
        ),
        (RuntimeError("unable to open shared memory object"), "shared_memory"),
        (FloatingPointError(), "nan"),
        (KeyError("x"), "user_error"),
        (ConnectionError(), ""),
        (RuntimeError("size mismatch"), ""),
        (OSError(28, "x"), ""),
    ],
)
def test_failure_classes_of_exceptions(error: BaseException, kind: str) -> None:
    assert failure.classify_error(error) == kind


def test_parameters_are_flattened_and_masked() -> None:
    told = mask_params(
        {"a": {"b": [1, 2]}, "password": "x", "t": "hf_abcdef", "n": None, "s": "x" * 2000}
    )
    assert told == {
        "a.b": "[1, 2]",
        "password": "(masked)",
        "t": "(masked)",
        "n": None,
        "s": "x" * 1024,
    }


@pytest.mark.parametrize(
    ("error", "code"),
    [(None, 0), (SystemExit(), 0), (SystemExit(3), 3), (SystemExit("words"), 1), (ValueError(), 1)],
)
def test_the_exit_code_is_the_interpreters(error: BaseException | None, code: int) -> None:
    assert exit_code(error) == code
