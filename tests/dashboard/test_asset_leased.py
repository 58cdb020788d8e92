"""Leased assets and ends of life on the pages of assets."""

import pytest
from django.test import Client

from apps.assets.models import Asset, LifecycleEvent
from tests.builders import SmallLab
from tests.dashboard.support import text_of
from tests.dashboard.test_asset_new import _then, registered  # noqa: F401  # the page's clock

DISPOSAL = {
    "action": "dispose", "from_day": "2026-12-02", "from_time": "09:00",
    "end_of_life": "recycled", "mass_kg": "25",
}  # fmt: skip


def leased(owner: Client) -> Asset:
    return registered(owner, condition="leased", holds_end_of_life="no")


def test_a_lease_is_registered_and_stays_one_when_it_is_corrected(
    lab: SmallLab, owner: Client
) -> None:
    asset = leased(owner)
    page = text_of(owner.get(f"/assets/{asset.pk}/"))
    assert "leased by the lab" in page
    chosen = [
        part for part in page.split("<input") if 'name="condition"' in part and "checked" in part
    ]
    assert len(chosen) == 1
    assert 'value="leased"' in chosen[0]
    form = {
        "action": "opening", "from_day": "2026-11-02", "from_time": "09:00", "figure": "own",
        "kg": "90", "source": "letter", "condition": "leased",
    }  # fmt: skip
    assert owner.post(f"/assets/{asset.pk}/", form).status_code == 302
    standing = LifecycleEvent.objects.filter(asset=asset, kind="lease", reversed_by=None)
    assert [row.source for row in standing] == ["letter"]


def test_recycling_is_recorded_with_its_default_factor(lab: SmallLab, owner: Client) -> None:
    asset = leased(owner)
    preview = text_of(owner.get(f"/assets/{asset.pk}/", DISPOSAL))
    assert "data-changes" in preview
    assert not LifecycleEvent.objects.filter(kind="dispose").exists()
    assert owner.post(f"/assets/{asset.pk}/", DISPOSAL).status_code == 302
    row = LifecycleEvent.objects.get(kind="dispose")
    assert (row.end_of_life, row.mass_g, row.total_ug) == ("recycled", 25_000, 117_142_000)
    page = text_of(owner.get(f"/assets/{asset.pk}/"))
    assert 'data-ug="117142000"' in page


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"end_of_life": "burnt"}, "end_of_life"),
        ({"mass_kg": "0"}, "mass_kg"),
        ({"mass_kg": "x"}, "mass_kg"),
    ],
)
def test_invalid_ends_of_life_name_their_field(
    lab: SmallLab, owner: Client, change: dict[str, str], field: str
) -> None:
    asset = leased(owner)
    response = owner.post(f"/assets/{asset.pk}/", DISPOSAL | change)
    assert response.status_code == 400
    assert f'data-field-error="{field}"' in text_of(response)
    assert not LifecycleEvent.objects.filter(kind="dispose").exists()
