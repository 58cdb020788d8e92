"""Facts about sites: dated, never rewritten; a change leaves the past, a correction prices it
again.
"""

from collections.abc import Callable
from typing import Any

import pytest
from django.db import IntegrityError, transaction

from apps.accounts.models import OneTimeCode
from apps.core.errors import Conflict, InvalidInput
from apps.core.jobs import run_until_idle
from apps.core.units import US_PER_HOUR
from apps.fleet.choices import SiteKind
from apps.fleet.models import ACTIVE, Site, SitePrice, SitePue, SiteZone
from apps.fleet.selectors import site_of, zone_at, zone_problems, zones_at
from apps.fleet.services import (
    correct_pue,
    correct_zone,
    create_site,
    delete_site,
    issue_enrolment_code,
    move_node,
    rename_site,
    set_price,
    set_pue,
    set_zone,
    undo_move,
    withdraw_site_fact,
)
from tests.builders import T0, SmallLab, small_lab
from tests.fleet.test_moves import HOUR, rows, use

pytestmark = pytest.mark.django_db


@pytest.fixture
def lab() -> SmallLab:
    return small_lab()


def at(hour: int) -> int:
    return hour * US_PER_HOUR


def test_a_change_of_zone_leaves_the_past_and_a_correction_does_not(lab: SmallLab) -> None:
    use(lab, 4)
    germany = rows(lab)
    set_zone(site=lab.site, zone="FR", from_us=at(HOUR + 2), by=lab.owner, now=T0)
    run_until_idle(worker="test")
    changed = rows(lab)
    assert changed[:2] == germany[:2]
    assert all(
        new[3] < old[3]
        for new, old in zip(changed[2:], germany[2:], strict=True)
        if new[3] and old[3]
    )
    assert [zone_at(lab.site, hour) for hour in (0, HOUR + 1, HOUR + 2, HOUR + 9)] == [
        "DE",
        "DE",
        "FR",
        "FR",
    ]
    assert zones_at(lab.lab, HOUR + 1) == {lab.site.pk: "DE"}
    correct_zone(site=lab.site, zone="FR", by=lab.owner, now=T0)
    run_until_idle(worker="test")
    corrected = rows(lab)
    assert corrected[2:] == changed[2:]
    assert corrected[0][3] != changed[0][3]
    assert SiteZone.objects.filter(site=lab.site, withdrawn_by=lab.owner).count() == 2


def test_the_first_zone_of_a_site_holds_from_the_beginning() -> None:
    lab = small_lab(zone="")
    use(lab, 2)
    assert {row[3] for row in rows(lab)} == {None}
    assert [(each.site, each.zone) for each in zone_problems(lab.lab)] == [(lab.site, "")]
    assert zone_at(lab.site, HOUR) == ""
    set_zone(site=lab.site, zone="DE", from_us=at(HOUR + 1), by=lab.owner, now=T0)
    run_until_idle(worker="test")
    assert all(row[3] for row in rows(lab))
    assert zone_at(lab.site, 0) == "DE"
    assert not zone_problems(lab.lab)


def test_withdrawing_the_latest_gives_the_same_integers_as_before(lab: SmallLab) -> None:
    use(lab, 4)
    before = rows(lab)
    zone = set_zone(site=lab.site, zone="FR", from_us=at(HOUR + 1), by=lab.owner, now=T0)
    pue = set_pue(site=lab.site, pue_ppm=1_700_000, from_us=at(HOUR + 2), by=lab.owner, now=T0)
    run_until_idle(worker="test")
    assert rows(lab) != before
    for fact in (pue, zone):
        withdraw_site_fact(fact=fact, by=lab.owner, now=T0)
    run_until_idle(worker="test")
    assert rows(lab) == before


def test_only_the_latest_is_withdrawn_and_never_the_first(lab: SmallLab) -> None:
    first = SitePue.objects.get(site=lab.site)
    later = set_pue(site=lab.site, pue_ppm=1_700_000, from_us=at(HOUR), by=lab.owner, now=T0)
    with pytest.raises(Conflict, match="not the latest"):
        withdraw_site_fact(fact=first, by=lab.owner, now=T0)
    withdraw_site_fact(fact=later, by=lab.owner, now=T0)
    for fact in (first, SiteZone.objects.get(site=lab.site)):
        with pytest.raises(Conflict, match="first entry of a history"):
            withdraw_site_fact(fact=fact, by=lab.owner, now=T0)


def test_nothing_is_rewritten_silently(lab: SmallLab) -> None:
    set_pue(site=lab.site, pue_ppm=1_700_000, from_us=at(HOUR), by=lab.owner, now=T0)
    set_zone(site=lab.site, zone="FR", from_us=at(HOUR), by=lab.owner, now=T0)
    set_price(
        site=lab.site,
        ucurrency_per_kwh=310_000,
        currency="EUR",
        from_us=at(HOUR),
        by=lab.owner,
        now=T0,
    )
    again: list[Callable[[], Any]] = [
        lambda: set_pue(
            site=lab.site, pue_ppm=1_200_000, from_us=at(HOUR) + 5, by=lab.owner, now=T0
        ),
        lambda: set_zone(site=lab.site, zone="NO", from_us=at(HOUR) + 5, by=lab.owner, now=T0),
        lambda: set_price(
            site=lab.site,
            ucurrency_per_kwh=1,
            currency="EUR",
            from_us=at(HOUR) + 5,
            by=lab.owner,
            now=T0,
        ),
    ]
    for record in again:
        with pytest.raises(Conflict, match="already recorded for this hour"):
            record()
    assert SitePue.objects.get(ACTIVE, site=lab.site, from_hour=HOUR).pue_ppm == 1_700_000


def test_a_pue_that_was_always_so(lab: SmallLab) -> None:
    use(lab, 3)
    set_pue(site=lab.site, pue_ppm=1_700_000, from_us=at(HOUR + 1), by=lab.owner, now=T0)
    correct_pue(site=lab.site, pue_ppm=1_300_000, note="meter of the room", by=lab.owner, now=T0)
    run_until_idle(worker="test")
    assert {row[2] for row in rows(lab)} == {1_300_000}
    for wrong in (999_999, 0):
        with pytest.raises(InvalidInput):
            correct_pue(site=lab.site, pue_ppm=wrong, by=lab.owner, now=T0)


def test_prices_are_a_history_and_may_all_be_withdrawn(lab: SmallLab) -> None:
    for hour, price in ((HOUR, 310_000), (HOUR + 5, 290_000)):
        set_price(
            site=lab.site,
            ucurrency_per_kwh=price,
            currency="EUR",
            from_us=at(hour),
            by=lab.owner,
            now=T0,
        )
    for wrong, field in (({"currency": "EURO"}, "currency"), ({"ucurrency_per_kwh": -1}, "price")):
        asked: dict[str, Any] = {"ucurrency_per_kwh": 1, "currency": "EUR", **wrong}
        with pytest.raises(InvalidInput) as refused:
            set_price(site=lab.site, from_us=at(HOUR + 9), by=lab.owner, now=T0, **asked)
        assert refused.value.field == field
    for fact in SitePrice.objects.filter(site=lab.site).order_by("-from_hour"):
        withdraw_site_fact(fact=fact, by=lab.owner, now=T0)
    assert not SitePrice.objects.filter(ACTIVE).exists()


def test_names_are_one_per_lab(lab: SmallLab) -> None:
    other = create_site(lab=lab.lab, name=" Basement ", kind=SiteKind.MACHINE_ROOM, zone="")
    assert other.name == "Basement"
    for name, error in (("Room 1", Conflict), ("  ", InvalidInput), ("n" * 201, InvalidInput)):
        with pytest.raises(error):
            rename_site(site=other, name=name, by=lab.owner, now=T0)
        with pytest.raises(error):
            create_site(lab=lab.lab, name=name, kind=SiteKind.WORKSTATION, zone="")
    rename_site(site=lab.site, name="Room 1", by=lab.owner, now=T0)
    rename_site(site=other, name="Cellar", by=lab.owner, now=T0)
    assert sorted(Site.objects.filter(lab=lab.lab).values_list("name", flat=True)) == [
        "Cellar",
        "Room 1",
    ]
    assert small_lab(name="Theirs").site.name == "Room 1", "another lab has its own names"


def test_a_site_is_deleted_only_if_nothing_ever_stood_there(lab: SmallLab) -> None:
    wrong = create_site(lab=lab.lab, name="Pariss", kind=SiteKind.MACHINE_ROOM, zone="FR")
    moved = move_node(node=lab.node, site=wrong, from_us=at(HOUR), by=lab.owner, now=T0)
    for site in (wrong, lab.site):
        with pytest.raises(Conflict, match="cannot be deleted"):
            delete_site(site=site, by=lab.owner, now=T0)
    undo_move(placement=moved, by=lab.owner, now=T0)
    issue_enrolment_code(lab=lab.lab, site=wrong, by=lab.owner, now=T0)
    gone = wrong.pk
    delete_site(site=wrong, by=lab.owner, now=T0)
    assert site_of(lab.lab, gone) is None
    assert not OneTimeCode.objects.exists(), "a code for a place that is gone enrols nowhere else"


def test_the_database_forbids_the_impossible(lab: SmallLab) -> None:
    told: list[Callable[[], Any]] = [
        lambda: SiteZone.objects.create(site=lab.site, from_hour=0, zone="FR"),
        lambda: SiteZone.objects.create(site=lab.site, from_hour=5, zone=""),
        lambda: SiteZone.objects.create(site=lab.site, from_hour=-1, zone="FR"),
        lambda: SitePue.objects.create(site=lab.site, from_hour=0, pue_ppm=1_200_000),
        lambda: SitePue.objects.create(site=lab.site, from_hour=5, pue_ppm=999_999),
        lambda: SitePue.objects.create(site=lab.site, from_hour=-1, pue_ppm=1_200_000),
        lambda: SitePrice.objects.create(
            site=lab.site, from_hour=5, ucurrency_per_kwh=-1, currency="EUR"
        ),
        lambda: SitePrice.objects.create(
            site=lab.site, from_hour=5, ucurrency_per_kwh=1, currency=""
        ),
        lambda: SitePrice.objects.create(
            site=lab.site, from_hour=-1, ucurrency_per_kwh=1, currency="EUR"
        ),
        lambda: [
            SitePrice.objects.create(
                site=lab.site, from_hour=5, ucurrency_per_kwh=1, currency="EUR"
            )
            for _ in "ab"
        ],
    ]
    for record in told:
        with pytest.raises(IntegrityError), transaction.atomic():
            record()
