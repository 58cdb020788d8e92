"""GET /api/v1/greener-hours/: the greenest start at a site."""

from collections.abc import Callable
from datetime import datetime
from typing import Any
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

import pytest

from apps.carbon.figures.figure_query import iso_hour
from apps.carbon.hourly_factors import record_hours
from apps.core.clock import now_us
from apps.core.units import UG_PER_G, hour_of
from apps.fleet.services import correct_zone
from tests.api.conftest import Labs
from tests.builders import T0

Refused = Callable[..., dict[str, Any]]


def record_four_weeks(labs: Labs) -> int:
    """Record 400 g/kWh, and 100 in the hour that comes in three hours. Return the current hour."""
    now = now_us()
    first = hour_of(now)
    lab = labs.ours.lab
    zone = ZoneInfo(lab.time_zone)  # the usual hour follows the local clock

    def clock(hour: int) -> int:
        return datetime.fromtimestamp(hour * 3600, tz=zone).hour

    hours = {
        hour: (100 if clock(hour) == clock(first + 3) else 400) * UG_PER_G
        for hour in range(first - 28 * 24, first)
    }
    record_hours(
        lab=lab, zone="DE", basis=lab.basis, is_actual=True, source="S", licence="CC0",
        hours=hours, now=now,
    )  # fmt: skip
    return first


def test_it_works(labs: Labs) -> None:
    first = record_four_weeks(labs)
    reply = labs.viewer("GET", "greener-hours/?duration_hours=1").json()
    assert hour_of(now_us()) == first
    assert reply["site"] == "Room 1"
    assert (reply["zone"], reply["duration_hours"]) == ("DE", 1)
    assert reply["best"] == {
        "start": iso_hour(first + 3), "ug_per_kwh": 100 * UG_PER_G, "sources": ["usual"],
    }  # fmt: skip
    assert reply["now"]["ug_per_kwh"] == 400 * UG_PER_G
    assert len(reply["hours"]) == 25
    by_node = f"greener-hours/?node={labs.ours.node.uuid}&duration_hours=4"
    assert labs.member("GET", by_node).json()["best"]["ug_per_kwh"] == 325 * UG_PER_G


def test_without_hours_it_is_unknown_and_not_zero(labs: Labs) -> None:
    reply = labs.viewer("GET", "greener-hours/").json()
    assert (reply["best"], reply["now"], reply["hours"]) == (None, None, [])
    correct_zone(site=labs.ours.site, zone="", by=labs.ours.owner, now=T0)
    assert labs.viewer("GET", "greener-hours/").json()["zone"] is None


def test_nothing_of_another_lab(labs: Labs, refused: Refused) -> None:
    record_four_weeks(labs)
    theirs = labs.outsider("GET", "greener-hours/").json()
    assert (theirs["zone"], theirs["best"]) == ("FR", None)
    body = refused(labs.outsider("GET", f"greener-hours/?node={labs.ours.node.uuid}"), 400)
    assert body["field"] == "node"
    body = refused(labs.outsider("GET", f"greener-hours/?site={labs.ours.site.pk}"), 400)
    assert body["field"] == "site"


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"duration_hours": "0"}, "duration_hours"),
        ({"duration_hours": "169"}, "duration_hours"),
        ({"duration_hours": "1e3"}, "duration_hours"),
        ({"duration_hours": "9" * 5000}, "duration_hours"),
        ({"duration_hours": "0" * 9 + "19"}, "duration_hours"),
        ({"latest_start": "18:00"}, "latest_start"),
        ({"latest_start": "2020-01-01T00:00Z"}, "latest_start"),
        ({"latest_start": "2999-01-01T00:00Z"}, "latest_start"),
        ({"node": "x"}, "node"),
        ({"site": "0"}, "site"),
        ({"site": "\x00"}, "site"),
        ({"zone": "DE"}, "zone"),
    ],
)
def test_invalid_input(labs: Labs, refused: Refused, query: dict[str, str], field: str) -> None:
    body = refused(labs.viewer("GET", f"greener-hours/?{urlencode(query)}"), 400)
    assert body["field"] == field


def test_a_node_token_is_refused(labs: Labs, refused: Refused) -> None:
    refused(labs.node("GET", "greener-hours/"), 403)


def test_anonymous(labs: Labs, refused: Refused) -> None:
    refused(labs.nobody("GET", "greener-hours/"), 401)


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_wrong_method(labs: Labs, refused: Refused, method: str) -> None:
    refused(labs.viewer(method, "greener-hours/"), 405)
