"""The end of MLflow runs, and slow servers, hanging daemons and errors of the collector, which
never disturb the script.
"""

from __future__ import annotations

import math
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.collector.collector_process import DEFAULT_TIMEOUT, LONG_TIMEOUT, Collector, wait_for
from tests.collector.mlflow_scripts import ONE_RUN, RUN, SKIPPED_CHECK, Scripts
from tests.collector.preflight_responses import DUPLICATE
from tests.fakes import labcarbon_server as fakes
from tests.services.process import free_port


@pytest.mark.parametrize(
    ("body", "state", "code", "failure"),
    [
        ("raise ValueError('my words')", "failed", 1, "user_error"),
        ("raise KeyboardInterrupt", "killed", 130, None),
        ("import sys; sys.exit(4)", "finished", None, None),  # sys.exit is not visible from inside
        ("pass", "finished", None, None),
    ],
)
def test_the_reported_end_of_a_script(
    scripts: Scripts,
    server: fakes.FakeServer,
    body: str,
    state: str,
    code: int | None,
    failure: str | None,
) -> None:
    done = scripts.run(f"mlflow.start_run()\n{body}")
    facts = server.runs[done.created[0][RUN]]
    assert (facts["state"], facts["exit_code"]) == (state, code)
    assert facts.get("failure", {}).get("class") == failure
    assert not any(b"my words" in request.content for request in server.requests)


def test_the_digest_of_large_data_follows_and_the_script_has_no_child_of_ours(
    scripts: Scripts, server: fakes.FakeServer
) -> None:
    scripts.folder.mkdir()
    (scripts.folder / "cats").mkdir()
    with (scripts.folder / "cats" / "large").open("wb") as file:
        file.truncate(70_000_000)
    wait = (
        "import os, time\nmlflow.start_run()\nuntil = time.monotonic() + 20\n"
        "while time.monotonic() < until and not os.path.exists('stop'): time.sleep(0.05)\n"
        "try:\n    os.wait()\nexcept ChildProcessError:\n    print('childless')"
    )
    with ThreadPoolExecutor() as beside:
        running = beside.submit(scripts.run, wait)
        better = wait_for(
            lambda: [r.body for r in server.sent("PATCH", "runs/") if "fingerprint" in r.body]
        )
        (scripts.folder / "stop").touch()
        done = running.result()
    assert done.output == "childless"
    assert better[0]["fingerprint"]["data"]["verified"]
    assert "verified" not in server.sent("PUT", "runs/")[0].body["fingerprint"]["data"]


def test_with_a_daemon_the_energy_belongs_to_the_run_and_is_printed(
    scripts: Scripts, server: fakes.FakeServer
) -> None:
    person = scripts.person
    person.enrol(server.url)
    person.start()
    busy = "import time; t = time.process_time()\n    while time.process_time() - t < 0.6: pass"
    try:
        done = scripts.run(f"with mlflow.start_run():\n    {busy}")
        facts = server.runs[done.created[0][RUN]]
        assert facts["energy_mj"] > 100
        assert done.created[0]["labcarbon.node"] == facts["node"] == person.node_id
        assert " Wh (" in done.messages
        stranger = Scripts(
            Collector(
                person.root,
                {"XDG_CONFIG_HOME": str(person.root / "nobody")},
                node_id=person.node_id,
            )
        )
        two = stranger.run(
            "for number in range(2):\n    mlflow.start_run(); mlflow.end_run()",
            environ={"LABCARBON_ENFORCE": "1"},
        )
        first, second = (reported_by_daemon(server, tags[RUN]) for tags in two.created)
        assert (first["state"], second["state"]) == ("finished", "finished")
        assert first["fingerprint"]["params"].keys() == {"lr"}
        assert "params" not in second["fingerprint"]
        assert [line for line in two.ours if SKIPPED_CHECK in line] == [
            (
                f"labcarbon: {SKIPPED_CHECK}: you are not logged in. Log in with: "
                f"labcarbon-collect login {server.url}"
            )
        ]
        assert not [line for line in stranger.run().ours if SKIPPED_CHECK in line]
    finally:
        person.stop()


def test_a_python_that_starts_no_thread_at_its_end_leaves_it_to_the_daemon(
    scripts: Scripts, server: fakes.FakeServer
) -> None:
    """Python 3.12.0: no thread can be started any more."""
    late = (
        "import os, threading, time\ndef none(self):\n    raise RuntimeError('no')\n"
        "mlflow.start_run()\n"
        "while not os.path.exists('heard'): time.sleep(0.01)\n"
        "threading._register_atexit(lambda: setattr(threading.Thread, 'start', none))"
    )
    hung_up: list[bool] = []
    slow = fakes.delay_response("/runs/", 0.3, hung_up)

    def hears(handler: Any) -> None:
        if handler.command == "PUT":
            (scripts.folder / "heard").touch()  # the script ends now, before the response
        slow(handler)

    server.faults = [hears] * 10
    alone = scripts.run(late)
    assert (alone.code, len(alone.ours)) == (0, 1)
    assert wait_for(lambda: hung_up) == [
        False
    ]  # an interpreter that ends during the work of a thread may crash
    server.faults = []
    assert (
        "The server does not know this run: this Python starts no thread at its end"
        in alone.messages
    )
    scripts.person.enrol(server.url)
    scripts.person.start()
    try:
        done = scripts.run(late)
        assert done.code == 0
        assert reported_by_daemon(server, done.created[0][RUN])["state"] == "finished"
    finally:
        scripts.person.stop()


def reported_by_daemon(server: fakes.FakeServer, run: str) -> dict[str, Any]:
    return wait_for(lambda: facts if "state" in (facts := server.runs.get(run, {})) else None)


TIMED = (
    "import time\nbegun = time.monotonic()\nmlflow.start_run()\nprint(time.monotonic() - begun)\n"
    "begun = time.monotonic()\nmlflow.end_run(); mlflow.start_run()\nprint(time.monotonic() - "
    "begun)"
)


def waited(scripts: Scripts, environ: dict[str, str]) -> tuple[float, float, Any]:
    """Return the seconds that the first and the second run of a process waited. The best of three
    on a busy machine.
    """
    best = (math.inf, math.inf)
    for _ in range(3):
        done = scripts.run(TIMED, environ=environ)
        assert done.code == 0, done.messages
        first, second = map(float, done.output.splitlines())
        best = min(best[0], first), min(best[1], second)
        if max(best) < 2.5:
            break
    return *best, done


def test_without_login_and_daemon_the_provider_is_inactive(tmp_path: Path) -> None:
    done = Scripts(Collector(tmp_path)).run(f"{ONE_RUN}\n{ONE_RUN}")
    assert (done.code, done.created, done.messages) == (0, [{}, {}], "")


def test_a_login_readable_by_others_is_reported_a_single_time(
    scripts: Scripts, server: fakes.FakeServer
) -> None:
    (scripts.person.root / "home" / ".config" / "labcarbon" / "login.json").chmod(0o644)
    done = scripts.run(f"{ONE_RUN}\n{ONE_RUN}")
    assert (done.code, len(done.ours), server.requests) == (0, 1, [])


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (fakes.trickle_response, "did not respond within"),
        (fakes.drop_connection, "Duplicate check skipped"),
        (fakes.respond_with(200, b"<html>no</html>"), "unknown format"),
        (fakes.respond_with(200, {**DUPLICATE, "level": "purple"}), "unknown format"),
        (fakes.error_response(401, "It has expired."), "labcarbon-collect login"),
        (fakes.error_response(500), "responded 500"),
        ("silent", "did not respond within"),
        ("refused", "connection refused"),
    ],
)
def test_the_run_begins_within_two_and_a_half_seconds_with_one_line(
    scripts: Scripts, server: fakes.FakeServer, fault: Any, said: str
) -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    address = f"http://127.0.0.1:{listener.getsockname()[1]}"
    if fault == "refused":
        address = f"http://127.0.0.1:{free_port()}"
    if callable(fault):
        server.faults = [fault] * 100
        address = server.url
    environ = {
        "LABCARBON_URL": address,
        "LABCARBON_TOKEN": "lc_user_fake",
        "LABCARBON_ENFORCE": "1",
    }
    environ |= DEFAULT_TIMEOUT if "did not respond" in said else LONG_TIMEOUT
    first_s, second_s, done = waited(scripts, environ)
    listener.close()
    assert max(first_s, second_s) < 2.5
    (line,) = [line for line in done.ours if SKIPPED_CHECK in line]
    assert said in line
    assert [tags["labcarbon.verdict_at_start"] for tags in done.created] == ["not_asked"] * 2


def test_a_daemon_that_hangs_costs_no_more(scripts: Scripts) -> None:
    hanging = socket.socket(socket.AF_UNIX)
    hanging.bind(str(scripts.person.socket))
    hanging.listen()
    begun = time.monotonic()
    first_s, second_s, _ = waited(scripts, DEFAULT_TIMEOUT)
    hanging.close()
    assert max(first_s, second_s) < 2.5
    assert time.monotonic() - begun < 60


def test_whatever_is_wrong_with_us_the_run_begins(scripts: Scripts) -> None:
    """The working folder is deleted, the package is broken."""
    gone = (
        "import os, shutil\nos.makedirs('/proc/self/cwd/gone'); os.chdir('gone'); "
        "os.rmdir('../gone')\n"
    )
    assert scripts.run(f"{gone}{ONE_RUN}").output == "trained"
    broken = "import sys\nsys.modules['labcarbon_collect.mlflow.process_runs'] = None\n"
    done = scripts.run(f"{broken}{ONE_RUN}")
    assert (done.output, done.created) == ("trained", [{}])
    assert "labcarbon: This run is not reported: ModuleNotFoundError" in done.messages
