"""GET /api/v1/figures/ and /api/v1/explain/: the same query, the same integers."""

from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from apps.accounts.models import Lab
from apps.core.jobs import run_until_idle
from apps.core.units import emission_ug
from apps.fleet.services import correct_zone, set_price
from tests.api.conftest import Labs
from tests.api.test_runs import FACTS, RUN
from tests.builders import MINUTE, T0, W, push

Refused = Callable[..., dict[str, Any]]
GPU = "gpu:GPU-0000-1111"
PERIOD = {"metric": "energy_mj", "from": "2026-11-02T08:00Z", "to": "2026-11-02T10:00Z"}


def _path(endpoint: str = "figures", **changes: str) -> str:
    query = {**PERIOD, **changes}
    return (
        f"{endpoint}/?"
        f"{urlencode({key.rstrip('_'): value for key, value in query.items() if value})}"
    )


@pytest.fixture
def filled(labs: Labs) -> Labs:
    assert labs.member("PUT", f"runs/{RUN}/", FACTS).status_code == 200
    windows = [
        W(
            GPU,
            901,
            start_us=T0 + i * MINUTE,
            end_us=T0 + (i + 1) * MINUTE,
            seq=i,
            shares=((f"run:{RUN}", 600), ("idle", 300), ("proc:ada/x", 1)),
        )
        for i in range(90)
    ]
    push(labs.ours.node, windows)
    push(labs.theirs.node, [W(GPU, 7)])
    return labs


@pytest.mark.parametrize(
    ("subject", "value"),
    [
        ("lab", 90 * 901),
        ("project:demo", 90 * 600),
        (f"run:{RUN}", 90 * 600),
        (f"device:{GPU}", 90 * 901),
    ],
)
def test_it_works(filled: Labs, subject: str, value: int) -> None:
    told = filled.viewer("GET", _path(subject=subject)).json()
    assert told["value"] == value
    assert told["unit"] == "mJ"
    explained = filled.viewer("GET", _path("explain", subject=subject)).json()
    assert explained["value"] == value == sum(entry["energy_mj"] for entry in explained["ledger"])
    assert told["explain"].endswith(f"/explain/?{told['query']}")


@pytest.mark.parametrize(
    ("zone", "ug_per_kwh"),
    [("US-EGRID-CAMX", 195_040_000), ("AU-NSW", 640_000_000), ("JP", None)],
)
def test_the_direct_basis_has_direct_factors_or_none(
    filled: Labs, zone: str, ug_per_kwh: int | None
) -> None:
    ours = filled.ours
    Lab.objects.filter(pk=ours.lab.pk).update(basis="direct")
    correct_zone(site=ours.site, zone=zone, by=ours.owner, now=T0)
    run_until_idle(worker="test")
    told = filled.viewer("GET", _path("explain", metric="emission_ug")).json()
    assert {entry["factor_ug_per_kwh"] for entry in told["ledger"]} == {ug_per_kwh}
    assert told["without_factor_mj"] == (90 * 901 if ug_per_kwh is None else 0)
    assert told["value"] == sum(
        emission_ug(entry["energy_mj"], entry["pue_ppm"], ug_per_kwh)
        for entry in told["ledger"]
        if ug_per_kwh is not None
    )
    assert "basis=direct" in told["query"]


def test_emissions_are_the_sum_of_their_entries(filled: Labs) -> None:
    told = filled.viewer("GET", _path("explain", metric="emission_ug")).json()
    assert told["value"] == sum(
        emission_ug(entry["energy_mj"], entry["pue_ppm"], entry["factor_ug_per_kwh"])
        for entry in told["ledger"]
    )
    assert told["value"] > 0
    assert told["unit"] == "ug CO2e"


def _priced(labs: Labs, ucurrency_per_kwh: int) -> None:
    set_price(
        site=labs.ours.site,
        ucurrency_per_kwh=ucurrency_per_kwh,
        currency="EUR",
        from_us=T0,
        by=None,
        now=T0,
    )
    run_until_idle(worker="test")


def test_a_cost_is_the_sum_of_its_entries_in_its_currency(filled: Labs) -> None:
    _priced(filled, 310_000_000_000)
    told = filled.viewer("GET", _path("explain", metric="cost_ucurrency")).json()
    assert told["value"] == sum(
        emission_ug(entry["energy_mj"], entry["pue_ppm"], entry["price_ucurrency_per_kwh"])
        for entry in told["ledger"]
    )
    assert told["value"] == sum(entry["cost_ucurrency"] for entry in told["ledger"]) > 0
    assert (told["unit"], told["currency"], told["without_price_mj"]) == ("ucurrency", "EUR", 0)
    assert {entry["currency"] for entry in told["ledger"]} == {"EUR"}
    assert filled.viewer("GET", _path(metric="cost_ucurrency")).json()["value"] == told["value"]
    francs = filled.viewer("GET", _path(metric="cost_ucurrency", currency="CHF")).json()
    assert (francs["value"], francs["without_price_mj"]) == (0, 90 * 901)


def test_a_cost_without_a_price_is_unknown(filled: Labs) -> None:
    told = filled.viewer("GET", _path("explain", metric="cost_ucurrency")).json()
    assert (told["value"], told["currency"], told["without_price_mj"]) == (0, "", 90 * 901)
    assert {entry["cost_ucurrency"] for entry in told["ledger"]} == {None}


def test_the_currency_is_that_of_a_cost(filled: Labs, refused: Refused) -> None:
    refused(filled.viewer("GET", _path(metric="cost_ucurrency", currency="eur")), 400)
    refused(filled.viewer("GET", _path(currency="EUR")), 400)


def test_groups_sum_to_the_figure(filled: Labs, subtests: pytest.Subtests) -> None:
    for group in (
        "charge",
        "way",
        "project",
        "run",
        "node",
        "device",
        "hour",
        "quality",
        "consumer",
        "factor",
        "pue",
        "price",
    ):
        with subtests.test(group=group):
            told = filled.viewer("GET", _path(group_by=group)).json()
            assert sum(part["value"] for part in told["groups"]) == told["value"] == 90 * 901


def test_narrowed(filled: Labs) -> None:
    def value(**changes: str) -> int:
        return int(filled.viewer("GET", _path(**changes)).json()["value"])

    assert value(consumer="idle") == 90 * 300
    assert value(consumer="unattributed") == 90
    assert value(quality="COUNTER") == 90 * 901
    assert value(quality="DECLARED") == 0
    assert value(to="2026-11-02T09:00Z") == 60 * 901


def test_nothing_of_another_lab(filled: Labs, refused: Refused) -> None:
    assert filled.outsider("GET", _path()).json()["value"] == 7
    told = filled.outsider("GET", _path("explain"))
    assert RUN not in told.content.decode()
    for subject in (f"run:{RUN}", f"node:{filled.ours.node.uuid}"):
        refused(filled.outsider("GET", _path(subject=subject)), 404)
        refused(filled.outsider("GET", _path("explain", subject=subject)), 404)


@pytest.mark.parametrize(
    "subject",
    [
        "project:nope",
        "run:00000000-0000-4000-8000-000000000000",
        "device:gpu:none",
        "project:\x00",
        "device:\x00",
    ],
)
def test_what_is_not_there_is_not_zero(filled: Labs, refused: Refused, subject: str) -> None:
    refused(filled.viewer("GET", _path(subject=subject)), 404)
    refused(filled.viewer("GET", _path("explain", subject=subject)), 404)


@pytest.mark.parametrize("endpoint", ["figures", "explain"])
def test_who_may_not(filled: Labs, refused: Refused, endpoint: str) -> None:
    refused(filled.node("GET", _path(endpoint)), 403)
    refused(filled.nobody("GET", _path(endpoint)), 401)
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        refused(filled.admin(method, _path(endpoint)), 405)


BAD: tuple[tuple[dict[str, str], str], ...] = (
    ({"metric": ""}, "metric"),
    ({"from": ""}, "from"),
    ({"to": ""}, "to"),
    ({"metric": "kwh"}, "metric"),
    ({"metric": "embodied_ug", "subject": "run:00000000-0000-4000-8000-000000000000"}, "subject"),
    ({"metric": "embodied_ug", "quality": "COUNTER"}, "quality"),
    ({"metric": "embodied_ug", "consumer": "overhead"}, "consumer"),
    ({"metric": "embodied_inventory_ug", "consumer": "idle"}, "consumer"),
    ({"metric": "carbon_ug", "os_user": "ada"}, "os_user"),
    ({"subject": "asset:1"}, "subject"),
    ({"metric": "embodied_ug", "subject": "asset:x"}, "subject"),
    ({"consumer": "held"}, "consumer"),
    ({"scope": "4"}, "scope"),
    ({"profile": "lesson", "scope": "3.1"}, "scope"),
    ({"subject": "everything"}, "subject"),
    ({"subject": "lab:1"}, "subject"),
    ({"subject": "run:1"}, "subject"),
    ({"subject": "project"}, "subject"),
    ({"from": "yesterday"}, "from"),
    ({"from": "1066-01-01"}, "from"),
    ({"to": "9999-12-31T23:59Z"}, "to"),
    ({"to": "2026-11-02T08:00Z"}, "to"),
    ({"from": "1990-01-01", "to": "2200-01-01"}, "to"),
    ({"accounting": "market"}, "accounting"),
    ({"accounting": "both"}, "accounting"),
    ({"basis": "direct"}, "basis"),
    ({"profile": "free"}, "profile"),
    ({"quality": "good"}, "quality"),
    ({"consumer": "ada"}, "consumer"),
    ({"colour": "blue"}, "colour"),
    ({"from": "2026-11-02T08:00:00+99:99"}, "from"),
    ({"from": "\x00"}, "from"),
)


@pytest.mark.parametrize("endpoint", ["figures", "explain"])
def test_bad_queries(
    labs: Labs, refused: Refused, endpoint: str, subtests: pytest.Subtests
) -> None:
    for change, field in BAD:
        with subtests.test(change=change):
            assert refused(labs.viewer("GET", _path(endpoint, **change)), 400)["field"] == field


def test_groups_and_offsets_that_do_not_exist(labs: Labs, refused: Refused) -> None:
    assert (
        refused(labs.viewer("GET", _path(group_by="e.id; DROP TABLE x")), 400)["field"]
        == "group_by"
    )
    for offset in ("-1", "one", "9" * 30, "1e3"):
        assert (
            refused(labs.viewer("GET", _path("explain", offset=offset)), 400)["field"] == "offset"
        )


def test_the_explanation_comes_in_pages_that_miss_nothing(filled: Labs) -> None:
    windows = [
        W(
            "gpu:GPU-many",
            3,
            start_us=T0 + i,
            end_us=T0 + i + 1,
            seq=i,
            shares=((f"proc:ada/p{i}", 3),),
        )
        for i in range(700)
    ]
    push(filled.ours.node, windows)
    pages = [filled.viewer("GET", _path("explain", offset=str(at))).json() for at in (0, 500, 1000)]
    assert [len(page["ledger"]) for page in pages] == [500, len(pages[1]["ledger"]), 0]
    assert (
        sum(entry["energy_mj"] for page in pages for entry in page["ledger"]) == pages[0]["value"]
    )


def test_a_figure_costs_the_same_whatever_the_rows(filled: Labs) -> None:
    def queries() -> int:
        with CaptureQueriesContext(connection) as counted:
            assert filled.viewer("GET", _path("explain")).status_code == 200
        return len(counted)

    queries()
    few = queries()
    push(
        filled.ours.node,
        [W("gpu:GPU-more", 3, start_us=T0 + i, end_us=T0 + i + 1, seq=i) for i in range(300)],
    )
    assert queries() == few
