"""The register and entries of lives: what follows, what is refused, and that reversing gives
identical integers.
"""

from dataclasses import replace
from typing import Any

import pytest

from apps.accounts.models import AuditEntry, Project
from apps.accounts.services.labs import create_project
from apps.assets.models import Asset, EmbodiedCharge, LifecycleEvent
from apps.assets.services import (
    Draft,
    Embodied,
    Entry,
    Facts,
    correct_opening,
    record,
    register,
    register_many,
    reverse,
    store,
)
from apps.core.errors import Conflict, InvalidInput
from apps.core.jobs import run_until_idle
from apps.core.units import US_PER_HOUR
from tests.assets.support import H0, KG, YEAR, borne, bought
from tests.builders import T0, SmallLab, small_lab

pytestmark = pytest.mark.django_db
NOW = T0 + 5 * YEAR * US_PER_HOUR


def project(lab: SmallLab, slug: str) -> Project:
    return create_project(lab=lab.lab, slug=slug, name=slug.title(), now=T0)


def at(hours: int) -> int:
    return T0 + hours * US_PER_HOUR


def test_what_is_bought_is_charged_over_its_life_to_the_last_microgram(lab: SmallLab) -> None:
    asset = bought(lab)
    assert borne(asset) == {(None, "held"): 120 * KG}
    assert borne(asset, H0, H0 + YEAR) == {(None, "held"): 30 * KG}
    assert borne(asset, 0, H0) == {}
    assert AuditEntry.objects.filter(action="asset.added").count() == 1


def test_in_stock_nothing_is_charged(lab: SmallLab) -> None:
    asset = bought(lab, deployed=False)
    assert (asset.state, borne(asset)) == ("stock", {})
    record(asset=asset, entry=Entry("deploy", at(YEAR)), by=lab.owner, now=NOW)
    asset.refresh_from_db()
    assert asset.state == "use"
    assert borne(asset, 0, H0 + 2 * YEAR) == {(None, "held"): 30 * KG}


def test_a_new_owner_bears_what_comes_and_nothing_restarts(lab: SmallLab) -> None:
    vision = project(lab, "vision")
    asset = bought(lab)
    record(asset=asset, entry=Entry("transfer", at(YEAR), project=vision), by=lab.owner, now=NOW)
    asset.refresh_from_db()
    assert asset.owner == vision
    assert borne(asset) == {(None, "held"): 30 * KG, ("vision", "held"): 90 * KG}


def test_lent_and_back(lab: SmallLab) -> None:
    vision = project(lab, "vision")
    asset = bought(lab)
    record(asset=asset, entry=Entry("lend", at(YEAR), project=vision), by=lab.owner, now=NOW)
    asset.refresh_from_db()
    assert (asset.state, asset.borrower) == ("lent", vision)
    record(asset=asset, entry=Entry("return", at(2 * YEAR)), by=lab.owner, now=NOW)
    asset.refresh_from_db()
    assert (asset.state, asset.borrower) == ("use", None)
    assert borne(asset) == {(None, "held"): 90 * KG, ("vision", "lent"): 30 * KG}


def test_disposed_of_early_the_balance_is_written_off_and_reversing_gives_it_back(
    lab: SmallLab,
) -> None:
    asset = bought(lab)
    before = set(EmbodiedCharge.objects.values_list("from_hour", "to_hour", "amount_ug", "kind"))
    gone = record(
        asset=asset,
        entry=Entry("dispose", at(YEAR), counterpart="Recycler", evidence="WEEE 1"),
        by=None,
        now=NOW,
    )
    assert borne(asset) == {(None, "held"): 30 * KG, (None, "written_off"): 90 * KG}
    asset.refresh_from_db()
    assert asset.state == "disposed"
    undone = reverse(event=gone, by=lab.owner, now=NOW)
    assert (
        set(EmbodiedCharge.objects.values_list("from_hour", "to_hour", "amount_ug", "kind"))
        == before
    )
    asset.refresh_from_db()
    assert asset.state == "use"
    reverse(event=undone, by=lab.owner, now=NOW)
    assert borne(asset) == {(None, "held"): 30 * KG, (None, "written_off"): 90 * KG}
    with pytest.raises(Conflict, match="already reversed"):
        reverse(event=gone, by=lab.owner, now=NOW)


def test_how_it_was_bought_is_corrected_by_reversal(lab: SmallLab) -> None:
    asset = bought(lab)
    entry = Entry("purchase", T0, embodied=Embodied(200 * KG), life_hours=4 * YEAR)
    correct_opening(asset=asset, entry=entry, by=lab.owner, now=NOW)
    assert borne(asset) == {(None, "held"): 200 * KG}
    assert LifecycleEvent.objects.filter(asset=asset).count() == 4
    first = LifecycleEvent.objects.filter(asset=asset).earliest("pk")
    assert first.total_ug == 120 * KG, "what was written stays as it was"


@pytest.mark.parametrize(
    ("entry", "error", "words"),
    [
        (Entry("dispose", T0 - 10 * US_PER_HOUR), Conflict, "earlier than the purchase"),
        (Entry("purchase", T0 + US_PER_HOUR, life_hours=10), Conflict, "has a purchase already"),
        (Entry("return", T0 + US_PER_HOUR), Conflict, "not lent"),
        (Entry("move", NOW + 10 * US_PER_HOUR), InvalidInput, "in the future"),
        (Entry("life_change", T0 + US_PER_HOUR), InvalidInput, "No change"),
        (
            Entry("life_change", T0 + 9 * US_PER_HOUR, life_end_us=T0),
            Conflict,
            "planned end is not after",
        ),
        (Entry("lend", T0 + US_PER_HOUR), InvalidInput, "borrower is missing"),
        (Entry("move", T0, counterpart="x"), InvalidInput, "has no counterpart"),
        (Entry("nonsense", T0), InvalidInput, "Unknown kind of event"),
        (Entry("repair", T0, embodied=Embodied(5, 6, 7)), InvalidInput, "outside its own range"),
        (
            Entry("repair", T0, embodied=Embodied(5, manufacture_ug=9)),
            InvalidInput,
            "parts exceed the total",
        ),
        (Entry("repair", T0, embodied=Embodied(-5)), InvalidInput, "out of range"),
        (Entry("repair", T0, note="\x00"), InvalidInput, "Invalid text"),
    ],
)
def test_what_cannot_have_been_is_refused_and_changes_nothing(
    lab: SmallLab, entry: Entry, error: type[Exception], words: str
) -> None:
    asset = bought(lab)
    before = (
        list(EmbodiedCharge.objects.values_list("pk", "amount_ug")),
        LifecycleEvent.objects.count(),
    )
    with pytest.raises(error, match=words):
        record(asset=asset, entry=entry, by=lab.owner, now=NOW)
    assert (
        list(EmbodiedCharge.objects.values_list("pk", "amount_ug")),
        LifecycleEvent.objects.count(),
    ) == before


def test_after_disposal_nothing_happens(lab: SmallLab) -> None:
    asset = bought(lab)
    record(asset=asset, entry=Entry("dispose", at(10)), by=None, now=NOW)
    with pytest.raises(Conflict, match="disposed of"):
        record(asset=asset, entry=Entry("move", at(20)), by=None, now=NOW)


def test_a_machine_holds_its_parts_and_never_itself(lab: SmallLab) -> None:
    server, card = bought(lab, kind="server", name="gpu-01"), bought(lab)
    record(
        asset=card, entry=Entry("move", at(1), parent=server, site=lab.site), by=lab.owner, now=NOW
    )
    card.refresh_from_db()
    assert (card.parent, card.site) == (server, lab.site)
    for inner, outer in ((card, card), (server, card)):
        with pytest.raises(InvalidInput, match="cannot be part of itself"):
            record(asset=inner, entry=Entry("move", at(2), parent=outer), by=lab.owner, now=NOW)
    record(asset=card, entry=Entry("dispose", at(3)), by=lab.owner, now=NOW)
    card.refresh_from_db()
    assert card.parent is None


def test_another_labs_things_are_unknown(lab: SmallLab) -> None:
    other = small_lab(name="Other")
    theirs = project(other, "theirs")
    asset = bought(lab)
    for entry in (Entry("transfer", T0, project=theirs), Entry("move", T0, site=other.site)):
        with pytest.raises(InvalidInput, match="No such"):
            record(asset=asset, entry=entry, by=lab.owner, now=NOW)
    with pytest.raises(InvalidInput, match="No such project"):
        store(asset=asset, project=theirs, gigabytes=1, from_us=T0, by=lab.owner, now=NOW)


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
    ({"name": " "}, "name"), ({"kind": "toaster"}, "kind"), ({"serial": "x" * 121}, "serial"),
    ({"note": "\x00"}, "note"), ({"price_ucurrency": -1, "currency": "EUR"}, "price"),
    ({"price_ucurrency": 1, "currency": "EURO"}, "currency"),
],
)  # fmt: skip
def test_facts_that_cannot_be_kept_name_their_field(
    lab: SmallLab, wrong: dict[str, Any], field: str
) -> None:
    facts = replace(Facts("GPU", "gpu"), **wrong)
    draft = Draft(facts, Entry("purchase", T0, life_hours=10))
    with pytest.raises(InvalidInput) as caught:
        register(lab=lab.lab, draft=draft, by=None, now=NOW)
    assert caught.value.field == field
    assert not Asset.objects.exists()


def test_many_are_written_all_or_none_and_charged_by_a_job(lab: SmallLab) -> None:
    def draft(number: int, tag: str) -> Draft:
        entry = Entry("purchase", T0, embodied=Embodied(KG), life_hours=YEAR)
        return Draft(Facts(f"GPU {number}", "gpu", tag=tag), entry, deployed_us=T0)

    with pytest.raises(Conflict, match="inventory number"):
        register_many(lab=lab.lab, drafts=[draft(1, "a"), draft(2, "a")], by=None, now=NOW)
    assert not Asset.objects.exists()
    found = register_many(
        lab=lab.lab, drafts=[draft(i, f"t{i}") for i in range(250)], by=None, now=NOW
    )
    run_until_idle(worker="test")
    assert len(found) == 250
    assert (
        sum(amount for amount in EmbodiedCharge.objects.values_list("amount_ug", flat=True))
        == 250 * KG
    )
    with pytest.raises(Conflict, match="'t7' is in use"):
        register_many(lab=lab.lab, drafts=[draft(1, "t7")], by=None, now=NOW)


def test_a_file_server_is_shared_by_what_is_stored(lab: SmallLab) -> None:
    vision, nlp = project(lab, "vision"), project(lab, "nlp")
    asset = bought(lab, kind="storage", kg=400)
    store(asset=asset, project=vision, gigabytes=3000, from_us=at(YEAR), by=lab.owner, now=NOW)
    store(asset=asset, project=nlp, gigabytes=1000, from_us=at(YEAR), by=lab.owner, now=NOW)
    store(asset=asset, project=vision, gigabytes=0, from_us=at(2 * YEAR), by=lab.owner, now=NOW)
    assert borne(asset) == {
        (None, "held"): 100 * KG,
        ("vision", "used"): 75 * KG,
        ("nlp", "used"): 225 * KG,
    }


def test_what_is_not_known_stays_unknown(lab: SmallLab) -> None:
    asset = bought(lab, kg=None)
    assert borne(asset) == {}
    assert LifecycleEvent.objects.get(asset=asset, kind="purchase").total_ug is None
