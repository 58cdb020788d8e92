"""``check`` checks a command for duplicates without starting it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from labcarbon_collect.api.preflight import PreflightUnavailable, parse_response

from tests.collector.collector_process import Collector
from tests.collector.preflight_responses import DUPLICATE, POSSIBLE, outcomes, run_script
from tests.fakes import labcarbon_server as fakes


def test_check_answers_and_starts_nothing(
    person: Collector, script: Path, server: fakes.FakeServer
) -> None:
    server.preflight = POSSIBLE
    done = run_script(person, script, "check", "--project", "demo")
    assert done.returncode == 0
    assert "Ben did exactly this" in done.stdout
    assert "not certain: data compared by name, size and time only" in done.stdout
    assert "Data unknown: no argument is an existing path" in done.stdout
    assert "trained" not in done.stdout
    assert server.sent("PUT", "runs/") == []
    assert outcomes(server) == []
    assert server.sent("POST", "preflight/")[0].body["run"] is None


@pytest.mark.parametrize(
    ("answer", "options", "code"),
    [
        (DUPLICATE, ["--enforce"], 3),
        (DUPLICATE, [], 0),
        (POSSIBLE, ["--enforce"], 0),
        (fakes.NO_MATCH, ["--enforce"], 0),
    ],
)
def test_check_exits_with_3_only_for_a_certain_duplicate_with_enforce(
    person: Collector,
    script: Path,
    server: fakes.FakeServer,
    answer: dict[str, Any],
    options: list[str],
    code: int,
) -> None:
    server.preflight = answer
    assert run_script(person, script, "check", *options).returncode == code


def test_check_states_unknown_data_and_not_that_nothing_similar_exists(
    person: Collector, script: Path
) -> None:
    done = run_script(person, script, "check")
    assert done.returncode == 0
    assert "No similar run exists" not in done.stdout
    assert "unknown" in done.stdout.splitlines()[0]


def test_check_with_known_data_reports_that_no_similar_run_exists(
    person: Collector, script: Path, tmp_path: Path
) -> None:
    data = tmp_path / "cats.csv"
    data.write_text("a,b\n")
    done = run_script(person, script, "check", "--data", str(data))
    assert done.stdout.startswith("No similar run exists.\n")


def test_check_shows_its_own_value_of_a_label_that_was_not_uploaded(
    person: Collector, script: Path, server: fakes.FakeServer
) -> None:
    label = {
        "part": "labels", "name": "experiment", "here": None, "there": None,
        "here_state": "not_uploaded", "there_state": "not_uploaded",
    }  # fmt: skip
    [match] = POSSIBLE["matches"]  # type: ignore[misc]
    server.preflight = {**POSSIBLE, "matches": [{**match, "differs": [label]}]}
    command = ["--", "python3", script.name, "--experiment", "vit"]
    for verb, output in (("check", "stdout"), ("run", "stderr")):
        done = person.call(verb, *command, cwd=script.parent)
        text = " ".join(getattr(done, output).split())
        assert "experiment vit here, not uploaded there" in text
        assert "labcarbon-collect run --full-command" in text
    for request in server.sent("POST", "preflight/"):
        assert "vit" not in json.dumps(request.body)


def test_an_older_server_gets_the_former_fingerprint(
    person: Collector, script: Path, server: fakes.FakeServer
) -> None:
    server.preflight = POSSIBLE
    server.faults = [fakes.error_response(400, field="fingerprint.version")]
    done = run_script(person, script, "check")
    assert done.returncode == 0
    first, second = (request.body["fingerprint"] for request in server.sent("POST", "preflight/"))
    assert (first["version"], second["version"]) == ("lc2", "lc1")
    assert "labels" not in second
    assert "not_compared" not in second
    assert second["dropped"] == sorted(first["dropped"])
    # never certain: the former rule compares neither entry nor labels
    assert second["code"]["state"] == "weak"
    assert second["params"] == first["params"]


def test_check_without_a_server_or_a_login_is_no_error(
    person: Collector, script: Path, server: fakes.FakeServer
) -> None:
    server.faults = [fakes.error_response(500)]
    done = run_script(person, script, "check", "--enforce")
    assert done.returncode == 0
    assert "Duplicate check skipped" in done.stderr
    stranger = Collector(person.root, {"XDG_CONFIG_HOME": str(person.root / "nobody")})
    done = run_script(stranger, script, "check")
    assert done.returncode == 0
    assert "labcarbon-collect login URL" in done.stderr


def test_check_as_json(person: Collector, script: Path, server: fakes.FakeServer) -> None:
    server.preflight = DUPLICATE
    told = json.loads(run_script(person, script, "check", "--json").stdout)
    assert told["answer"] == DUPLICATE
    assert told["fingerprint"]["version"] == "lc2"
    assert told["why"] == ""


def test_check_hashes_all_data_first_on_request(
    person: Collector, script: Path, server: fakes.FakeServer
) -> None:
    data = script.parent / "cats"
    data.mkdir()
    with (data / "large").open("wb") as file:
        file.truncate(70_000_000)
    command = ["--", "python3", "train.py", "--data", "cats"]
    weak = person.call("check", *command, cwd=script.parent)
    assert "Data compared by name, size and time only. With --hash-data: by content" in weak.stdout
    sure = person.call("check", "--hash-data", *command, cwd=script.parent)
    assert "compared by name" not in sure.stdout
    first, second = (
        request.body["fingerprint"]["data"] for request in server.sent("POST", "preflight/")
    )
    assert "verified" not in first
    assert second["verified"]


def test_check_needs_a_command(person: Collector) -> None:
    done = person.call("check", "--project", "demo")
    assert done.returncode == 1
    assert "labcarbon-collect check -- python train.py" in done.stderr


@pytest.mark.parametrize(
    "body",
    [
        None,
        [],
        "x",
        3,
        {},
        {"verdict": "none"},
        {**DUPLICATE, "verdict": ["none"]},
        {**DUPLICATE, "message": None},
        {**DUPLICATE, "level": {}},
    ],
)
def test_what_is_no_answer_is_none(body: Any) -> None:
    with pytest.raises(PreflightUnavailable):
        parse_response("http://server", body)
