"""What keeping costs: energy and carbon of lots of copies, and where they lie."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from apps.artifacts.choices import Medium
from apps.artifacts.costs import node_rates, yearly_storage_cost
from apps.artifacts.models import Copy
from apps.artifacts.storage import storage_lots
from apps.artifacts.storage_model import (
    HOURS_PER_YEAR,
    MEDIUM_POWER,
    StorageCost,
    StorageLot,
    storage_cost,
    storage_mj,
    total_storage_cost,
)
from apps.carbon.models import AppliedFactor
from apps.carbon.services import apply_factors
from apps.core.units import INT64_MAX, PPM, emission_ug, hour_of
from apps.fleet.choices import SiteKind
from apps.fleet.services import create_site, register_node, set_pue
from tests.artifacts.support import register_rows, row
from tests.builders import T0, SmallLab, small_lab

TB = 10**12
HOUR = hour_of(T0) + 1
LOTS = st.lists(
    st.builds(
        StorageLot,
        project_id=st.sampled_from([None, 1, 2]),
        medium=st.sampled_from(Medium.values),
        node_id=st.sampled_from([None, 7]),
        copies=st.integers(1, 9),
        bytes=st.integers(0, INT64_MAX),
        pue_ppm=st.none() | st.integers(PPM, 3 * PPM),
        ug_per_kwh=st.none() | st.integers(1, 1_500_000_000),
    ),
    max_size=12,
)


def test_a_year_of_a_terabyte_on_a_hard_disk() -> None:
    # 1 TB × 0.65 Wh per TB-hour × 8 760 h × PUE 1.5 = 8.541 kWh; × 400 g/kWh = 3.4164 kg.
    found = storage_cost(StorageLot(None, "hdd", 7, 1, TB, 1_500_000, 400_000_000))
    assert found.energy.energy_mj == 8_541 * 3_600_000
    assert found.emission_ug == 3_416_400_000
    assert (found.low_ug, found.high_ug) == (
        1_314_000_000,
        5_256_000_000,
    )  # 0.25 and 1.0 Wh per TB-hour
    assert found.is_emission_known
    assert found.is_emission_complete


def test_what_is_not_known_is_in_no_sum() -> None:
    unknown = storage_cost(StorageLot(None, "unknown", 7, 2, TB, PPM, 400_000_000))
    assert (
        unknown.energy.is_known,
        unknown.is_emission_known,
        unknown.emission_ug,
        unknown.bytes,
    ) == (False, False, 0, TB)
    nowhere = storage_cost(StorageLot(None, "hdd", 7, 1, TB, PPM, None))
    assert nowhere.energy.is_known
    assert not nowhere.is_emission_known
    assert (nowhere.unpriced_bytes, nowhere.unpriced_mj) == (TB, nowhere.energy.energy_mj)
    known = storage_cost(StorageLot(None, "hdd", 7, 1, TB, PPM, 400_000_000))
    together = known + nowhere + unknown
    assert together.emission_ug == known.emission_ug
    assert together.is_emission_known
    assert not together.is_emission_complete
    assert StorageCost().is_emission_known  # nothing costs nothing


@given(LOTS)
def test_the_same_sum_in_whatever_order_and_grouping(lots: list[StorageLot]) -> None:
    whole = total_storage_cost(lots)
    for name in ("project_id", "medium", "node_id"):
        groups = {getattr(lot, name) for lot in lots}
        parts = [
            total_storage_cost(lot for lot in lots if getattr(lot, name) == group)
            for group in groups
        ]
        assert sum(parts, StorageCost()) == whole
    assert total_storage_cost(reversed(lots)) == whole
    assert whole.priced_bytes + whole.unpriced_bytes + whole.energy.unknown_bytes == whole.bytes
    assert whole.low_ug <= whole.emission_ug <= whole.high_ug


@given(LOTS)
def test_carbon_is_energy_times_factor(lots: list[StorageLot]) -> None:
    for lot in lots:
        found = storage_cost(replace(lot, ug_per_kwh=500))
        power = MEDIUM_POWER.get(Medium(lot.medium))
        if power is not None:
            energy = storage_mj(
                lot.bytes,
                HOURS_PER_YEAR,
                power.uwh,
                lot.pue_ppm if lot.pue_ppm is not None else PPM,
            )
            assert found.energy.energy_mj == energy
            assert found.emission_ug == emission_ug(energy, PPM, 500)


def test_lots_are_by_project_medium_and_machine(lab: SmallLab) -> None:
    set_pue(site=lab.site, pue_ppm=1_500_000, from_us=T0)
    register_rows(
        lab,
        row(
            "a",
            bytes=5,
            project="demo",
            copies=[{"path": "/a", "medium": "hdd"}, {"path": "/b", "medium": "ssd"}],
        ),
        row(
            "b",
            bytes=7,
            project="demo",
            copies=[{"path": "/c", "medium": "hdd"}, {"path": "s3://x/c", "medium": "object"}],
        ),
        row(
            "c", bytes=11, copies=[{"path": "/d", "medium": "hdd"}, {"path": "/e", "medium": "hdd"}]
        ),
        row("d", bytes=13, copies=[{"path": "/gone", "medium": "hdd"}]),
    )
    Copy.objects.filter(path="/gone").update(state="missing")
    apply_factors(lab=lab.lab)
    demo = lab.lab.projects.get(slug="demo").pk
    found = {(lot.project_id, lot.medium, lot.node_id): lot for lot in storage_lots(lab.lab, HOUR)}
    assert {key: (lot.copies, lot.bytes) for key, lot in found.items()} == {
        (demo, "hdd", lab.node.pk): (2, 12),
        (demo, "ssd", lab.node.pk): (1, 5),
        (demo, "object", None): (1, 7),
        (None, "hdd", lab.node.pk): (2, 22),
    }
    here = found[None, "hdd", lab.node.pk]
    assert here.pue_ppm == 1_500_000
    assert here.ug_per_kwh
    address = found[demo, "object", None]
    assert (address.pue_ppm, address.ug_per_kwh) == (None, None)
    assert storage_lots(small_lab(name="Other").lab, HOUR) == []


def test_a_site_without_a_zone_has_no_factor(lab: SmallLab) -> None:
    site = create_site(lab=lab.lab, name="Cellar", kind=SiteKind.MACHINE_ROOM, zone="")
    node = register_node(
        lab=lab.lab,
        uuid="7f1d3b52-2222-4333-8444-555566667799",
        hostname="nas",
        facts={},
        site=site,
        now=T0,
    )  # type: ignore[arg-type]
    apply_factors(lab=lab.lab)
    register_rows(
        SmallLab(lab.lab, lab.owner, site, node),
        row("a", bytes=5, copies=[{"path": "/a", "medium": "hdd"}]),
    )
    (lot,) = storage_lots(lab.lab, HOUR)
    assert lot.ug_per_kwh is None


def test_a_plan_prices_a_year_of_keeping_as_storage_does(lab: SmallLab) -> None:
    """Under a PUE and a factor; without a factor neither tells emissions."""
    set_pue(site=lab.site, pue_ppm=1_500_000, from_us=T0)
    apply_factors(lab=lab.lab)
    register_rows(lab, row("a", bytes=10**12, copies=[{"path": "/a", "medium": "hdd"}]))
    for is_priced in (True, False):
        if not is_priced:
            AppliedFactor.objects.filter(node__lab=lab.lab).delete()
        [lot], copy = (
            storage_lots(lab.lab, hour_of(T0)),
            Copy.objects.select_related("artifact").get(),
        )
        year = yearly_storage_cost(copy, node_rates(lab.lab, lab.node, T0))
        assert year.energy_mj == storage_cost(lot).energy.energy_mj > 0
        assert year.emission_ug == (storage_cost(lot).emission_ug if is_priced else None)
        assert (lot.ug_per_kwh is not None) == is_priced
