"""A lab, and what is shipped."""

import pytest

from tests.builders import SmallLab, small_lab


@pytest.fixture
def lab(db: None) -> SmallLab:
    return small_lab()
