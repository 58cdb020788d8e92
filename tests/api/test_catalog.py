"""GET /api/v1/catalog/ and /api/v1/catalog/<id>/."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from django.db import connection
from django.http import HttpResponse
from django.test.utils import CaptureQueriesContext

from apps.catalog.matching import Draft
from apps.catalog.models import HardwareModel
from apps.catalog.selectors import model_of
from apps.catalog.services import add_figure, add_model
from apps.core.units import UG_PER_KG
from tests.api.conftest import Caller, Labs
from tests.builders import T0


def told(response: HttpResponse) -> Any:
    assert response.status_code == 200, response.content
    return msgspec.json.decode(response.content)


def own(labs: Labs) -> HardwareModel:
    model = add_model(lab=labs.ours.lab, kind="gpu", name="Own card", by=labs.ours.owner, now=T0)
    draft = Draft(
        method="pcf",
        unit="item",
        source="Maker",
        total_ug=150 * UG_PER_KG,
        end_of_life_ug=UG_PER_KG,
    )
    add_figure(lab=labs.ours.lab, model=model, draft=draft, by=labs.ours.owner, now=T0)
    return model


def test_models_are_listed_with_the_figure_used_and_its_notice(labs: Labs) -> None:
    body = told(labs.viewer("GET", "catalog/?kind=gpu&q=a100+sxm4"))
    assert [row["name"] for row in body["results"]] == [
        "NVIDIA A100-SXM4-40GB",
        "NVIDIA A100-SXM4-80GB",
    ]
    used = body["results"][1]["used"]
    assert (used["total_ug"], used["method"], used["pack"]) == (
        150 * UG_PER_KG,
        "parametric",
        "hubblo-cc-by-sa",
    )
    assert used["manufacture_ug"] is None, "not given is null, not zero"
    assert [notice["pack"] for notice in body["notices"]] == ["hubblo-cc-by-sa"]
    assert body["next_offset"] is None


def test_all_are_reached_page_by_page(labs: Labs) -> None:
    seen, offset = [], 0
    while offset is not None:
        body = told(labs.member("GET", f"catalog/?kind=laptop&offset={offset}"))
        seen += [row["id"] for row in body["results"]]
        offset = body["next_offset"]
    assert len(seen) == len(set(seen)) == HardwareModel.objects.filter(kind="laptop").count() > 100


def test_one_model_has_all_its_figures(labs: Labs) -> None:
    card = model_of("gpu", "NVIDIA L4")
    assert card is not None
    body = told(labs.member("GET", f"catalog/{card.pk}/"))
    assert body["used"] == body["figures"][0]
    assert body["figures"][0]["end_of_life_ug"] == 256_000_000
    assert body["notices"][0]["licence"] == "CC BY-SA 4.0"
    assert body["page"].endswith(f"/catalog/{card.pk}/")


def test_an_own_model_is_seen_by_its_lab_alone(labs: Labs, refused: Callable[..., Any]) -> None:
    model = own(labs)
    body = told(labs.viewer("GET", f"catalog/{model.pk}/"))
    assert (body["own"], body["used"]["own"], body["used"]["includes_end_of_life"]) == (
        True,
        True,
        True,
    )
    refused(labs.outsider("GET", f"catalog/{model.pk}/"), 404, "not_found")
    assert "Own card" not in {
        row["name"] for row in told(labs.outsider("GET", "catalog/?q=Own+card"))["results"]
    }
    assert [row["name"] for row in told(labs.viewer("GET", "catalog/?q=Own+card"))["results"]] == [
        "Own card"
    ]


@pytest.mark.parametrize("path", ["catalog/", "catalog/1/"])
def test_who_may_not(labs: Labs, refused: Callable[..., Any], path: str) -> None:
    refused(labs.nobody("GET", path), 401)
    refused(labs.node("GET", path), 403, "forbidden")
    for method in ("POST", "PUT", "DELETE"):
        refused(labs.admin(method, path), 405)


@pytest.mark.parametrize(
    ("path", "field"),
    [
        ("catalog/?kind=toaster", "kind"),
        ("catalog/?q=a%00b", "q"),
        (f"catalog/?q={'x' * 201}", "q"),
        ("catalog/?offset=-1", "offset"),
        ("catalog/?offset=1e3", "offset"),
        ("catalog/?knid=gpu", "knid"),
        ("catalog/1/?kind=gpu", "kind"),
    ],
)
def test_bad_input_is_told(labs: Labs, refused: Callable[..., Any], path: str, field: str) -> None:
    error = refused(labs.member("GET", path), 400, "invalid")
    assert error["field"] == field
    assert error["hint"]


def test_what_is_not_there(labs: Labs, refused: Callable[..., Any]) -> None:
    refused(labs.member("GET", "catalog/999999/"), 404, "not_found")
    refused(labs.member("GET", f"catalog/{2**70}/"), 404, "not_found")


def _queries(caller: Caller, path: str) -> int:
    with CaptureQueriesContext(connection) as captured:
        told(caller("GET", path))
    return len(captured)


def test_queries_do_not_grow(labs: Labs) -> None:
    told(labs.member("GET", "catalog/"))  # the first use of a token is noted
    assert _queries(labs.member, "catalog/?q=l40s") == _queries(labs.member, "catalog/?kind=cpu")
