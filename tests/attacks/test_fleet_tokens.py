"""A stolen fleet token, and the token of a node that waits for approval, give no access."""

from typing import Any

import pytest
from django.test import Client

from apps.core.clock import now_us
from apps.core.units import US_PER_HOUR
from apps.fleet.models import FleetToken
from apps.fleet.services import create_fleet_token
from tests.attacks.conftest import RUN, World
from tests.attacks.hostile_targets import addresses_of
from tests.builders import SmallLab

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
_OWN = ("/api/v1/enrol/", "/api/v1/login/")


def _token(small: SmallLab, **more: Any) -> str:
    options = {"site": small.site, "project": None, "uses": 5, "life_us": US_PER_HOUR, **more}
    return create_fleet_token(lab=small.lab, by=small.owner, now=now_us(), **options)[1]


def _statuses(small: SmallLab, token: str) -> dict[str, int]:
    client = Client(headers={"Authorization": f"Bearer {token}"})
    return {
        f"{method} {path}": client.generic(method, path, b"{}", "application/json").status_code
        for path in addresses_of(small, RUN)
        if path.startswith("/api/v1/") and path not in _OWN
        for method in METHODS
    }


@pytest.mark.django_db
def test_a_stolen_token_reads_and_changes_nothing(world: World) -> None:
    text = _token(world.ours)
    statuses = _statuses(world.ours, text)
    assert len(statuses) > 100
    assert set(statuses.values()) == {401}, statuses
    for page in ("/", "/nodes/", "/nodes/add/"):
        response = Client(headers={"Authorization": f"Bearer {text}"}).get(page)
        assert (response.status_code, response["Location"].split("?")[0]) == (
            302,
            "/accounts/login/",
        )
    assert FleetToken.objects.get().uses_left == 5


@pytest.mark.django_db
def test_the_token_of_a_waiting_node_reads_and_changes_nothing(world: World) -> None:
    body = {
        "code": _token(world.ours, needs_approval=True),
        "node": "0e7b9c1a-0000-4000-8000-00000000000a",
        "hostname": "gpu-7",
    }
    token = Client().post("/api/v1/enrol/", body, content_type="application/json").json()["token"]
    statuses = _statuses(world.ours, token)
    assert set(statuses.values()) <= {403, 405}, statuses
    assert 403 in statuses.values()
