"""Sums that the database makes of lives and charges are those of the pure calculation, at any
hour, for any history.
"""

from collections import defaultdict
from collections.abc import Mapping
from math import isqrt
from typing import Any

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.accounts.models import Project
from apps.accounts.services.labs import create_project
from apps.assets import amortisation
from apps.assets.balances import COLUMNS, YEAR_HOURS
from apps.assets.choices import ChargeKind
from apps.assets.models import EmbodiedCharge
from apps.assets.selectors import (
    Book,
    Books,
    Filters,
    Sums,
    accounts_of,
    assets_of,
    books_of,
    charged_by,
    matching,
)
from apps.assets.services import Draft, Embodied, Entry, Facts, record, register, store
from apps.assets.services.charges import as_charge, events_of, recharge_lab
from apps.assets.services.recompute import differing
from apps.catalog.models import EmbodiedFigure, HardwareModel
from apps.core.units import US_PER_HOUR
from tests.assets.histories import Clock, planned_end, steps, summarise_lifecycle
from tests.assets.support import H0, KG, YEAR, bought
from tests.builders import T0, SmallLab, small_lab
from tests.examples import examples

pytestmark = pytest.mark.django_db
NOW = T0 + 5 * YEAR * US_PER_HOUR
END = H0 + 5 * YEAR


def test_books_are_those_of_the_calculation(lab: SmallLab, clock: Clock) -> None:
    owners = [None, create_project(lab=lab.lab, slug="vision", name="Vision", now=T0)]
    owners.append(create_project(lab=lab.lab, slug="nlp", name="NLP", now=T0))

    @settings(max_examples=examples(30))
    @given(
        steps,
        st.booleans(),
        st.lists(st.integers(-10, 6 * YEAR), max_size=3),
        st.one_of(st.none(), st.integers(0, 999)),
    )
    def check(
        told: list[tuple[str, int, int, int, int]], used: bool, hours: list[int], kg: int | None
    ) -> None:
        with transaction.atomic():
            clock.hour = H0
            asset = bought(lab, kg=kg, now=NOW, deployed=used)
            summarise_lifecycle(asset, told, owners, clock)
            assert differing(lab=lab.lab, repair=False) == []
            charges = [as_charge(row) for row in EmbodiedCharge.objects.filter(asset=asset)]
            events = events_of([asset.pk])[asset.pk]
            for hour in (*(H0 + each for each in hours), END):
                before = [event for event in events if event.hour < hour]
                found = books_of(assets_of(lab.lab), hour).get(asset.pk)
                if not before:
                    assert found is None
                    continue
                assert found is not None
                assert found.account == amortisation.account(events, charges, hour)
                assert accounts_of([asset.pk], hour) == {asset.pk: found.account}
                assert found.life_end_hour == planned_end(before)
            _sums(lab, charges, sorted(H0 + each for each in hours))
            transaction.set_rollback(True)

    check()


def test_sums_and_orders_are_those_of_the_books(lab: SmallLab, clock: Clock) -> None:
    owners: list[Project | None] = [
        None,
        create_project(lab=lab.lab, slug="vision", name="Vision", now=T0),
        None,
    ]
    other = small_lab(name="Other")

    @settings(max_examples=examples(15))
    @given(
        st.lists(steps, min_size=2, max_size=3),
        st.lists(st.integers(-10, 6 * YEAR), max_size=2),
        st.booleans(),
    )
    def check(
        lives: list[list[tuple[str, int, int, int, int]]], hours: list[int], past: bool
    ) -> None:
        with transaction.atomic():
            clock.hour = H0 - 5 * YEAR if past else H0
            bought(other, kg=9)
            for i, told in enumerate(lives):
                at_us = T0 + i * 3_000 * US_PER_HOUR
                thing = bought(
                    lab,
                    name=f"Thing {9 - i}",
                    kind="gpu" if i else "server",
                    kg=i * 70 or None,
                    at_us=at_us,
                    now=NOW,
                )
                summarise_lifecycle(thing, told, owners, clock)
            assert differing(lab=lab.lab, repair=False) == []
            for hour in (*(H0 + each for each in hours), END):
                _as_the_books(lab, hour)
            recharge_lab(lab=lab.lab)
            assert differing(lab=lab.lab, repair=False) == []
            _as_the_books(lab, END)
            transaction.set_rollback(True)

    check()


def _as_the_books(lab: SmallLab, hour: int) -> None:
    assets = assets_of(lab.lab)
    books, every = books_of(assets, hour), Books(lab.lab, assets, hour)
    there = {pk: (kind, books.get(pk, Book())) for pk, kind in assets.values_list("pk", "kind")}
    assert every.whole() == _summed([book for _, book in there.values()], hour)
    assert every.spread() == _spread(books)
    starts = [H0 + 1_000, H0 + 5_000]
    cells: dict[tuple[str, int | None], list[Book]] = defaultdict(list)
    for kind, book in there.values():
        place = (
            None if book.bought_hour is None else sum(start <= book.bought_hour for start in starts)
        )
        cells[kind, place].append(book)
    assert every.by_kind_and_year(starts) == {
        key: _summed(listed, hour) for key, listed in cells.items()
    }
    bought_in = [book.bought_hour for book in books.values() if book.bought_hour is not None]
    assert every.bought() == ((min(bought_in), max(bought_in)) if bought_in else None)
    for column in COLUMNS:
        for falling in (False, True):
            wanted = _in_order(lab, {pk: book for pk, (_, book) in there.items()}, column, falling)
            assert every.sorted(column, falling=falling, limit=2, offset=0) == wanted[:2], column
            assert every.sorted(column, falling=falling, limit=2, offset=2) == wanted[2:4], column
    ends = sorted(
        (book.life_end_hour, pk) for pk, book in books.items() if book.life_end_hour is not None
    )
    assert every.ending(H0 + YEAR, END, 1) == [pk for end, pk in ends if H0 + YEAR <= end < END][:1]


def _summed(books: list[Book], hour: int) -> Sums:
    known = [book for book in books if book.total_ug is not None]
    ends = [book.life_end_hour for book in books if book.life_end_hour is not None]
    totals = [book.total_ug or 0 for book in known]
    return Sums(
        len(books),
        len(known),
        len(ends),
        sum(end < hour for end in ends),
        sum(hour <= end < hour + YEAR_HOURS for end in ends),
        sum(totals),
        sum(book.charged_ug for book in known),
        sum(book.written_off_ug for book in known),
        max(totals, default=0),
    )


def _in_order(lab: SmallLab, books: Mapping[int, Book], column: str, falling: bool) -> list[int]:
    """Return ids by a column, those without a value last, by name."""
    names = dict(assets_of(lab.lab).values_list("pk", "name"))

    def value(book: Book) -> int | None:
        if column == "age":
            return None if book.bought_hour is None else -book.bought_hour
        if column == "end":
            return book.life_end_hour
        told = {"embodied": book.total_ug, "charged": book.charged_ug, "balance": book.balance_ug}[
            column
        ]
        return None if book.total_ug is None else told

    found = {pk: value(book) for pk, book in books.items()}
    told = sorted(
        ((number, pk) for pk, number in found.items() if number is not None), reverse=falling
    )
    return [
        *(pk for _, pk in told),
        *sorted((pk for pk in found if found[pk] is None), key=lambda pk: (names[pk], pk)),
    ]


def _spread(books: Mapping[int, Book]) -> tuple[int, int]:
    """What rests on one figure adds; different sources combine in quadrature."""
    less: dict[int, int] = defaultdict(int)
    more: dict[int, int] = defaultdict(int)
    for asset_id, book in books.items():
        if book.total_ug is not None:
            less[book.figure_id or -asset_id] += book.total_ug - book.low_ug
            more[book.figure_id or -asset_id] += book.high_ug - book.total_ug
    return isqrt(sum(part * part for part in less.values())), isqrt(
        sum(part * part for part in more.values())
    )


def _sums(lab: SmallLab, charges: list[amortisation.Charge], hours: list[int]) -> None:
    """Whatever way a period is cut and grouped, the parts are those of the calculation, up to
    now.
    """
    end = NOW // US_PER_HOUR + 1
    wanted: dict[tuple[int | None, str], int] = defaultdict(int)
    for charge in charges:
        if charge.kind != ChargeKind.WRITTEN_OFF and charge.from_hour < end:
            wanted[charge.project_id, charge.kind] += charge.within(H0 + 5, end)
    period: dict[str, Any] = {"from_hour": H0 + 5, "to_hour": END + 10 * YEAR, "now": NOW}
    found = charged_by(lab.lab, **period, group_by=("project", "kind"))
    assert {key: part for key, part in found.items() if part} == {
        key: part for key, part in wanted.items() if part
    }
    cut = charged_by(lab.lab, **period, group_by=("asset",), edges=hours)
    assert sum(cut.values()) == sum(wanted.values())
    off = sum(
        charge.within(H0 + 5, end) for charge in charges if charge.kind == ChargeKind.WRITTEN_OFF
    )
    assert sum(charged_by(lab.lab, **period, group_by=(), written_off=True).values()) == off


def test_pieces_are_numbered_and_groups_are_named(lab: SmallLab) -> None:
    vision = create_project(lab=lab.lab, slug="vision", name="Vision", now=T0)
    asset = bought(lab, kg=400, kind="storage")
    server = bought(lab, kg=400, kind="server", name="gpu-01", opening={"project": vision})
    store(
        asset=asset,
        project=vision,
        gigabytes=1,
        from_us=T0 + YEAR * US_PER_HOUR,
        by=lab.owner,
        now=NOW,
    )
    edges = [H0 + YEAR]
    found = charged_by(
        lab.lab,
        from_hour=H0,
        to_hour=H0 + 2 * YEAR,
        now=NOW,
        group_by=("hardware", "project"),
        edges=edges,
    )
    assert found == {
        (0, "storage", None): 100 * KG,
        (1, "storage", vision.pk): 100 * KG,
        (0, "server", vision.pk): 100 * KG,
        (1, "server", vision.pk): 100 * KG,
    }
    only = charged_by(
        lab.lab,
        from_hour=H0,
        to_hour=H0 + YEAR,
        now=NOW,
        group_by=("asset",),
        assets=matching(lab.lab, Filters("server")),
    )
    assert only == {(server.pk,): 100 * KG}


def test_what_is_to_come_is_not_charged_yet_and_the_hour_at_hand_is(lab: SmallLab) -> None:
    bought(lab, kg=YEAR, years=1)
    found = charged_by(lab.lab, from_hour=H0, to_hour=H0 + YEAR, now=T0 + 9 * US_PER_HOUR + 1)
    assert found == {(None,): 10 * KG}
    assert charged_by(lab.lab, from_hour=H0 + 20, to_hour=H0 + 30, now=T0) == {}
    other = small_lab(name="Other")
    assert charged_by(other.lab, from_hour=0, to_hour=H0 + YEAR, now=NOW) == {}


def test_ranges_of_one_figure_add_and_of_different_ones_combine(lab: SmallLab) -> None:
    def ranged(*figures: EmbodiedFigure | None) -> tuple[int, int]:
        with transaction.atomic():
            for figure in figures:
                opening = Entry(
                    "purchase",
                    T0,
                    Embodied(100 * KG, 70 * KG, 140 * KG, figure=figure),
                    life_hours=YEAR,
                )
                register(lab=lab.lab, draft=Draft(Facts("GPU", "gpu"), opening), by=None, now=NOW)
            bought(lab, kg=None)
            found = Books(lab.lab, assets_of(lab.lab), END).spread()
            transaction.set_rollback(True)
        return found[0] // KG, found[1] // KG

    model = HardwareModel.objects.create(
        kind="gpu", name="X100", match_key="x100", source="s", licence="l"
    )
    one, two = (
        EmbodiedFigure.objects.create(
            model=model,
            method=method,
            total_ug=100 * KG,
            low_ug=70 * KG,
            high_ug=140 * KG,
            source="A study",
            licence="l",
            confidence="read",
            uploaded_us=T0,
        )
        for method in ("lca", "pcf")
    )
    assert ranged(one, one) == (60, 80)
    assert ranged(None, None) == (42, 56), "two values of one's own are two sources"
    assert ranged(one, two) == (42, 56)
    assert ranged() == (0, 0)


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
    assert queries() == first == 1
