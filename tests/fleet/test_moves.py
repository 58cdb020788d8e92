"""Moving a node: one place for every hour, whatever is recorded in whatever order; the past
keeps its zone and PUE.
"""

from uuid import uuid4

import pytest
from django.db import IntegrityError, transaction
from django.db.models import ProtectedError

from apps.carbon.figures.energy import entries
from apps.carbon.figures.figure_query import FigureQuery
from apps.core.errors import Conflict, InvalidInput, NotFound
from apps.core.jobs import run_until_idle
from apps.core.models import Job
from apps.core.units import US_PER_HOUR, emission_ug
from apps.fleet.choices import SiteKind
from apps.fleet.models import ACTIVE, Placement, Site
from apps.fleet.selectors import placement_of, stays_at, stays_of
from apps.fleet.services import correct_place, create_site, move_node, register_node, undo_move
from tests.builders import T0, SmallLab, W, push, small_lab

pytestmark = pytest.mark.django_db
HOUR = T0 // US_PER_HOUR
FRANCE_2025 = 41_440_000  # µg/kWh: data/annual_lifecycle.csv
GPU = "gpu:GPU-0000-1111"


@pytest.fixture
def lab() -> SmallLab:
    return small_lab()


@pytest.fixture
def paris(lab: SmallLab) -> Site:
    return create_site(
        lab=lab.lab, name="Paris", kind=SiteKind.MACHINE_ROOM, zone="FR", pue_ppm=1_250_000
    )


@pytest.fixture
def oslo(lab: SmallLab) -> Site:
    return create_site(lab=lab.lab, name="Oslo", kind=SiteKind.WORKSTATION, zone="NO")


def move(lab: SmallLab, site: Site, hour: int) -> Placement:
    return move_node(node=lab.node, site=site, from_us=hour * US_PER_HOUR, by=lab.owner, now=T0)


def where(lab: SmallLab) -> list[tuple[int, int | None, str]]:
    return [(stay.from_hour, stay.to_hour, stay.placement.site.name) for stay in stays_of(lab.node)]


def rows(lab: SmallLab) -> list[tuple[int, int, int | None, int | None]]:
    """Return (hour, mJ, PUE, µg) of every ledger entry."""
    query = FigureQuery(metric="emission_ug", from_hour=0, to_hour=HOUR + 1000)
    return sorted(
        (row["hour"], row["energy_mj"], row["pue_ppm"], row["emission_ug"])
        for row in entries(lab.lab, query)
    )


def use(lab: SmallLab, hours: int) -> None:
    windows = [
        W(
            GPU,
            3_600_000 + i,
            start_us=T0 + i * US_PER_HOUR,
            end_us=T0 + i * US_PER_HOUR + 60_000_000,
            seq=i,
        )
        for i in range(hours)
    ]
    push(lab.node, windows, sent_at=T0 + hours * US_PER_HOUR)


def test_energy_before_a_move_keeps_its_zone_and_pue_and_energy_after_has_the_new(
    lab: SmallLab, paris: Site
) -> None:
    use(lab, 4)
    before = rows(lab)
    move(lab, paris, HOUR + 2)
    run_until_idle(worker="test")
    after = rows(lab)
    assert after[:2] == before[:2]
    assert [row[:2] for row in after] == [row[:2] for row in before], "energy is never touched"
    assert [row[2] for row in after] == [1_000_000, 1_000_000, 1_250_000, 1_250_000]
    query = FigureQuery(metric="emission_ug", from_hour=HOUR + 2, to_hour=HOUR + 4)
    assert {row["factor_ug_per_kwh"] for row in entries(lab.lab, query)} == {FRANCE_2025}
    assert after[2][3] == emission_ug(3_600_002, 1_250_000, FRANCE_2025)


def test_a_move_within_an_hour_counts_from_the_whole_hour_that_holds_it(
    lab: SmallLab, paris: Site
) -> None:
    moved = move_node(
        node=lab.node,
        site=paris,
        from_us=(HOUR + 1) * US_PER_HOUR + 1_799_000_000,
        by=lab.owner,
        now=T0,
    )
    assert moved.from_hour == HOUR + 1
    assert (moved.recorded_by, moved.recorded_us) == (lab.owner, T0)
    assert where(lab) == [(0, HOUR + 1, "Room 1"), (HOUR + 1, None, "Paris")]


def test_moving_back_and_moving_in_the_past_leave_no_gap(
    lab: SmallLab, paris: Site, oslo: Site
) -> None:
    move(lab, paris, HOUR)
    move(lab, lab.site, HOUR + 10)
    move(lab, oslo, HOUR + 5)
    expected = [
        (0, HOUR, "Room 1"),
        (HOUR, HOUR + 5, "Paris"),
        (HOUR + 5, HOUR + 10, "Oslo"),
        (HOUR + 10, None, "Room 1"),
    ]
    assert where(lab) == expected
    for hour in range(HOUR - 2, HOUR + 12):
        [name] = [
            name for start, end, name in expected if start <= hour and (end is None or hour < end)
        ]
        found = placement_of(lab.node, hour)
        assert found is not None
        assert found.site.name == name
    assert [(stay.from_hour, stay.to_hour) for stay in stays_at(lab.site)] == [
        (0, HOUR),
        (HOUR + 10, None),
    ]


def test_undo_gives_the_same_integers_as_if_it_had_never_moved(
    lab: SmallLab, paris: Site, oslo: Site
) -> None:
    use(lab, 4)
    before = rows(lab)
    move(lab, paris, HOUR + 1)
    latest = move(lab, oslo, HOUR + 3)
    first = Placement.objects.get(ACTIVE, node=lab.node, from_hour=HOUR + 1)
    with pytest.raises(Conflict, match="not the latest"):
        undo_move(placement=first, by=lab.owner, now=T0)
    for placement in (latest, first):
        undo_move(placement=placement, by=lab.owner, now=T0)
        with pytest.raises(Conflict):
            undo_move(placement=placement, by=lab.owner, now=T0)
    run_until_idle(worker="test")
    assert rows(lab) == before
    first.refresh_from_db()
    assert (first.withdrawn_by, first.withdrawn_us) == (lab.owner, T0), (
        "what was recorded stays told"
    )
    move(lab, oslo, HOUR + 1)
    assert where(lab)[-1] == (HOUR + 1, None, "Oslo"), "the hour is free again"


def test_the_first_place_is_not_undone_but_corrected(lab: SmallLab, paris: Site) -> None:
    use(lab, 2)
    first = Placement.objects.get(node=lab.node)
    with pytest.raises(Conflict, match="never moved"):
        undo_move(placement=first, by=lab.owner, now=T0)
    move(lab, lab.site, HOUR + 1)
    correct_place(node=lab.node, site=paris, by=lab.owner, now=T0)
    run_until_idle(worker="test")
    assert where(lab) == [(0, None, "Paris")]
    assert {row[2] for row in rows(lab)} == {1_250_000}


def test_one_hour_holds_one_move(lab: SmallLab, paris: Site, oslo: Site) -> None:
    move(lab, paris, HOUR)
    with pytest.raises(Conflict, match="already recorded for this hour"):
        move(lab, oslo, HOUR)
    assert where(lab)[-1] == (HOUR, None, "Paris")


@pytest.mark.parametrize("hour", [-5, 3_000_000, 10**9])
def test_a_time_out_of_range_is_refused(lab: SmallLab, paris: Site, hour: int) -> None:
    with pytest.raises(InvalidInput, match="out of range"):
        move(lab, paris, hour)


def test_a_move_to_the_beginning_of_time_is_a_correction(lab: SmallLab, paris: Site) -> None:
    with pytest.raises(InvalidInput, match="needs a date"):
        move(lab, paris, 0)


def test_a_site_of_another_lab_does_not_exist(lab: SmallLab) -> None:
    theirs = small_lab(name="Theirs")
    with pytest.raises(NotFound):
        move(lab, theirs.site, HOUR)
    with pytest.raises(NotFound):
        correct_place(node=lab.node, site=theirs.site, by=lab.owner, now=T0)


def test_declared_use_is_not_moved_and_no_machine_moves_there(lab: SmallLab, paris: Site) -> None:
    elsewhere = create_site(lab=lab.lab, name="Declared, FR", kind=SiteKind.DECLARED, zone="FR")
    cloud = register_node(
        lab=lab.lab, uuid=uuid4(), hostname="cloud", facts={}, site=elsewhere, now=T0
    )
    with pytest.raises(Conflict):
        move(lab, elsewhere, HOUR)
    with pytest.raises(Conflict):
        move_node(node=cloud, site=paris, from_us=T0, by=lab.owner, now=T0)


def test_a_move_asks_for_what_follows_from_it(lab: SmallLab, paris: Site) -> None:
    Job.objects.all().delete()
    move(lab, paris, HOUR)
    assert set(Job.objects.values_list("kind", "key")) == {
        ("carbon.apply_factors", str(lab.lab.pk)),
        ("attribution.lab", str(lab.lab.pk)),
    }


def test_enrolling_again_does_not_move(lab: SmallLab, paris: Site, oslo: Site) -> None:
    move(lab, paris, HOUR)
    register_node(lab=lab.lab, uuid=lab.node.uuid, hostname="ws-1", facts={}, site=oslo, now=T0)
    assert where(lab) == [(0, HOUR, "Room 1"), (HOUR, None, "Paris")]


def test_the_database_forbids_two_places_in_one_hour_and_time_before_time(
    lab: SmallLab, paris: Site
) -> None:
    move(lab, paris, HOUR)
    for hour in (0, HOUR, -1):
        with pytest.raises(IntegrityError), transaction.atomic():
            Placement.objects.create(node=lab.node, site=paris, from_hour=hour)
    with pytest.raises(ProtectedError):
        paris.delete()
