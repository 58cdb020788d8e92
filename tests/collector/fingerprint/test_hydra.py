"""Hydra's configuration, composed by the real Hydra of the program's Python."""

from __future__ import annotations

import sys
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from labcarbon_collect.files.read_limits import Budget
from labcarbon_collect.fingerprint.code_facts import HydraCall
from labcarbon_collect.fingerprint.hydra import Composed, ComposeTimeout, compose
from labcarbon_collect.runs import payload as payload_module
from labcarbon_collect.runs.payload import start_late_survey

HYDRA = Path(sys.prefix) / "pairs" / "bin" / "python"
CONFIG = """defaults:
  - model: linear
  - _self_
lr: 0.1
data: data/${group}.csv
group: lab
out: out/${now:%Y}
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    for name, text in (
        ("config.yaml", CONFIG),
        ("other.yaml", "lr: 5\n"),
        ("model/linear.yaml", "size: 1\n"),
        ("model/wide.yaml", "size: 9\n"),
        ("experiment/vit.yaml", "# @package _global_\nlr: 0.3\n"),
    ):
        path = tmp_path / "conf" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "train.py"


def composed(
    script: Path, *arguments: str, interpreter: str = str(HYDRA), seconds: float = 60
) -> Composed | None:
    return compose(
        HydraCall("conf", "config"),
        arguments,
        script=str(script),
        interpreter=interpreter,
        cwd=str(script.parent),
        environ={"PATH": "/usr/bin:/bin"},
        budget=Budget(seconds),
    )


def values_of(script: Path, *arguments: str) -> dict[str, Any]:
    result = composed(script, *arguments)
    assert result is not None
    return result.values


def test_defaults_groups_and_interpolations_are_composed(script: Path) -> None:
    assert values_of(script) == {
        "model": {"size": 1},
        "lr": 0.1,
        "data": "data/lab.csv",
        "group": "lab",
        "out": "out/${now:%Y}",  # the time of the start is no parameter
    }
    assert values_of(script, "model=wide")["model"] == {"size": 9}
    assert values_of(script, "+experiment=vit")["lr"] == 0.3
    assert values_of(script, "+experiment=vit", "lr=0.5")["lr"] == 0.5
    assert values_of(script, "~group", "data=x")["data"] == "x"
    assert values_of(script, "--config-name", "other") == {"lr": 5}
    assert values_of(script, "--config-name=other.yaml", "hydra.run.dir=x") == {"lr": 5}


def test_swept_values_are_apart(script: Path) -> None:
    result = composed(script, "-m", "lr=0.1,0.2", "model=wide,linear")
    assert result is not None
    assert result.swept == {"lr": ["0.1", "0.2"], "model": ["wide", "linear"]}


def test_what_cannot_be_composed_is_unknown(script: Path) -> None:
    assert composed(script, "model=missing") is None
    assert composed(script, "--config-name", "missing") is None
    assert composed(script, interpreter="/bin/false") is None
    assert composed(script, interpreter="/bin/echo") is None  # no JSON
    assert composed(script, interpreter="/nowhere/python") is None


def test_code_of_the_program_is_not_imported(script: Path) -> None:
    (script.parent / "hydra.py").write_text("raise SystemExit('imported')\n")
    (script.parent / "json.py").write_text("raise SystemExit('imported')\n")
    assert values_of(script)["lr"] == 0.1


def test_a_slow_interpreter_is_ended_at_the_deadline(script: Path) -> None:
    slow = script.parent / "slow-python"
    slow.write_text("#!/bin/sh\nexec sleep 30\n")
    slow.chmod(0o755)
    with pytest.raises(ComposeTimeout):
        composed(script, interpreter=str(slow), seconds=0.5)


def test_endless_output_is_neither_kept_nor_awaited(script: Path) -> None:
    endless = script.parent / "endless-python"
    endless.write_text("#!/bin/sh\nexec cat /dev/zero\n")
    endless.chmod(0o755)
    tracemalloc.start()
    assert composed(script, interpreter=str(endless), seconds=30) is None
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 20 * 1024 * 1024


def test_a_late_survey_sends_the_complete_fingerprint(monkeypatch: pytest.MonkeyPatch) -> None:
    import threading
    from types import SimpleNamespace

    sent: list[Any] = []
    arrived = threading.Event()

    def update(_payload: Any, _startup: Any, _reporter: Any, parts: Any) -> None:
        sent.append(parts)
        arrived.set()

    monkeypatch.setattr(payload_module, "_update_fingerprint", update)
    late = SimpleNamespace(is_late=False, wire={"version": "lc2", "params": {}})
    run: Any = SimpleNamespace(spec=SimpleNamespace(survey=lambda seconds: late))
    startup: Any = SimpleNamespace(
        survey=SimpleNamespace(is_late=True), daemon=SimpleNamespace(client=object())
    )
    start_late_survey(run, startup, None)
    assert arrived.wait(10)
    assert sent == [late.wire]
    startup.survey.is_late = False
    start_late_survey(run, startup, None)
    assert sent == [late.wire]
