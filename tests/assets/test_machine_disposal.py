"""A machine is disposed of together with its parts, or its parts are taken out. Bulk events."""

import pytest

from apps.assets.models import Asset, AssetMeter, EmbodiedCharge, LifecycleEvent
from apps.assets.services import Entry, record, record_many, reverse, upgrade
from apps.assets.services.bulk_effect import record_with_effect
from apps.core.errors import Conflict, InvalidInput
from tests.assets.support import H0, KG, YEAR, borne, bought
from tests.assets.test_lives import NOW, at
from tests.builders import SmallLab

pytestmark = pytest.mark.django_db


def machine(lab: SmallLab) -> tuple[Asset, Asset, Asset, Asset]:
    """Return a server, two cards in it, and a module in the first card."""
    server = bought(lab, kind="server", name="gpu-01", kg=1_000)
    cards = [
        bought(lab, name=f"Card {i}", opening={"parent": server, "site": lab.site})
        for i in range(2)
    ]
    module = bought(lab, name="Module", kg=40, opening={"parent": cards[0]})
    return server, *cards, module


def states(*assets: Asset) -> list[tuple[str, int | None]]:
    rows = {asset.pk: asset for asset in Asset.objects.filter(pk__in=[a.pk for a in assets])}
    return [(rows[asset.pk].state, rows[asset.pk].parent_id) for asset in assets]


def all_rows() -> set[tuple[object, ...]]:
    return set(
        EmbodiedCharge.objects.values_list("asset", "from_hour", "to_hour", "kind", "amount_ug")
    )


def test_the_user_chooses_what_happens_to_the_parts(lab: SmallLab) -> None:
    server, *parts = machine(lab)
    before = all_rows()
    with pytest.raises(InvalidInput, match="contains 2 parts") as caught:
        record(asset=server, entry=Entry("dispose", at(YEAR)), by=lab.owner, now=NOW)
    assert caught.value.field == "parts"
    assert all_rows() == before
    assert [state for state, _ in states(server, *parts)] == ["use"] * 4


def test_parts_are_disposed_of_with_their_machine_and_restored_with_it(lab: SmallLab) -> None:
    server, *parts = machine(lab)
    before, placed = all_rows(), states(server, *parts)
    entry = Entry("dispose", at(YEAR), counterpart="Recycler", evidence="W 1", parts="dispose")
    gone = record(asset=server, entry=entry, by=lab.owner, now=NOW)
    assert states(server, *parts) == [("disposed", None)] * 4
    assert borne(parts[0]) == {(None, "held"): 30 * KG, (None, "written_off"): 90 * KG}
    caused = LifecycleEvent.objects.filter(kind="dispose").exclude(pk=gone.pk)
    assert {(row.counterpart, row.evidence, row.total_ug) for row in caused} == {
        ("Recycler", "W 1", None)
    }
    undone = reverse(event=gone, by=lab.owner, now=NOW)
    assert (all_rows(), states(server, *parts)) == (before, placed)
    reverse(event=undone, by=lab.owner, now=NOW)
    assert states(server, *parts) == [("disposed", None)] * 4


def test_parts_are_taken_out_and_stay_in_use(lab: SmallLab) -> None:
    server, card, other, module = machine(lab)
    charged = {part.pk: borne(part) for part in (card, other, module)}
    record(asset=server, entry=Entry("dispose", at(YEAR), parts="free"), by=lab.owner, now=NOW)
    assert states(server, card, other, module) == [
        ("disposed", None), ("use", None), ("use", None), ("use", card.pk),
    ]  # fmt: skip
    assert {part.pk: borne(part) for part in (card, other, module)} == charged


def test_a_part_of_later_makes_the_date_impossible(lab: SmallLab) -> None:
    server, card = bought(lab, kind="server", name="gpu-01"), bought(lab, name="Card")
    record(asset=card, entry=Entry("move", at(2 * YEAR), parent=server), by=lab.owner, now=NOW)
    before = all_rows()
    with pytest.raises(Conflict, match="Card became a part of gpu-01 after that date"):
        record(asset=server, entry=Entry("dispose", at(YEAR), parts="free"), by=None, now=NOW)
    late = bought(lab, name="Late", at_us=at(3 * YEAR), now=NOW, opening={"parent": server})
    record(asset=card, entry=Entry("move", at(3 * YEAR)), by=None, now=NOW)
    with pytest.raises(Conflict) as caught:
        record(asset=server, entry=Entry("dispose", at(YEAR), parts="dispose"), by=None, now=NOW)
    assert caught.value.message.startswith("Late: This event is earlier than the purchase")
    assert before <= all_rows()
    assert states(server, late) == [("use", None), ("use", server.pk)]


def test_a_part_with_parts_is_not_swapped_out(lab: SmallLab) -> None:
    server, card, *_ = machine(lab)
    with pytest.raises(InvalidInput, match="Card 0 contains parts"):
        upgrade(asset=server, out=card, new=None, at_us=at(YEAR), by=lab.owner, now=NOW)


def test_one_event_for_sixty_disks_or_for_none(lab: SmallLab) -> None:
    disks = [bought(lab, kind="storage", name=f"Disk {i}", kg=10) for i in range(60)]
    entry = Entry("dispose", at(YEAR), counterpart="Recycler")
    preview = record_with_effect(assets=disks, entry=entry, by=None, now=NOW, is_preview=True)
    assert (preview.before.written_off_ug, preview.after.written_off_ug) == (0, 450 * KG)
    assert not LifecycleEvent.objects.filter(kind="dispose").exists()
    record(asset=disks[7], entry=Entry("dispose", at(1)), by=None, now=NOW)
    with pytest.raises(Conflict) as caught:
        record_many(assets=disks, entry=entry, by=lab.owner, now=NOW)
    assert caught.value.message.startswith("Disk 7: The asset is disposed of")
    assert LifecycleEvent.objects.filter(kind="dispose").count() == 1
    rows = record_many(assets=[*disks[:7], *disks[8:]], entry=entry, by=lab.owner, now=NOW)
    assert len(rows) == 59
    assert set(Asset.objects.values_list("state", flat=True)) == {"disposed"}


def test_a_machine_and_its_parts_selected_together_need_no_choice(lab: SmallLab) -> None:
    server, *parts = machine(lab)
    entry = Entry("dispose", at(YEAR))
    record_many(assets=[server, *parts], entry=entry, by=lab.owner, now=NOW)
    assert states(server, *parts) == [("disposed", None)] * 4
    assert not AssetMeter.objects.exists()
    assert sum(borne(server, 0, H0 + YEAR).values()) == 250 * KG
