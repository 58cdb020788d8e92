"""A lab whose clock stands just after the moments that the messages tell of, and MLflow servers: ours and the real one."""

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
    """A server of our own that answers as MLflow does, and wrong where a test says so."""
    with fake_mlflow() as server:
        yield server


@pytest.fixture
def source(fake: FakeMlflow, lab: SmallLab) -> MlflowSource:
    """The lab's entry of that server."""
    return source_at(fake, lab)


@pytest.fixture(scope="session")
def mlflow_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[mlflow.Server]:
    """MLflow's own server, one for all tests of the group ``mlflow``: each makes an experiment of its own."""
    with mlflow.running(tmp_path_factory.mktemp("mlflow")) as server:
        yield server
