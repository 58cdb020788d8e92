"""The startup timeout: two seconds or the setting; an invalid setting is reported."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
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
