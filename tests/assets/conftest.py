"""A small lab, and a clock for what is settled."""

import pytest

from tests.assets.histories import Clock
from tests.builders import SmallLab, small_lab


@pytest.fixture
def lab(db: None) -> SmallLab:
    return small_lab()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)
