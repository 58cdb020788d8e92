"""What adapting a model saves, and in which way parameters tell that one was adapted."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from labcarbon_collect.lc1 import param_hash, sort_params

from apps.artifacts.choices import FineTuningMethod
from apps.artifacts.reuse.fine_tuning_energy import (
    COMPARED_VALUES,
    HASH_ONLY,
    PARAMETER_NAMES,
    detect_method,
    find_fine_tuning_runs,
)
from apps.artifacts.storage_model import Saving, Spread, compute_saving, compute_spread
from apps.runs.models import Fingerprint
from apps.runs.services.fingerprints import resolve_param_values
from tests.builders import SmallLab

A = FineTuningMethod
ENERGIES = st.integers(0, 10**15)


@given(ENERGIES, st.lists(ENERGIES, min_size=1, max_size=9))
def test_a_saving_is_between_nought_and_what_making_took(made: int, took: list[int]) -> None:
    found = compute_saving(made, compute_spread(took))
    assert found is not None
    assert 0 <= found.low <= found.saved <= found.high <= made


@given(st.lists(ENERGIES, min_size=1, max_size=9))
def test_a_spread_is_what_runs_took(took: list[int]) -> None:
    found = compute_spread(took)
    assert found is not None
    assert (found.runs, found.low, found.high) == (len(took), min(took), max(took))
    assert found.median in took


def test_worked_examples() -> None:
    assert compute_saving(4_200, compute_spread([60, 200, 90])) == Saving(4_110, 4_000, 4_140)
    assert compute_saving(100, compute_spread([300, 90])) == Saving(10, 0, 10)
    assert compute_saving(100, compute_spread([300, 400])) == Saving(0, 0, 0)
    assert compute_saving(0, Spread(1, 5, 5, 5)) == Saving(0, 0, 0)
    assert (
        compute_saving(None, compute_spread([1])),
        compute_saving(100, compute_spread([])),
        compute_spread([]),
    ) == (
        None,
        None,
        None,
    )


@pytest.mark.parametrize(
    ("said", "way"),
    [
    ({"freeze_backbone": True}, A.HEAD), ({"model.Freeze_Encoder": 1}, A.HEAD),
    ({"train_head_only": True}, A.HEAD), ({"linear_probe": True, "lr": 0.1}, A.HEAD),
    ({"freeze": True}, A.HEAD), ({"freeze_layers": "all"}, A.HEAD), ({"freeze": 10}, A.PART),
    ({"freeze_layers": 1}, A.PART), ({"freeze": [0, 1, 2]}, A.PART),
    ({"freeze_backbone": False}, A.ALL), ({"freeze": 0}, A.ALL), ({"freeze_layers": []}, A.ALL),
    ({"full_finetune": True}, A.ALL), ({"finetuning_type": "full"}, A.ALL),
    ({"freeze": 3, "freeze_encoder": 0}, A.PART), ({"lora_r": 8}, A.ADAPTERS),
    ({"lora_rank": HASH_ONLY}, A.ADAPTERS), ({"use_lora": True}, A.ADAPTERS),
    ({"peft_type": "LORA"}, A.ADAPTERS), ({"adapter": "qlora"}, A.ADAPTERS),
    ({"r": 16, "lora_alpha": 32}, A.ADAPTERS), ({"lora.r": 4}, A.ADAPTERS),
    ({"peft_config.r": HASH_ONLY}, A.ADAPTERS), ({"lora_r": 8, "freeze": True}, A.ADAPTERS),
    ({}, A.UNKNOWN), ({"lr": 0.1}, A.UNKNOWN), ({"r": 16}, A.UNKNOWN), ({"lora_r": 0}, A.UNKNOWN),
    ({"use_lora": False}, A.UNKNOWN), ({"freeze": None}, A.UNKNOWN),
    ({"freeze": HASH_ONLY}, A.UNKNOWN), ({"freeze": "auto"}, A.UNKNOWN),
    ({"freeze_backbone": HASH_ONLY}, A.UNKNOWN), ({"peft": True}, A.UNKNOWN),
    ({"full_finetune": False}, A.UNKNOWN), ({"adapter": "prefix"}, A.UNKNOWN),
    ({"adapter": HASH_ONLY}, A.UNKNOWN), ({"freeze_backbone": 7}, A.UNKNOWN),
    ({"freeze": float("inf")}, A.PART), ({"lora": {"r": 1}}, A.UNKNOWN),
],
)  # fmt: skip
def test_ways_by_names_that_many_use(said: dict[str, Any], way: FineTuningMethod) -> None:
    assert detect_method(said) == way


@given(
    st.dictionaries(
        st.sampled_from(sorted(PARAMETER_NAMES)) | st.text(max_size=8),
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats()
        | st.text(max_size=5)
        | st.lists(st.integers(), max_size=2),
        max_size=4,
    )
)
def test_whatever_is_said_has_a_way(said: dict[str, Any]) -> None:
    assert detect_method(said) in FineTuningMethod


@pytest.mark.parametrize("is_told", [True, False])
def test_a_value_is_known_as_told_or_by_its_hash(is_told: bool) -> None:
    values = sort_params(
        {"--freeze-backbone": "true", "lora_r": "8", "peft_type": "LORA", "lr": "0.1"}
    ).params
    row = Fingerprint(
        params={name: param_hash(name, value) for name, value in values.items()},
        told=values if is_told else {},
    )
    known = resolve_param_values(row, PARAMETER_NAMES, among=COMPARED_VALUES, otherwise=HASH_ONLY)
    assert known == {
        "freeze_backbone": True,
        "peft_type": "LORA",
        "lora_r": 8 if is_told else HASH_ONLY,
    }
    assert (
        resolve_param_values(
            Fingerprint(), PARAMETER_NAMES, among=COMPARED_VALUES, otherwise=HASH_ONLY
        )
        == {}
    )


def test_true_is_not_one(lab: SmallLab) -> None:
    row = Fingerprint(
        params={"freeze": param_hash("freeze", 1), "frozen": param_hash("frozen", 1.0)}, told={}
    )
    known = resolve_param_values(row, PARAMETER_NAMES, among=COMPARED_VALUES, otherwise=HASH_ONLY)
    assert {name: type(value) for name, value in known.items()} == {"freeze": int, "frozen": int}
    assert detect_method(known) == A.PART
    assert find_fine_tuning_runs(lab.lab, []) == {}
