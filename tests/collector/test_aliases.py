"""Former options and methods of run, check, import-sacct and track still work and print one
deprecation line.
"""

import argparse
import importlib
import json
from pathlib import Path

import pytest

from tests.collector.collector_process import Collector
from tests.collector.preflight_responses import DUPLICATE
from tests.collector.test_tracking import track
from tests.fakes import labcarbon_server as fakes

OPTIONS = [
    ("run", "--used", "--input", ["a"]), ("run", "--produced", "--output", ["a"]),
    ("run", "--local", "--standalone", []), ("run", "--argv", "--full-command", []),
    ("run", "--start", "--checkpoint", ["a"]), ("check", "--digest", "--hash-data", []),
    ("check", "--start", "--checkpoint", ["a"]), ("import_sacct", "--again", "--restart", []),
]  # fmt: skip


@pytest.mark.parametrize(("command", "former", "current", "value"), OPTIONS)
def test_a_former_option_is_a_hidden_alias(
    command: str, former: str, current: str, value: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    parser = argparse.ArgumentParser()
    importlib.import_module(f"labcarbon_collect.commands.{command}").add_arguments(parser)
    expected = parser.parse_args([current, *value])
    assert capsys.readouterr().err == ""
    assert parser.parse_args([former, *value]) == expected
    assert capsys.readouterr().err == f"labcarbon-collect: {former} is deprecated: use {current}\n"
    assert former not in parser.format_help()
    assert current in parser.format_help()


def test_former_methods_warn_a_single_time(person: Collector, server: fakes.FakeServer) -> None:
    server.preflight = DUPLICATE
    body = (
        "open('a.txt', 'w').close()\nrun.used('a.txt'); run.used('a.txt'); "
        "run.produced('a.txt')\nprint(run.check().in_vain, run.check().asked)\n"
        "print(run.joined, run.quiet, run.joined)"
    )
    done = track(person, body, settings="start='a.pt'")
    assert done.returncode == 0
    assert done.stdout == f"True {DUPLICATE['asked']}\nFalse False False\n"
    for line in (
        "run.used is deprecated: use run.log_input",
        "run.produced is deprecated: use run.log_output",
        "run.joined is deprecated: use run.is_joined",
        "run.quiet is deprecated: use run.is_silent",
        "track(start=…) is deprecated: use track(checkpoint=…)",
    ):
        assert done.stderr.count(line) == 1


def test_doctor_json_has_the_documented_keys(tmp_path: Path) -> None:
    done = Collector(tmp_path).call("doctor", "--json")
    assert {tuple(check) for check in json.loads(done.stdout)} == {
        ("name", "state", "what", "mend")
    }
