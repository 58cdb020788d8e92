"""A lab, and what is shipped."""

import pytest

from apps.catalog.services import load_catalogue
from tests.builders import T0, SmallLab, small_lab


@pytest.fixture
def lab(db: None) -> SmallLab:
    return small_lab()


@pytest.fixture
def shipped(db: None) -> None:
    load_catalogue(now=T0)
