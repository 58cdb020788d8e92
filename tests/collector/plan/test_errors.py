"""Errors of ``plan --model``: each states what is wrong and what to do."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.collector.plan.conftest import Plan

BODIES = {
    "no module": ("return 5", "returns int, not a torch.nn.Module"),
    "value in the build function": (
        "torch.zeros((1,)).item()",
        "fails without data: it reads a value of a tensor",
    ),
    "own error": ("raise KeyError('width')", "fails: KeyError: 'width'"),
}


def test_torch_is_missing(plan: Plan, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "net.py").write_text("def build(): pass")
    monkeypatch.setitem(sys.modules, "torch", None)
    code, _, errors = plan("--model", "net:build", "--input", "3")
    assert code == 1
    assert "PyTorch is needed for --model" in errors
    assert "-m pip install 'torch>=" in errors


def test_torch_is_too_old(
    plan: Plan, folder: Path, torch: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "net.py").write_text("def build(): pass")
    monkeypatch.setattr(torch, "__version__", "1.13.1+cu117")
    assert "PyTorch 1.13.1+cu117 is too old" in plan("--model", "net:build", "--input", "3")[2]


@pytest.mark.parametrize("name", BODIES)
def test_the_build_function_fails(plan: Plan, folder: Path, torch: ModuleType, name: str) -> None:
    body, message = BODIES[name]
    (folder / "net.py").write_text(f"import torch\ndef build():\n    {body}\n")
    code, output, errors = plan("--model", "net:build", "--input", "3")
    assert (code, output) == (1, "")
    assert message in errors
    assert "Traceback" not in errors


def test_the_model_fails(plan: Plan, folder: Path, torch: ModuleType) -> None:
    (folder / "net.py").write_text(
        "from torch import nn\n"
        "class Net(nn.Linear):\n"
        "    def forward(self, value):\n"
        "        return value if value.item() else None\n"
        "def build(): return Net(3, 3)\n"
        "def linear(): return nn.Linear(4, 4)\n"
    )
    _, _, errors = plan("--model", "net:build", "--input", "3")
    assert "net:build: the model fails without data: it reads a value of a tensor" in errors
    assert "an ONNX file or a probe" in errors
    _, _, errors = plan("--model", "net:linear", "--input", "3")
    assert "net:linear: the model fails: AssertionError: shapes cannot be multiplied" in errors


@pytest.mark.usefixtures("torch")
@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("net", "names no function"),
        ("net:", "names no function"),
        ("absent:build", "no module absent"),
        ("absent.py:build", "absent.py does not exist"),
        ("net:bild", "net has no function bild. It has: build, needs"),
        ("net:WIDTH", "net:WIDTH is no function"),
        ("net:needs", "missing a required argument: 'width'. Give each with --arg, as in --arg"),
        ("broken:build", "broken cannot be imported: SyntaxError"),
    ],
)
def test_the_function_is_missing(plan: Plan, folder: Path, model: str, message: str) -> None:
    (folder / "net.py").write_text("WIDTH = 4\ndef build(): pass\ndef needs(width): pass\n")
    (folder / "broken.py").write_text("def build(:\n")
    code, _, errors = plan("--model", model, "--input", "3")
    assert code == 1
    assert message in errors


@pytest.mark.usefixtures("torch")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "The size of the input is missing"),
        (["--input", "3x"], "--input '3x' is not a size"),
        (["--input", "0x3"], "must have sizes from 1"),
        (["--input", "999999999x999"], "fewer than 2^31 elements"),
        (["--input", "tokens:5:vocab=0"], "must have sizes from 1"),
        (["--input", "3", "--arg", "width"], "must have the form NAME=VALUE"),
        (["--input", "3", "--arg", "depth=2"], "Its arguments: width"),
    ],
)
def test_invalid_options(plan: Plan, folder: Path, arguments: list[str], message: str) -> None:
    (folder / "net.py").write_text("def build(width=3): pass\n")
    code, _, errors = plan("--model", "net:build", *arguments)
    assert code == 1
    assert message in errors


@pytest.mark.usefixtures("torch")
def test_inputs_twice(plan: Plan, folder: Path) -> None:
    (folder / "net.py").write_text("def build(): pass\ndef inputs(batch): pass\n")
    _, _, errors = plan("--model", "net:build", "--input", "3")
    assert "function inputs(batch) too. Remove one of them" in errors
