"""/api/v1/assets/<id>/events/ and …/events/<id>/reverse/: the entries of a life."""

from collections.abc import Callable
from typing import Any

import pytest

from apps.accounts.services.labs import create_project
from apps.assets.models import Asset, LifecycleEvent
from apps.core.clock import now_us
from tests.api.conftest import Labs
from tests.assets.support import KG, bought
from tests.builders import T0

Refused = Callable[..., dict[str, Any]]
DAY = 24 * 3_600_000_000
START = T0 - 200 * DAY  # of a life that lies behind the test's own clock


@pytest.fixture
def asset(labs: Labs) -> Asset:
    return bought(labs.ours, now=now_us(), at_us=START)


def at(days: int) -> str:
    from apps.core.clock import utc

    return utc(START + days * DAY).isoformat()


def test_an_entry_is_recorded_and_its_charges_follow(labs: Labs, asset: Asset) -> None:
    create_project(lab=labs.ours.lab, slug="vision", name="Vision", now=T0)
    body = {"kind": "transfer", "at": at(10), "project": "vision", "note": "swapped"}
    told = labs.admin("POST", f"assets/{asset.pk}/events/", body)
    assert told.status_code == 201, told.content
    assert (told.json()["kind"], told.json()["project"], told.json()["at"]) == (
        "transfer",
        "vision",
        at(10),
    )
    assert labs.viewer("GET", f"assets/{asset.pk}/").json()["owner"] == "vision"
    listed = labs.viewer("GET", f"assets/{asset.pk}/events/").json()["results"]
    assert [each["kind"] for each in listed] == ["purchase", "deploy", "transfer"]
    assert listed[0]["total_ug"] == 120 * KG


def test_disposed_of_and_reversed(labs: Labs, asset: Asset, refused: Refused) -> None:
    body = {"kind": "dispose", "at": at(20), "counterpart": "Recycler", "evidence": "WEEE 1"}
    gone = labs.admin("POST", f"assets/{asset.pk}/events/", body).json()
    written_off = labs.viewer("GET", f"assets/{asset.pk}/").json()["embodied"]["written_off_ug"]
    assert written_off > 0
    reversal = labs.admin(
        "POST", f"assets/{asset.pk}/events/{gone['id']}/reverse/", {"note": "found again"}
    )
    assert reversal.status_code == 201, reversal.content
    assert (reversal.json()["kind"], reversal.json()["reverses"], reversal.json()["note"]) == (
        "reversal",
        gone["id"],
        "found again",
    )
    assert labs.viewer("GET", f"assets/{asset.pk}/").json()["embodied"]["written_off_ug"] == 0
    listed = {
        each["id"]: each
        for each in labs.viewer("GET", f"assets/{asset.pk}/events/").json()["results"]
    }
    assert listed[gone["id"]]["reversed_by"] == reversal.json()["id"]
    refused(labs.admin("POST", f"assets/{asset.pk}/events/{gone['id']}/reverse/", {}), 409)


def test_how_it_was_bought_is_not_taken_back(labs: Labs, asset: Asset, refused: Refused) -> None:
    first = LifecycleEvent.objects.filter(asset=asset).earliest("pk")
    refused(labs.admin("POST", f"assets/{asset.pk}/events/{first.pk}/reverse/", {}), 409)


@pytest.mark.parametrize(
    ("body", "status", "field"),
    [
    ({}, 400, "kind"), ({"kind": "explode", "at": at(1)}, 400, "kind"),
    ({"kind": "move"}, 400, "at"), ({"kind": "reversal", "at": at(1)}, 400, "kind"),
    ({"kind": "lend", "at": at(1)}, 400, "project"),
    ({"kind": "move", "at": at(1), "colour": "red"}, 400, "colour"),
    ({"kind": "repair", "at": at(1), "embodied": {}}, 400, "embodied.total_ug"),
    ({"kind": "move", "at": "1950-01-01T00:00Z"}, 400, "at"),
    ({"kind": "move", "at": "2950-01-01T00:00Z"}, 400, "at"),
    ({"kind": "return", "at": at(1)}, 409, None),
    ({"kind": "purchase", "at": at(1), "life_hours": 5}, 409, None),
],
)  # fmt: skip
def test_what_cannot_have_been_is_refused(
    labs: Labs, asset: Asset, refused: Refused, body: dict[str, Any], status: int, field: str | None
) -> None:
    assert refused(labs.admin("POST", f"assets/{asset.pk}/events/", body), status)["field"] == field
    assert LifecycleEvent.objects.filter(asset=asset).count() == 2


def test_who_may(labs: Labs, asset: Asset, refused: Refused) -> None:
    body = {"kind": "retire", "at": at(3)}
    event = LifecycleEvent.objects.filter(asset=asset).latest("pk")
    for path in (f"assets/{asset.pk}/events/", f"assets/{asset.pk}/events/{event.pk}/reverse/"):
        for caller in (labs.viewer, labs.member, labs.node):
            refused(caller("POST", path, body if path.endswith("events/") else {}), 403)
        refused(labs.nobody("POST", path, body), 401)
        refused(labs.outsider("POST", path, body if path.endswith("events/") else {}), 404)
    refused(labs.outsider("GET", f"assets/{asset.pk}/events/"), 404)
    other = bought(labs.ours, name="other", now=now_us(), at_us=START)
    refused(labs.admin("POST", f"assets/{other.pk}/events/{event.pk}/reverse/", {}), 404)
    refused(labs.admin("POST", f"assets/{asset.pk}/events/{10**30}/reverse/", {}), 404)
    assert LifecycleEvent.objects.count() == 4


def test_a_parent_of_another_lab_is_unknown(labs: Labs, asset: Asset, refused: Refused) -> None:
    theirs = bought(labs.theirs, kind="server", name="theirs", now=now_us(), at_us=START)
    body = {"kind": "move", "at": at(3), "parent": theirs.pk}
    assert refused(labs.admin("POST", f"assets/{asset.pk}/events/", body), 400)["field"] == "parent"


def test_wrong_method(labs: Labs, asset: Asset, refused: Refused) -> None:
    refused(labs.admin("DELETE", f"assets/{asset.pk}/events/"), 405)
    refused(labs.admin("GET", f"assets/{asset.pk}/events/1/reverse/"), 405)


def test_ends_of_life_and_leases(labs: Labs, refused: Refused) -> None:
    embodied = {"total_ug": 100 * KG, "includes_end_of_life": False}
    opening = {"kind": "lease", "at": at(0), "life_hours": 9_000, "embodied": embodied}
    told = labs.admin("POST", "assets/", {"name": "Laptop", "kind": "laptop", "opening": opening})
    assert told.status_code == 201, told.content
    path = f"assets/{told.json()['id']}/events/"
    body = {"kind": "dispose", "at": at(20), "end_of_life": "recycled", "mass_g": 25_000}
    for wrong in ({"end_of_life": "burnt"}, {"mass_g": 0}):
        assert refused(labs.admin("POST", path, body | wrong), 400)["field"] in wrong
    gone = labs.admin("POST", path, body)
    assert gone.status_code == 201, gone.content
    answer = gone.json()
    assert (answer["end_of_life"], answer["mass_g"], answer["total_ug"]) == (
        "recycled",
        25_000,
        117_142_000,
    )
