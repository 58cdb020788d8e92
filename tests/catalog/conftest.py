"""A lab, and what is shipped."""

import pytest

from tests.builders import SmallLab, small_lab
from tests.shipped import shipped_catalogue


@pytest.fixture
def lab(db: None) -> SmallLab:
    return small_lab()


@pytest.fixture
def shipped(db: None) -> None:
    shipped_catalogue()
