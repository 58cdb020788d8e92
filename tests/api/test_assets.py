"""/api/v1/assets/ and /api/v1/assets/<id>/: register, read, describe anew."""

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from apps.assets.models import Asset, LifecycleEvent
from apps.core.clock import now_us
from tests.api.conftest import Labs
from tests.assets.support import bought
from tests.builders import T0

Refused = Callable[..., dict[str, Any]]
BODY: dict[str, Any] = {
    "name": "Card 1",
    "kind": "gpu",
    "model": "A100-SXM4-80GB",
    "serial": "SN1",
    "tag": "INV-1",
    "price_ucurrency": 11_250_000_000,
    "currency": "EUR",
    "in_use_since": "2026-03-01T00:00:00Z",
    "opening": {
        "kind": "purchase",
        "at": "2026-03-01T00:00:00Z",
        "project": "demo",
        "site": "Room 1",
    },
}


def test_registered_with_the_catalogues_figure_and_read_again(labs: Labs) -> None:
    made = labs.admin("POST", "assets/", BODY)
    assert made.status_code == 201, made.content
    told = made.json()
    assert (told["model"], told["owner"], told["site"], told["state"]) == (
        "NVIDIA A100-SXM4-80GB",
        "demo",
        "Room 1",
        "use",
    )
    account = told["embodied"]
    assert account["known"] is True
    assert account["total_ug"] == LifecycleEvent.objects.get(kind="purchase").total_ug
    assert (
        account["charged_ug"] + account["balance_ug"] + account["written_off_ug"]
        == account["total_ug"]
    )
    again = labs.viewer("GET", f"assets/{told['id']}/").json()
    assert {**again, "embodied": None} == {**told, "embodied": None}
    listed = labs.viewer("GET", "assets/?kind=gpu&owner=demo").json()["results"]
    assert listed == [{name: value for name, value in again.items() if name != "embodied"}]


SERVER: dict[str, Any] = {
    **{name: value for name, value in BODY.items() if name != "model"},
    "kind": "server",
    "configuration": {
        "cpus": 2, "cores": 12, "memory_modules": 12, "module_gb": 64, "ssds": 4, "ssd_gb": 400,
    },
}  # fmt: skip


def test_a_server_is_computed_from_its_configuration(labs: Labs, refused: Refused) -> None:
    """BoaviztAPI publishes 1501.4 kg at 50.6 GB/cm²; at 48.5 GB/cm² four SSDs of 400 GB are 3.0 kg
    more.
    """
    made = labs.admin("POST", "assets/", SERVER)
    assert made.status_code == 201, made.content
    assert round(made.json()["embodied"]["total_ug"] / 10**9, 1) == 1504.4
    both = {**SERVER["opening"], "embodied": None}
    for change, field in (
        ({"opening": both}, "configuration"),
        ({"kind": "gpu"}, "configuration"),
        ({"configuration": {"cpus": 2}}, "configuration.cores"),
        ({"configuration": {**SERVER["configuration"], "cpus": 0}}, "cpus"),
        ({"configuration": {**SERVER["configuration"], "gpus": 1}}, "gpu_model"),
    ):
        error = refused(labs.admin("POST", "assets/", {**SERVER, "tag": "", **change}), 400)
        assert error["field"] == field
    assert Asset.objects.count() == 1


def test_unknown_is_null_and_not_zero(labs: Labs) -> None:
    opening = {**BODY["opening"], "embodied": None}
    told = labs.admin("POST", "assets/", {**BODY, "opening": opening}).json()
    assert told["embodied"] == dict.fromkeys(
        ("total_ug", "charged_ug", "written_off_ug", "balance_ug")
    ) | {"known": False}
    opening["embodied"] = {"total_ug": 0, "source": "second-hand, cut-off"}
    told = labs.admin("POST", "assets/", {**BODY, "tag": "", "opening": opening}).json()
    assert (told["embodied"]["known"], told["embodied"]["total_ug"]) == (True, 0)


def test_a_meter_is_named_with_it(labs: Labs, refused: Refused) -> None:
    body = {**BODY, "kind": "server", "model": None, "node": str(labs.ours.node.uuid)}
    made = labs.admin("POST", "assets/", body).json()
    assert Asset.objects.get(pk=made["id"]).meters.get().node == labs.ours.node
    theirs = {**body, "tag": "", "node": str(labs.theirs.node.uuid)}
    assert refused(labs.admin("POST", "assets/", theirs), 400)["field"] == "node"


def test_described_anew_its_life_stays(labs: Labs, refused: Refused) -> None:
    pk = labs.admin("POST", "assets/", BODY).json()["id"]
    before = LifecycleEvent.objects.count()
    told = labs.admin("PATCH", f"assets/{pk}/", {"location": "Rack 7", "model": None}).json()
    assert (told["location"], told["model"], told["serial"]) == ("Rack 7", None, "SN1")
    assert LifecycleEvent.objects.count() == before
    assert refused(labs.admin("PATCH", f"assets/{pk}/", {"owner": "demo"}), 400)["field"] == "owner"
    assert refused(labs.admin("PATCH", f"assets/{pk}/", {"name": ""}), 400)["field"] == "name"
    bought(labs.ours, tag="INV-2", now=now_us(), at_us=T0 - 10**13)
    assert refused(labs.admin("PATCH", f"assets/{pk}/", {"tag": "INV-2"}), 409)["field"] == "tag"


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"name": " "}, "name"),
        ({"kind": "toaster"}, "kind"),
        ({"model": "Voodoo 2"}, "model"),
        ({"tag": "\x00"}, "tag"),
        ({"price_ucurrency": 1, "currency": "EURO"}, "currency"),
        ({"device": "gpu:none"}, "device"),
        ({"colour": "red"}, "colour"),
        ({"opening": {"kind": "purchase"}}, "opening.at"),
        *(
            ({"opening": {**BODY["opening"], name: value}}, field)
            for name, value, field in (
                ("project", "no", "project"),
                ("site", "Attic", "site"),
                ("parent", 2**62, "parent"),
                ("kind", "move", "kind"),
                ("at", "2999-01-01T00:00Z", "at"),
                ("life_hours", 0, "opening.life_hours"),
                ("embodied", {"total_ug": -1}, "opening.embodied.total_ug"),
                ("embodied", {"total_ug": 5, "low_ug": 6}, "embodied"),
            )
        ),
    ],
)
def test_bad_input_names_its_field(
    labs: Labs, refused: Refused, change: dict[str, Any], field: str
) -> None:
    assert refused(labs.admin("POST", "assets/", {**BODY, **change}), 400)["field"] == field
    assert not Asset.objects.exists()


def test_the_same_tag_twice_is_a_conflict(labs: Labs, refused: Refused) -> None:
    labs.admin("POST", "assets/", BODY)
    assert refused(labs.admin("POST", "assets/", BODY), 409)["field"] == "tag"
    assert (
        labs.outsider("POST", "assets/", {**BODY, "opening": {**BODY["opening"]}}).status_code
        == 201
    )


def test_who_may(labs: Labs, refused: Refused) -> None:
    pk = labs.admin("POST", "assets/", BODY).json()["id"]
    for caller in (labs.viewer, labs.member, labs.node):
        refused(caller("POST", "assets/", BODY), 403)
        refused(caller("PATCH", f"assets/{pk}/", {"name": "x"}), 403)
    refused(labs.node("GET", "assets/"), 403)
    refused(labs.nobody("GET", "assets/"), 401)
    refused(labs.outsider("GET", f"assets/{pk}/"), 404)
    refused(labs.outsider("PATCH", f"assets/{pk}/", {"name": "x"}), 404)
    refused(labs.admin("GET", f"assets/{10**30}/"), 404)
    assert labs.outsider("GET", "assets/").json()["results"] == []
    assert labs.member("GET", "assets/").json()["results"][0]["name"] == "Card 1"


def test_wrong_method(labs: Labs, refused: Refused) -> None:
    refused(labs.admin("DELETE", "assets/"), 405)
    refused(labs.admin("PUT", "assets/1/"), 405)


@pytest.mark.parametrize("query", ["kind=toaster", "state=lost", "colour=red", "tag=%00"])
def test_wrong_filters(labs: Labs, refused: Refused, query: str) -> None:
    refused(labs.admin("GET", f"assets/?{query}"), 400)


def test_pages_and_a_constant_number_of_queries(labs: Labs) -> None:
    def asked(address: str) -> tuple[int, Any]:
        with CaptureQueriesContext(connection) as captured:
            told = labs.viewer("GET", address)
        return len(captured), told.json()

    bought(labs.ours, now=now_us(), at_us=T0 - 10**13)
    asked("assets/")  # a token's first use of a minute is noted
    few, _ = asked("assets/?page_size=500")
    for i in range(7):
        bought(labs.ours, name=f"card {i}", now=now_us(), at_us=T0 - 10**13)
    many, told = asked("assets/?page_size=500")
    assert (few, len(told["results"])) == (many, 8)
    names, address = [], "assets/?page_size=3"
    while address:
        _, told = asked(address)
        names += [each["id"] for each in told["results"]]
        address = told["next"].partition("/api/v1/")[2] if told["next"] else ""
    assert names == sorted(set(names), reverse=True)
    assert len(names) == 8
