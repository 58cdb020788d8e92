"""The class of an artifact, and when it is due: by the table of docs/artifacts.md."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.artifacts.cleanup.retention import (
    DAY_US,
    DEFAULT_DAYS,
    PROTECTED_CLASSES,
    ArtifactFacts,
    ProducingRun,
    RetentionClass,
    RunOutput,
    classify,
    classify_run_outputs,
    due_us,
    winning_runs,
)

R = RetentionClass


def _made(*best: int, count: int = 4) -> list[RunOutput]:
    return [RunOutput(i, (float(i), i), i in best) for i in range(count)]


@pytest.mark.parametrize(
    ("origin", "best", "expected"),
    [
        (ProducingRun("finished"), (), [R.INTERMEDIATE, R.INTERMEDIATE, R.INTERMEDIATE, R.FINAL]),
        (ProducingRun("finished"), (1,), [R.INTERMEDIATE, R.FINAL, R.INTERMEDIATE, R.FINAL]),
        (ProducingRun("running"), (0,), [R.RUNNING, R.INTERMEDIATE, R.RUNNING, R.RUNNING]),
        (ProducingRun("failed"), (), [R.INTERMEDIATE, R.INTERMEDIATE, R.INTERMEDIATE, R.CRASHED]),
        (ProducingRun("killed"), (0,), [R.FINAL, R.INTERMEDIATE, R.INTERMEDIATE, R.CRASHED]),
        (ProducingRun("lost"), (), [R.INTERMEDIATE, R.INTERMEDIATE, R.INTERMEDIATE, R.CRASHED]),
        (ProducingRun("finished", "s", is_winner=False), (1,), [R.SWEEP] * 4),
        (
            ProducingRun("finished", "s", is_winner=True),
            (),
            [R.INTERMEDIATE, R.INTERMEDIATE, R.INTERMEDIATE, R.FINAL],
        ),
        (
            ProducingRun("finished", "s"),
            (),
            [R.INTERMEDIATE, R.INTERMEDIATE, R.INTERMEDIATE, R.FINAL],
        ),
        (
            ProducingRun("running", "s", is_winner=False),
            (),
            [R.INTERMEDIATE, R.INTERMEDIATE, R.RUNNING, R.RUNNING],
        ),
    ],
)
def test_what_a_run_made_of_its_artifacts(
    origin: ProducingRun, best: tuple[int, ...], expected: list[RetentionClass]
) -> None:
    assert classify_run_outputs(_made(*best), origin) == dict(enumerate(expected))


@pytest.mark.parametrize(
    ("known", "made_as", "expected"),
    [
        (ArtifactFacts("checkpoint", "stored"), [], R.UNKNOWN),
        (ArtifactFacts("checkpoint", "stored"), [R.INTERMEDIATE], R.INTERMEDIATE),
        (ArtifactFacts("checkpoint", "stored"), [R.SWEEP, R.FINAL], R.FINAL),
        (ArtifactFacts("checkpoint", "stored", is_referenced=True), [R.SWEEP], R.REFERENCED),
        (ArtifactFacts("dataset", "stored"), [R.INTERMEDIATE], R.DATASET),
        (ArtifactFacts("model", "promoted"), [R.SWEEP], R.PROMOTED),
        (ArtifactFacts("model", "archived"), [R.SWEEP, R.FINAL], R.ARCHIVED),
        (ArtifactFacts("model", "archived", is_ancestor=True), [R.FINAL], R.ANCESTOR),
        (ArtifactFacts("model", "archived"), [], R.UNKNOWN),
        (ArtifactFacts("model", "candidate"), [R.FINAL], R.FINAL),
        (ArtifactFacts("model", "stored", is_ancestor=True), [R.INTERMEDIATE], R.ANCESTOR),
        (
            ArtifactFacts("model", "stored", is_ancestor=True, is_on_hold=True),
            [R.INTERMEDIATE],
            R.ON_HOLD,
        ),
        (
            ArtifactFacts("model", "stored", is_pinned=True, is_ancestor=True),
            [R.INTERMEDIATE],
            R.PINNED,
        ),
    ],
)
def test_of_all_that_holds_what_keeps_it_longest(
    known: ArtifactFacts, made_as: list[RetentionClass], expected: RetentionClass
) -> None:
    assert classify(known, made_as) == expected


def test_days() -> None:
    assert due_us(R.INTERMEDIATE, {}, 5) == 5 + 14 * DAY_US
    assert due_us(R.INTERMEDIATE, {R.INTERMEDIATE: 1}, 5) == 5 + DAY_US
    assert due_us(R.INTERMEDIATE, {R.INTERMEDIATE: None}, 5) is None
    assert (due_us(R.ARCHIVED, {}, 5), due_us(R.ARCHIVED, {R.ARCHIVED: 2}, 5)) == (
        None,
        5 + 2 * DAY_US,
    )
    assert all(due_us(kept, {}, 0) is None for kept in PROTECTED_CLASSES)
    assert set(DEFAULT_DAYS) | PROTECTED_CLASSES == set(RetentionClass)


def test_a_sweep_is_won_where_somebody_says_so() -> None:
    assert winning_runs([(1, "a", False), (2, "a", True), (3, "b", False), (4, "", False)]) == {
        1: False,
        2: True,
    }


@given(
    st.sets(st.sampled_from(sorted(RetentionClass)), max_size=4),
    st.lists(st.booleans(), min_size=5, max_size=5),
)
def test_what_is_pinned_or_held_or_came_to_something_is_never_due(
    made_as: set[str], flags: list[bool]
) -> None:
    dataset, pinned, ancestor, referenced, held = flags
    known = ArtifactFacts(
        "dataset" if dataset else "model", "stored", pinned, ancestor, referenced, held
    )
    kept = classify(known, {RetentionClass(each) for each in made_as})
    if any(flags) or not made_as:
        assert due_us(kept, {}, 0) is None
