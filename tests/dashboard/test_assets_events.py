"""/assets/events/: one event for the assets that were selected in the list."""

import re

from django.test import Client

from apps.assets.models import Asset, LifecycleEvent
from tests.assets.support import KG, bought
from tests.builders import SmallLab, small_lab
from tests.dashboard.support import text_of

ADDRESS = "/assets/events/"
DAY = {"from_day": "2026-11-03", "from_time": "00:00"}


def sixty(lab: SmallLab) -> list[Asset]:
    return [bought(lab, kind="storage", name=f"Disk {i}", kg=10) for i in range(60)]


def test_sixty_disks_are_selected_previewed_disposed_of_and_restored(
    lab: SmallLab, owner: Client
) -> None:
    disks, other = sixty(lab), bought(lab)
    listed = text_of(owner.get("/assets/?kind=storage"))
    assert 'name="every" value="60"' in listed
    selected = {"action": "select", "every": "60", "filters": "kind=storage"}
    page = text_of(owner.post(ADDRESS, selected))
    assert 'data-selected="60"' in page
    numbers = ".".join(str(disk.pk) for disk in disks)
    assert f'name="items" value="{numbers}"' in page
    form = {"action": "dispose", "items": numbers, "counterpart": "Recycler", **DAY}
    seen = text_of(owner.post(ADDRESS, form))
    assert "data-written-off" in seen
    assert not LifecycleEvent.objects.filter(kind="dispose").exists()
    hidden = dict(
        re.findall(
            r'<input type="hidden" name="(\w+)" value="([^"]*)">', seen[seen.index("data-effect") :]
        )
    )
    done = owner.post(ADDRESS, {**form, **{k: hidden[k] for k in ("record", "items")}})
    assert done.status_code == 302
    assert LifecycleEvent.objects.filter(kind="dispose", counterpart="Recycler").count() == 60
    other.refresh_from_db()
    assert other.state == "use"
    entries = done["Location"].split("done=")[1]
    assert f'name="entries" value="{entries}"' in text_of(owner.get(done["Location"]))
    owner.post("/assets/", {"action": "undo", "entries": entries})
    assert set(Asset.objects.values_list("state", flat=True)) == {"use"}


def test_a_machine_asks_for_its_parts(lab: SmallLab, owner: Client) -> None:
    server = bought(lab, kind="server", name="gpu-01")
    card = bought(lab, opening={"parent": server})
    for address in (ADDRESS, f"/assets/{server.pk}/"):
        page = owner.post(ADDRESS, {"action": "select", "item": [server.pk]})
        assert 'name="parts"' in text_of(page)
        refused = owner.post(
            address, {"action": "dispose", "items": str(server.pk), "record": "1", **DAY}
        )
        assert refused.status_code == 400
        assert 'data-field-error="parts"' in text_of(refused)
    both = text_of(owner.post(ADDRESS, {"action": "select", "item": [server.pk, card.pk]}))
    assert 'name="parts"' not in both
    assert 'name="parts"' not in text_of(owner.get(f"/assets/{card.pk}/"))
    form = {"action": "dispose", "parts": "dispose", **DAY}
    assert owner.post(f"/assets/{server.pk}/", form).status_code == 302
    card.refresh_from_db()
    assert card.state == "disposed"


def test_one_that_is_impossible_stops_all_and_is_named(lab: SmallLab, owner: Client) -> None:
    disks = [bought(lab, kind="storage", name=f"Disk {i}", kg=10) for i in range(3)]
    form = {"action": "return", "items": ".".join(str(disk.pk) for disk in disks), **DAY}
    for more in ({}, {"record": "1"}):
        refused = owner.post(ADDRESS, {**form, **more})
        assert refused.status_code == 409
        assert "Disk 0: " in text_of(refused)
    assert not LifecycleEvent.objects.filter(kind="return").exists()


def test_the_list_changed_since(lab: SmallLab, owner: Client) -> None:
    bought(lab)
    stale = {"action": "select", "every": "2", "filters": ""}
    assert owner.post(ADDRESS, stale).status_code == 409


def test_who_may(lab: SmallLab, viewer: Client, outsider: Client, owner: Client) -> None:
    asset, theirs = bought(lab), bought(small_lab(name="Other"))
    form = {"action": "retire", "items": str(asset.pk), "record": "1", **DAY}
    assert viewer.post(ADDRESS, form).status_code == 403
    assert outsider.post(ADDRESS, form).status_code == 409
    assert owner.post(ADDRESS, {**form, "items": str(theirs.pk)}).status_code == 409
    assert owner.post(ADDRESS, {**form, "items": ""}).status_code == 400
    assert owner.get(ADDRESS).status_code == 405
    assert not LifecycleEvent.objects.filter(kind="retire").exists()
    assert sum(row.total_ug or 0 for row in LifecycleEvent.objects.all()) == 240 * KG
