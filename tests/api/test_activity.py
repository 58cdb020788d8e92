"""/api/v1/activity/: record and list activities without a collector."""

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from apps.activity.models import Activity
from apps.core.clock import now_us
from apps.core.units import MJ_PER_KWH
from apps.runs.models import Run
from tests.api.conftest import Labs

Refused = Callable[..., dict[str, Any]]
BODY: dict[str, Any] = {
    "kind": "cloud_storage",
    "name": "Dataset backup",
    "project": "demo",
    "from": "2026-10-01T00:00:00Z",
    "to": "2026-11-01T00:00:00Z",
    "zone": "eu-central-1",
    "external_id": "bill-10",
    "inputs": {"provider": "aws", "tb_months": 12, "medium": "hdd"},
}


LAPTOP: dict[str, Any] = {
    "kind": "other_device",
    "inputs": {"device": "laptop", "watts": 30, "hours": 744, "count": 3},
}


def test_hours_of_one_device_fill_the_period(labs: Labs) -> None:
    found = labs.admin("POST", "activity/", {**BODY, **LAPTOP}).json()
    assert found["energy_mj"] == 30 * 744 * 3 * MJ_PER_KWH // 1000


def test_recorded_once_and_listed(labs: Labs) -> None:
    reply = labs.member("POST", "activity/", BODY)
    assert reply.status_code == 201, reply.content
    found = reply.json()
    assert found["energy_mj"] == 5_694 * MJ_PER_KWH // 1000
    assert found["energy_low_mj"] < found["energy_mj"] < found["energy_high_mj"]
    assert (found["zone"], found["pue_ppm"], found["withdrawn"]) == ("DE", 1_135_000, None)
    assert Run.objects.get(uuid=found["id"]).charged_project.slug == "demo"
    again = labs.member("POST", "activity/", BODY)
    assert (again.status_code, again.json()) == (200, found)
    for query in ("", "?kind=cloud_storage&project=demo", "?from=2026-10-31&to=2026-11-02"):
        assert labs.viewer("GET", f"activity/{query}").json()["results"] == [found]
    for query in ("?kind=file_server", "?from=2026-11-01", "?to=2026-10-01"):
        assert labs.viewer("GET", f"activity/{query}").json()["results"] == []


def test_a_declared_factor_and_pue(labs: Labs) -> None:
    body = {**BODY, "zone": "", "g_per_kwh": "57.5", "pue": 1.2}
    found = labs.admin("POST", "activity/", body).json()
    assert (found["factor_ug_per_kwh"], found["pue_ppm"]) == (57_500_000, 1_200_000)
    assert found["zone"] is None


def test_other_content_is_a_conflict(labs: Labs, refused: Refused) -> None:
    labs.admin("POST", "activity/", BODY)
    error = refused(labs.admin("POST", "activity/", {**BODY, "name": "other"}), 409)
    assert error["field"] == "external_id"
    assert Activity.objects.count() == 1


def test_wrong_method(labs: Labs, refused: Refused) -> None:
    refused(labs.admin("PUT", "activity/", BODY), 405)
    refused(labs.admin("DELETE", "activity/"), 405)


def test_other_lab(labs: Labs, refused: Refused) -> None:
    labs.admin("POST", "activity/", BODY)
    assert labs.outsider("GET", "activity/").json()["results"] == []
    created = labs.outsider("POST", "activity/", {**BODY, "name": "theirs", "project": ""})
    assert created.status_code == 201  # an external id is of one lab
    assert len(labs.viewer("GET", "activity/").json()["results"]) == 1


def test_read_only(labs: Labs, refused: Refused) -> None:
    refused(labs.viewer("POST", "activity/", BODY), 403)
    refused(labs.node("POST", "activity/", BODY), 403)
    refused(labs.node("GET", "activity/"), 403)
    refused(labs.nobody("POST", "activity/", BODY), 401)
    assert not Activity.objects.exists()


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"kind": "nope"}, "kind"),
        ({"name": ""}, "name"),
        ({"project": "nope"}, "project"),
        ({"zone": "Atlantis"}, "zone"),
        ({"zone": ""}, "zone"),
        ({"g_per_kwh": 5}, "zone"),
        ({"to": "2026-10-01T00:00:00Z"}, "to"),
        ({"to": "9999-12-31T23:59:59Z"}, "to"),
        ({"from": "0001-01-01T00:00:00Z"}, "from"),
        ({"from": "yesterday"}, "from"),
        ({"pue": 0.9}, "pue"),
        ({"inputs": {}}, "provider"),
        ({"inputs": []}, "inputs"),
        ({"inputs": {**BODY["inputs"], "tb_months": -1}}, "tb_months"),
        ({"inputs": {**BODY["inputs"], "tb_months": "x"}}, "tb_months"),
        ({"inputs": {**BODY["inputs"], "tb_months": {"a": 1}}}, "tb_months"),
        ({"inputs": {**BODY["inputs"], "colour": 1}}, "inputs"),
        ({"inputs": {**BODY["inputs"], "tb_months": 0}}, "tb_months"),
        ({"inputs": {**BODY["inputs"], "tb_months": " 5"}}, "tb_months"),
        ({"inputs": {**BODY["inputs"], "tb_months": "1_000"}}, "tb_months"),
        ({"inputs": {**BODY["inputs"], "tb_months": "١٢"}}, "tb_months"),
        ({"inputs": {**BODY["inputs"], "replicas": "0"}}, "replicas"),
        ({"zone": "", "g_per_kwh": "1_000"}, "g_per_kwh"),
        ({"zone": "", "g_per_kwh": "1e2"}, "g_per_kwh"),
        ({"pue": " 1.2"}, "pue"),
        ({"pue": "1٫2"}, "pue"),
        ({**LAPTOP, "inputs": {**LAPTOP["inputs"], "hours": 745.5}}, "hours"),
        ({**LAPTOP, "inputs": {**LAPTOP["inputs"], "count": 0}}, "count"),
        ({"colour": 1}, "colour"),
    ],
)
def test_invalid_input(labs: Labs, refused: Refused, changes: dict[str, Any], field: str) -> None:
    assert refused(labs.admin("POST", "activity/", {**BODY, **changes}), 400)["field"] == field
    assert not Activity.objects.exists()


@pytest.mark.parametrize(
    "query", ["kind=nope", "project=nope", "from=x", "to=2026", "colour=red", "project=%00"]
)
def test_invalid_filters(labs: Labs, refused: Refused, query: str) -> None:
    refused(labs.admin("GET", f"activity/?{query}"), 400)


def test_pages_and_a_constant_number_of_queries(labs: Labs) -> None:
    def count(address: str) -> tuple[int, Any]:
        with CaptureQueriesContext(connection) as captured:
            reply = labs.viewer("GET", address)
        return len(captured), reply.json()

    labs.admin("POST", "activity/", BODY)
    count("activity/")  # a token's first use of a minute is noted
    few, _ = count("activity/?page_size=500")
    for i in range(4):
        labs.admin("POST", "activity/", {**BODY, "external_id": f"{now_us()}-{i}"})
    many, found = count("activity/?page_size=500")
    assert (few, len(found["results"])) == (many, 5)
    first = labs.viewer("GET", "activity/?page_size=3").json()
    rest = labs.viewer("GET", first["next"].partition("/api/v1/")[2]).json()
    ids = [row["id"] for row in first["results"] + rest["results"]]
    assert len(set(ids)) == 5
