"""A small lab, and a finished run with checkpoints that are due after a year."""

import pytest

from apps.runs.models import Run
from tests.artifacts.planned import finished_run
from tests.builders import SmallLab, small_lab


@pytest.fixture
def lab(db: None) -> SmallLab:
    return small_lab()


@pytest.fixture
def run(lab: SmallLab) -> Run:
    return finished_run(lab)
