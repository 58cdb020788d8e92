"""A charge's part of a period is the same integer in Python, SQLite and PostgreSQL, and parts
sum to the whole.
"""

from itertools import pairwise

import pytest
from django.db import connection
from hypothesis import example, given, settings
from hypothesis import strategies as st

from apps.assets.amortisation import Charge
from apps.core.sql import prorated_inline_sql, prorated_sql
from apps.core.units import END_HOUR, INT64_MAX, prorated

MOST = 10**15
amounts = st.one_of(
    st.integers(-MOST, MOST), st.integers(-5, 5)
)  # an end of life may cost less than was modelled
hours = st.one_of(st.integers(0, END_HOUR), st.integers(0, 30))


@pytest.mark.django_db
def test_the_database_prorates_to_the_same_integers_as_python() -> None:
    cast = "CAST(%s AS bigint)"
    sql = (
        f"SELECT {prorated_sql('v.a', 'v.f', 'v.t')} FROM (SELECT {cast} AS a, {cast} AS f, "
        f"{cast} AS t) v"
    )
    columns = ", ".join(f"{cast} AS {name}" for name in "aftse")
    inline = (
        f"SELECT {prorated_inline_sql('v.a', 'v.f', 'v.t', 'v.s', 'v.e')} FROM (SELECT {columns}) v"
    )

    @settings(max_examples=300)
    @given(amounts, st.tuples(hours, hours), st.tuples(hours, hours))
    @example(MOST, (0, 10**6), (1, 999_999))  # the product passes 64 bits
    @example(MOST - 1, (0, END_HOUR), (7, END_HOUR - 7))
    @example(
        INT64_MAX // (END_HOUR + 1), (0, END_HOUR), (7, END_HOUR - 7)
    )  # the largest that is not past them
    @example(INT64_MAX // (END_HOUR + 1) + 1, (0, END_HOUR), (7, END_HOUR - 7))
    @example(-1, (0, 3), (1, 2))  # floor, not towards zero
    @example(7, (10, 20), (0, 5))
    @example(7, (10, 20), (25, 30))
    @example(7, (10, 20), (15, 15))
    def check(amount: int, stretch: tuple[int, int], period: tuple[int, int]) -> None:
        (low, high), (start, end) = sorted(stretch), sorted(period)
        charge = Charge(low, high + 1, amount, None, "held")
        with connection.cursor() as cursor:
            cursor.execute(sql, [start, end, amount, low, high + 1])
            [found] = cursor.fetchone()
            cursor.execute(inline, [amount, low, high + 1, start, end])
            [quick] = cursor.fetchone()
        assert (
            int(quick)
            == int(found)
            == charge.within(start, end)
            == prorated(amount, low, high + 1, start, end)
        )

    check()


@given(amounts, hours, st.integers(1, 10**6), st.sets(hours, max_size=6))
def test_neighbouring_periods_sum_to_the_whole(
    amount: int, start: int, length: int, cuts: set[int]
) -> None:
    edges = sorted({0, start + length, END_HOUR + 10**6, *cuts})
    parts = [prorated(amount, start, start + length, low, high) for low, high in pairwise(edges)]
    assert sum(parts) == amount
    assert all(part == 0 or (part > 0) == (amount > 0) for part in parts)
    assert prorated(amount, start, start + length, start + 1, start) == 0, "a period that is none"
