"""Configuration and fixtures of all tests."""

import gc
import os
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import time_machine
from django.core.cache import cache
from django.template.base import Template
from hypothesis import HealthCheck, Phase
from hypothesis import settings as hypothesis_settings

from apps.accounts.authentication import forget_tokens
from tests.services import chromium
from tests.services.data_directories import migrated_database

gc.disable()  # imports and collection create no garbage; see pytest_collection_finish

hypothesis_settings.register_profile(
    "labcarbon", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
hypothesis_settings.register_profile(
    "unshrunk", hypothesis_settings.get_profile("labcarbon"), phases=(Phase.generate,)
)
hypothesis_settings.load_profile("labcarbon")


def pytest_configure(config: pytest.Config) -> None:
    """Use a fast password hasher, uncollected static files and a throttle cache in memory."""
    from django.conf import settings

    if config.getoption("numprocesses", None):
        gc.enable()  # the xdist controller collects no tests
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    settings.STORAGES = {
        **settings.STORAGES,
        "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
    }
    # whether this environment has collected wheels must not matter
    settings.WHEELS_DIR = Path(__file__).parent / "install" / "shelf"
    settings.CACHES = {"default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}}
    if not settings.ENVIRONMENT.is_served:
        # pytest-django would derive a file name for workers: it knows Django's backend only
        settings.DATABASES["default"].setdefault("TEST", {})["NAME"] = ":memory:"
    settings.MIDDLEWARE = [
        name for name in settings.MIDDLEWARE if not name.startswith("whitenoise.")
    ]


_RENDER = Template._render  # before Django's test environment instruments it

_LONGEST_ID = 100

# Slow files start first, so that they do not delay the end.
LONG = (
    "deploy/test_image",
    "faults/test_kills.py",
    "browser/",
    "faults/test_launch.py",
    "slurm/",
    "trackers/test_codecarbon_client",
    "trackers/test_mlflow_client",
    "trackers/test_mlflow_real",
    "mistakes/",
    "faults/test_uids.py",
    "signin/test_at",
    "carbon/test_rolled_days",
    "properties/",
    "activity/",
    "attribution/",
)


def pytest_make_parametrize_id(val: object) -> str | None:
    """Return a short id for a long text: workers, environment and reports contain ids."""
    if isinstance(val, str | bytes) and len(val) > _LONGEST_ID:
        return f"{val[:_LONGEST_ID]!a}... of {len(val)}"
    return None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort tests by the duration of their files. The order within a file is stable.

    pytest-xdist must get the groups, or each worker would start its own browsers, servers and
    clusters.
    """
    if "PYTEST_XDIST_WORKER" in os.environ:
        grouped = [item for item in items if item.get_closest_marker("xdist_group")]
        assert all("@" in item.nodeid for item in grouped), (
            "this pytest keeps xdist_group from pytest-xdist"
        )
    items.sort(
        key=lambda item: next((i for i, part in enumerate(LONG) if part in item.nodeid), len(LONG))
    )


def pytest_collection_finish() -> None:
    """Exclude existing objects from garbage collection and reduce its frequency.

    This saves a tenth of the time.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
    gc.enable()


@pytest.fixture(scope="session", autouse=True)
def _templates_are_not_watched(django_test_environment: None) -> None:
    """Render without Django's instrumentation: no test uses a response's context.

    Copies of contexts take a thirtieth of the time.
    """
    Template._render = _RENDER


@pytest.fixture(scope="session")
def django_db_modify_db_settings(
    django_db_modify_db_settings: None, django_db_blocker: Any
) -> Iterator[None]:
    """Copy each worker's database from one that is migrated once per run.

    So the worker's own ``migrate`` has nothing to do.
    """
    from django.db import connection

    with ExitStack() as stack, django_db_blocker.unblock():
        if connection.vendor == "sqlite":
            name = connection.creation._get_test_db_name()
            memory = stack.enter_context(
                closing(sqlite3.connect(name, uri=True))
            )  # exists as long as this connection
            with closing(sqlite3.connect(migrated_database())) as made:
                made.backup(memory)
        elif template := os.environ.get("LABCARBON_TEST_TEMPLATE"):
            connection.settings_dict["TEST"]["TEMPLATE"] = template
        yield


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None, django_db_blocker: Any) -> None:
    """Load the shipped data once, and again after a transactional test flushed the database."""
    from django.apps import apps
    from django.db.models.signals import post_migrate

    from tests.shipped_data import load_shipped_data

    with django_db_blocker.unblock():
        load_shipped_data()
    post_migrate.connect(load_shipped_data, sender=apps.get_app_config("catalog"))


@pytest.fixture(autouse=True)
def _nothing_remembered() -> None:
    """Clear cached tokens and throttles of earlier tests."""
    forget_tokens()
    cache.clear()


@pytest.fixture
def still() -> Iterator[None]:
    """Freeze the clock at half past the current hour."""
    with time_machine.travel(
        datetime.now(UTC).replace(minute=30, second=0, microsecond=0), tick=False
    ):
        yield


@pytest.fixture(scope="session")
def chromium_browser() -> Iterator[Any]:
    """Debian's Chromium, one per worker: Playwright can be started once in a process.

    Its event loop stays in this thread. Later tests of the worker use the database, so Django's
    guard against async use is off.
    """
    from playwright.sync_api import sync_playwright

    with pytest.MonkeyPatch.context() as patch, sync_playwright() as playwright:
        patch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "true")
        started = playwright.chromium.launch(**chromium.launch_options())
        yield started
        started.close()
