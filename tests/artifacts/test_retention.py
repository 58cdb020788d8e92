"""The class of an artifact, and when it is due: by the table of docs/artifacts.md."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.artifacts.cleanup.retention import (
    DAY_US,
    DEFAULT_DAYS,
    NEVER,
    Known,
    Made,
    Origin,
    Retention,
    classes_of_run,
    due_us,
    retention,
    won_sweeps,
)

R = Retention


def _made(*best: int, count: int = 4) -> list[Made]:
    return [Made(i, (float(i), i), i in best) for i in range(count)]


@pytest.mark.parametrize(
    ("origin", "best", "expected"),
    [
        (Origin("finished"), (), [R.INTERMEDIATE, R.INTERMEDIATE, R.INTERMEDIATE, R.FINAL]),
        (Origin("finished"), (1,), [R.INTERMEDIATE, R.FINAL, R.INTERMEDIATE, R.FINAL]),
        (Origin("running"), (0,), [R.RUNNING, R.INTERMEDIATE, R.RUNNING, R.RUNNING]),
        (Origin("failed"), (), [R.INTERMEDIATE, R.INTERMEDIATE, R.INTERMEDIATE, R.CRASHED]),
        (Origin("killed"), (0,), [R.FINAL, R.INTERMEDIATE, R.INTERMEDIATE, R.CRASHED]),
        (Origin("lost"), (), [R.INTERMEDIATE, R.INTERMEDIATE, R.INTERMEDIATE, R.CRASHED]),
        (Origin("finished", "s", won=False), (1,), [R.SWEEP] * 4),
        (Origin("finished", "s", won=True), (), [R.INTERMEDIATE, R.INTERMEDIATE, R.INTERMEDIATE, R.FINAL]),
        (Origin("finished", "s"), (), [R.INTERMEDIATE, R.INTERMEDIATE, R.INTERMEDIATE, R.FINAL]),
        (Origin("running", "s", won=False), (), [R.INTERMEDIATE, R.INTERMEDIATE, R.RUNNING, R.RUNNING]),
    ],
)
def test_what_a_run_made_of_its_artifacts(origin: Origin, best: tuple[int, ...], expected: list[Retention]) -> None:
    assert classes_of_run(_made(*best), origin) == dict(enumerate(expected))


@pytest.mark.parametrize(
    ("known", "made_as", "expected"),
    [
        (Known("checkpoint", "stored"), [], R.UNKNOWN),
        (Known("checkpoint", "stored"), [R.INTERMEDIATE], R.INTERMEDIATE),
        (Known("checkpoint", "stored"), [R.SWEEP, R.FINAL], R.FINAL),
        (Known("checkpoint", "stored", is_referenced=True), [R.SWEEP], R.REFERENCED),
        (Known("dataset", "stored"), [R.INTERMEDIATE], R.DATASET),
        (Known("model", "promoted"), [R.SWEEP], R.PROMOTED),
        (Known("model", "archived"), [R.SWEEP, R.FINAL], R.ARCHIVED),
        (Known("model", "archived", is_ancestor=True), [R.FINAL], R.ANCESTOR),
        (Known("model", "archived"), [], R.UNKNOWN),
        (Known("model", "candidate"), [R.FINAL], R.FINAL),
        (Known("model", "stored", is_ancestor=True), [R.INTERMEDIATE], R.ANCESTOR),
        (Known("model", "stored", is_ancestor=True, is_held=True), [R.INTERMEDIATE], R.HELD),
        (Known("model", "stored", is_pinned=True, is_ancestor=True), [R.INTERMEDIATE], R.PINNED),
    ],
)
def test_of_all_that_holds_what_keeps_it_longest(known: Known, made_as: list[Retention], expected: Retention) -> None:
    assert retention(known, made_as) == expected


def test_days() -> None:
    assert due_us(R.INTERMEDIATE, {}, 5) == 5 + 14 * DAY_US
    assert due_us(R.INTERMEDIATE, {R.INTERMEDIATE: 1}, 5) == 5 + DAY_US
    assert due_us(R.INTERMEDIATE, {R.INTERMEDIATE: None}, 5) is None
    assert (due_us(R.ARCHIVED, {}, 5), due_us(R.ARCHIVED, {R.ARCHIVED: 2}, 5)) == (None, 5 + 2 * DAY_US)
    assert all(due_us(kept, {}, 0) is None for kept in NEVER)
    assert set(DEFAULT_DAYS) | NEVER == set(Retention)


def test_a_sweep_is_won_where_somebody_says_so() -> None:
    assert won_sweeps([(1, "a", False), (2, "a", True), (3, "b", False), (4, "", False)]) == {1: False, 2: True}


@given(st.sets(st.sampled_from(sorted(Retention)), max_size=4), st.lists(st.booleans(), min_size=5, max_size=5))
def test_what_is_pinned_or_held_or_came_to_something_is_never_due(made_as: set[str], flags: list[bool]) -> None:
    dataset, pinned, ancestor, referenced, held = flags
    known = Known("dataset" if dataset else "model", "stored", pinned, ancestor, referenced, held)
    kept = retention(known, {Retention(each) for each in made_as})
    if any(flags) or not made_as:
        assert due_us(kept, {}, 0) is None
