"""The largest batch that fits, and what to change first."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.planner.formulas.memory import FITS, GIB, compute_memory, judge
from apps.planner.formulas.memory_changes import Change, changes_that_fit, largest_batch
from apps.planner.formulas.model_costs import ModelCosts
from apps.planner.formulas.training_setup import Training
from apps.planner.presets import presets

CARDS = st.integers(2, 96).map(lambda size: size * GIB)
TRAININGS = st.builds(
    Training,
    micro_batch=st.integers(1, 256),
    optimiser=st.sampled_from(["sgd", "momentum", "adam"]),
    precision=st.sampled_from(["fp32", "mixed"]),
    part=st.sampled_from(["full", "lora", "inference"]),
    attention=st.sampled_from(["fused", "stored"]),
    accumulation_steps=st.integers(1, 4),
)
MODELS = st.sampled_from(list(presets().values()))


def fits(costs: ModelCosts, training: Training, card: int) -> bool:
    return judge(compute_memory(costs, training).total, card) == FITS


def keys(changes: tuple[Change, ...]) -> list[tuple[str, ...]]:
    return [change.keys for change in changes]


@settings(max_examples=60)
@given(MODELS, TRAININGS, CARDS)
def test_the_largest_batch_fits_and_one_more_does_not(
    costs: ModelCosts, training: Training, card: int
) -> None:
    batch = largest_batch(costs, training, card)
    if batch is not None:
        assert fits(costs, replace(training, micro_batch=batch), card)
    more = (batch or 0) + 1
    assert more > 10**6 or not fits(costs, replace(training, micro_batch=more), card)


@settings(max_examples=60, deadline=None)
@given(MODELS, TRAININGS, CARDS)
def test_every_change_fits_and_keeps_the_samples_of_an_update(
    costs: ModelCosts, training: Training, card: int
) -> None:
    changes = changes_that_fit(costs, training, card)
    assert not (changes and fits(costs, training, card))
    for change in changes:
        after = change.training
        assert fits(costs, after, card)
        assert change.memory == compute_memory(costs, after)
        assert change.effects
        if training.part != "inference":
            before = training.micro_batch * training.accumulation_steps
            # The last of several equal passes may be full where the former one was not.
            samples = after.micro_batch * after.accumulation_steps
            assert before <= samples < before + after.accumulation_steps


def test_changes_in_the_order_to_try_them() -> None:
    resnet = presets()["resnet50"]
    changes = changes_that_fit(resnet, Training(64), 6 * GIB)
    assert [change.keys[0] for change in changes] == [
        "smaller_batch", "mixed_precision", "checkpointing", "head",
    ]  # fmt: skip
    smaller, _mixed, checkpointing, head = changes
    assert (smaller.training.micro_batch, smaller.training.accumulation_steps) == (32, 2)
    assert smaller.operations_ppm == 1_000_000
    assert checkpointing.operations_ppm == 1_333_333  # four instead of three
    assert checkpointing.effects == ("one_more_forward_pass",)
    assert head.operations_ppm == 333_333


def test_changes_together_if_none_is_enough_alone() -> None:
    model = presets()["gpt2_medium"]
    (change,) = changes_that_fit(model, Training(4), 8 * GIB)
    assert change.keys == ("mixed_precision", "checkpointing", "optimiser", "smaller_batch")
    assert change.training.precision == "mixed"
    assert change.training.has_checkpointing
    assert change.training.optimiser == "momentum"
    assert (change.training.micro_batch, change.training.accumulation_steps) == (1, 4)


def test_shards_use_the_fewest_gpus() -> None:
    model = presets()["gpt2_medium"]
    (shards,) = changes_that_fit(model, Training(1, attention="fused"), 6 * GIB)
    assert (shards.keys, shards.training.sharding) == (("shards",), "zero3")
    assert shards.training.gpus > 2
    assert not fits(model, replace(shards.training, gpus=shards.training.gpus // 2), 6 * GIB)


def test_inference_has_a_smaller_batch_and_half_precision() -> None:
    model = presets()["gpt2_medium"]
    training = Training(16, part="inference")
    changes = changes_that_fit(model, training, 8 * GIB)
    assert keys(changes) == [("smaller_batch",)]
    assert changes[0].training.accumulation_steps == 1


@pytest.mark.parametrize("card", [0, GIB // 4])
def test_nothing_is_enough_for_a_tiny_card(card: int) -> None:
    assert changes_that_fit(presets()["resnet50"], Training(1), card) == ()
    assert largest_batch(presets()["resnet50"], Training(1), card) is None
