"""/api/v1/assets/events/: one event for many assets, or its effect."""

from collections.abc import Callable
from typing import Any

import pytest

from apps.assets.models import Asset, LifecycleEvent
from apps.core.clock import now_us, utc
from tests.api.conftest import Labs
from tests.api.test_asset_events import DAY, START
from tests.assets.support import KG, bought

Refused = Callable[..., dict[str, Any]]
ADDRESS = "assets/events/"


@pytest.fixture
def disks(labs: Labs) -> list[Asset]:
    return [
        bought(labs.ours, kind="storage", name=f"Disk {i}", kg=10, now=now_us(), at_us=START)
        for i in range(3)
    ]


def body(assets: list[Asset], kind: str = "dispose", **more: object) -> dict[str, Any]:
    event = {"kind": kind, "at": utc(START + 20 * DAY).isoformat()}
    return {"assets": [asset.pk for asset in assets], "event": event | more}


def test_a_preview_records_nothing_and_the_event_has_that_effect(
    labs: Labs, disks: list[Asset]
) -> None:
    seen = labs.admin("POST", ADDRESS, body(disks) | {"preview": True})
    assert seen.status_code == 200, seen.content
    preview = seen.json()
    assert (preview["preview"], preview["events"]) == (True, [])
    assert preview["before"]["written_off_ug"] == 0 < preview["after"]["written_off_ug"]
    assert not LifecycleEvent.objects.filter(kind="dispose").exists()
    told = labs.admin("POST", ADDRESS, body(disks))
    assert told.status_code == 201, told.content
    answer = told.json()
    assert (answer["before"], answer["after"]) == (preview["before"], preview["after"])
    assert answer["after"]["total_ug"] == 30 * KG
    assert [event["kind"] for event in answer["events"]] == ["dispose"] * 3
    assert set(Asset.objects.values_list("state", flat=True)) == {"disposed"}


def test_parts_need_a_choice(labs: Labs, refused: Refused) -> None:
    server = bought(labs.ours, kind="server", name="gpu-01", now=now_us(), at_us=START)
    card = bought(labs.ours, now=now_us(), at_us=START, opening={"parent": server})
    path = f"assets/{server.pk}/events/"
    assert refused(labs.admin("POST", path, body([server])["event"]), 400)["field"] == "parts"
    assert refused(labs.admin("POST", ADDRESS, body([server])), 400)["field"] == "parts"
    wrong = body([server], parts="burn")
    assert refused(labs.admin("POST", ADDRESS, wrong), 400)["field"] == "event.parts"
    gone = labs.admin("POST", path, body([server], parts="free")["event"])
    assert gone.status_code == 201, gone.content
    card.refresh_from_db()
    assert (card.state, card.parent) == ("use", None)
    listed = labs.admin("GET", f"assets/{card.pk}/events/").json()["results"]
    assert (listed[-1]["kind"], listed[-1]["cause"]) == ("move", gone.json()["id"])


@pytest.mark.parametrize(
    ("change", "status", "field"),
    [
        ({"assets": []}, 400, "assets"),
        ({"assets": ["x"]}, 400, "assets.0"),
        ({"assets": [10**17]}, 404, None),
        ({"assets": list(range(1, 1_002))}, 400, "assets"),
        ({"event": {"kind": "dispose"}}, 400, "event.at"),
        ({"colour": "red"}, 400, "colour"),
    ],
)
def test_invalid_input(
    labs: Labs,
    disks: list[Asset],
    refused: Refused,
    change: dict[str, Any],
    status: int,
    field: str | None,
) -> None:
    error = refused(labs.admin("POST", ADDRESS, body(disks) | change), status)
    assert field is None or error["field"].startswith(field.split(".")[0])
    assert not LifecycleEvent.objects.filter(kind="dispose").exists()


def test_one_that_is_impossible_stops_all(labs: Labs, disks: list[Asset], refused: Refused) -> None:
    labs.admin("POST", ADDRESS, body(disks[:1]))
    error = refused(labs.admin("POST", ADDRESS, body(disks, "retire")), 409)
    assert error["message"].startswith("Disk 0: ")
    assert not LifecycleEvent.objects.filter(kind="retire").exists()


def test_who_may(labs: Labs, disks: list[Asset], refused: Refused) -> None:
    for caller in (labs.viewer, labs.member, labs.node):
        refused(caller("POST", ADDRESS, body(disks)), 403)
    refused(labs.nobody("POST", ADDRESS, body(disks)), 401)
    refused(labs.outsider("POST", ADDRESS, body(disks)), 404)
    refused(labs.admin("GET", ADDRESS), 405)
