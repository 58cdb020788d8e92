"""A lab with its clock just after the times in the messages, a fake and a real MLflow server."""

from collections.abc import Iterator

import pytest
import time_machine

from apps.trackers.mlflow.models import MlflowSource
from tests.builders import T0, SmallLab, small_lab
from tests.fakes.mlflow_server import FakeMlflow, fake_mlflow
from tests.services import mlflow
from tests.trackers.mlflow_support import source_at


@pytest.fixture
def lab(db: None) -> Iterator[SmallLab]:
    with time_machine.travel((T0 + 180_000_000) / 1e6, tick=True):
        yield small_lab()


@pytest.fixture
def fake() -> Iterator[FakeMlflow]:
    """Return a fake MLflow server. A test can set wrong responses."""
    with fake_mlflow() as server:
        yield server


@pytest.fixture
def source(fake: FakeMlflow, lab: SmallLab) -> MlflowSource:
    """Return the lab's entry of the fake server."""
    return source_at(fake, lab)


@pytest.fixture(scope="session")
def mlflow_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[mlflow.Server]:
    """Return a real MLflow server, shared by the group ``mlflow``.

    Each test has its own experiment.
    """
    with mlflow.running(tmp_path_factory.mktemp("mlflow")) as server:
        yield server
