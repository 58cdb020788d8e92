"""/assets/imports/, the undo of an import and its reversal, and the removal of one asset."""

import re

import pytest
from django.test import Client

from apps.assets.models import Asset, RegisterImport
from apps.assets.services import Entry, record
from apps.core.clock import now_us
from tests.assets.gpus import own_csv
from tests.builders import SmallLab
from tests.dashboard.support import assert_needs_sign_in, text_of


def imported(client: Client, lines: str) -> str:
    """Import lines; return the address of the import."""
    address = str(client.post("/assets/import/", {"lines": lines})["Location"])
    assert client.post(address, {"action": "register"}).status_code == 302
    return address


def left_out(page: str) -> list[str]:
    return re.findall(r'name="leave_out" value="([\d,]+)"', page)


def test_undo_asks_first_and_can_be_reversed(lab: SmallLab, owner: Client) -> None:
    address = imported(owner, own_csv())
    history = text_of(owner.get("/assets/imports/"))
    assert f'href="{address}undo/"' in history
    assert f'href="{address}redo/"' not in history
    page = text_of(owner.get(f"{address}undo/"))
    assert 'data-possible="41" data-refused="0"' in page
    assert Asset.objects.count() == 41
    assert owner.post(f"{address}undo/", {"action": "undo"})["Location"] == "/assets/imports/"
    assert not Asset.objects.exists()
    history = text_of(owner.get("/assets/imports/"))
    assert "Import undone: 41 assets." in history
    assert history.count("data-removed=") == 41
    assert f'href="{address}undo/"' not in history
    assert 'data-possible="0"' in text_of(owner.get(f"{address}undo/"))
    assert 'data-possible="41"' in text_of(owner.get(f"{address}redo/"))
    assert owner.post(f"{address}redo/", {"action": "redo"}).status_code == 302
    assert Asset.objects.count() == 41


def test_refused_assets_are_listed_and_left_out_on_request(lab: SmallLab, owner: Client) -> None:
    address = imported(owner, own_csv())
    card = Asset.objects.exclude(parent=None).order_by("pk")[0]
    record(asset=card, entry=Entry("retire", now_us()), by=lab.owner, now=now_us())
    page = text_of(owner.get(f"{address}undo/"))
    assert 'data-possible="39" data-refused="2"' in page
    assert "It has later events: taken out of use on" in page
    refused = owner.post(f"{address}undo/", {"action": "undo"})
    assert refused.status_code == 409
    assert "Nothing was changed" in text_of(refused)
    assert Asset.objects.count() == 41
    done = owner.post(f"{address}undo/", {"action": "undo", "leave_out": left_out(page)})
    assert done.status_code == 302
    assert set(Asset.objects.values_list("pk", flat=True)) == {card.pk, card.parent_id}


def test_differences_of_a_changed_file_are_shown_before_they_are_applied(
    lab: SmallLab, owner: Client
) -> None:
    head = "name,kind,tag,bought_on,embodied_kg\n"
    imported(owner, f"{head}a,gpu,INV-1,2024-03-01,100\n")
    changed = f"{head}b,gpu,INV-1,2024-03-01,120.5\n"
    address = str(owner.post("/assets/import/", {"lines": changed})["Location"])
    page = text_of(owner.get(address))
    assert 'data-state="read" data-new="0" data-known="0" data-wrong="0" data-changed="1"' in page
    assert 'data-changes="2"' in page
    assert "<del>a</del>" in page
    assert "120.5 kg CO2e" in page
    assert "Change 1 asset" in page
    assert Asset.objects.get().name == "a"
    assert owner.post(address, {"action": "register"}).status_code == 302
    assert (Asset.objects.get().name, Asset.objects.get().embodied_total_ug) == (
        "b",
        120_500_000_000,
    )
    assert "<del>b</del>" in text_of(owner.get(f"{address}undo/")), "from the present value"
    owner.post(f"{address}undo/", {"action": "undo"})
    assert (Asset.objects.get().name, Asset.objects.get().embodied_total_ug) == ("a", 10**11)


def test_one_asset_is_removed_and_restored(lab: SmallLab, owner: Client) -> None:
    imported(owner, own_csv())
    card = Asset.objects.exclude(parent=None).order_by("pk")[0]
    page = text_of(owner.get(f"/assets/{card.parent_id}/remove/"))
    assert "cannot be removed: it contains" in page
    assert owner.post(f"/assets/{card.parent_id}/remove/", {"action": "remove"}).status_code == 409
    assert f'href="/assets/{card.pk}/remove/"' in text_of(owner.get(f"/assets/{card.pk}/"))
    assert owner.post(f"/assets/{card.pk}/remove/", {"action": "remove"}).status_code == 302
    assert owner.get(f"/assets/{card.pk}/").status_code == 404
    assert f'data-removed="{card.pk}"' in text_of(owner.get("/assets/imports/"))
    restored = owner.post("/assets/imports/", {"action": "restore", "asset": card.pk})
    assert restored.status_code == 302
    assert owner.get(f"/assets/{card.pk}/").status_code == 200


@pytest.mark.parametrize("value", ["x", "-1", "99999999999999999999", "\x00"])
def test_bad_numbers(lab: SmallLab, owner: Client, value: str) -> None:
    address = imported(owner, own_csv())
    bad = owner.post(f"{address}undo/", {"action": "undo", "leave_out": value})
    assert bad.status_code == 400
    asset = owner.post("/assets/imports/", {"action": "restore", "asset": value})
    assert asset.status_code in {400, 404}
    assert Asset.objects.count() == 41


def test_an_import_of_an_earlier_version_has_no_undo(lab: SmallLab, owner: Client) -> None:
    imported(owner, own_csv())
    RegisterImport.objects.get().changes.all().delete()
    page = text_of(owner.get("/assets/imports/"))
    assert "by an earlier version" in page
    assert "/undo/" not in page


def test_sign_in(lab: SmallLab) -> None:
    assert_needs_sign_in("/assets/imports/")


def test_unknown_is_neither_zero_nor_a_unit(lab: SmallLab, owner: Client) -> None:
    head = "name,kind,tag,bought_on,embodied_kg\n"
    rows = f"{head}a,other,I-1,2024-03-01,\nb,other,I-2,2024-03-01,unknown\n"
    address = str(owner.post("/assets/import/", {"lines": rows})["Location"])
    assert "data-unit" not in text_of(owner.get(address))
    owner.post(address, {"action": "register"})
    undo = text_of(owner.get(f"{address}undo/"))
    assert "data-unit" not in undo
    assert "\u2265" not in undo
    zero = str(
        owner.post("/assets/import/", {"lines": f"{head}c,other,I-3,2024-03-01,0\n"})["Location"]
    )
    assert "data-unit" in text_of(owner.get(zero)), "zero is known"
    owner.post(zero, {"action": "register"})
    assert "data-unit" in text_of(owner.get(f"{zero}undo/"))


def test_a_restored_purchase_fills_the_form_that_corrects_it(lab: SmallLab, owner: Client) -> None:
    head = "name,kind,tag,bought_on,embodied_kg,second_hand\n"
    imported(owner, f"{head}used card,gpu,INV-1,2024-03-01,100,yes\n")
    address = imported(owner, f"{head}used card,gpu,INV-1,2024-04-01,100,yes\n")
    owner.post(f"{address}undo/", {"action": "undo"})
    page = text_of(owner.get(f"/assets/{Asset.objects.get().pk}/"))
    (chosen,) = re.findall(r'name="condition" value="(\w+)"[^>]*checked', page)
    assert chosen == "used"
