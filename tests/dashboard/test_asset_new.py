"""/assets/new/ : one thing by hand, with the catalogue's figure, a value, or nobody knows; new
or second-hand.
"""

import re
from typing import Any

import pytest
from django.test import Client

from apps.accounts.models import AuditEntry
from apps.accounts.services.labs import create_project
from apps.assets.models import Asset, AssetMeter, LifecycleEvent
from apps.catalog.models import EmbodiedFigure, HardwareModel
from apps.catalog.selectors import best_figure
from apps.core.units import US_PER_HOUR
from apps.fleet.models import Device
from tests.assets.support import KG, YEAR, borne, bought
from tests.builders import T0, SmallLab, W, push, small_lab
from tests.dashboard.conftest import client_of
from tests.dashboard.support import (
    HOSTILE,
    assert_needs_sign_in,
    assert_only,
    fields_with_errors,
    text_of,
)

ADDRESS = "/assets/new/"
NOW = T0 + 2 * YEAR * US_PER_HOUR
TOLD = {
    "action": "register", "kind": "gpu", "name": "Card 7", "from_day": "2026-11-02",
    "from_time": "09:00", "figure": "own", "kg": "120", "low_kg": "90", "high_kg": "150",
    "source": "data sheet", "use": "same",
}  # fmt: skip


@pytest.fixture(autouse=True)
def _then(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apps.dashboard.decorators.now_us", lambda: NOW)


def registered(client: Client, **more: Any) -> Asset:
    response = client.post(ADDRESS, {**TOLD, **more})
    assert response.status_code == 302, fields_with_errors(text_of(response))
    return Asset.objects.get(pk=int(response["Location"].split("/")[2]))


def first(asset: Asset) -> LifecycleEvent:
    return LifecycleEvent.objects.filter(asset=asset).earliest("pk")


CONFIGURATION = {
    "kind": "server", "figure": "configuration", "cpus": "2", "cores": "24", "memory_modules": "12",
    "module_gb": "32", "ssds": "1", "ssd_gb": "400", "hdds": "", "power_supplies": "2",
}  # fmt: skip


def test_a_server_is_computed_from_its_configuration(lab: SmallLab, owner: Client) -> None:
    """An R740 with 2 × 24 cores, 12 × 32 GB and 400 GB: BoaviztAPI publishes 969.8 kg at 50.6
    GB/cm²; at 48.5 GB/cm² the SSD is 0.8 kg more. With 24 × 64 GB and 4 × 3.84 TB it is another
    figure, and 4 A100 add theirs.
    """
    event = first(registered(owner, **CONFIGURATION))
    assert event.total_ug is not None
    assert round(event.total_ug / KG, 1) == 970.6
    assert event.low_ug is not None
    assert event.high_ug is not None
    assert event.low_ug < event.total_ug < event.high_ug
    assert event.includes_end_of_life is False
    assert "BoaviztAPI" in event.source
    more = {"memory_modules": "24", "module_gb": "64", "ssds": "4", "ssd_gb": "3840"}
    larger = first(registered(owner, **CONFIGURATION | more))
    assert larger.total_ug is not None
    assert larger.total_ug > 3 * event.total_ug
    model = HardwareModel.objects.get(name="NVIDIA A100-SXM4-40GB", lab=None)
    figure = best_figure(model, lab.lab)
    assert figure is not None
    cards = first(registered(owner, **CONFIGURATION, gpus="4", gpu_model="A100-SXM4-40GB"))
    assert cards.total_ug == event.total_ug + 4 * figure.total_ug


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"kind": "gpu"}, "figure"),
        ({"cpus": ""}, "cpus"),
        ({"module_gb": "many"}, "module_gb"),
        ({"cores": "100000"}, "cores"),
        ({"ssd_gb": ""}, "ssd_gb"),
        ({"gpus": "2"}, "gpu_model"),
        ({"gpus": "2", "gpu_model": "Voodoo 2"}, "gpu_model"),
    ],
)
def test_an_impossible_configuration_is_named_at_its_field(
    lab: SmallLab, owner: Client, change: dict[str, str], field: str
) -> None:
    response = owner.post(ADDRESS, {**TOLD, **CONFIGURATION, **change})
    assert response.status_code == 400
    assert field in fields_with_errors(text_of(response))
    assert not Asset.objects.exists()


def test_a_value_of_ones_own_is_charged_over_its_life(lab: SmallLab, owner: Client) -> None:
    vision = create_project(lab=lab.lab, slug="vision", name="Vision", now=T0)
    asset = registered(
        owner,
        owner="vision",
        life_years="4",
        serial="S1",
        tag="T1",
        price="1 200.50".replace(" ", ""),
        currency="EUR",
        site=lab.site.pk,
        amortisation="linear",
        warranty="2029-01-01",
    )
    assert borne(asset) == {("vision", "held"): 120 * KG}
    event = first(asset)
    assert (event.low_ug, event.high_ug, event.source, event.life_hours) == (
        90 * KG,
        150 * KG,
        "data sheet",
        4 * YEAR,
    )
    assert (asset.owner, asset.site, asset.price_ucurrency, asset.state) == (
        vision,
        lab.site,
        1_200_500_000,
        "use",
    )
    assert AuditEntry.objects.filter(action="asset.added").count() == 1


def test_the_catalogues_figure_is_offered_with_range_source_and_licence(
    lab: SmallLab, owner: Client
) -> None:
    page = text_of(owner.get(f"{ADDRESS}offers/?kind=laptop&search=Latitude+7"))
    assert "<html" not in page
    assert "ODbL" in page
    assert re.search(r"data-range>\d+–\d+", page)
    model = HardwareModel.objects.get(pk=int(re.findall(r'name="model" value="(\d+)"', page)[0]))
    figure = best_figure(model, lab.lab)
    assert figure is not None
    assert f'data-ug="{figure.total_ug}"' in page
    asset = registered(owner, kind="laptop", figure="catalogue", model=model.pk)
    event = first(asset)
    assert (event.figure, event.total_ug, event.low_ug) == (figure, figure.total_ug, figure.low_ug)
    assert asset.model == model
    shown = text_of(owner.get(f"/assets/{asset.pk}/"))
    assert figure.licence in shown


def test_without_a_script_the_search_is_a_button_that_keeps_what_was_typed(
    lab: SmallLab, owner: Client
) -> None:
    page = text_of(owner.post(ADDRESS, {**TOLD, "action": "search", "search": "A100"}))
    assert "A100" in page
    assert 'value="Card 7"' in page
    assert not Asset.objects.exists()
    assert 'data-empty="offers">No model matches zzzz' in text_of(
        owner.get(f"{ADDRESS}?search=zzzz")
    )


def test_a_figure_by_the_terabyte_asks_how_many(lab: SmallLab, owner: Client) -> None:
    figure = (
        EmbodiedFigure.objects.filter(unit="per_tb", model__kind="storage")
        .select_related("model")
        .first()
    )
    assert figure is not None
    told = {"kind": "storage", "figure": "catalogue", "model": figure.model_id}
    response = owner.post(ADDRESS, {**TOLD, **told})
    assert fields_with_errors(text_of(response)) == ["units"]
    used = best_figure(figure.model, lab.lab)
    assert used is not None
    assert first(registered(owner, **told, units="18")).total_ug == used.total_ug * 18


def test_nobody_knows_is_said_and_stays_unknown(lab: SmallLab, owner: Client) -> None:
    asset = registered(owner, figure="unknown")
    assert first(asset).total_ug is None
    assert borne(asset) == {}


@pytest.mark.parametrize(
    ("told", "kg"),
    [
    ({}, 0), ({"added_kg": "7.5"}, 7.5),
    ({"way": "remaining_life", "used_years": "1", "first_life_years": "4"}, 90),
    ({"way": "remaining_life", "used_years": "9", "added_kg": "2"}, 2),
    ({"way": "price", "paid": "250", "price_new": "1000"}, 30),
],
)  # fmt: skip
def test_second_hand_brings_what_its_way_says(
    lab: SmallLab, owner: Client, told: dict[str, str], kg: float
) -> None:
    event = first(registered(owner, condition="used", **told))
    assert (event.kind, event.total_ug) == ("second_hand", int(kg * KG))
    assert "second-hand" in event.source


def test_in_stock_or_used_since_another_day(lab: SmallLab, owner: Client) -> None:
    assert registered(owner, use="stock").state == "stock"
    asset = registered(owner, use="other", use_day="2027-01-01")
    deployed = LifecycleEvent.objects.get(asset=asset, kind="deploy")
    assert deployed.hour * US_PER_HOUR > T0 + 50 * 24 * US_PER_HOUR


def test_built_into_a_machine_and_told_by_a_meter(lab: SmallLab, owner: Client) -> None:
    push(lab.node, [W("gpu:GPU-1", 1000)])
    device = Device.objects.get(key="gpu:GPU-1")
    server = bought(lab, kind="server", name="gpu-01")
    page = text_of(owner.get(ADDRESS))
    assert f'value="device:{device.pk}"' in page
    asset = registered(owner, parent=server.pk, meter=f"device:{device.pk}")
    assert asset.parent == server
    assert AssetMeter.objects.get(asset=asset).device == device
    assert f'value="device:{device.pk}"' not in text_of(owner.get(ADDRESS)), (
        "each tells of one asset"
    )


@pytest.mark.parametrize(
    ("told", "fields"),
    [
        ({"name": " "}, {"name"}),
        ({"kind": "toaster"}, {"kind"}),
        ({"figure": ""}, {"figure"}),
        ({"kg": "-3"}, {"kg"}),
        ({"kg": ""}, {"kg"}),
        ({"kg": "1e9"}, {"kg"}),
        ({"low_kg": "200"}, {"kg"}),
        ({"source": ""}, {"source"}),
        ({"figure": "catalogue"}, {"model"}),
        ({"figure": "catalogue", "model": "99999"}, {"model"}),
        ({"end_of_life_kg": "200"}, {"kg"}),
        ({"life_years": "0"}, {"life_years"}),
        ({"life_years": "abc"}, {"life_years"}),
        ({"from_day": ""}, {"from_day"}),
        ({"condition": "used", "way": "theft"}, {"way"}),
        ({"condition": "used", "way": "price", "paid": "5"}, {"price_new"}),
        ({"condition": "used", "way": "price", "paid": "5", "price_new": "0"}, {"price_new"}),
        ({"condition": "used", "way": "remaining_life"}, {"used_years"}),
        (
            {
                "condition": "used",
                "figure": "unknown",
                "way": "price",
                "paid": "1",
                "price_new": "2",
            },
            {"way"},
        ),
        ({"use": "other", "use_day": "2025-01-01"}, set()),
        ({"use": "other", "use_day": ""}, {"use_day"}),
        ({"price": "5"}, {"currency"}),
        ({"meter": "node:77"}, {"meter"}),
        ({"parent": "77"}, {"parent"}),
        ({"warranty": "soon"}, {"warranty"}),
        ({"from_day": "2050-01-01"}, {"from_day"}),
        (
            {"name": "", "kg": "x", "source": "", "warranty": "soon"},
            {"name", "kg", "source", "warranty"},
        ),
    ],
)
def test_what_cannot_be_is_told_and_what_was_typed_is_kept(
    lab: SmallLab, owner: Client, told: dict[str, str], fields: set[str]
) -> None:
    response = owner.post(ADDRESS, {**TOLD, **told})
    assert response.status_code in {400, 409}
    page = text_of(response)
    assert set(fields_with_errors(page)) == fields
    assert 'role="alert"' in page
    assert told.get("source", "data sheet") in page
    assert not Asset.objects.exists()


def test_who_may(lab: SmallLab, viewer: Client, owner: Client) -> None:
    assert_needs_sign_in(ADDRESS)
    for response in (
        viewer.get(ADDRESS),
        viewer.post(ADDRESS, TOLD),
        viewer.get(f"{ADDRESS}offers/"),
    ):
        assert response.status_code == 403
    assert_only(owner, ADDRESS, "GET", "POST")
    assert_only(owner, f"{ADDRESS}offers/", "GET")
    assert HOSTILE not in text_of(owner.get(ADDRESS, {"search": HOSTILE, "name": HOSTILE}))
    assert owner.get(f"{ADDRESS}offers/", {"search": "\x00", "model": "x"}).status_code == 200


def test_another_labs_things_are_not_offered(lab: SmallLab, owner: Client) -> None:
    other = small_lab(name="Other")
    bought(other, kind="server", name="their-server")
    assert "their-server" not in text_of(owner.get(ADDRESS))
    assert "their-server" in text_of(client_of(other.owner).get(ADDRESS))
