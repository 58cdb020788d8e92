"""A small lab, and a finished run with checkpoints that are due after a year."""

import pytest

from apps.runs.models import Run
from tests.artifacts.sample_plans import finished_run
from tests.builders import SmallLab, small_lab
from tests.row_copies import copy_or_create


def _with_run() -> SmallLab:
    lab = small_lab()
    finished_run(lab)
    return lab


@pytest.fixture
def lab(db: None, request: pytest.FixtureRequest) -> SmallLab:
    """Return a small lab. It has a finished run if the test uses the fixture ``run``."""
    return (
        copy_or_create("finished run", _with_run) if "run" in request.fixturenames else small_lab()
    )


@pytest.fixture
def run(lab: SmallLab) -> Run:
    return Run.objects.get(lab=lab.lab)
