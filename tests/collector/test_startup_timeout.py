"""The startup timeout: two seconds or the setting; an invalid setting is reported."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from labcarbon_collect.files.read_limits import Budget, no_response_text
from labcarbon_collect.startup_timeout import read_startup_timeout

from tests.collector.collector_process import Collector
from tests.collector.mlflow_scripts import Scripts
from tests.collector.preflight_responses import run_script
from tests.collector.test_run_preflight import silent_address
from tests.collector.test_tracking import track
from tests.fakes import labcarbon_server as fakes

SETTING_WARNING = "labcarbon: LABCARBON_STARTUP_TIMEOUT_S=soon is not 0.5 to 60 seconds: 2 is used"
SKIPPED_CHECK = "Duplicate check skipped"


@pytest.mark.parametrize(("text", "seconds"), [("", 2.0), ("0.5", 0.5), ("10", 10.0), ("60", 60.0)])
def test_timeout_is_two_seconds_or_the_setting(text: str, seconds: float) -> None:
    assert read_startup_timeout({"LABCARBON_STARTUP_TIMEOUT_S": text}) == (seconds, "")
    assert read_startup_timeout({}) == (2.0, "")


@pytest.mark.parametrize(
    "text", ["0", "0.4", "-1", "61", "inf", "nan", "2 s", "2,5", " ", "x" * 9999]
)
def test_invalid_timeout_is_reported_and_two_seconds_apply(text: str) -> None:
    seconds, wrong = read_startup_timeout({"LABCARBON_STARTUP_TIMEOUT_S": text})
    assert seconds == 2.0
    assert f"LABCARBON_STARTUP_TIMEOUT_S={text[:40]} is not 0.5 to 60 seconds" in wrong
    assert len(wrong) < 130


def test_former_variable_is_deprecated_and_still_applies() -> None:
    former = {"LABCARBON_PATIENCE_S": "4"}
    warning = "LABCARBON_PATIENCE_S is deprecated: use LABCARBON_STARTUP_TIMEOUT_S"
    assert read_startup_timeout(former) == (4.0, warning)
    seconds, both = read_startup_timeout({**former, "LABCARBON_STARTUP_TIMEOUT_S": "5"})
    assert seconds == 5.0
    assert both.startswith(warning)
    assert "set too" in both
    assert read_startup_timeout({"LABCARBON_PATIENCE_S": ""}) == (2.0, "")
    seconds, invalid = read_startup_timeout({"LABCARBON_PATIENCE_S": "soon"})
    assert seconds == 2.0
    assert "LABCARBON_PATIENCE_S=soon is not" in invalid
    assert warning in invalid


def test_silent_server_delays_by_the_set_timeout(person: Collector, script: Path) -> None:
    listener, address = silent_address()
    settings = {
        "LABCARBON_URL": address,
        "LABCARBON_TOKEN": "lc_user_fake",
        "LABCARBON_STARTUP_TIMEOUT_S": "4",
    }
    done = run_script(Collector(person.root, settings), script, "run")
    listener.close()
    (line,) = [line for line in done.stderr.splitlines() if SKIPPED_CHECK in line]
    assert 2.0 < float(line.split("did not respond within ")[1].split(" s")[0]) < 4.0
    assert f"The server does not know this run: {address} did not respond within 4 s" in done.stderr


# Loaded by Python at its start: the import of the command takes longer than the startup timeout, as
# on a slow shared file system.
SLOW_IMPORT = """
import sys, time
class Slow:
    def find_spec(self, name, path=None, target=None):
        if name == "labcarbon_collect.commands.run":
            time.sleep(0.8)
sys.meta_path.insert(0, Slow())
"""


def _run_slowly(person: Collector, script: Path, url: str) -> subprocess.CompletedProcess[str]:
    folder = script.parent / "slow"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(SLOW_IMPORT)
    settings = {
        "LABCARBON_URL": url,
        "LABCARBON_TOKEN": "lc_user_fake",
        "LABCARBON_STARTUP_TIMEOUT_S": "0.5",
        "PYTHONPATH": str(folder),
    }
    machine = Collector(person.root, settings, node_id=person.node_id)
    return run_script(machine, script, "run", "--project", "demo")


def test_a_timeout_used_up_by_the_start_of_python_is_not_the_servers(
    person: Collector, script: Path
) -> None:
    listener, address = silent_address()
    done = _run_slowly(person, script, address)
    listener.close()
    (line,) = [line for line in done.stderr.splitlines() if SKIPPED_CHECK in line]
    assert "within" not in line
    assert "LABCARBON_STARTUP_TIMEOUT_S" in line


def test_a_run_is_measured_if_the_start_of_python_used_up_the_timeout(
    person: Collector, script: Path, server: fakes.FakeServer
) -> None:
    person.start()
    done = _run_slowly(person, script, server.url)
    person.stop()
    assert "was not measured" not in done.stderr
    assert "no response from the daemon" not in done.stderr


def test_a_signal_that_ends_the_wait_is_not_reported_as_a_timeout() -> None:
    budget = Budget(5)
    budget.expire()
    assert "did not respond" not in no_response_text("it", 0.1, budget)
    assert "did not respond within 3.1 s" in no_response_text("it", 3.14, Budget(0))
    assert "used up" in no_response_text("it", 0.0, Budget(0))


def test_invalid_timeout_is_reported_by_each_way_to_start_a_run(
    person: Collector, script: Path, server: fakes.FakeServer
) -> None:
    wrong = {"LABCARBON_STARTUP_TIMEOUT_S": "soon"}
    machine = Collector(person.root, wrong)
    inner = "import labcarbon_collect\nwith labcarbon_collect.track(): pass"
    magic = "type('Shell', (), {'register_magic_function': print})()"
    loaded = f"from labcarbon_collect.notebook import load\nload({magic})"
    output = subprocess.run(
        [sys.executable, "-c", loaded],
        env=machine.environ,
        capture_output=True,
        text=True,
        check=True,
    )
    message = (
        run_script(machine, script, "run").stderr,
        track(person, "pass", **wrong).stderr,
        Scripts(person).run(environ=wrong).messages,
        machine.call("run", "--", sys.executable, "-c", inner).stderr,
        output.stdout,
    )
    assert [text.count(SETTING_WARNING) for text in message] == [1] * 5
