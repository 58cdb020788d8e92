"""/assets/discovered/: what collectors saw, confirmed in bulk, dismissed, brought back."""

from typing import Any

import pytest
from django.test import Client

from apps.assets.discovery import proposals
from apps.assets.models import Asset, LifecycleEvent
from apps.core.clock import now_us
from apps.core.units import US_PER_HOUR, hour_of
from tests.assets.support import bought
from tests.builders import T0, SmallLab, W, push
from tests.dashboard.support import (
    HOSTILE,
    assert_needs_sign_in,
    assert_only,
    fields_with_errors,
    queries,
    text_of,
)


@pytest.fixture
def lab(lab: SmallLab) -> SmallLab:
    lab.node.enrolled_us = T0 - 24 * US_PER_HOUR
    lab.node.save()
    seen(lab, 0)
    return lab


def seen(lab: SmallLab, number: int) -> None:
    key = f"gpu:GPU-0000-{number:04d}"
    push(lab.node, [W(key, 1000)], device_facts={key: {"name": "NVIDIA A100-SXM4-80GB"}})


def form(lab: SmallLab, **more: Any) -> dict[str, Any]:
    keys = [each.key for each in proposals(lab.lab)]
    typed = {f"bought_on:{key}": "2024-03-01" for key in keys} | {
        f"life:{key}": "5" for key in keys
    }
    return {
        "item": keys,
        "action": "confirm",
        "owner": "demo",
        **typed,
        **{f"as:{key}": "new" for key in keys},
        **more,
    }


def test_ticked_lines_become_assets(lab: SmallLab, owner: Client) -> None:
    page = text_of(owner.get("/assets/discovered/"))
    assert 'data-discovered="2"' in page
    assert "NVIDIA A100-SXM4-80GB" in page
    assert "data-would" in page
    assert 'value="2026-11-01"' in page, (
        "bought on the day of enrolment, until somebody says better"
    )
    assert owner.post("/assets/discovered/", form(lab)).status_code == 302
    card = Asset.objects.get(kind="gpu")
    assert card.parent is not None
    assert card.owner is not None
    assert (card.parent.name, card.owner.slug) == ("ws-1", "demo")
    opening = LifecycleEvent.objects.get(asset=card, kind="purchase")
    assert (opening.life_hours, opening.hour) == (5 * 8760, hour_of(1_709_247_600_000_000))
    page = text_of(owner.get("/assets/discovered/"))
    assert 'data-empty="proposals"' in page


def test_board_and_disks_are_matched_to_the_catalogue(lab: SmallLab, owner: Client) -> None:
    facts = "2 × Samsung SSD 990 PRO 2TB (SSD, 2000 GB); 1 × Who Knows (HDD, 16000 GB)"
    lab.node.facts = {"product": "Dell Inc. PowerEdge R740", "serial": "ABC1234", "disks": facts}
    lab.node.save()
    machine = next(each for each in proposals(lab.lab) if each.device is None)
    assert (machine.reported, machine.serial) == ("Dell Inc. PowerEdge R740", "ABC1234")
    assert machine.known.model is not None
    ssd, hdd = machine.disks
    assert (ssd.number, ssd.name, ssd.capacity_gb) == (2, "Samsung SSD 990 PRO 2TB", 2000)
    assert ssd.known.embodied is not None
    per_tb = ssd.known.embodied.figure
    assert per_tb is not None
    assert ssd.known.embodied.total_ug == per_tb.total_ug * 2000 // 1000
    assert hdd.known.embodied is not None
    page = text_of(owner.get("/assets/discovered/"))
    assert "2 × Samsung SSD 990 PRO 2TB" in page
    assert "data-disks" in page


def test_a_collector_cannot_forge_a_page_by_its_disks(lab: SmallLab, owner: Client) -> None:
    lab.node.facts = {
        "disks": (
            f"1 × {HOSTILE[:50]} (SSD, 1 GB); 99999 × x (SSD, 1 GB); 1 × y (SSD, 1{'0' * 30} GB)"
        )
    }
    lab.node.save()
    page = text_of(owner.get("/assets/discovered/"))
    assert HOSTILE[:50] not in page
    assert "99999" not in page


def test_dismissed_and_again(lab: SmallLab, owner: Client) -> None:
    keys = [each.key for each in proposals(lab.lab)]
    owner.post("/assets/discovered/", {"item": keys, "action": "dismiss"})
    page = text_of(owner.get("/assets/discovered/"))
    assert 'data-empty="proposals"' in page
    assert 'value="restore"' in page
    owner.post("/assets/discovered/", {"item": keys, "action": "restore"})
    assert 'data-discovered="2"' in text_of(owner.get("/assets/discovered/"))
    assert not Asset.objects.exists()


def test_what_may_be_in_the_register_already_has_to_be_chosen(lab: SmallLab, owner: Client) -> None:
    card = bought(lab, name="card of the spreadsheet", now=now_us())
    gpu = next(each.key for each in proposals(lab.lab) if each.device)
    assert "card of the spreadsheet" in text_of(owner.get("/assets/discovered/"))
    answer = owner.post("/assets/discovered/", form(lab, item=[gpu], **{f"as:{gpu}": ""}))
    assert answer.status_code == 400
    assert fields_with_errors(text_of(answer)) == [f"as:{gpu}"]
    assert (
        owner.post(
            "/assets/discovered/", form(lab, item=[gpu], **{f"as:{gpu}": str(card.pk)})
        ).status_code
        == 302
    )
    assert Asset.objects.count() == 1
    assert card.meters.get().device is not None


@pytest.mark.parametrize(
    ("change", "words"),
    [
    ({"item": []}, "Select at least one"), ({"item": ["zzz"]}, "not in the list"),
    ({"item": ["device:999999"]}, "not in the list"), ({"action": "jump"}, "Unknown action"),
    ({"owner": "nosuch"}, 'data-field-error="owner"'),
    ({"bought_on": "soon"}, 'data-field-error="bought_on:'),
    ({"life": "0"}, 'data-field-error="life:'), ({"bought_on": "2999-01-01"}, "future"),
    ({"as": "999999"}, 'data-field-error="as:'), ({"kind": "cpu"}, 'data-field-error="kind:'),
],
)  # fmt: skip
def test_bad_input_is_told_and_writes_nothing(
    lab: SmallLab, owner: Client, change: dict[str, Any], words: str
) -> None:
    sent = form(lab)
    for name, value in change.items():
        if name in sent:
            sent[name] = value
        else:
            sent |= {f"{name}:{key}": value for key in sent["item"]}
    answer = owner.post("/assets/discovered/", sent)
    assert answer.status_code == 400
    assert words in text_of(answer)
    assert not Asset.objects.exists()


def test_roles_methods_queries_other_labs(
    lab: SmallLab, owner: Client, viewer: Client, outsider: Client
) -> None:
    page = text_of(viewer.get("/assets/discovered/"))
    assert 'value="confirm"' not in page
    assert viewer.post("/assets/discovered/", form(lab)).status_code == 403
    assert 'data-empty="nodes"' in text_of(outsider.get("/assets/discovered/"))
    before = queries(owner, "/assets/discovered/")
    for i in range(1, 6):
        seen(lab, i)
    assert queries(owner, "/assets/discovered/") == before
    assert_needs_sign_in("/assets/discovered/")
    assert_only(owner, "/assets/discovered/", "GET", "POST")
    assert not Asset.objects.exists()
