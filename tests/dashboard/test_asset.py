"""/assets/<id>/ : where a thing is in its life and who bore what; every entry is tried before it
is kept, and reversed.
"""

import csv
import io
import json
import re
from typing import Any

import pytest
from django.test import Client

from apps.accounts.services.labs import create_project
from apps.assets.models import Asset, AssetMeter, EmbodiedCharge, LifecycleEvent, StoredVolume
from apps.assets.services import Embodied, Entry, record, reverse
from apps.assets.services.charges import events_of
from apps.core.units import US_PER_HOUR
from apps.fleet.models import Device
from tests.assets.support import KG, YEAR, bought
from tests.builders import T0, SmallLab, W, push
from tests.dashboard.support import (
    assert_each_figure_explains_itself,
    fields_with_errors,
    queries,
    text_of,
)
from tests.dashboard.test_assets import amounts

NOW = T0 + 2 * YEAR * US_PER_HOUR  # 2028-11-01
DAY = {"from_day": "2027-11-02", "from_time": "09:00"}  # in Berlin 08:00 UTC: T0 + a year
KINDS: list[tuple[str, dict[str, Any]]] = [
    ("move", {"site": "+site"}),
    ("transfer", {"owner": "vision"}),
    ("repurpose", {"end_day": "2031-01-01"}),
    ("repair", {"kg": "10", "source": "invoice"}),
    ("life_change", {"end_day": "2029-06-01"}),
    ("lend", {"borrower": "vision"}),
    ("retire", {}),
    ("dispose", {"kg": "3", "counterpart": "Recycler"}),
    (
        "upgrade",
        {"part_name": "Disk", "part_kind": "storage", "part_kg": "20", "part_source": "data sheet"},
    ),
    ("store", {"owner": "vision", "terabytes": "1.5"}),
    ("meter", {"meter": ""}),
    ("opening", {"figure": "own", "kg": "200", "source": "PCF", "life_years": "4"}),
]


@pytest.fixture(autouse=True)
def _then(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apps.dashboard.decorators.now_us", lambda: NOW)


def at(hours: int) -> int:
    return T0 + hours * US_PER_HOUR


def page_of(client: Client, asset: Asset, question: str = "") -> str:
    return text_of(client.get(f"/assets/{asset.pk}/{question}"))


def state() -> dict[str, Any]:
    """Return all that an entry may change."""
    return {
        "events": list(LifecycleEvent.objects.order_by("pk").values_list("pk", "kind", "hour")),
        "charges": sorted(
            EmbodiedCharge.objects.values_list("asset", "from_hour", "to_hour", "kind", "amount_ug")
        ),
        "assets": list(
            Asset.objects.order_by("pk").values_list(
                "name", "state", "owner", "parent", "site", "borrower"
            )
        ),
        "meters": AssetMeter.objects.count(),
        "volumes": StoredVolume.objects.count(),
    }


def test_it_tells_the_whole_and_its_parts_exactly(lab: SmallLab, viewer: Client) -> None:
    asset = bought(lab)
    page = page_of(viewer, asset)
    group = page[page.index('aria-label="Book value"') :].split('<section class="card"')[0]
    charged, balance, off, whole = amounts(group)
    assert charged + balance + off == whole == 120 * KG
    assert balance == 120 * KG - 120 * KG * (2 * YEAR + 1) // (4 * YEAR), (
        "the hour at hand is charged"
    )
    assert f"{'120 000 000 000'.replace(' ', chr(0x202F))} µg CO₂e exactly" in group
    assert "planned end" in page
    assert "data-record" not in page


def test_its_chart_its_table_and_its_csv_hold_the_same_integers(
    lab: SmallLab, owner: Client
) -> None:
    vision = create_project(lab=lab.lab, slug="vision", name="Vision <b>", now=T0)
    asset = bought(lab)
    record(asset=asset, entry=Entry("transfer", at(YEAR), project=vision), by=lab.owner, now=NOW)
    record(asset=asset, entry=Entry("dispose", at(YEAR + 2000)), by=lab.owner, now=NOW)
    page = page_of(owner, asset)
    data_table = page[page.index('aria-label="Table of the chart"') :].split("</table>")[0]
    sums = amounts(data_table, "tfoot")
    assert sum(sums) == 120 * KG, "borne by two, and written off"
    rows = [amounts(row) for row in data_table[: data_table.index("<tfoot")].split("<tr>")[2:]]
    assert rows[0][-1] == 0, "the newest month: nothing is left"
    lines = list(csv.DictReader(io.StringIO(text_of(owner.get(f"/assets/{asset.pk}/life.csv")))))
    told = [int(line["charged_ug_co2e"]) for line in lines if line["charged_ug_co2e"]]
    assert sum(told) == 120 * KG
    assert {line["why"] for line in lines} == {"held", "written_off", "book_value_at_end"}
    assert {line["borne_by"] for line in lines} == {"~lab", "vision", ""}
    figure = json.loads(
        re.search(r'<script id="asset-life" type="application/json">(.*?)</script>', page)[1]
    )  # type: ignore[index]
    names = [trace["name"] for trace in figure["data"]]
    assert names == ["Book value", "As planned", "Entries", "Vision &lt;b&gt;", "The lab"]
    bars = sum(sum(trace["y"]) for trace in figure["data"] if trace["type"] == "bar")
    assert bars == pytest.approx((sums[0] + sums[1]) / KG)
    assert assert_each_figure_explains_itself(owner, page) > 8
    assert (
        '<p class="small" data-part="embodied">Book value of A100 no. 1 since 2 Nov 2026: 0 kg'
        in page
    )


def test_its_entries_say_what_each_did_and_the_reversed_are_struck_through(
    lab: SmallLab, owner: Client
) -> None:
    asset = bought(lab)
    gone = record(
        asset=asset,
        entry=Entry("dispose", at(YEAR), evidence="WEEE 1", counterpart="Shop"),
        by=lab.owner,
        now=NOW,
    )
    entries = page_of(owner, asset)
    entries = entries[entries.index('id="entries"') :]
    assert "written off" in entries
    assert 90 * KG in amounts(entries)
    assert "Evidence: WEEE 1" in entries
    assert f'href="/assets/{asset.pk}/?action=reverse&amp;entry={gone.pk}#effect"' in entries
    undone = reverse(event=gone, by=lab.owner, now=NOW)
    entries = page_of(owner, asset)
    assert "<s>Disposed of to Shop</s>" in entries
    assert f"Reversed by {lab.owner.username}" in entries
    assert (
        f'href="/assets/{asset.pk}/?action=reverse&amp;entry={undone.pk}#effect">Restore' in entries
    )


@pytest.mark.parametrize(("action", "more"), KINDS)
def test_every_entry_is_tried_before_it_is_kept(
    lab: SmallLab, owner: Client, action: str, more: dict[str, Any]
) -> None:
    create_project(lab=lab.lab, slug="vision", name="Vision", now=T0)
    asset = bought(lab, kind="server")
    asked = {
        "action": action,
        **({} if action == "opening" else DAY),
        **{k: lab.site.pk if v == "+site" else v for k, v in more.items()},
    }
    asked |= {"from_day": "2026-11-02", "from_time": "09:00"} if action == "opening" else {}
    before = state()
    page = text_of(owner.get(f"/assets/{asset.pk}/", asked))
    assert state() == before, "looking records nothing"
    effect = page[page.index('id="effect"') :].split("</form>")[0]
    hidden = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', effect))
    assert {name: hidden[name] for name in asked} == {
        name: str(value) for name, value in asked.items()
    }
    response = owner.post(f"/assets/{asset.pk}/", asked)
    assert response["Location"] == f"/assets/{asset.pk}/#entries"
    assert state() != before
    told = page_of(owner, asset)
    if "data-changes" in page:  # what was told is what came
        whole = [amounts(row)[-1] for row in effect.split("<tr>") if "<td>Charged</td>" in row]
        parts = Asset.objects.filter(parent=asset)
        group = amounts(told[told.index('aria-label="Book value"') :].split("<section")[0])
        assert parts or not whole or whole == [group[0]]


def test_a_preview_tells_what_is_written_off_and_who_bears_the_next_month(
    lab: SmallLab, owner: Client
) -> None:
    create_project(lab=lab.lab, slug="vision", name="Vision", now=T0)
    asset = bought(lab)
    page = page_of(owner, asset, "?action=dispose&from_day=2027-11-02&from_time=09:00")
    effect = page[page.index('id="effect"') :].split("</section>")[0]
    assert amounts(effect)[0] == 90 * KG
    assert "data-written-off" in effect
    page = page_of(
        owner, asset, "?action=transfer&owner=vision&from_day=2027-11-02&from_time=09:00"
    )
    effect = page[page.index('id="effect"') :].split("</section>")[0]
    assert "<td>Remaining</td>" not in effect, "a new owner changes no sum"
    month = 120 * KG * (2 * YEAR + 731) // (4 * YEAR) - 120 * KG * (2 * YEAR + 1) // (4 * YEAR)
    vision, labs = (amounts(row) for row in effect.split("<tr>")[2:])
    assert vision[2:] == [0, pytest.approx(month, abs=1)]
    assert labs[2:] == [pytest.approx(month, abs=1), 0]
    assert sum(vision[1::2]) + sum(labs[1::2]) == pytest.approx(
        sum(vision[::2]) + sum(labs[::2]), abs=1
    )


def test_reversal_and_its_undoing_are_tried_and_kept(lab: SmallLab, owner: Client) -> None:
    asset = bought(lab)
    gone = record(asset=asset, entry=Entry("dispose", at(YEAR)), by=lab.owner, now=NOW)
    charges = state()["charges"]
    page = page_of(owner, asset, f"?action=reverse&entry={gone.pk}")
    assert "Written off" in page[page.index('id="effect"') :].split("</section>")[0]
    owner.post(f"/assets/{asset.pk}/", {"action": "reverse", "entry": gone.pk})
    assert state()["charges"] != charges
    undone = LifecycleEvent.objects.get(reverses=gone)
    owner.post(f"/assets/{asset.pk}/", {"action": "reverse", "entry": undone.pk})
    assert state()["charges"] == charges
    response = owner.post(f"/assets/{asset.pk}/", {"action": "reverse", "entry": gone.pk})
    assert response.status_code == 409
    assert "already reversed" in text_of(response)


def test_an_upgrade_takes_one_part_out_and_puts_one_in(lab: SmallLab, owner: Client) -> None:
    server = bought(lab, kind="server", name="gpu-01")
    old = bought(lab, name="Old card")
    record(asset=old, entry=Entry("move", at(1), parent=server), by=lab.owner, now=NOW)
    asked: dict[str, Any] = {
        "action": "upgrade",
        "out": old.pk,
        "part_name": "NVIDIA H100 SXM5 80GB",
        "part_kind": "gpu",
        "part_kg": "150",
        "part_source": "NVIDIA PCF",
        **DAY,
    }
    page = text_of(owner.get(f"/assets/{server.pk}/", asked))
    effect = page[page.index('id="effect"') :].split("</section>")[0]
    assert amounts(effect)[0] == pytest.approx(90 * KG, abs=2), "the balance of the part that goes"
    owner.post(f"/assets/{server.pk}/", asked)
    old.refresh_from_db()
    new = Asset.objects.get(name="NVIDIA H100 SXM5 80GB")
    assert (old.state, old.parent, new.parent, new.state) == ("disposed", None, server, "use")
    assert sum(event.total_ug or 0 for event in events_of([new.pk])[new.pk]) == 150 * KG
    page = page_of(owner, server)
    assert f'<a href="/assets/{new.pk}/">NVIDIA H100' in page
    assert "Old card out, NVIDIA H100 SXM5 80GB in" in page


def test_an_upgrade_is_written_whole_or_not_at_all(lab: SmallLab, owner: Client) -> None:
    server, loose = bought(lab, kind="server", name="gpu-01"), bought(lab)
    before = state()
    for asked, field in (
        ({"out": loose.pk}, "out"),
        ({}, "out"),
        ({"part_name": "x"}, "part_kind"),
    ):
        response = owner.post(f"/assets/{server.pk}/", {"action": "upgrade", **asked, **DAY})
        assert response.status_code == 400
        assert fields_with_errors(text_of(response)) == [field]
    assert state() == before


def test_a_meter_tells_of_one_asset(lab: SmallLab, owner: Client) -> None:
    push(lab.node, [W("gpu:GPU-1", 1000)])
    device = Device.objects.get(key="gpu:GPU-1")
    mine, other = bought(lab), bought(lab, name="Other")
    asked = {"action": "meter", "meter": f"device:{device.pk}", **DAY}
    assert owner.post(f"/assets/{mine.pk}/", asked).status_code == 302
    assert f'data-meter>Use measured by <a href="/devices/{device.key}/">' in page_of(owner, mine)
    response = owner.post(f"/assets/{other.pk}/", asked)
    assert response.status_code == 400
    assert fields_with_errors(text_of(response)) == ["meter"]
    assert owner.post(f"/assets/{mine.pk}/", asked).status_code == 302, "its own is free to it"


def test_its_states_are_told(lab: SmallLab, owner: Client) -> None:
    assert 'data-notice="stock"' in page_of(owner, bought(lab, deployed=False))
    unknown = page_of(owner, bought(lab, kg=None, name="Switch"))
    assert "data-embodied-unknown" in unknown
    assert 'data-notice="unknown"' in unknown
    assert 'aria-label="Book value"' not in unknown
    assert 'data-notice="past-end"' in page_of(owner, bought(lab, years=1))


def test_what_is_described_anew_changes_no_figure(lab: SmallLab, owner: Client) -> None:
    asset = bought(lab, serial="A", price_ucurrency=5_000_000, currency="EUR")
    charges = state()["charges"]
    told = {
        "action": "describe",
        "name": "Renamed",
        "kind": "gpu",
        "serial": "B",
        "warranty": "2027-01-31",
        "price": "7.50",
    }
    assert owner.post(f"/assets/{asset.pk}/", {**told, "currency": "eur"}).status_code == 302
    asset.refresh_from_db()
    assert (asset.name, asset.serial, asset.price_ucurrency, asset.currency) == (
        "Renamed",
        "B",
        7_500_000,
        "EUR",
    )
    assert state()["charges"] == charges
    response = owner.post(
        f"/assets/{asset.pk}/", {**told, "currency": "EUR", "model_name": "No such thing 9000"}
    )
    assert fields_with_errors(text_of(response)) == ["model_name"]
    assert "No such thing 9000" in text_of(response)


def test_queries_do_not_grow_with_its_life(lab: SmallLab, owner: Client) -> None:
    asset = bought(lab, kind="server")
    vision = create_project(lab=lab.lab, slug="vision", name="Vision", now=T0)

    def lived(first: int, number: int) -> None:
        for i in range(first, first + number):
            entry = Entry("transfer", at(100 * i), project=vision if i % 2 else None)
            record(asset=asset, entry=entry, by=lab.owner, now=NOW)
            part = bought(lab, name=f"Part {i}")
            record(asset=part, entry=Entry("move", at(1), parent=asset), by=lab.owner, now=NOW)
            repair = Entry("repair", at(100 * i), embodied=Embodied(KG, source="x"))
            record(asset=asset, entry=repair, by=lab.owner, now=NOW)

    lived(1, 3)
    first = queries(owner, f"/assets/{asset.pk}/?period=year")
    lived(4, 8)
    assert queries(owner, f"/assets/{asset.pk}/?period=year") == first
