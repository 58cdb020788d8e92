"""Sums that the database makes of lives and charges are those of the pure calculation, at any hour, for any history."""

from collections import defaultdict
from typing import Any

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.accounts.models import Project
from apps.accounts.services import create_project
from apps.assets import calc
from apps.assets.charging import as_charge, events_of
from apps.assets.choices import OPENING, ChargeKind, EventKind
from apps.assets.history import Event
from apps.assets.models import Asset, EmbodiedCharge, LifecycleEvent
from apps.assets.selectors import Book, Filters, accounts_of, assets_of, books_of, charged_by, matching, spread_of
from apps.assets.services import Embodied, Entry, record, reverse, store
from apps.core.errors import Conflict, InvalidInput
from apps.core.units import US_PER_HOUR
from tests.assets.support import H0, KG, YEAR, bought
from tests.builders import T0, SmallLab, small_lab

pytestmark = pytest.mark.django_db
NOW = T0 + 5 * YEAR * US_PER_HOUR
END = H0 + 5 * YEAR

kinds = st.sampled_from([kind.value for kind in EventKind if kind not in (*OPENING, EventKind.REVERSAL)])
steps = st.lists(
    st.tuples(
        st.one_of(kinds, st.just("undo")), st.integers(0, 5 * YEAR - 1), st.integers(0, 10**12), st.integers(0, 2),
        st.integers(1, 6 * YEAR),
    ),
    max_size=9,
)  # fmt: skip


@pytest.fixture
def lab() -> SmallLab:
    return small_lab()


def _entry(kind: str, hour: int, amount: int, project: Project | None, end: int) -> Entry:
    takes: dict[str, dict[str, Any]] = {
        "transfer": {"project": project}, "lend": {"project": project, "counterpart": "" if project else "Ministry"},
        "repair": {"embodied": Embodied(amount, amount // 2, amount * 2)}, "dispose": {"embodied": Embodied(amount)},
        "life_change": {"life_end_us": T0 + end * US_PER_HOUR}, "repurpose": {"life_end_us": T0 + end * US_PER_HOUR},
    }  # fmt: skip
    return Entry(kind, T0 + hour * US_PER_HOUR, **takes.get(kind, {}))


def _lived(asset: Asset, lab: SmallLab, told: list[tuple[str, int, int, int, int]], owners: list[Project | None]) -> None:
    for kind, hour, amount, who, end in told:
        try:
            with transaction.atomic():
                if kind == "undo":  # of anything but how it was bought, reversals among them
                    rows = LifecycleEvent.objects.filter(asset=asset).exclude(kind__in=OPENING).order_by("pk")
                    if rows:
                        reverse(event=rows[hour % len(rows)], by=None, now=NOW)
                else:
                    record(asset=asset, entry=_entry(kind, hour, amount, owners[who], end), by=None, now=NOW)
        except (Conflict, InvalidInput):
            continue


def _planned_end(events: list[Event]) -> int | None:
    life = calc._Life()
    for event in events:
        calc._applied(life, event)
    return life.end_hour if life.begun else None


def test_books_are_those_of_the_calculation(lab: SmallLab) -> None:
    owners = [None, create_project(lab=lab.lab, slug="vision", name="Vision", now=T0)]
    owners.append(create_project(lab=lab.lab, slug="nlp", name="NLP", now=T0))

    @settings(max_examples=30)
    @given(steps, st.booleans(), st.lists(st.integers(-10, 6 * YEAR), max_size=3), st.one_of(st.none(), st.integers(0, 999)))
    def check(told: list[tuple[str, int, int, int, int]], used: bool, hours: list[int], kg: int | None) -> None:
        with transaction.atomic():
            asset = bought(lab, kg=kg, now=NOW, deployed=used)
            _lived(asset, lab, told, owners)
            charges = [as_charge(row) for row in EmbodiedCharge.objects.filter(asset=asset)]
            events = events_of([asset.pk])[asset.pk]
            for hour in (*(H0 + each for each in hours), END):
                before = [event for event in events if event.hour < hour]
                found = books_of(assets_of(lab.lab), hour).get(asset.pk)
                if not before:
                    assert found is None
                    continue
                assert found is not None
                assert found.account == calc.account(events, charges, hour)
                assert accounts_of([asset.pk], hour) == {asset.pk: found.account}
                assert found.life_end_hour == _planned_end(before)
            _sums(lab, charges, sorted(H0 + each for each in hours))
            transaction.set_rollback(True)

    check()


def _sums(lab: SmallLab, charges: list[calc.Charge], hours: list[int]) -> None:
    """Whatever way a period is cut and grouped, the parts are those of the calculation, up to now."""
    end = NOW // US_PER_HOUR + 1
    wanted: dict[tuple[int | None, str], int] = defaultdict(int)
    for charge in charges:
        if charge.kind != ChargeKind.WRITTEN_OFF and charge.from_hour < end:
            wanted[charge.project_id, charge.kind] += charge.within(H0 + 5, end)
    period: dict[str, Any] = {"from_hour": H0 + 5, "to_hour": END + 10 * YEAR, "now": NOW}
    found = charged_by(lab.lab, **period, group_by=("project", "kind"))
    assert {key: part for key, part in found.items() if part} == {key: part for key, part in wanted.items() if part}
    cut = charged_by(lab.lab, **period, group_by=("asset",), edges=hours)
    assert sum(cut.values()) == sum(wanted.values())
    off = sum(charge.within(H0 + 5, end) for charge in charges if charge.kind == ChargeKind.WRITTEN_OFF)
    assert sum(charged_by(lab.lab, **period, group_by=(), written_off=True).values()) == off


def test_pieces_are_numbered_and_groups_are_named(lab: SmallLab) -> None:
    vision = create_project(lab=lab.lab, slug="vision", name="Vision", now=T0)
    asset = bought(lab, kg=400, kind="storage")
    server = bought(lab, kg=400, kind="server", name="gpu-01", opening={"project": vision})
    store(asset=asset, project=vision, gigabytes=1, from_us=T0 + YEAR * US_PER_HOUR, by=lab.owner, now=NOW)
    edges = [H0 + YEAR]
    found = charged_by(lab.lab, from_hour=H0, to_hour=H0 + 2 * YEAR, now=NOW, group_by=("hardware", "project"), edges=edges)
    assert found == {
        (0, "storage", None): 100 * KG, (1, "storage", vision.pk): 100 * KG, (0, "server", vision.pk): 100 * KG,
        (1, "server", vision.pk): 100 * KG,
    }  # fmt: skip
    only = charged_by(
        lab.lab, from_hour=H0, to_hour=H0 + YEAR, now=NOW, group_by=("asset",), assets=matching(lab.lab, Filters("server"))
    )
    assert only == {(server.pk,): 100 * KG}


def test_what_is_to_come_is_not_charged_yet_and_the_hour_at_hand_is(lab: SmallLab) -> None:
    bought(lab, kg=YEAR, years=1)
    found = charged_by(lab.lab, from_hour=H0, to_hour=H0 + YEAR, now=T0 + 9 * US_PER_HOUR + 1)
    assert found == {(None,): 10 * KG}
    assert charged_by(lab.lab, from_hour=H0 + 20, to_hour=H0 + 30, now=T0) == {}
    other = small_lab(name="Other")
    assert charged_by(other.lab, from_hour=0, to_hour=H0 + YEAR, now=NOW) == {}


def test_ranges_of_one_figure_add_and_of_different_ones_combine() -> None:
    def book(figure: int | None) -> Book:
        return Book(total_ug=100, low_ug=70, high_ug=140, figure_id=figure)

    assert spread_of({1: book(7), 2: book(7)}) == (60, 80)
    assert spread_of({1: book(None), 2: book(None)}) == (42, 56), "two values of one's own are two sources"
    assert spread_of({1: book(7), 2: book(8), 3: Book()}) == (42, 56)


def test_what_is_not_known_is_no_zero(lab: SmallLab) -> None:
    asset = bought(lab, kg=None)
    book = books_of(assets_of(lab.lab), END)[asset.pk]
    assert (book.total_ug, book.at_least) == (None, False)
    record(asset=asset, entry=Entry("repair", T0, embodied=Embodied(KG)), by=None, now=NOW)
    book = books_of(assets_of(lab.lab), END)[asset.pk]
    assert (book.total_ug, book.at_least) == (KG, True)


def test_the_number_of_queries_does_not_grow(lab: SmallLab) -> None:
    def queries() -> int:
        with CaptureQueriesContext(connection) as captured:
            books_of(assets_of(lab.lab), END)
        return len(captured)

    bought(lab)
    first = queries()
    for i in range(9):
        bought(lab, name=f"GPU {i}")
    assert queries() == first == 4
