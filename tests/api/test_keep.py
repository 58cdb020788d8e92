"""GET /api/v1/assets/<id>/keep/: the answer of the page, exact."""

from collections.abc import Callable
from typing import Any

import pytest

from apps.core.clock import now_us
from tests.api.conftest import Labs
from tests.assets.support import bought
from tests.dashboard.replacement import NEW, model, worked

Refused = Callable[..., dict[str, Any]]
OWN = (
    "te_kg=100&old_w=300&old_idle_w=0&new_idle_w=0&idle_hours=0&hours=6000&new_w=400&ratio=0.25&"
    "pue=1&g_per_kwh=100"
)


def test_it_works(labs: Labs) -> None:
    card = worked(labs.ours, days=3).asset
    for caller in (labs.viewer, labs.member, labs.admin):
        told = caller("GET", f"assets/{card.pk}/keep/?new={model(NEW).pk}&{OWN}").json()
        assert told["verdict"] == "replace"
        assert told["sentence"].startswith("Replace: an NVIDIA GeForce RTX 4090 pays back by ")
        assert told["break_even"]["value"]["years"] == "0.8333", "100 kg of 120 kg a year"
        assert (
            told["break_even"]["low"] == told["break_even"]["value"] == told["break_even"]["high"]
        )
        assert told["ways"][-1] == {
            "year": 6,
            "keep_ug": 1080 * 10**9,
            "replace_ug": 460 * 10**9,
            "wait_ug": 700 * 10**9,
        }
        assert (
            told["old"]["total_ug"]
            == 74 * 10**9
            == told["old"]["charged_ug"] + told["old"]["balance_ug"]
        )
        assert {each["origin"] for each in told["inputs"]} == {"yours"}


def test_measured_inputs_lead_to_the_ledger(labs: Labs) -> None:
    card = worked(labs.ours, days=3, watts=200).asset
    told = labs.viewer("GET", f"assets/{card.pk}/keep/?new={model(NEW).pk}").json()
    inputs = {each["input"]: each for each in told["inputs"]}
    assert (inputs["old_mw"]["value"], inputs["old_mw"]["low"], inputs["old_mw"]["high"]) == (
        200_000,
        180_000,
        220_000,
    )
    assert inputs["old_mw"]["origin"] == "measured"
    assert inputs["te_ug"]["licence"].startswith("CC BY-SA")
    assert [notice["pack"] for notice in told["notices"]] == [inputs["te_ug"]["pack"]]
    query = told["use"].split("?", 1)[1]
    figure = labs.viewer("GET", f"figures/?{query}").json()
    assert figure["value"] == 3 * (12 * 200 + 12 * 20) * 3_600_000, (
        "what the powers and hours are the parts of"
    )


def test_what_is_missing_is_named(labs: Labs) -> None:
    asset = bought(labs.ours, now=now_us())
    told = labs.viewer("GET", f"assets/{asset.pk}/keep/?new={model(NEW).pk}").json()
    assert told["verdict"] == "unknown"
    assert set(told["missing"]) == {"old_w", "ratio", "hours", "pue", "g_per_kwh"}
    assert told["break_even"] is None
    assert labs.viewer("GET", f"assets/{asset.pk}/keep/").json()["verdict"] == "choose"


def test_another_labs_asset_and_an_unknown_model_are_not_there(
    labs: Labs, refused: Refused
) -> None:
    asset = bought(labs.ours, now=now_us())
    refused(labs.outsider("GET", f"assets/{asset.pk}/keep/"), 404, "not_found")
    refused(labs.viewer("GET", f"assets/{10**30}/keep/"), 404, "not_found")
    refused(labs.viewer("GET", f"assets/{asset.pk}/keep/?new=999999999"), 404, "not_found")


def test_who_may_not(labs: Labs, refused: Refused) -> None:
    asset = bought(labs.ours, now=now_us())
    refused(labs.nobody("GET", f"assets/{asset.pk}/keep/"), 401, "not_authenticated")
    refused(labs.node("GET", f"assets/{asset.pk}/keep/"), 403, "forbidden")


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
def test_wrong_method(labs: Labs, refused: Refused, method: str) -> None:
    asset = bought(labs.ours, now=now_us())
    refused(labs.admin(method, f"assets/{asset.pk}/keep/"), 405)


@pytest.mark.parametrize(
    ("query", "field"),
    [("hours=many", "hours"), ("nope=1", "nope"), ("days=5", "days"), ("pue=9", "pue")],
)
def test_bad_input_names_its_field(labs: Labs, refused: Refused, query: str, field: str) -> None:
    asset = bought(labs.ours, now=now_us())
    error = refused(labs.viewer("GET", f"assets/{asset.pk}/keep/?{query}"), 400, "invalid")
    assert error["field"] == field
    assert error["hint"]
