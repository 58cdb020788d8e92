"""A machine for each test, without waiting for its disk."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.collector.cleanup.support import World


@pytest.fixture(autouse=True)
def quick_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """A killed process loses nothing of what it wrote: only a power cut would, and no test cuts
    the power.
    """
    monkeypatch.setattr(os, "fsync", lambda opened: None)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)
