"""Costs in the table of runs: those of the ledger, whatever is rolled up; currencies stay apart."""

from __future__ import annotations

import uuid
from collections import defaultdict
from fractions import Fraction
from importlib import import_module
from typing import Any

import pytest
from django.db import connection
from django.db.models import F, Value
from django.db.models.functions import Coalesce
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.accounts.models import Lab
from apps.carbon.choices import RollupKind
from apps.carbon.figures.energy import Figure, figure
from apps.carbon.figures.figure_query import COST, FigureQuery
from apps.carbon.figures.run_table import RunTable, run_table
from apps.carbon.figures.run_table_query import TableQuery
from apps.carbon.models import RunCost, UseDay
from apps.carbon.rollups import writer
from apps.core.jobs import run_until_idle
from apps.core.units import US_PER_HOUR, hour_of
from apps.energy.models import LedgerEntry
from apps.fleet.choices import SiteKind
from apps.fleet.models import ACTIVE, SitePrice
from apps.fleet.services import create_site, register_node, set_price, withdraw_site_fact
from apps.ingest.models import Consumer
from apps.runs.models import Run
from apps.runs.services.runs import RunFacts, put_run
from tests.builders import MINUTE, T0, SmallLab, W, push, small_lab
from tests.examples import examples
from tests.properties.histories import undone

pytestmark = pytest.mark.django_db
H0 = hour_of(T0)
HOURS = 60
NOW = (H0 + HOURS) * US_PER_HOUR + 48 * US_PER_HOUR
DURATION = F("started_us") - F("started_us")


class Prices:
    """A lab with a node at home and one abroad, and a run per sweep on each."""

    def __init__(self) -> None:
        self.small: SmallLab = small_lab(name=f"Lab {uuid.uuid4().hex[:8]}")
        self.lab: Lab = self.small.lab
        abroad = create_site(
            lab=self.lab, name="Bern", kind=SiteKind.WORKSTATION, zone="CH", now=T0
        )
        self.sites = (self.small.site, abroad)
        node = register_node(
            lab=self.lab, uuid=uuid.uuid4(), hostname="bern", facts={}, site=abroad, now=T0
        )
        self.nodes = (self.small.node, node)
        run_until_idle(worker="test")
        self.runs = [uuid.uuid4() for _ in range(4)]
        for i, run in enumerate(self.runs):
            facts = RunFacts(
                name=f"run {i}", started_us=T0, project="demo", node_uuid=self.nodes[i % 2].uuid
            )
            put_run(lab=self.lab, uuid=run, facts=facts, by=self.small.owner, bound_node=None)
            Run.objects.filter(uuid=run).update(sweep=("a", "b")[i // 2])
        self.sequence = 0

    def use(self, run: int, offset: int, energy_mj: int, node: int | None = None) -> None:
        start = (H0 + offset) * US_PER_HOUR + self.sequence * MINUTE // 10
        at = run % 2 if node is None else node
        shares = ((f"run:{self.runs[run]}", energy_mj),)
        window = W(
            f"gpu:GPU-{at}", energy_mj, start, start + MINUTE // 10, self.sequence, shares
        )  # fmt: skip
        push(self.nodes[at], [window], received_us=NOW, sent_at=NOW)
        self.sequence += 1
        run_until_idle(worker="test")

    def price(self, site: int, ucurrency: int, currency: str, offset: int) -> None:
        hour = H0 + offset
        if not SitePrice.objects.filter(ACTIVE, site=self.sites[site], from_hour=hour).exists():
            set_price(
                site=self.sites[site],
                ucurrency_per_kwh=ucurrency,
                currency=currency,
                from_us=hour * US_PER_HOUR,
                by=None,
                now=NOW,
            )
        run_until_idle(worker="test")
        self.lab.refresh_from_db()

    def withdraw(self, site: int) -> None:
        last = SitePrice.objects.filter(ACTIVE, site=self.sites[site]).order_by("-from_hour")
        if last:
            withdraw_site_fact(fact=last[0], by=None, now=NOW)
        run_until_idle(worker="test")
        self.lab.refresh_from_db()

    def currency(self, code: str) -> None:
        Lab.objects.filter(pk=self.lab.pk).update(currency=code)
        self.lab.refresh_from_db()

    def roll(self) -> None:
        assert writer.roll_up(lab=self.lab, now=NOW)

    def expected(self, hours: tuple[int, int]) -> dict[tuple[int, str], tuple[int, int]]:
        """Return {(run, currency): (cost, energy)} by exact fractions, '' without a price."""
        runs = dict(Consumer.objects.filter(lab=self.lab).values_list("pk", "run_uuid"))
        sums: dict[tuple[int, str], tuple[int, int]] = defaultdict(lambda: (0, 0))
        prices = list(SitePrice.objects.filter(ACTIVE, site__lab=self.lab))
        for entry in LedgerEntry.objects.filter(lab=self.lab):
            run = runs[entry.consumer_id]
            if run is None or not hours[0] <= entry.hour < hours[1]:
                continue
            at = self.sites[[node.pk for node in self.nodes].index(entry.node_id)]
            known = [p for p in prices if p.site_id == at.pk and p.from_hour <= entry.hour]
            price = max(known, key=lambda p: p.from_hour, default=None)
            key = (self.runs.index(run), price.currency if price else "")
            cost, energy = sums[key]
            rate = Fraction(price.ucurrency_per_kwh if price else 0)
            exact = Fraction(entry.energy_mj, 3_600_000_000) * rate  # PUE 1
            sums[key] = cost + int(exact + Fraction(1, 2)), energy + entry.energy_mj
        return sums

    def table(self, **options: Any) -> RunTable:
        query = TableQuery(**{"sort": "cost", "duration": DURATION, **options})
        return run_table(self.lab, self.lab.runs.all(), query)

    def check(self) -> None:
        for hours in (None, (H0 + 7, H0 + 41)):
            self.check_period(hours)

    def check_period(self, hours: tuple[int, int] | None) -> None:
        start, end = hours or (H0 - 100, H0 + 1000)
        expected, own = self.expected((start, end)), self.lab.currency
        table = self.table(hours=hours)
        places = {run.pk: self.runs.index(run.uuid) for run in self.lab.runs.all()}
        keys = []
        for row in table.rows:
            run = places[row.run_id]
            query = FigureQuery(COST, start, end, "run", str(self.runs[run]))
            assert (row.figure or Figure()) == figure(self.lab, query)
            found = row.figure or Figure()
            mine = {
                code: sums for (number, code), sums in expected.items() if number == run and sums[1]
            }
            cost, energy = mine.pop(own, (0, 0)) if own else (0, 0)
            assert found.cost_ucurrency == cost
            assert found.without_price_mj == found.energy_mj - energy
            mine.pop("", None)
            assert row.apart == {code: sums[0] for code, sums in mine.items()}
            keys.append(cost if energy else None)
        known = [key for key in keys if key is not None]
        assert keys == sorted(known, reverse=True) + [None] * (len(keys) - len(known))
        self.check_sums(table.total, list(range(4)), expected)
        groups = self.table(hours=hours, group=Coalesce(F("sweep"), Value("")), group_sort="cost")
        for name, sums in groups.groups.items():
            self.check_sums(sums, [0, 1] if name == "a" else [2, 3], expected)
        costs = [sums.figure.cost_ucurrency for sums in groups.groups.values()]
        assert costs == sorted(costs, reverse=True)

    def check_sums(
        self, sums: Any, runs: list[int], expected: dict[tuple[int, str], tuple[int, int]]
    ) -> None:
        by_currency: dict[str, int] = defaultdict(int)
        for (run, code), (cost, energy) in expected.items():
            if run in runs and energy and code:
                by_currency[code] += cost
        assert sums.figure.cost_ucurrency == by_currency.pop(self.lab.currency, 0)
        assert sums.apart == dict(by_currency)


offsets = st.integers(0, HOURS - 1)
steps = st.one_of(
    st.tuples(st.just("use"), st.integers(0, 3), offsets, st.integers(1, 5_000_000)),
    st.tuples(
        st.just("price"),
        st.integers(0, 1),
        st.integers(0, 10**9),
        st.sampled_from(["EUR", "EUR", "CHF", "USD"]),
        offsets,
    ),
    st.tuples(st.just("withdraw"), st.integers(0, 1)),
    st.tuples(st.just("currency"), st.sampled_from(["EUR", "CHF", "SEK"])),
    st.tuples(st.just("roll")),
)


def test_costs_are_those_of_an_oracle_after_each_step() -> None:
    lab = Prices()

    @settings(max_examples=examples(15))
    @given(st.lists(steps, min_size=3, max_size=9))
    def check(history: list[tuple[Any, ...]]) -> None:
        with undone():
            lab.lab.refresh_from_db()
            for name, *arguments in history:
                getattr(lab, name)(*arguments)
                lab.check()
            lab.roll()
            lab.check()

    check()


def test_a_changed_price_is_seen_at_once_and_in_the_next_rollup() -> None:
    lab = Prices()
    lab.price(0, 300_000_000, "EUR", -5)
    lab.use(0, 3, 3_600_000)
    lab.use(1, 4, 7_200_000)
    lab.roll()
    assert list(RunCost.objects.values_list("currency", "cost_ucurrency")) == [("EUR", 300_000)]
    assert [row.figure.cost_ucurrency for row in lab.table().rows if row.figure] == [300_000, 0]
    lab.price(1, 200_000_000, "CHF", -5)
    lab.price(0, 400_000_000, "EUR", 2)
    for _ in range(2):
        table = lab.table()
        assert table.total is not None
        assert table.total.figure.cost_ucurrency == 400_000
        assert table.total.apart == {"CHF": 400_000}
        assert [row.apart for row in table.rows if row.figure] == [{}, {"CHF": 400_000}]
        lab.roll()
    assert set(RunCost.objects.values_list("currency", "cost_ucurrency")) == {
        ("EUR", 400_000), ("CHF", 400_000),
    }  # fmt: skip


def test_a_run_without_a_price_is_unknown_and_a_price_of_nothing_is_known() -> None:
    lab = Prices()
    lab.price(0, 0, "EUR", -5)
    lab.use(1, 4, 7_200_000)
    lab.use(0, 3, 3_600_000)
    for descending in (True, False):
        rows = lab.table(descending=descending).rows
        free, unpriced = [row.figure for row in rows if row.figure]
        assert rows[0].figure == free
        assert (free.cost_ucurrency, free.without_price_mj) == (0, 0)
        assert unpriced.without_price_mj == unpriced.energy_mj == 7_200_000


def test_a_run_at_two_sites_has_both_currencies_and_no_sum_of_them() -> None:
    lab = Prices()
    lab.price(0, 300_000_000, "EUR", -5)
    lab.price(1, 200_000_000, "CHF", -5)
    lab.use(0, 3, 3_600_000)
    lab.use(0, 4, 3_600_000, node=1)
    [row] = [row for row in lab.table().rows if row.figure]
    assert row.figure is not None
    assert (row.figure.cost_ucurrency, row.apart) == (300_000, {"CHF": 200_000})
    assert row.figure.without_price_mj == 3_600_000
    opened = lab.table(group=F("sweep"), group_sort="cost", open_groups=["a"])
    assert [row.apart for row in opened.rows if row.figure] == [{"CHF": 200_000}]


def test_a_day_subtracts_what_it_added_even_if_its_price_was_deleted() -> None:
    lab = Prices()
    lab.price(1, 200_000_000, "CHF", -5)
    lab.use(1, 4, 3_600_000)
    lab.roll()
    SitePrice.objects.all().delete()
    writer.mark_stale(lab=lab.lab, what=RollupKind.USE, from_hour=H0, to_hour=H0 + 24)
    for _ in range(2):
        [row] = [row for row in lab.table().rows if row.figure]
        assert row.figure is not None
        assert (row.figure.cost_ucurrency, row.apart) == (0, {})
        assert row.figure.without_price_mj == 3_600_000
        lab.roll()
    assert list(RunCost.objects.values_list("energy_mj", "cost_ucurrency")) == [(0, 0)]


def test_the_migration_fills_the_costs_of_rolled_days() -> None:
    lab = Prices()
    lab.price(0, 300_000_000, "EUR", -5)
    lab.price(1, 200_000_000, "CHF", -5)
    for run in range(4):
        lab.use(run, 3 + 20 * run, 3_600_000)
    lab.roll()
    before = set(RunCost.objects.values_list("currency", "run_uuid", "energy_mj", "cost_ucurrency"))
    assert len(before) == 4
    RunCost.objects.all().delete()
    UseDay.objects.update(currency="")
    migration = import_module("apps.carbon.migrations.0005_run_cost")
    with connection.cursor() as cursor:
        cursor.execute(migration.CURRENCIES)
        cursor.execute(migration.FILL)
    after = RunCost.objects.values_list("currency", "run_uuid", "energy_mj", "cost_ucurrency")
    assert set(after) == before
    lab.check()
