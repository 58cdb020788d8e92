"""A lab, and fake servers whose addresses the administrator permits."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from django.test import override_settings

from apps.pollers.choices import System
from apps.pollers.models import AssetSource
from apps.pollers.services.sources import SourceInput, add_source
from tests.builders import T0, SmallLab, small_lab
from tests.fakes.asset_servers import APP_TOKEN, TOKEN, FakeAssets, fake_assets

Start = Callable[..., tuple[FakeAssets, AssetSource]]


@pytest.fixture
def lab(db: None) -> SmallLab:
    return small_lab()


@pytest.fixture
def start(lab: SmallLab) -> Iterator[Start]:
    """Return a function that starts a fake server and adds it to the lab."""
    with ExitStack() as stack:

        def run(system: str = "netbox", **values: Any) -> tuple[FakeAssets, AssetSource]:
            fake = stack.enter_context(fake_assets(system))
            stack.enter_context(override_settings(ASSET_SOURCES=(fake.address,)))
            given = {
                "system": System(system),
                "name": "Hardware list",
                "address": fake.address,
                "token": TOKEN,
                "app_token": APP_TOKEN if system == "glpi" else None,
                "currency": "EUR",
                "bought_on": "2024-05-01",
            }
            source = add_source(
                lab=lab.lab, values=SourceInput(**{**given, **values}), by=lab.owner, now=T0
            )
            return fake, source

        yield run
