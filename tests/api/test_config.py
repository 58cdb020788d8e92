"""GET /api/v1/config/: the one thing a node's token reads."""

from collections.abc import Callable
from typing import Any

import pytest

from apps.core.jobs import run_until_idle
from apps.fleet.services import correct_pue, correct_zone
from tests.api.conftest import Labs
from tests.builders import T0

Refused = Callable[..., dict[str, Any]]


def test_it_works(labs: Labs) -> None:
    correct_pue(site=labs.ours.site, pue_ppm=1_500_000, by=labs.ours.owner, now=T0)
    run_until_idle(worker="test")
    told = labs.node("GET", "config/").json()
    assert told["interval_s"] == 60
    assert told["site"] == {"name": "Room 1", "zone": "DE", "pue_ppm": 1_500_000}
    assert told["factor"]["ug_per_kwh"] > 0
    assert told["factor"]["zone"] == "DE"
    assert {"year", "edition", "source"} <= set(told["factor"])


def test_without_a_zone_there_is_no_factor_and_not_zero(labs: Labs) -> None:
    correct_zone(site=labs.ours.site, zone="", by=labs.ours.owner, now=T0)
    run_until_idle(worker="test")
    told = labs.node("GET", "config/").json()
    assert told["factor"] is None
    assert told["site"]["zone"] is None


def test_nothing_of_another_lab(labs: Labs) -> None:
    assert labs.their_node("GET", "config/").json()["site"]["zone"] == "FR"


@pytest.mark.parametrize("who", ["admin", "viewer", "outsider"])
def test_a_person_has_no_node(labs: Labs, refused: Refused, who: str) -> None:
    refused(getattr(labs, who)("GET", "config/"), 403)


def test_anonymous(labs: Labs, refused: Refused) -> None:
    refused(labs.nobody("GET", "config/"), 401)


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_wrong_method(labs: Labs, refused: Refused, method: str) -> None:
    refused(labs.node(method, "config/"), 405)
