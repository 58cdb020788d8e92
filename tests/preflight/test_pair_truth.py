"""The truth of each pair of training runs is what its two executed runs prove.

A sample is executed per run of the suite, which ``LABCARBON_SEED`` repeats;
``LABCARBON_ALL_PAIRS=1`` executes all pairs.
"""

import os
import random
from collections import Counter

import pytest

from tests.preflight.pairs import HELD_OUT, PAIRS
from tests.preflight.pairs.execute import execute, executed_truth
from tests.preflight.pairs.model import Pair

# Runs of Hydra and of notebooks take seconds each, so fewer of them are in a sample.
SAMPLE = {"hydra": 6, "notebook": 4}
SAMPLE_OF_OTHERS = 10


def _sample() -> list[Pair]:
    if os.environ.get("LABCARBON_ALL_PAIRS"):
        return [*PAIRS, *HELD_OUT]
    choice = random.Random(int(os.environ["LABCARBON_SEED"]))
    sample = []
    for framework in sorted({pair.framework for pair in PAIRS}):
        pairs = [pair for pair in PAIRS if pair.framework == framework]
        sample += choice.sample(pairs, SAMPLE.get(framework, SAMPLE_OF_OTHERS))
    return sample + choice.sample(HELD_OUT, SAMPLE_OF_OTHERS)


@pytest.mark.parametrize("pair", [pytest.param(pair, id=pair.name) for pair in _sample()])
def test_truth_is_what_the_runs_prove(pair: Pair) -> None:
    left = execute(pair.left, pair.framework)
    right = execute(pair.right, pair.framework)
    assert executed_truth(pair, left, right) == pair.truth, (left, right)
    assert (left.seed_known and right.seed_known) == pair.seed_known
    assert (left.data_known and right.data_known) == pair.data_known


@pytest.mark.mlflow
@pytest.mark.parametrize("name", ["mlflow-run-name", "mlflow-run-name-in-file"])
def test_result_with_mlflow_is_the_result_without(name: str) -> None:
    (run,) = (pair.left for pair in PAIRS if pair.name == name)
    with_mlflow = execute(run, "mlflow", with_mlflow=True)
    assert with_mlflow.lines == execute(run, "mlflow").lines


def test_corpus_is_complete_and_balanced() -> None:
    assert len(PAIRS) == len({pair.name for pair in PAIRS}) == 300
    assert min(Counter(pair.framework for pair in PAIRS).values()) >= 40
    truths = Counter(pair.truth for pair in PAIRS)
    assert truths["same"] >= 120
    assert truths["different"] >= 120
    assert truths["replicate"] >= 30
    assert sum(pair.is_hard for pair in PAIRS) >= 30


def test_held_out_pairs_are_balanced() -> None:
    assert not {pair.name for pair in PAIRS} & {pair.name for pair in HELD_OUT}
    assert len(HELD_OUT) == len({pair.name for pair in HELD_OUT}) >= 100
    truths = Counter(pair.truth for pair in HELD_OUT)
    assert truths["same"] >= 45
    assert truths["different"] >= 45
    assert truths["replicate"] >= 10
    assert sum(pair.is_hard for pair in HELD_OUT) >= 30


def test_pairs_have_a_reason_in_one_line() -> None:
    for pair in (*PAIRS, *HELD_OUT):
        assert pair.reason.endswith("."), pair.name
        assert "\n" not in pair.reason, pair.name
        assert pair.name.startswith(f"{pair.framework}-"), pair.name
