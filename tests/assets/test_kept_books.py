"""What is kept of a life with its asset: told where it differs, mended, and right at any hour."""

import pytest
from django.core.management import CommandError, call_command

from apps.assets.lifecycle_summary import SUMMARY_FIELDS
from apps.assets.models import Asset, EmbodiedCharge
from apps.assets.selectors import Books, assets_of, books_of
from apps.assets.services import Draft, Embodied, Entry, Facts, record, register_many
from apps.assets.services.charges import recharge_lab
from apps.assets.services.recompute import differing
from apps.core.units import US_PER_HOUR
from tests.assets.histories import Clock
from tests.assets.support import H0, KG, YEAR, bought
from tests.builders import T0, SmallLab

pytestmark = pytest.mark.django_db
NOW = T0 + 5 * YEAR * US_PER_HOUR
END = H0 + 5 * YEAR


def test_what_differs_is_told_and_mended(
    lab: SmallLab, clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    asset, fine = bought(lab, years=1), bought(lab, name="fine")
    clock.hour = H0 + 2 * YEAR
    recharge_lab(lab=lab.lab)
    asset.refresh_from_db()
    right = {
        name: getattr(asset, name)
        for name in (*SUMMARY_FIELDS, "settled_ug", "written_off_to_date_ug")
    }
    assert right["settled_ug"] == right["embodied_total_ug"] == 120 * KG
    call_command("recompute_balances", "--check")
    assert "All balances match" in capsys.readouterr().out
    for name, value in (("embodied_total_ug", 1), ("life_end_hour", None), ("settled_ug", 5)):
        Asset.objects.filter(pk=asset.pk).update(**{name: value})
        with pytest.raises(CommandError, match="The books of 1 assets"):
            call_command("recompute_balances", "--check")
        assert f"assets {asset.pk}\n" in capsys.readouterr().out
        call_command("recompute_balances")
        assert "1 are corrected" in capsys.readouterr().out
        asset.refresh_from_db()
        assert {name: getattr(asset, name) for name in right} == right
    fine.refresh_from_db()
    assert fine.embodied_total_ug == 120 * KG


def test_an_entry_of_the_coming_hour_is_in_no_book_yet(lab: SmallLab) -> None:
    asset = bought(lab, now=NOW)
    record(
        asset=asset,
        entry=Entry("repair", NOW + US_PER_HOUR, embodied=Embodied(KG)),
        by=None,
        now=NOW,
    )
    hour = NOW // US_PER_HOUR + 1
    assert books_of(assets_of(lab.lab), hour)[asset.pk].total_ug == 120 * KG
    assert Books(lab.lab, assets_of(lab.lab), hour).whole().total_ug == 120 * KG
    assert Books(lab.lab, assets_of(lab.lab), hour + 1).whole().total_ug == 121 * KG


def test_what_is_over_is_added_once_and_not_read_again(lab: SmallLab, clock: Clock) -> None:
    asset = bought(lab, years=1)
    clock.hour = H0 + 2 * YEAR
    recharge_lab(lab=lab.lab)
    EmbodiedCharge.objects.filter(asset=asset).update(amount_ug=1)  # by hand: nobody said so
    assert books_of(assets_of(lab.lab), clock.hour)[asset.pk].charged_ug == 120 * KG
    assert books_of(assets_of(lab.lab), clock.hour - 1)[asset.pk].charged_ug == 1, (
        "of an earlier hour all is read"
    )


def test_assets_that_are_registered_together_have_books_before_they_are_charged(
    lab: SmallLab,
) -> None:
    entry = Entry("purchase", T0, embodied=Embodied(10 * KG), life_hours=YEAR)
    register_many(
        lab=lab.lab,
        drafts=[Draft(Facts("GPU", "gpu"), entry, deployed_us=T0)] * 3,
        by=None,
        now=NOW,
    )
    assert differing(lab=lab.lab, repair=False) == []
    found = Books(lab.lab, assets_of(lab.lab), END).whole()
    assert (found.assets, found.total_ug, found.balance_ug) == (3, 30 * KG, 30 * KG)
