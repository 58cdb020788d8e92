"""A lab whose clock stands just after the moments that the messages tell of."""

from collections.abc import Iterator

import pytest
import time_machine

from tests.builders import T0, SmallLab, small_lab


@pytest.fixture
def lab(db: None) -> Iterator[SmallLab]:
    with time_machine.travel((T0 + 180_000_000) / 1e6, tick=True):
        yield small_lab()
