"""The verdict for every case of the table, whatever the order in which past runs come."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.preflight.choices import Level, ValueState, Verdict
from apps.preflight.differences import Difference, differences
from apps.preflight.similarity import PastRun, is_nearly_equal
from apps.preflight.verdicts import judge
from tests.preflight.cases import SILENT, WARNED, Case
from tests.preflight.works import argv, part, past, question, work

CASES = [*WARNED, *SILENT]


def test_the_table_is_large_and_has_both_sides() -> None:
    assert len({case[0] for case in CASES}) == len(CASES) >= 60
    assert {case[3] for case in CASES} == set(Verdict.values)
    assert {case[4] for case in SILENT} == {Level.SILENT.value}


@pytest.mark.parametrize("case", CASES, ids=[case[0] for case in CASES])
def test_case(case: Case) -> None:
    _, asked, past_runs, verdict, level, certainty = case
    found = judge(asked, past_runs)
    assert (found.verdict.value, found.level.value, found.certainty.value) == (
        verdict,
        level,
        certainty,
    )


RUNS: list[PastRun] = [each for _, _, past_runs, *_ in CASES for each in past_runs]


@given(st.data())
def test_the_order_of_past_runs_changes_nothing(data: st.DataObject) -> None:
    asked = data.draw(st.sampled_from([case[1] for case in CASES]))
    some = data.draw(st.lists(st.sampled_from(RUNS), max_size=8, unique_by=lambda each: each.uuid))
    shuffled = data.draw(st.permutations(some))
    assert judge(asked, some) == judge(asked, shuffled)


@given(st.data())
def test_a_run_with_unknown_data_or_start_changes_no_answer(data: st.DataObject) -> None:
    _, asked, past_runs, *_ = data.draw(
        st.sampled_from([case for case in CASES if not case[1].external and not case[1].series])
    )
    unknown = past("unknown", work=work(data=part("", weak="")))
    unknown = PastRun(
        **{
            **unknown.__dict__,
            "work": type(unknown.work)(entry=unknown.work.entry, params=unknown.work.params),
        }
    )
    assert judge(asked, [*past_runs, unknown]) == judge(asked, past_runs)


@given(st.lists(st.sampled_from(RUNS), max_size=10, unique_by=lambda each: each.uuid))
def test_only_verified_matches_are_told_aloud(some: list[PastRun]) -> None:
    found = judge(question(), some)
    if found.level in (Level.BLOCK, Level.WARN):
        assert found.matches[0].verified
        assert not found.matches[0].relation.weak


def test_matches_name_what_differs_with_its_values() -> None:
    there = work(argv(lr="0.2", wd="0.1", seed="3"), hardware={"gpus": "2 × H100"})
    found = differences(work(), there)
    uploaded, absent = ValueState.UPLOADED, ValueState.ABSENT
    assert found == [
        Difference("params", "lr", 0.1, 0.2, uploaded, uploaded),
        Difference("params", "weight_decay", None, 0.1, absent, uploaded),
        Difference("seeds", "seed", 1, 3, uploaded, uploaded),
        Difference("hardware", "gpus", "1 × A100", "2 × H100", uploaded, uploaded),
    ]


def test_parts_that_differ_are_named_and_unknown_ones_are_not() -> None:
    other = work(code="b", data=part("dogs"))
    assert [(each.part, each.name) for each in differences(work(), other)] == [
        ("code", "logic"),
        ("data", "data"),
    ]
    assert [(each.part, each.name) for each in differences(work(), work(code="b", normal="a"))] == [
        ("code", "format")
    ]
    unknown = type(other)()
    assert differences(unknown, unknown) == []
    assert differences(work(), unknown) == []


@pytest.mark.parametrize(
    ("here", "there", "close"),
    [
        (0.1, 0.10000000001, True),
        (1, 2, False),
        (True, 1.0, False),
        ("a", "a", False),
        (0.0, 1e-30, False),
    ],
)
def test_nearly(here: object, there: object, close: bool) -> None:
    assert is_nearly_equal(here, there) is close


def test_what_such_a_run_needs_is_told_by_finished_runs_of_the_recipe() -> None:
    runs = [
        past(),
        past("other code", work=work(code="b")),
        past("failed", state="failed"),
        past("other", work=work(argv(lr="3"))),
    ]
    assert {match.past.uuid for match in judge(question(), runs).alike} == {
        runs[0].uuid,
        runs[1].uuid,
    }
