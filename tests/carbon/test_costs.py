"""Costs: dated prices of sites, rounded once per ledger entry, one currency, unknown is not 0."""

from __future__ import annotations

import uuid
from collections import defaultdict
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.carbon.figures.cost import cost_of
from apps.carbon.figures.energy import Figure, entries, figure, figures_by
from apps.carbon.figures.figure_query import COST, FigureQuery
from apps.carbon.models import AppliedFactor
from apps.core.jobs import run_until_idle
from apps.core.units import US_PER_HOUR, hour_of
from apps.energy.models import LedgerEntry
from apps.fleet.choices import SiteKind
from apps.fleet.models import SitePrice
from apps.fleet.services import (
    create_site,
    move_node,
    register_node,
    set_price,
    set_pue,
    withdraw_site_fact,
)
from tests.builders import MINUTE, T0, SmallLab, W, push, small_lab
from tests.examples import examples
from tests.properties.histories import undone

pytestmark = pytest.mark.django_db
H0 = hour_of(T0)
HOURS = 60
WHOLE = FigureQuery(COST, H0 - 100, H0 + 400)
LATER = (H0 + 500) * US_PER_HOUR


def used(lab: SmallLab, *amounts: int, node: Any = None, first: int = 0) -> None:
    """Use ``amounts`` of energy, one an hour."""
    windows = [
        W(
            "gpu:GPU-aaaa" if node is None else f"gpu:GPU-{node.hostname}",
            amount,
            (H0 + first + i) * US_PER_HOUR,
            (H0 + first + i) * US_PER_HOUR + MINUTE,
            seq=first + i,
        )
        for i, amount in enumerate(amounts)
    ]
    push(node or lab.node, windows, sent_at=LATER)


def priced(site: Any, ucurrency_per_kwh: int, offset: int, currency: str = "EUR") -> SitePrice:
    price = set_price(
        site=site,
        ucurrency_per_kwh=ucurrency_per_kwh,
        currency=currency,
        from_us=(H0 + offset) * US_PER_HOUR,
        by=None,
        now=T0,
    )
    run_until_idle(worker="test")
    return price


@pytest.fixture
def lab() -> SmallLab:
    return small_lab()


def test_a_cost_is_facility_energy_times_the_price_of_its_hour(lab: SmallLab) -> None:
    used(lab, 3_600_000, 3_600_000, 3_600_000)  # 1 Wh an hour; PUE of a workstation: 1.0
    priced(lab.site, 310_000, 1)
    priced(lab.site, 400_001, 2)
    lab.lab.refresh_from_db()
    assert lab.lab.currency == "EUR"
    assert figure(lab.lab, WHOLE) == Figure(
        energy_mj=10_800_000,
        facility_energy_mj=10_800_000,
        emission_ug=figure(lab.lab, WHOLE).emission_ug,
        cost_ucurrency=310 + 400,  # 0.310 and 0.400001 thousandths, rounded each
        without_price_mj=3_600_000,  # before the first price: unknown, not free
        entries=3,
    )
    [newest, middle, oldest] = entries(lab.lab, WHOLE)
    assert [row["cost_ucurrency"] for row in (newest, middle, oldest)] == [400, 310, None]
    assert [row["price_ucurrency_per_kwh"] for row in (newest, middle, oldest)] == [
        400_001, 310_000, None,
    ]  # fmt: skip


def test_a_price_of_nothing_is_known(lab: SmallLab) -> None:
    used(lab, 3_600_000)
    priced(lab.site, 0, -50)
    lab.lab.refresh_from_db()
    found = figure(lab.lab, WHOLE)
    assert (found.cost_ucurrency, found.without_price_mj) == (0, 0)
    assert cost_of(lab.lab, WHOLE).sites_without_price == []


def test_another_currency_stands_apart(lab: SmallLab) -> None:
    abroad = create_site(lab=lab.lab, name="Bern", kind=SiteKind.WORKSTATION, zone="CH", now=T0)
    nowhere = create_site(lab=lab.lab, name="Attic", kind=SiteKind.WORKSTATION, zone="DE", now=T0)
    nodes = [
        register_node(lab=lab.lab, uuid=uuid.uuid4(), hostname=name, facts={}, site=site, now=T0)
        for name, site in (("bern", abroad), ("attic", nowhere))
    ]
    run_until_idle(worker="test")
    used(lab, 3_600_000)
    used(lab, 7_200_000, node=nodes[0])
    used(lab, 1_800_000, node=nodes[1])
    priced(lab.site, 300_000, -50)
    priced(abroad, 200_000, -50, "CHF")
    lab.lab.refresh_from_db()
    cost = cost_of(lab.lab, WHOLE.replace(metric="energy_mj"))
    assert (cost.own.currency, cost.own.cost_ucurrency, cost.own.energy_mj) == (
        "EUR", 300, 3_600_000,
    )  # fmt: skip
    assert [(other.currency, other.cost_ucurrency, other.energy_mj) for other in cost.others] == [
        ("CHF", 400, 7_200_000)
    ]
    assert cost.without_price_mj == 1_800_000
    assert cost.energy_mj == 12_600_000
    assert cost.known_ppm == 285_714
    assert [site.name for site in cost.sites_without_price] == ["Attic"]
    whole = figure(lab.lab, WHOLE)
    assert (whole.cost_ucurrency, whole.without_price_mj) == (300, 9_000_000)
    francs = figure(lab.lab, cost.others[0].query)
    assert (francs.cost_ucurrency, francs.without_price_mj) == (400, 5_400_000)


def test_the_currency_is_that_of_the_first_price_until_none_is_left(lab: SmallLab) -> None:
    used(lab, 3_600_000)
    wrong = priced(lab.site, 300_000, -50, "USD")
    lab.lab.refresh_from_db()
    assert lab.lab.currency == "USD"
    withdraw_site_fact(fact=wrong, by=None, now=T0)
    run_until_idle(worker="test")
    lab.lab.refresh_from_db()
    assert lab.lab.currency == ""
    assert figure(lab.lab, WHOLE).without_price_mj == 3_600_000
    priced(lab.site, 300_000, -50)
    lab.lab.refresh_from_db()
    assert (lab.lab.currency, figure(lab.lab, WHOLE).cost_ucurrency) == ("EUR", 300)


def test_a_withdrawn_currency_gives_way_to_the_one_that_is_left(lab: SmallLab) -> None:
    used(lab, 3_600_000)
    abroad = create_site(lab=lab.lab, name="Bern", kind=SiteKind.WORKSTATION, zone="CH", now=T0)
    wrong = priced(abroad, 300_000, -50, "USD")
    priced(lab.site, 310_000, -50)
    lab.lab.refresh_from_db()
    assert (lab.lab.currency, figure(lab.lab, WHOLE).cost_ucurrency) == ("USD", 0)
    withdraw_site_fact(fact=wrong, by=None, now=T0)
    run_until_idle(worker="test")
    lab.lab.refresh_from_db()
    assert (lab.lab.currency, figure(lab.lab, WHOLE).cost_ucurrency) == ("EUR", 310)


def test_a_price_changes_no_energy_and_no_emission(lab: SmallLab) -> None:
    used(lab, *range(1, 30))
    before = figure(lab.lab, WHOLE)
    spans = list(AppliedFactor.objects.values_list("node", "pue_ppm", "factor").distinct())
    priced(lab.site, 123_457, 3)
    lab.lab.refresh_from_db()
    after = figure(lab.lab, WHOLE)
    assert list(AppliedFactor.objects.values_list("node", "pue_ppm", "factor").distinct()) == spans
    for name in ("energy_mj", "facility_energy_mj", "emission_ug", "without_factor_mj", "entries"):
        assert getattr(after, name) == getattr(before, name)


def test_queries_do_not_grow_with_prices(lab: SmallLab, django_assert_num_queries: Any) -> None:
    used(lab, *[1_000_000] * 20)
    priced(lab.site, 100_000, 1)
    lab.lab.refresh_from_db()
    with django_assert_num_queries(7):
        cost_of(lab.lab, WHOLE)
    for offset in range(2, 15):
        priced(lab.site, 100_000 + offset, offset, "EUR" if offset % 3 else "CHF")
    with django_assert_num_queries(7):
        cost_of(lab.lab, WHOLE)


def rounded(value: Fraction) -> int:
    """Return the nearest integer, half up."""
    doubled = 2 * value + 1
    return doubled.numerator // (2 * doubled.denominator)


prices = st.lists(
    st.tuples(
        st.integers(0, 1),  # site
        st.integers(0, HOURS),
        st.integers(0, 5_000_000),
        st.sampled_from(["EUR", "EUR", "CHF"]),
    ),
    max_size=6,
    unique_by=lambda price: price[:2],
)
pues = st.lists(
    st.tuples(st.integers(0, 1), st.integers(0, HOURS), st.integers(1_000_000, 3_000_000)),
    max_size=4,
    unique_by=lambda pue: pue[:2],
)
moves = st.lists(
    st.tuples(st.integers(1, HOURS), st.integers(0, 1)), max_size=3, unique_by=lambda move: move[0]
)


def test_costs_are_those_of_an_oracle_and_add_up() -> None:
    """The oracle walks over hours and facts with exact fractions."""
    lab = small_lab()
    other = create_site(
        lab=lab.lab, name="Hall", kind=SiteKind.WORKSTATION, zone="FR", pue_ppm=1_200_000, now=T0
    )
    sites = (lab.site, other)

    @settings(max_examples=examples(40))
    @given(
        st.dictionaries(st.integers(0, HOURS), st.integers(0, 10**7), max_size=12),
        prices,
        pues,
        moves,
    )
    def check(
        energies: dict[int, int],
        price_facts: list[tuple[int, int, int, str]],
        pue_facts: list[tuple[int, int, int]],
        move_facts: list[tuple[int, int]],
    ) -> None:
        with undone():
            for offset, amount in energies.items():
                used(lab, amount, first=offset)
            for offset, site in move_facts:
                at = (H0 + offset) * US_PER_HOUR
                move_node(node=lab.node, site=sites[site], from_us=at, by=None, now=T0)
            for site, offset, pue_ppm in pue_facts:
                at = (H0 + offset) * US_PER_HOUR
                set_pue(site=sites[site], pue_ppm=pue_ppm, from_us=at, by=None, now=T0)
            for site, offset, ucurrency, currency in price_facts:
                set_price(
                    site=sites[site],
                    ucurrency_per_kwh=ucurrency,
                    currency=currency,
                    from_us=(H0 + offset) * US_PER_HOUR,
                    by=None,
                    now=T0,
                )
            run_until_idle(worker="test")
            lab.lab.refresh_from_db()
            own = price_facts[0][3] if price_facts else ""

            def latest(facts: list[tuple[Any, ...]], first: Any) -> Any:
                return max(facts, default=first)[1]

            costs: dict[str, int] = defaultdict(int)
            energy: dict[str, int] = defaultdict(int)
            for entry in LedgerEntry.objects.filter(lab=lab.lab):
                offset = entry.hour - H0
                site = latest([(at, to) for at, to in move_facts if at <= offset], (0, 0))
                pue = latest(
                    [(at, ppm) for of, at, ppm in pue_facts if of == site and at <= offset],
                    (0, (1_000_000, 1_200_000)[site]),
                )
                price, currency = latest(
                    [
                        (at, (ucurrency, code))
                        for of, at, ucurrency, code in price_facts
                        if of == site and at <= offset
                    ],
                    (0, (None, "")),
                )
                energy[currency] += entry.energy_mj
                if price is not None:
                    kwh = Fraction(entry.energy_mj, 3_600_000_000) * Fraction(pue, 1_000_000)
                    costs[currency] += rounded(kwh * price)

            assert lab.lab.currency == own
            whole = figure(lab.lab, WHOLE)
            assert whole.cost_ucurrency == costs[own]
            assert whole.without_price_mj == sum(energy.values()) - (energy[own] if own else 0)
            for group in ("hour", "charge", "device", "price", "pue", "quality"):
                parts = figures_by(lab.lab, WHOLE, [group]).values()
                assert sum(parts, Figure()) == whole or not energies
            cost = cost_of(lab.lab, WHOLE)
            assert cost.own.cost_ucurrency == costs[own]
            assert {other.currency: other.cost_ucurrency for other in cost.others} == {
                code: costs[code]
                for code in ("EUR", "CHF")
                if code != own and any(row["currency"] == code for row in entries(lab.lab, WHOLE))
            }
            assert cost.without_price_mj == energy[""]
            assert (
                cost.own.energy_mj
                + sum(other.energy_mj for other in cost.others)
                + cost.without_price_mj
                == cost.energy_mj
                == whole.energy_mj
            )
            assert (
                sum(
                    row["cost_ucurrency"] or 0
                    for row in entries(lab.lab, WHOLE)
                    if row["currency"] == own
                )
                == costs[own]
            )

    check()
