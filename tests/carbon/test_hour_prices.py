"""Costs with tariffs and hourly prices: the price of each hour, its order, and days of 23 and 25
hours.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from zoneinfo import ZoneInfo

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from apps.accounts.models import AuditEntry
from apps.carbon.figures.cost import cost_of, price_parts
from apps.carbon.figures.energy import Figure, entries, figure, figures_by
from apps.carbon.figures.figure_query import COST, FigureQuery, iso_hour
from apps.carbon.hour_prices import end_of_prices
from apps.carbon.models import HourPrice, StaleSpan
from apps.carbon.rollups import writer
from apps.carbon.services import apply_factors
from apps.core.errors import Conflict, InvalidInput
from apps.core.jobs import enqueue, run_until_idle
from apps.core.units import US_PER_HOUR
from apps.energy.models import LedgerEntry
from apps.fleet.models import SitePrice
from apps.fleet.selectors import hourly_prices_at
from apps.fleet.services import (
    record_hourly_prices,
    set_price,
    set_pue,
    set_tariff,
    withdraw_hourly_prices,
    withdraw_site_fact,
)
from tests.builders import MINUTE, T0, SmallLab, W, push, small_lab
from tests.carbon.test_rolled_days_history import H0, NOW
from tests.examples import examples
from tests.properties.histories import undone

pytestmark = pytest.mark.django_db
MJ = 3_600_000  # 1 Wh
BERLIN = ZoneInfo("Europe/Berlin")
DAY = FigureQuery(COST, H0, H0 + 24)
TARIFF = "Mon-Fri 07-20 0.34\nother 0.22"


def use(small: SmallLab, amounts: Mapping[int, int]) -> None:
    """Use {UTC hour: mJ}."""
    last = max(amounts, default=0) + 48
    windows = [
        W("gpu:GPU-1", mj, hour * US_PER_HOUR, hour * US_PER_HOUR + MINUTE, i, None, None,
          "nvml_power")
        for i, (hour, mj) in enumerate(sorted(amounts.items()))
    ]  # fmt: skip
    sent_us = last * US_PER_HOUR
    accepted = push(small.node, windows, received_us=sent_us, sent_at=sent_us)
    assert accepted == [["accepted"]] * len(windows)


def settled(small: SmallLab) -> SmallLab:
    run_until_idle(worker="test")
    small.lab.refresh_from_db()
    return small


def tariff(small: SmallLab, periods: str, hour: int, zone: str = "Europe/Berlin") -> SitePrice:
    fact = set_tariff(
        site=small.site, periods=periods, time_zone=zone, currency="EUR",
        from_us=hour * US_PER_HOUR, by=None, now=NOW,
    )  # fmt: skip
    settled(small)
    return fact


def flat(small: SmallLab, ucurrency: int, hour: int, currency: str = "EUR") -> SitePrice:
    fact = set_price(
        site=small.site, ucurrency_per_kwh=ucurrency, currency=currency,
        from_us=hour * US_PER_HOUR, by=None, now=NOW,
    )  # fmt: skip
    settled(small)
    return fact


def hourly(small: SmallLab, hours: Mapping[int, int], currency: str = "EUR") -> SitePrice:
    """Record {UTC hour: millionths per kWh}."""
    rows = [f"{iso_hour(hour)},{Decimal(value) / 10**6:f}" for hour, value in hours.items()]
    fact = record_hourly_prices(
        site=small.site, text="\n".join(["hour,price_per_kwh", *rows]), file_name="market.csv",
        currency=currency, by=None, now=NOW,
    )  # fmt: skip
    settled(small)
    return fact


def prices_of(small: SmallLab, query: FigureQuery = DAY) -> dict[int, int | None]:
    """Return {hours since H0: price of its entry}."""
    return {row["hour"] - H0: row["price_ucurrency_per_kwh"] for row in entries(small.lab, query)}


@pytest.fixture
def small() -> SmallLab:
    """A workstation (PUE 1) with 1 Wh in each hour of a Monday in Berlin, rolled up."""
    lab = small_lab()
    use(lab, {H0 + offset: MJ for offset in range(24)})
    run_until_idle(worker="test")
    assert writer.roll_up(lab=lab.lab, now=NOW)
    return lab


def test_a_tariff_prices_local_hours(small: SmallLab) -> None:
    tariff(small, TARIFF, H0 - 1000)
    assert list(prices_of(small).values()) == [220_000] * 4 + [340_000] * 13 + [220_000] * 7
    assert figure(small.lab, DAY).cost_ucurrency == 11 * 220 + 13 * 340
    assert cost_of(small.lab, DAY).known_ppm == 1_000_000
    [part] = price_parts(small.lab, DAY)
    assert part.price is not None
    assert part.price.amount_text == "0.22 to 0.34"


def test_hours_before_a_tariff_have_no_price(small: SmallLab) -> None:
    tariff(small, TARIFF, H0 + 10)
    assert [offset for offset, price in prices_of(small).items() if price is None] == [
        *range(9, -1, -1)
    ]
    cost = cost_of(small.lab, DAY)
    assert cost.without_price_mj == 10 * MJ
    assert cost.sites_without_price == [small.site]


def test_hourly_prices_precede_a_tariff_and_a_tariff_ends_with_the_next_price(
    small: SmallLab,
) -> None:
    tariff(small, "other 0.2", H0 - 10)
    flat(small, 500_000, H0 + 20)
    hourly(small, {H0 + 3: -10_000, H0 + 22: 0})
    expected = dict.fromkeys(range(20), 200000) | {20: 500_000, 21: 500_000, 23: 500_000}
    expected |= {3: -10_000, 22: 0}
    assert prices_of(small) == expected
    assert figure(small.lab, DAY).cost_ucurrency == 19 * 200 - 10 + 3 * 500


def test_a_later_file_precedes_an_earlier_one_until_it_is_withdrawn(small: SmallLab) -> None:
    hourly(small, {H0: 100_000, H0 + 1: 100_000})
    late = hourly(small, {H0 + 1: 300_000, H0 + 2: 300_000})
    known = {offset: price for offset, price in prices_of(small).items() if price is not None}
    assert known == {0: 100_000, 1: 300_000, 2: 300_000}
    assert cost_of(small.lab, DAY).sites_without_price == [small.site]
    withdraw_hourly_prices(price=late, by=None, now=NOW)
    settled(small)
    known = {offset: price for offset, price in prices_of(small).items() if price is not None}
    assert known == {0: 100_000, 1: 100_000}
    with pytest.raises(Conflict):
        withdraw_hourly_prices(price=late, by=None, now=NOW)


def test_a_file_with_all_hours_leaves_no_site_without_price(small: SmallLab) -> None:
    hourly(small, {H0 + offset: 1_000 * offset for offset in range(24)})
    cost = cost_of(small.lab, DAY)
    assert (cost.without_price_mj, cost.sites_without_price) == (0, [])
    assert cost.own.cost_ucurrency == sum(range(24))


def test_negative_prices_make_negative_costs_and_days_are_summed_again(small: SmallLab) -> None:
    flat(small, 100_000, H0 - 10)
    assert writer.roll_up(lab=small.lab, now=NOW)
    hourly(small, {H0 + offset: -250_000 for offset in range(12)})
    assert StaleSpan.objects.filter(lab=small.lab).exists()
    expected = 12 * -250 + 12 * 100
    assert figure(small.lab, DAY).cost_ucurrency == expected
    assert writer.roll_up(lab=small.lab, now=NOW)
    assert figure(small.lab, DAY).cost_ucurrency == expected
    assert cost_of(small.lab, DAY).own.cost_ucurrency == expected


def test_only_changed_hours_are_written(small: SmallLab) -> None:
    hourly(small, {H0 + offset: offset for offset in range(6)})
    before = dict(HourPrice.objects.values_list("hour", "pk"))
    hourly(small, {H0 + 2: 77})
    after = dict(HourPrice.objects.values_list("hour", "pk"))
    assert {hour for hour in after if before.get(hour) != after[hour]} == {H0 + 2}


def test_a_withdrawn_tariff_leaves_nothing(small: SmallLab) -> None:
    fact = tariff(small, TARIFF, H0)
    assert HourPrice.objects.filter(site=small.site).exists()
    withdraw_site_fact(fact=fact, by=None, now=NOW)
    settled(small)
    assert not HourPrice.objects.exists()
    assert set(prices_of(small).values()) == {None}
    assert small.lab.currency == ""


def test_withdrawing_the_latest_price_ignores_files(small: SmallLab) -> None:
    fact = flat(small, 1, H0)
    hourly(small, {H0 + 5: 5})
    withdraw_site_fact(fact=fact, by=None, now=NOW)
    settled(small)
    assert [hour for hour, price in prices_of(small).items() if price is not None] == [5]


def test_tariffs_are_written_ahead_and_extended_daily(small: SmallLab) -> None:
    tariff(small, TARIFF, H0)
    last = HourPrice.objects.order_by("-hour").values_list("hour", flat=True)
    assert last[0] >= end_of_prices(NOW) - 1
    HourPrice.objects.filter(hour__gt=H0 + 30).delete()
    enqueue(kind="carbon.extend_hour_prices", key="")
    run_until_idle(worker="test")
    assert last[0] >= end_of_prices(NOW) - 1


def test_other_currencies_by_hour_stand_apart(small: SmallLab) -> None:
    flat(small, 100_000, H0 - 1)
    hourly(small, {H0: 50_000}, "CHF")
    cost = cost_of(small.lab, DAY)
    assert (cost.own.cost_ucurrency, cost.others[0].cost_ucurrency) == (23 * 100, 50)


def test_prices_of_files_and_tariffs_are_audited(small: SmallLab) -> None:
    tariff(small, TARIFF, H0)
    hourly(small, {H0: 1})
    last, first = AuditEntry.objects.filter(action="site.price").order_by("-pk")[:2]
    assert first.details["tariff"] == TARIFF
    assert (last.details["file_name"], last.details["hours"]) == ("market.csv", 1)


@pytest.mark.parametrize(
    "change",
    [
        {"periods": "Mon 1-2"}, {"time_zone": "Mars/Base"}, {"time_zone": "../etc/passwd"},
        {"time_zone": ""}, {"currency": "XXX"}, {"from_us": 0}, {"from_us": -1},
    ],
)  # fmt: skip
def test_wrong_tariffs_are_refused(small: SmallLab, change: dict[str, object]) -> None:
    values = {
        "site": small.site, "periods": TARIFF, "time_zone": "UTC", "currency": "EUR",
        "from_us": T0, "by": None, "now": NOW, **change,
    }  # fmt: skip
    with pytest.raises(InvalidInput):
        set_tariff(**values)  # type: ignore[arg-type]
    assert not SitePrice.objects.exists()


def test_a_file_with_a_bad_row_records_nothing(small: SmallLab) -> None:
    with pytest.raises(InvalidInput):
        record_hourly_prices(
            site=small.site, text="hour,price_per_kwh\n2026-11-27T14:00Z,1\nx,1\n",
            file_name="a.csv", currency="EUR", by=None, now=NOW,
        )  # fmt: skip
    assert not hourly_prices_at(small.site).exists()


def test_a_second_price_of_an_hour_is_refused(small: SmallLab) -> None:
    tariff(small, TARIFF, H0)
    with pytest.raises(Conflict):
        flat(small, 1, H0)


def rounded(value: Fraction) -> int:
    doubled = 2 * value + 1
    return doubled.numerator // (2 * doubled.denominator)


@settings(max_examples=examples(30), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    day=st.sampled_from(["2026-03-29", "2026-10-25", "2026-10-28"]),
    amounts=st.lists(st.integers(0, 10**8), min_size=25, max_size=25),
    pue_ppm=st.integers(1_000_000, 3_000_000),
    flat_price=st.none() | st.integers(0, 10**6),
    periods=st.none()
    | st.lists(st.integers(0, 10**6), min_size=25, max_size=25),  # by local hour, and the rest
    first_hour=st.integers(0, 20),
    files=st.lists(
        st.dictionaries(st.integers(0, 24), st.integers(-(10**6), 10**6), min_size=1), max_size=3
    ),
    withdrawn=st.integers(0, 3),
)
def test_the_cost_of_a_day_is_the_sum_of_its_hours(
    day: str,
    amounts: list[int],
    pue_ppm: int,
    flat_price: int | None,
    periods: list[int] | None,
    first_hour: int,
    files: list[dict[int, int]],
    withdrawn: int,
) -> None:
    """The oracle walks over the UTC hours of the local day, also of days with 23 and 25 hours."""
    lab = small_lab()
    start = datetime.fromisoformat(f"{day}T00:00").replace(tzinfo=BERLIN).astimezone(UTC)
    end = datetime.fromisoformat(f"{day}T00:00") + timedelta(days=1)
    hours = int((end.replace(tzinfo=BERLIN).astimezone(UTC) - start).total_seconds()) // 3600
    first = int(start.timestamp()) // 3600
    query = FigureQuery(COST, first, first + hours)
    with undone():
        use(lab, {first + i: amounts[i] for i in range(hours)})
        set_pue(site=lab.site, pue_ppm=pue_ppm, from_us=(first - 99) * US_PER_HOUR, by=None, now=T0)
        known: dict[int, int] = {}
        if flat_price is not None:
            flat(lab, flat_price, first - 50)
            known = dict.fromkeys(range(hours), flat_price)
        if periods is not None:
            lines = [
                f"Sun {i}-{i + 1} {value / Decimal(10**6):f}"
                for i, value in enumerate(periods[:24])
            ]
            rest = periods[24]
            tariff(lab, "\n".join([*lines, f"other {rest / Decimal(10**6):f}"]), first + first_hour)
            flat(lab, 0, first + 100)  # ends the tariff
            for i in range(first_hour, hours):
                local = (start + timedelta(hours=i)).astimezone(BERLIN)
                is_sunday = local.strftime("%a") == "Sun"
                known[i] = periods[int(local.strftime("%H"))] if is_sunday else rest
        records = [hourly(lab, {first + i: value for i, value in hours_of.items()})
                   for hours_of in files]  # fmt: skip
        if withdrawn < len(records):
            withdraw_hourly_prices(price=records[withdrawn], by=None, now=NOW)
            settled(lab)
        for number, hours_of in enumerate(files):
            if number != withdrawn:
                known |= {i: value for i, value in hours_of.items() if i < hours}
        expected, unknown_mj = 0, 0
        for entry in LedgerEntry.objects.filter(lab=lab.lab):
            price = known.get(entry.hour - first)
            if price is None:
                unknown_mj += entry.energy_mj
            else:
                kwh = Fraction(entry.energy_mj, 3_600_000_000) * Fraction(pue_ppm, 10**6)
                expected += rounded(kwh * price)
        for _ in ("from the ledger", "from rollups"):
            whole = figure(lab.lab, query)
            assert (whole.cost_ucurrency, whole.without_price_mj) == (expected, unknown_mj)
            for group in ("hour", "price", "pue", "device", "stretch"):
                assert sum(figures_by(lab.lab, query, [group]).values(), Figure()) == whole
            cost = cost_of(lab.lab, query)
            assert (cost.own.cost_ucurrency, cost.without_price_mj) == (expected, unknown_mj)
            assert bool(cost.sites_without_price) == any(i not in known for i in range(hours))
            apply_factors(lab=lab.lab)
            writer.roll_up(lab=lab.lab, now=(first + 200) * US_PER_HOUR)
