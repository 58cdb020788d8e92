"""Counters in lines of training programs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from labcarbon_collect.plan.probe.progress_lines import (
    is_evaluation,
    line_shape,
    parse_counters,
)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("step 12/500 loss 0.3", [("step", 12, 500)]),
        ("[12/500] loss 0.3", [("", 12, 500)]),
        ("Iteration 12 of 40", [("iteration", 12, 40)]),
        (" 12%|█▏   | 60/500 [00:05<00:40, 10.1it/s]", [("", 60, 500)]),
        ("\x1b[32m 12%|#| 60/500 [00:05<00:40]\x1b[0m", [("", 60, 500)]),
        ("12/500 ━━━━━ 5s 3ms/step - loss: 0.1", [("", 12, 500)]),
        (
            "Epoch [3/10], Step [100/600], Loss: 0.2",
            [("epoch", 3, 10), ("step", 100, 600)],
        ),
        ("Epoch 0:  12%|█▏| 12/100 [00:05, v_num=3]", [("", 12, 100), ("epoch", 0, None)]),
        ("Train Epoch: 1 [640/60000 (1%)] Loss: 0.3", [("", 640, 60000), ("epoch", 1, None)]),
        ("iter 1200: loss 2.3, time 30.2ms, mfu 3%", [("iter", 1200, None)]),
        ("2026/11/28 12:00:01 step=40", [("step", 40, None)]),
        ("global_step: 300", [("global_step", 300, None)]),
        ("batches 3/9", [("batch", 3, 9)]),
        ("loading /data/12/34 and fold 1/5", []),
        ("{'loss': 0.5, 'epoch': 1.5}", []),
        ("step 3.5 of the plan", []),
        ("12/5", []),  # beyond its total
        ("", []),
    ],
)
def test_counters_are_found(line: str, expected: list[tuple[str, int, int | None]]) -> None:
    assert [counter[:3] for counter in parse_counters(line)] == expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("val_loss 0.3", True),
        ("Validation: 0.9", True),
        ("Evaluating", True),
        ("test accuracy 0.9", True),
        ("loss 0.3 interval 5", False),
        ("the latest value", False),
    ],
)
def test_evaluations_are_recognised(line: str, expected: bool) -> None:
    assert is_evaluation(line) is expected


def test_a_bar_of_an_evaluation_is_no_step() -> None:
    assert parse_counters("Validating: 10%|# | 1/10 [00:00<")[0].is_evaluation
    assert not parse_counters("step 12/500 val_loss 0.3")[0].is_evaluation


def test_lines_of_one_statement_have_one_shape() -> None:
    assert line_shape("loss 0.51 lr 1e-4") == line_shape("loss 12.5 lr 3e-05")
    assert line_shape("loss 0.51") != line_shape("accuracy 0.51")


@given(st.text(max_size=300))
def test_any_text_can_be_parsed(text: str) -> None:
    parse_counters(text)
    is_evaluation(text)
    line_shape(text)


@given(st.integers(0, 10**9), st.integers(2, 10**9), st.sampled_from(["step", "iter", "batch", ""]))
def test_a_counter_is_read_as_printed(value: int, total: int, label: str) -> None:
    total = max(total, value)
    counters = parse_counters(f"{label} {value}/{total}".strip())
    assert [counter[:3] for counter in counters] == ([(label, value, total)] if total >= 2 else [])
