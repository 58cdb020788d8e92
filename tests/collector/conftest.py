"""Fixtures of the collector's tests."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.collector.collector_process import Collector
from tests.collector.mlflow_scripts import Scripts
from tests.collector.nvml_bench import Bench
from tests.fakes import labcarbon_server as fakes
from tests.fakes.nvml_driver import FakeDriver


@pytest.fixture(scope="session")
def nvml_libraries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder for the simulated driver's libraries, built one time per session."""
    return tmp_path_factory.mktemp("nvml")


@pytest.fixture
def bench(tmp_path: Path, nvml_libraries: Path) -> Iterator[Callable[..., Bench]]:
    """Create a machine with the named GPUs and an opened source, with its driver loaded into this
    process.
    """
    with ExitStack() as stack:

        def make(
            *profiles: str, opened: bool = True, with_v3: bool = True, **options: Any
        ) -> Bench:
            driver = FakeDriver(
                tmp_path, profiles or ("hopper",), with_v3=with_v3, libraries=nvml_libraries
            )
            stack.enter_context(driver.in_process())
            collector = Bench(driver, tmp_path / "sys", **options)
            stack.callback(lambda: collector.source.close())
            if opened:
                collector.source.open()
            return collector

        yield make


@pytest.fixture
def server() -> Iterator[fakes.FakeServer]:
    """A LabCarbon server on loopback."""
    with fakes.running() as fake:
        yield fake


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Collector]:
    """A simulated node without a started daemon. A running daemon is stopped after the test."""
    collector = Collector(tmp_path)
    yield collector
    if collector.daemon is not None and collector.daemon.poll() is None:
        collector.stop(signal.SIGKILL)


@pytest.fixture
def person(tmp_path: Path, server: fakes.FakeServer) -> Collector:
    """A logged-in user on a machine without a daemon."""
    collector = Collector(tmp_path)
    collector.log_in(server.url)
    return collector


@pytest.fixture
def script(tmp_path: Path) -> Path:
    """A script that trains immediately."""
    path = tmp_path / "work" / "train.py"
    path.parent.mkdir()
    path.write_text("print('trained', flush=True)\n")
    return path


@pytest.fixture
def scripts(person: Collector) -> Scripts:
    """Scripts of a logged-in user that use MLflow."""
    return Scripts(person)
