"""Ends of life by kind and mass, and leased assets, in the scopes of the GHG Protocol."""

import pytest

from apps.assets.models import Asset, LifecycleEvent
from apps.assets.services import (
    Draft,
    Embodied,
    Entry,
    Facts,
    closing_entries,
    correct_opening,
    record,
    register,
    register_many,
)
from apps.carbon.figures.embodied import embodied, embodied_in
from apps.carbon.figures.figure_query import ALLOCATION, INVENTORY, FigureQuery
from apps.core.errors import InvalidInput
from apps.core.jobs import run_until_idle
from tests.assets.support import H0, KG, YEAR, borne
from tests.assets.test_lives import NOW, at
from tests.builders import T0, SmallLab

pytestmark = pytest.mark.django_db
ALL = {"from_hour": H0 - 1, "to_hour": H0 + 5 * YEAR}


def owned(
    lab: SmallLab, kind: str = "purchase", *, includes: bool | None = False, kg: int = 100
) -> Asset:
    what = Embodied(kg * KG, includes_end_of_life=includes)
    opening = Entry(kind, T0, embodied=what, life_hours=4 * YEAR)
    draft = Draft(Facts("Server", "server"), opening, deployed_us=T0)
    return register(lab=lab.lab, draft=draft, by=lab.owner, now=NOW)


def figures(lab: SmallLab, metric: str) -> dict[str, int]:
    """Return the hardware of a lab by category, µg, over five years."""
    query = FigureQuery(metric=metric, **ALL)
    found = {
        scope: embodied(lab.lab, query.replace(scope=scope), NOW).embodied_ug
        for scope in ("3.2", "3.5", "3.8")
    }
    assert sum(found.values()) == embodied(lab.lab, query, NOW).embodied_ug
    for scope, value in found.items():
        parts = embodied_in(lab.lab, query.replace(scope=scope), query.hours, NOW)
        if metric == ALLOCATION:
            assert sum(part.embodied_ug for part in parts.values()) == value, scope
    return found


def test_recycling_has_a_default_factor_so_that_waste_is_not_empty(lab: SmallLab) -> None:
    """DESNZ 2025, WEEE - mixed, open-loop: 4.68568 kg CO2e per tonne; 25 kg are 117.142 g."""
    asset = owned(lab)
    entry = Entry("dispose", at(YEAR), end_of_life="recycled", mass_g=25_000)
    row = record(asset=asset, entry=entry, by=lab.owner, now=NOW)
    assert (row.total_ug, row.end_of_life, row.mass_g) == (117_142_000, "recycled", 25_000)
    assert "WEEE - mixed" in row.source
    assert borne(asset)[None, "end_of_life"] == 117_142_000
    expected = {"3.2": 100 * KG, "3.5": 117_142_000, "3.8": 0}
    assert figures(lab, INVENTORY) == figures(lab, ALLOCATION) == expected


def test_an_entered_value_has_precedence(lab: SmallLab) -> None:
    entry = Entry(
        "dispose", at(YEAR), embodied=Embodied(3 * KG), end_of_life="recycled", mass_g=25_000
    )
    assert record(asset=owned(lab), entry=entry, by=lab.owner, now=NOW).total_ug == 3 * KG
    assert figures(lab, INVENTORY)["3.5"] == 3 * KG


@pytest.mark.parametrize("kind", ["resold", "donated", "lost", "stolen", "lease_returned", ""])
def test_without_a_published_figure_there_is_none(lab: SmallLab, kind: str) -> None:
    entry = Entry("dispose", at(YEAR), end_of_life=kind, mass_g=25_000)
    row = record(asset=owned(lab), entry=entry, by=lab.owner, now=NOW)
    assert (row.total_ug, row.source, row.mass_g) == (None, "", 25_000)
    assert figures(lab, INVENTORY)["3.5"] == 0


def test_without_a_mass_recycling_is_unknown(lab: SmallLab) -> None:
    entry = Entry("dispose", at(YEAR), end_of_life="recycled")
    assert record(asset=owned(lab), entry=entry, by=lab.owner, now=NOW).total_ug is None


@pytest.mark.parametrize("includes", [True, None])
def test_an_end_of_life_that_may_be_inside_is_not_counted_twice(
    lab: SmallLab, includes: bool | None
) -> None:
    entry = Entry("dispose", at(YEAR), end_of_life="recycled", mass_g=25_000)
    row = record(asset=owned(lab, includes=includes), entry=entry, by=lab.owner, now=NOW)
    assert row.total_ug == 117_142_000
    assert figures(lab, INVENTORY) == {"3.2": 100 * KG, "3.5": 0, "3.8": 0}


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"end_of_life": "burnt"}, "end_of_life"),
        ({"mass_g": 0}, "mass"),
        ({"mass_g": 10**8}, "mass"),
    ],
)
def test_invalid_ends_of_life(lab: SmallLab, values: dict[str, object], field: str) -> None:
    asset = owned(lab)
    with pytest.raises(InvalidInput) as caught:
        record(asset=asset, entry=Entry("dispose", at(1), **values), by=None, now=NOW)  # type: ignore[arg-type]
    assert caught.value.field == field
    with pytest.raises(InvalidInput, match="has no"):
        record(asset=asset, entry=Entry("retire", at(1), end_of_life="lost"), by=None, now=NOW)


def test_leased_assets_are_category_8(lab: SmallLab) -> None:
    asset = owned(lab, "lease")
    owned(lab, kg=7)
    repair = Entry("repair", at(YEAR), embodied=Embodied(5 * KG))
    record(asset=asset, entry=repair, by=lab.owner, now=NOW)
    assert figures(lab, INVENTORY) == {"3.2": 7 * KG, "3.5": 0, "3.8": 105 * KG}
    assert figures(lab, ALLOCATION) == {"3.2": 7 * KG, "3.5": 0, "3.8": 105 * KG}
    back = Entry("dispose", at(2 * YEAR), end_of_life="lease_returned")
    record(asset=asset, entry=back, by=lab.owner, now=NOW)
    assert figures(lab, INVENTORY)["3.8"] == 105 * KG
    lesson = FigureQuery(metric=INVENTORY, profile="lesson", scope="3", **ALL)
    assert embodied(lab.lab, lesson, NOW).embodied_ug == 112 * KG


def test_a_lease_that_was_a_purchase_is_category_2_again(lab: SmallLab) -> None:
    asset = owned(lab, "lease")
    entry = Entry("purchase", T0, embodied=Embodied(100 * KG), life_hours=4 * YEAR)
    correct_opening(asset=asset, entry=entry, by=lab.owner, now=NOW)
    assert figures(lab, INVENTORY) == {"3.2": 100 * KG, "3.5": 0, "3.8": 0}


def test_retired_and_stolen_assets_are_registered_with_their_life(lab: SmallLab) -> None:
    def draft(name: str, **closing: object) -> Draft:
        what = Embodied(100 * KG, includes_end_of_life=False)
        opening = Entry("purchase", T0, embodied=what, life_hours=4 * YEAR)
        entries = closing_entries(**closing)  # type: ignore[arg-type]
        return Draft(Facts(name, "laptop"), opening, deployed_us=T0, entries=entries)

    drafts = [
        draft("Retired", retired_us=at(YEAR)),
        draft("Stolen", ended_us=at(2 * YEAR), end_of_life="stolen"),
        draft(
            "Recycled",
            retired_us=at(YEAR),
            ended_us=at(2 * YEAR),
            end_of_life="recycled",
            mass_g=2_000,
            counterpart="Recycler",
        ),
    ]
    register_many(lab=lab.lab, drafts=drafts, by=lab.owner, now=NOW)
    run_until_idle(worker="test")
    assets = {asset.name: asset for asset in Asset.objects.all()}
    assert {name: asset.state for name, asset in assets.items()} == {
        "Retired": "retired",
        "Stolen": "disposed",
        "Recycled": "disposed",
    }
    assert borne(assets["Stolen"]) == {(None, "held"): 50 * KG, (None, "written_off"): 50 * KG}
    assert figures(lab, INVENTORY) == {"3.2": 300 * KG, "3.5": 9_371_360, "3.8": 0}
    gone = LifecycleEvent.objects.get(asset=assets["Recycled"], kind="dispose")
    assert (gone.counterpart, gone.mass_g) == ("Recycler", 2_000)
    with pytest.raises(InvalidInput, match="needs a date"):
        closing_entries(end_of_life="stolen")
