"""Hours that are requested next, and when."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.carbon.providers.schedule import (
    FIRST_DAYS,
    MAX_REQUESTS,
    next_attempt_us,
    ranges_to_request,
)
from apps.core.units import US_PER_HOUR

NOW = 500_000


@given(st.one_of(st.none(), st.integers(NOW - 20_000, NOW)), st.integers(2, 14), st.booleans())
def test_ranges_are_adjacent_and_limited(
    fetched_to: int | None, max_days: int, has_review: bool
) -> None:
    ranges = ranges_to_request(fetched_to, end_hour=NOW, max_days=max_days, has_review=has_review)
    assert 1 <= len(ranges) <= MAX_REQUESTS
    assert all(0 < end - start <= max_days * 24 for start, end in ranges)
    assert all(before[1] == after[0] for before, after in itertools.pairwise(ranges))
    if fetched_to is not None:
        assert ranges[0][0] <= fetched_to
        assert ranges[-1][1] > fetched_to or fetched_to == NOW
    assert ranges[-1][1] == NOW or len(ranges) == MAX_REQUESTS


def test_the_first_request_the_usual_one_and_the_daily_review() -> None:
    first = ranges_to_request(None, end_hour=NOW, max_days=10, has_review=True)
    assert (first[0][0], len(first)) == (NOW - FIRST_DAYS * 24, 3)
    assert ranges_to_request(NOW - 1, end_hour=NOW, max_days=10, has_review=False) == [
        (NOW - 49, NOW)
    ]
    assert ranges_to_request(NOW - 1, end_hour=NOW, max_days=10, has_review=True) == [
        (NOW - 169, NOW)
    ]


@pytest.mark.parametrize(
    ("failures", "wait_s", "hours"),
    [(0, 0, 1), (1, 0, 1), (2, 0, 2), (3, 0, 4), (6, 0, 24), (60, 0, 24), (1, 7200, 2)],
)
def test_back_off(failures: int, wait_s: int, hours: int) -> None:
    assert next_attempt_us(5, failures=failures, wait_s=wait_s) == 5 + hours * US_PER_HOUR


def test_remaining_hours_follow_immediately() -> None:
    assert next_attempt_us(5, failures=0, is_complete=False) == 5
