"""The verdicts about 300 pairs of runs with known truth (``pairs``): a false alarm costs more than
a missed repeat.
"""

import pytest

from tests.preflight.pairs import HELD_OUT, PAIRS
from tests.preflight.pairs.measure import Judged, judge_pair

MAX_MISSED = 0.02


@pytest.fixture(scope="module")
def judged() -> list[Judged]:
    return [judge_pair(pair) for pair in PAIRS]


def test_no_other_work_is_a_verified_repeat(judged: list[Judged]) -> None:
    assert [one.pair.name for one in judged if one.is_false_verified] == []


def test_no_other_work_of_the_second_set_is_a_verified_repeat() -> None:
    judged = [judge_pair(pair) for pair in HELD_OUT]
    assert [one.pair.name for one in judged if one.is_false_verified] == []


def test_repeats_with_known_data_and_seed_are_found(judged: list[Judged]) -> None:
    comparable = [one for one in judged if one.pair.is_comparable]
    assert len(comparable) >= 120
    missed = [one.pair.name for one in comparable if one.is_missed]
    assert len(missed) <= MAX_MISSED * len(comparable), missed


def test_replicates_are_silent(judged: list[Judged]) -> None:
    loud = [
        one.pair.name for one in judged if one.pair.truth == "replicate" and one.level != "silent"
    ]
    assert loud == []


def test_most_repeats_are_verified(judged: list[Judged]) -> None:
    found = [one for one in judged if one.pair.truth == "same" and one.verdict == "duplicate"]
    assert sum(one.certainty == "verified" for one in found) >= 0.75 * len(found)
