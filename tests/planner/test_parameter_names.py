"""Model, optimiser and precision by well-known names of parameters."""

from typing import Any

import pytest

from apps.planner.parameter_names import NamedTraining, training_from_params


@pytest.mark.parametrize(
    ("params", "known"),
    [
        ({}, NamedTraining()),
        ({"model": "resnet50"}, NamedTraining(model="resnet50")),
        ({"model": {"depth": 3}, "arch": "vit"}, NamedTraining(model="vit")),
        ({"trainer.optim": "adamw_torch_fused"}, NamedTraining(optimiser="adamw")),
        ({"optimizer": "SGD"}, NamedTraining(optimiser="sgd")),
        ({"optimizer": "SGD", "momentum": 0.9}, NamedTraining(optimiser="momentum")),
        ({"optimizer": "SGD", "momentum": 0}, NamedTraining(optimiser="sgd")),
        ({"optimizer": "adamax"}, NamedTraining()),
        ({"precision": "16-mixed"}, NamedTraining(precision="mixed")),
        ({"precision": 32}, NamedTraining(precision="fp32")),
        ({"precision": "bf16-true"}, NamedTraining(precision="bf16")),
        ({"mixed_precision": "bf16"}, NamedTraining(precision="mixed")),
        ({"mixed_precision": "no"}, NamedTraining(precision="fp32")),
        ({"torch_dtype": "torch.bfloat16"}, NamedTraining(precision="bf16")),
        ({"fp16": False, "bf16": True}, NamedTraining(precision="mixed")),
        ({"amp": "false"}, NamedTraining(precision="fp32")),
        ({"precision": "int3"}, NamedTraining()),
    ],
    ids=str,
)
def test_names(params: dict[str, Any], known: NamedTraining) -> None:
    assert training_from_params(params) == known
