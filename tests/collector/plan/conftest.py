"""``labcarbon-collect plan`` in this process, with a stand-in for torch."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest
from labcarbon_collect.cli import main

PACKAGE = Path(__file__).parents[2] / "fakes" / "torch_package"
Plan = Callable[..., tuple[int, str, str]]


def _forget(*names: str) -> None:
    for name in list(sys.modules):
        if name.split(".")[0] in names:
            del sys.modules[name]


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.syspath_prepend(str(PACKAGE))
    _forget("torch")
    import torch as stand_in

    yield stand_in
    _forget("torch")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder for the researcher's modules, which the command runs in."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if getattr(sys.modules[name], "__file__", None) and str(tmp_path) in str(
            sys.modules[name].__file__
        ):
            del sys.modules[name]


@pytest.fixture
def plan(folder: Path, capsys: pytest.CaptureFixture[str]) -> Plan:
    """Run the command; return exit code, output, messages."""

    def run(*arguments: str) -> tuple[int, str, str]:
        code = main(["plan", *arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run
