"""The MLflow context provider before a run: duplicate check, report and tags."""

from __future__ import annotations

import importlib
import json
import re
import socket
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from labcarbon_collect.fingerprint.builder import format_fingerprint

from tests.collector.mlflow_scripts import DATA, ONE_RUN, RUN, WORDS, Scripts, questions
from tests.collector.preflight_responses import DUPLICATE, POSSIBLE, PREFLIGHT_ID, outcomes
from tests.fakes import labcarbon_server as fakes

ROOT = Path(__file__).resolve().parents[2]


def test_the_entry_point_exists_and_imports_no_other_module() -> None:
    told = tomllib.loads((ROOT / "collector" / "pyproject.toml").read_text())
    module, _, name = told["project"]["entry-points"]["mlflow.run_context_provider"][
        "labcarbon"
    ].partition(":")
    assert callable(getattr(importlib.import_module(module), name))


def test_importing_mlflow_loads_two_small_files_of_ours(scripts: Scripts) -> None:
    done = scripts.run(
        "import sys\nprint(sorted(name for name in sys.modules if name.startswith('labcarbon')))"
    )
    assert (
        done.output
        == "['labcarbon_collect', 'labcarbon_collect.mlflow', 'labcarbon_collect.mlflow.context']"
    )


def test_the_response_is_printed_before_the_run_is_created(
    scripts: Scripts, server: fakes.FakeServer
) -> None:
    server.preflight = DUPLICATE
    done = scripts.run("with mlflow.start_run(run_name='mine'):\n    print('trained')")
    assert (done.code, done.output) == (0, "trained")
    assert "Ben did exactly this" in done.messages
    assert "Parameters logged to MLflow later are unknown" in done.messages
    (tags,) = done.created
    assert (tags["labcarbon.verdict_at_start"], tags["labcarbon.asked"]) == (
        "duplicate",
        PREFLIGHT_ID,
    )
    (asked,) = questions(server)
    assert asked["run"] == tags[RUN]
    assert asked["fingerprint"]["params"].keys() == {"lr"}
    facts = server.runs[tags[RUN]]
    assert (facts["name"], facts["fingerprint"]) == ("mine", asked["fingerprint"])
    assert (facts["state"], facts["exit_code"]) == ("finished", None)
    assert outcomes(server) == [{"outcome": "went_on"}]


def test_the_outcome_is_reported_although_the_script_ends_sooner(
    scripts: Scripts, server: fakes.FakeServer
) -> None:
    hung_up: list[bool] = []
    server.preflight = DUPLICATE
    server.faults = [fakes.delay_response("/outcome/", 0.3, hung_up)] * 10
    assert scripts.run().code == 0
    assert hung_up == [False]


def fingerprint(scripts: Scripts, server: fakes.FakeServer, body: str = ONE_RUN) -> dict[str, Any]:
    """Return the fingerprint in the preflight request of a script."""
    scripts.run(body)
    asked: dict[str, Any] = questions(server)[-1]["fingerprint"]
    assert asked["code"]["hash"]
    assert "data" in asked
    return asked


def test_its_fingerprint_is_that_of_the_same_command(
    scripts: Scripts, server: fakes.FakeServer
) -> None:
    here = fingerprint(scripts, server)
    check = [
        sys.executable,
        "-m",
        "labcarbon_collect",
        "check",
        "--json",
        "--",
        sys.executable,
        "train.py",
        *DATA,
        *WORDS,
    ]
    there = json.loads(scripts.call(check, {}).output)["fingerprint"]
    for part in ("entry", "params", "seeds", "start"):
        assert here[part] == there[part]
    assert here["code"]["hash"] == there["code"]["hash"]
    assert here["data"]["weak"] == there["data"]["weak"]


def test_an_empty_response_prints_nothing(scripts: Scripts) -> None:
    done = scripts.run()
    assert (done.code, done.messages) == (0, "")
    assert done.created[0]["labcarbon.verdict_at_start"] == "none"


def test_the_tags_are_hashes_of_nothing_and_names_of_nobody(
    scripts: Scripts, server: fakes.FakeServer
) -> None:
    done = scripts.run(ONE_RUN, "--lr", "0.1", "--comment", "a-word-of-mine")
    (tags,) = done.created
    assert tags.keys() == {
        RUN,
        "labcarbon.host",
        "labcarbon.fingerprint",
        "labcarbon.verdict_at_start",
        "labcarbon.asked",
    }
    assert tags["labcarbon.host"] == socket.gethostname()
    assert re.fullmatch(
        r"lc2( (code|params|data|start|seeds)=[a-z]+){5}", tags["labcarbon.fingerprint"]
    )
    assert not any(b"a-word-of-mine" in request.content for request in server.requests)


@pytest.mark.parametrize(
    ("wire", "text"),
    [
        ({}, "lc2 code=unknown params=unknown data=unknown start=unknown seeds=unknown"),
        (
            {
                "version": "lc2",
                "code": {"state": "verified"},
                "params": {},
                "data": {"weak": "a"},
                "seeds": {},
                "start": {"weak": "a", "verified": "b"},
            },
            "lc2 code=verified params=command data=weak start=verified seeds=unset",
        ),
        (
            {"code": {"state": "unknown"}, "seeds": {"seed": "a"}, "data": {"items": []}},
            "lc2 code=unknown params=unknown data=unknown start=unknown seeds=known",
        ),
    ],
)
def test_how_well_each_part_is_known_in_words(wire: dict[str, Any], text: str) -> None:
    assert format_fingerprint(wire) == text


@pytest.mark.parametrize("verdict", ["duplicate", "concurrent", "will_fail"])
def test_enforce_stops_before_the_run_is_created(
    scripts: Scripts, server: fakes.FakeServer, verdict: str
) -> None:
    server.preflight = {**DUPLICATE, "verdict": verdict}
    done = scripts.run(environ={"LABCARBON_ENFORCE": "1"})
    assert (done.code, done.created, done.output) == (3, [], "")
    assert "(LABCARBON_ENFORCE). To run it anyway:" in done.messages
    assert outcomes(server) == [{"outcome": "stopped"}]
    assert server.runs == {}


@pytest.mark.parametrize(
    ("answer", "enforce"),
    [
        (POSSIBLE, "1"),
        ({**DUPLICATE, "verdict": "near"}, "1"),
        (fakes.NO_MATCH, "1"),
        (DUPLICATE, "0"),
    ],
)
def test_enforce_stops_nothing_less(
    scripts: Scripts, server: fakes.FakeServer, answer: dict[str, Any], enforce: str
) -> None:
    server.preflight = answer
    done = scripts.run(environ={"LABCARBON_ENFORCE": enforce})
    assert (done.code, done.output) == (0, "trained")


def test_settings_from_the_environment(scripts: Scripts, server: fakes.FakeServer) -> None:
    said = {
        "LABCARBON_PROJECT": "demo",
        "LABCARBON_INTENT": "replicate",
        "LABCARBON_SWEEP": "grid-1",
    }
    facts = server.runs[scripts.run(environ=said).created[0][RUN]]
    assert (facts["project"], facts["intent"], facts["sweep"]) == ("demo", "replicate", "grid-1")
    (asked,) = questions(server)
    assert (asked["project"], asked["fingerprint"]["intent"]) == ("demo", "replicate")
    wrong = scripts.run(environ={"LABCARBON_INTENT": "fun"})
    assert "LABCARBON_INTENT=fun is not one of train, replicate" in wrong.messages
    assert server.runs[wrong.created[0][RUN]]["intent"] == "train"


def test_it_can_be_turned_off(scripts: Scripts, server: fakes.FakeServer) -> None:
    done = scripts.run(environ={"LABCARBON_MLFLOW": "off"})
    assert (done.created, done.messages, server.requests) == ([{}], "", [])


def test_a_script_that_changes_its_folder_is_still_located(
    scripts: Scripts, server: fakes.FakeServer
) -> None:
    stays = fingerprint(scripts, server)
    goes, again = (
        fingerprint(scripts, server, f"import os\nos.chdir('/')\n{ONE_RUN}") for _ in range(2)
    )
    assert stays["entry"] == goes["entry"]
    assert stays["data"]["weak"] == goes["data"]["weak"]
    assert goes["code"]["hash"] == again["code"]["hash"] != stays["code"]["hash"]


def test_the_code_of_an_installed_command_is_unknown(
    scripts: Scripts, server: fakes.FakeServer
) -> None:
    """Its file only imports the program. Two versions of it would have equal fingerprints."""
    from labcarbon_collect.runs import process_facts

    scripts.folder.mkdir()
    environment = scripts.person.root / "environment"
    done = scripts.call([sys.executable, "-m", "venv", "--without-pip", str(environment)], {})
    assert done.code == 0, done.messages
    command = environment / "bin" / "train"
    command.write_text(f"#!{environment}/bin/python\nimport mlflow\nmlflow.start_run()\n")
    command.chmod(0o755)
    site = Path(process_facts.__file__).parents[2]
    packages = ":".join(
        [
            str(scripts.person.root / "libraries"),
            str(site),
            *(path for path in sys.path if "site-packages" in path),
        ]
    )
    done = scripts.call([str(command), "--lr", "0.1"], {"PYTHONPATH": packages})
    assert done.code == 0, done.messages
    (asked,) = questions(server)
    assert (asked["name"], asked["fingerprint"]["code"]) == ("train", {"state": "unknown"})
