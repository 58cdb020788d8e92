"""GET /api/v1/figures/ and /api/v1/explain/ of hardware: both ledgers, never added, and what is
not known.
"""

from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from apps.accounts.services.labs import create_project
from apps.assets.services import Entry, record, set_meter, store
from apps.core.units import US_PER_HOUR
from tests.api.conftest import Labs
from tests.assets.support import H0, KG, YEAR, bought
from tests.builders import T0, W, push

Refused = Callable[..., dict[str, Any]]
GPU = "gpu:GPU-0000-1111"
NOW = T0 + 2 * YEAR * US_PER_HOUR
DAY = {"from": "2026-11-02T08:00Z", "to": "2026-11-03T08:00Z"}


def _path(endpoint: str = "figures", **changes: str) -> str:
    return f"{endpoint}/?{urlencode({'metric': 'embodied_ug', **DAY, **changes})}"


@pytest.fixture
def filled(labs: Labs, monkeypatch: pytest.MonkeyPatch) -> Labs:
    """A file server of 35 040 kg over four years, 1 kg an hour, kept by vision (3 of 4 TB) and
    nobody known; a screen of which nobody knows a figure; a card of another lab.
    """
    monkeypatch.setattr("apps.carbon.api.now_us", lambda: NOW)
    vision = create_project(lab=labs.ours.lab, slug="vision", name="Vision", now=T0)
    server = bought(labs.ours, kg=4 * YEAR, name="Files", kind="storage", now=NOW)
    told: dict[str, Any] = {"asset": server, "from_us": T0, "by": labs.ours.owner, "now": NOW}
    store(project=vision, gigabytes=3_000, **told)
    store(project=None, gigabytes=1_000, **told)
    bought(labs.ours, kg=None, name="Screen", kind="monitor", now=NOW)
    bought(labs.theirs, kg=7, now=NOW)
    labs.asset = server  # type: ignore[attr-defined]
    return labs


def test_it_works(filled: Labs) -> None:
    asset = filled.asset.pk  # type: ignore[attr-defined]
    for subject, value in (
        ("lab", 24 * KG),
        ("project:vision", 18 * KG),
        (f"asset:{asset}", 24 * KG),
    ):
        told = filled.viewer("GET", _path(subject=subject)).json()
        assert (told["value"], told["unit"]) == (value, "ug CO2e"), subject
        explained = filled.viewer("GET", _path("explain", subject=subject)).json()
        assert explained["value"] == value == sum(row["part_ug"] for row in explained["charges"])
        assert "ledger" not in explained
    told = filled.viewer("GET", _path(group_by="charge")).json()
    assert {part["group"]: part["value"] for part in told["groups"]} == {
        "vision": 18 * KG,
        "~unattributed": 6 * KG,
    }


def test_what_nobody_knows_is_counted_and_not_zero(filled: Labs) -> None:
    told = filled.viewer("GET", _path()).json()
    assert (told["assets_known"], told["assets"]) == (1, 2)
    assert "assets" not in filled.viewer("GET", _path(metric="energy_mj")).json()


def test_the_inventory_books_all_in_the_hour_of_the_entry(filled: Labs) -> None:
    assert (
        filled.viewer("GET", _path(metric="embodied_inventory_ug")).json()["value"] == 4 * YEAR * KG
    )
    later = {"from": "2026-11-02T09:00Z", "metric": "embodied_inventory_ug"}
    assert filled.viewer("GET", _path(**later)).json()["value"] == 0
    told = filled.viewer("GET", _path("explain", metric="embodied_inventory_ug")).json()
    assert [(row["kind"], row["from"], row["part_ug"]) for row in told["charges"]] == [
        ("purchase", "2026-11-02T08:00Z", 4 * YEAR * KG)
    ]


def test_use_and_hardware_together(filled: Labs) -> None:
    push(filled.ours.node, [W(GPU, 10_000_000)])
    use = filled.viewer("GET", _path(metric="emission_ug")).json()["value"]
    assert use > 0
    told = filled.viewer("GET", _path(metric="carbon_ug")).json()
    assert told["value"] == use + 24 * KG
    explained = filled.viewer("GET", _path("explain", metric="carbon_ug")).json()
    assert sum(row["emission_ug"] for row in explained["ledger"]) == use
    assert sum(row["part_ug"] for row in explained["charges"]) == 24 * KG
    parts = filled.viewer("GET", _path(metric="carbon_ug", group_by="charge")).json()["groups"]
    assert {part["group"]: part["value"] for part in parts} == {
        "~idle": use,
        "vision": 18 * KG,
        "~unattributed": 6 * KG,
    }
    assert filled.viewer("GET", _path(metric="carbon_ug", consumer="idle")).json()["value"] == use
    assert (
        filled.viewer("GET", _path(metric="carbon_ug", project="-")).json()["value"] == use + 6 * KG
    )


def test_of_a_node_and_a_device_with_parts(filled: Labs) -> None:
    """A machine metered by its node holds a card; when the card moves to a node of its own, it
    goes with it.
    """
    push(filled.ours.node, [W(GPU, 1)])
    lab = filled.ours
    machine = bought(lab, kg=2 * 4 * YEAR, name="Server", kind="server", now=NOW)
    card = bought(lab, kg=4 * YEAR, name="Card", now=NOW, opening={"parent": machine})
    set_meter(asset=machine, node=lab.node, from_us=T0, by=lab.owner, now=NOW)

    def value(subject: str, **changes: str) -> int:
        return int(filled.viewer("GET", _path(subject=subject, **changes)).json()["value"])

    node = f"node:{lab.node.uuid}"
    assert value(node) == 24 * 3 * KG
    device = lab.node.devices.get(key=GPU)
    assert value(f"device:{GPU}") == 0
    set_meter(asset=card, device=device, from_us=T0 + 12 * US_PER_HOUR, by=lab.owner, now=NOW)
    assert value(f"device:{GPU}") == 12 * KG  # a first meter counts from its date
    assert value(node) == 24 * 3 * KG, "its device is in the node"
    record(asset=card, entry=Entry("move", T0 + 6 * US_PER_HOUR), by=lab.owner, now=NOW)
    set_meter(asset=card, from_us=T0 + 12 * US_PER_HOUR, by=lab.owner, now=NOW)
    assert value(node) == 24 * 2 * KG + 6 * KG, "a part until it was taken out"
    assert value(node, metric="embodied_inventory_ug") == 12 * YEAR * KG
    told = filled.viewer("GET", _path(subject=node)).json()
    assert (told["assets_known"], told["assets"]) == (2, 2)
    assert H0 == T0 // US_PER_HOUR


def test_nothing_of_another_lab(filled: Labs, refused: Refused) -> None:
    asset = filled.asset.pk  # type: ignore[attr-defined]
    assert filled.outsider("GET", _path()).json()["assets"] == 1
    for endpoint in ("figures", "explain"):
        refused(filled.outsider("GET", _path(endpoint, subject=f"asset:{asset}")), 404)
        refused(filled.viewer("GET", _path(endpoint, subject="asset:999999999999999999")), 404)


def test_groups_are_those_of_the_metric(filled: Labs, refused: Refused) -> None:
    assert refused(filled.viewer("GET", _path(group_by="hour")), 400)["field"] == "group_by"
    assert (
        refused(filled.viewer("GET", _path(metric="energy_mj", group_by="asset")), 400)["field"]
        == "group_by"
    )
    assert (
        refused(filled.viewer("GET", _path(metric="carbon_ug", group_by="asset")), 400)["field"]
        == "group_by"
    )


def test_it_costs_the_same_whatever_the_rows(filled: Labs) -> None:
    def queries() -> int:
        with CaptureQueriesContext(connection) as counted:
            for subject in ("lab", f"node:{filled.ours.node.uuid}"):
                assert (
                    filled.viewer(
                        "GET", _path("explain", subject=subject, metric="carbon_ug")
                    ).status_code
                    == 200
                )
        return len(counted)

    def more(number: int) -> None:
        for i in range(number):
            asset = bought(filled.ours, name=f"Card {i}", now=NOW)
            set_meter(asset=asset, node=filled.ours.node, from_us=T0, by=None, now=NOW)

    push(filled.ours.node, [W(GPU, 1)])
    more(1)
    queries()
    few = queries()
    more(4)
    assert queries() == few
