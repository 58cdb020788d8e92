"""When charging starts and what starts nothing: first use, first meter, repairs without carbon."""

import pytest

from apps.assets.jobs import recompute_job, use_all_job
from apps.assets.models import Asset, EmbodiedCharge
from apps.assets.services import Embodied, Entry, record, set_meter, store
from apps.assets.services.recompute import differing
from apps.core.units import US_PER_HOUR
from apps.fleet.models import Device
from tests.assets.support import H0, KG, YEAR, borne, bought
from tests.assets.test_lives import NOW, at, project
from tests.assets.test_use import D0, GPU, day
from tests.builders import SmallLab

pytestmark = pytest.mark.django_db
METHODS = ("linear", "sci")


def rows(asset: Asset) -> set[tuple[object, ...]]:
    return set(
        EmbodiedCharge.objects.filter(asset=asset).values_list(
            "from_hour", "to_hour", "project", "kind", "amount_ug"
        )
    )


def metered(lab: SmallLab, method: str) -> Asset:
    """Return a card that was used in 7 hours of the day D0."""
    day(lab, {**dict.fromkeys(range(7), (("proc:ada/x", 1000),)), 7: (("idle", 10),)})
    asset = bought(
        lab,
        kg=1_001,
        years=1,
        at_us=D0,
        device=Device.objects.get(key=GPU),
        opening={"amortisation": method},
        now=NOW,
    )
    use_all_job(str(lab.lab.pk))
    return asset


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("carbon", [None, 0])
def test_a_repair_without_carbon_changes_nothing(
    lab: SmallLab, method: str, carbon: int | None
) -> None:
    asset = metered(lab, method)
    before = rows(asset)
    embodied = None if carbon is None else Embodied(carbon)
    record(
        asset=asset,
        entry=Entry("repair", D0 + 4_321 * US_PER_HOUR, embodied=embodied),
        by=lab.owner,
        now=NOW,
    )
    assert rows(asset) == before


@pytest.mark.parametrize(
    "entry",
    [
        Entry("repurpose", D0 + 4_000 * US_PER_HOUR),
        Entry("life_change", D0 + 4_000 * US_PER_HOUR, amortisation="sci"),
    ],
)
def test_unused_time_by_use_waits_for_the_end_of_life(lab: SmallLab, entry: Entry) -> None:
    asset = metered(lab, "sci")
    before = rows(asset)
    record(asset=asset, entry=entry, by=lab.owner, now=NOW)
    assert rows(asset) == before


def test_a_repair_by_use_adds_its_own_carbon_only(lab: SmallLab) -> None:
    asset = metered(lab, "sci")
    first = D0 // US_PER_HOUR
    used = borne(asset, first, first + 24)
    record(
        asset=asset,
        entry=Entry("repair", D0 + 4_380 * US_PER_HOUR, embodied=Embodied(100 * KG)),
        by=lab.owner,
        now=NOW,
    )
    assert borne(asset, first, first + 24) == used
    total = sum(borne(asset).values())
    assert total == 1_101 * KG
    assert borne(asset, first + YEAR) == {(None, "idle"): total - sum(used.values())}


@pytest.mark.parametrize("method", METHODS)
def test_the_first_meter_counts_from_its_date(lab: SmallLab, method: str) -> None:
    """Hours before stay by time without a meter, also where the device was measured."""
    day(lab, dict.fromkeys(range(24), (("proc:ada/x", 1000),)))
    asset = bought(lab, kg=24 * 365, years=1, at_us=D0, opening={"amortisation": method}, now=NOW)
    first = D0 // US_PER_HOUR
    before = borne(asset, first, first + 12)
    device = Device.objects.get(key=GPU)
    set_meter(asset=asset, device=device, from_us=D0 + 12 * US_PER_HOUR, by=lab.owner, now=NOW)
    use_all_job(str(lab.lab.pk))
    assert borne(asset, first, first + 12) == before == {(None, "held"): 12 * KG}
    assert borne(asset, first + 12, first + 24) == {(None, "used"): 12 * KG}


@pytest.mark.parametrize("method", METHODS)
def test_without_a_meter_again_time_is_charged_to_the_owner(lab: SmallLab, method: str) -> None:
    day(lab, dict.fromkeys(range(24), (("proc:ada/x", 1000),)))
    asset = bought(
        lab,
        kg=24 * 365,
        years=1,
        at_us=D0,
        device=Device.objects.get(key=GPU),
        opening={"amortisation": method},
        now=NOW,
    )
    set_meter(asset=asset, from_us=D0 + 24 * US_PER_HOUR, by=lab.owner, now=NOW)
    use_all_job(str(lab.lab.pk))
    assert borne(asset) == {(None, "used"): 24 * KG, (None, "held"): 364 * 24 * KG}


def test_stored_volumes_count_until_the_first_meter(lab: SmallLab) -> None:
    day(lab, dict.fromkeys(range(24), (("idle", 10),)))
    vision = project(lab, "vision")
    asset = bought(lab, kind="storage", kg=24 * 365, years=1, at_us=D0, now=NOW)
    store(asset=asset, project=vision, gigabytes=5, from_us=D0, by=lab.owner, now=NOW)
    set_meter(
        asset=asset,
        device=Device.objects.get(key=GPU),
        from_us=D0 + 24 * US_PER_HOUR,
        by=lab.owner,
        now=NOW,
    )
    first = D0 // US_PER_HOUR
    assert borne(asset, first, first + 24) == {("vision", "used"): 24 * KG}
    assert borne(asset, first + 24) == {(None, "unmeasured"): 364 * 24 * KG}


@pytest.mark.parametrize("method", METHODS)
def test_repurposed_from_stock_it_is_in_use_and_charged(lab: SmallLab, method: str) -> None:
    asset = bought(lab, deployed=False, opening={"amortisation": method}, now=NOW)
    record(asset=asset, entry=Entry("repurpose", at(YEAR)), by=lab.owner, now=NOW)
    asset.refresh_from_db()
    assert (asset.state, asset.in_use_hour) == ("use", H0 + YEAR)
    assert borne(asset, 0, H0 + 2 * YEAR) == {(None, "held"): 30 * KG}
    assert differing(lab=lab.lab, repair=False) == []


def test_repurposed_from_stock_with_an_end_it_lasts_until_then(lab: SmallLab) -> None:
    asset = bought(lab, deployed=False, now=NOW)
    entry = Entry("repurpose", at(YEAR), life_end_us=at(3 * YEAR))
    record(asset=asset, entry=entry, by=lab.owner, now=NOW)
    asset.refresh_from_db()
    assert asset.life_end_hour == H0 + 3 * YEAR
    assert borne(asset, 0, H0 + 2 * YEAR) == {(None, "held"): 60 * KG}


@pytest.mark.parametrize("method", METHODS)
def test_lent_from_stock_and_back_it_is_in_use_and_charged(lab: SmallLab, method: str) -> None:
    vision = project(lab, "vision")
    asset = bought(lab, deployed=False, opening={"amortisation": method}, now=NOW)
    record(asset=asset, entry=Entry("lend", at(YEAR), project=vision), by=lab.owner, now=NOW)
    asset.refresh_from_db()
    assert (asset.state, asset.in_use_hour) == ("lent", H0 + YEAR)
    record(asset=asset, entry=Entry("return", at(2 * YEAR)), by=lab.owner, now=NOW)
    asset.refresh_from_db()
    assert asset.state == "use"
    assert borne(asset) == {("vision", "lent"): 30 * KG, (None, "held"): 90 * KG}


def test_stored_values_of_before_are_recomputed(lab: SmallLab) -> None:
    """The job that the migration enqueues writes what the present rules give."""
    asset = bought(lab, deployed=False, now=NOW)
    record(asset=asset, entry=Entry("repurpose", at(YEAR)), by=lab.owner, now=NOW)
    right = rows(asset)
    EmbodiedCharge.objects.filter(asset=asset).delete()
    Asset.objects.filter(pk=asset.pk).update(
        in_use_hour=None, life_end_hour=None, settled_ug=0, written_off_to_date_ug=0
    )
    recompute_job(str(lab.lab.pk))
    assert rows(asset) == right
    assert differing(lab=lab.lab, repair=False) == []
    asset.refresh_from_db()
    assert asset.in_use_hour == H0 + YEAR
