"""A disk to scan."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.collector.collector_process import Collector
from tests.collector.scan.support import Disk


@pytest.fixture
def disk(tmp_path: Path, person: Collector) -> Disk:
    """An empty folder, on a machine where somebody is logged in."""
    return Disk(tmp_path / "disk", person)


@pytest.fixture
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scans of this process trust files that were just written, so that tests need not wait."""
    monkeypatch.setattr("labcarbon_collect.scan.file_reader._SETTLED_NS", -(10**12))


@pytest.fixture
def here(
    disk: Disk, settled: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Any]:
    """Scan in this process; return exit code, output and messages. How a scan sets its
    interpreter goes with the test.
    """
    switch_s, collect_every = sys.getswitchinterval(), gc.get_threshold()
    for name, value in disk.machine.environ.items():
        if name.startswith(("LABCARBON_", "XDG_", "HOME")):
            monkeypatch.setenv(name, value)
    from labcarbon_collect.cli import main

    def scan(*options: str, dirs: tuple[str, ...] = ()) -> tuple[int, str, str]:
        code = main(["scan", *options, *(dirs or (str(disk.root),))])
        said = capsys.readouterr()
        return code, said.out, said.err

    yield scan
    sys.setswitchinterval(switch_s)
    gc.set_threshold(*collect_every)
