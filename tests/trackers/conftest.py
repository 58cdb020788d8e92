"""A lab whose clock stands just after the moments that the messages tell of."""

from collections.abc import Iterator

import pytest
import time_machine

from tests.builders import T0, SmallLab, small_lab
from tests.services import mlflow


@pytest.fixture
def lab(db: None) -> Iterator[SmallLab]:
    with time_machine.travel((T0 + 180_000_000) / 1e6, tick=True):
        yield small_lab()


@pytest.fixture(scope="session")
def mlflow_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[mlflow.Server]:
    """MLflow's own server, one for all tests of the group ``mlflow``: each makes an experiment of its own."""
    with mlflow.running(tmp_path_factory.mktemp("mlflow")) as server:
        yield server
