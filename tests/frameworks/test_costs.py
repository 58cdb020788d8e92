"""Parameters and MACs of public models against the figures that torchvision states for them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from labcarbon_collect.plan.dry_run import DryRun, Training, run_dry
from labcarbon_collect.plan.inputs import parse_input
from labcarbon_collect.plan.model_code import ModelCode
from labcarbon_collect.plan.trainable import TrainablePart, parse_trainable
from torch import nn
from torchvision import models

IMAGE = [parse_input("3x224x224")]
MODELS = [
    (models.alexnet, models.AlexNet_Weights.IMAGENET1K_V1),
    (models.resnet50, models.ResNet50_Weights.IMAGENET1K_V1),
    (models.vit_b_16, models.ViT_B_16_Weights.IMAGENET1K_V1),
]


def _run(build: Callable[[], nn.Module], part: TrainablePart) -> DryRun:
    return run_dry(ModelCode("build", build, {}, None), IMAGE, Training(2, "sgd", "fp32", part))


@pytest.mark.parametrize(("build", "weights"), MODELS, ids=["AlexNet", "ResNet-50", "ViT-B/16"])
def test_published_figures(build: Callable[[], nn.Module], weights: models.Weights) -> None:
    costs = _run(build, TrainablePart()).costs
    assert costs.parameters == weights.meta["num_params"]
    assert abs(costs.macs / 1e9 / weights.meta["_ops"] - 1) < 0.01  # "GFLOPS" of torchvision: MACs


@pytest.mark.parametrize(
    ("part", "trained", "parameters"),
    [
        ("all", "as the code leaves it", 25_557_032),
        ("head", "fc", 2_049_000),
        ("last-blocks=1", "layer4.2, fc", 2_049_000 + 4_462_592),
        ("last-blocks=3", "layer4.0, layer4.1, layer4.2, fc", 2_049_000 + 14_964_736),
    ],
)
def test_trained_parts_of_resnet_50(part: str, trained: str, parameters: int) -> None:
    result = _run(models.resnet50, parse_trainable(part))
    assert (result.trained, result.trainable_parameters) == (trained, parameters)


def test_operations_of_a_step() -> None:
    full, head, lora = (
        _run(models.resnet50, parse_trainable(part)) for part in ("all", "head", "lora=8")
    )
    macs = full.costs.macs
    assert full.step_flops == 6 * macs
    # The head alone has a gradient of its weights; its input needs none.
    assert head.step_flops == 2 * (macs + 2_048_000)
    assert 4 * macs < lora.step_flops < 5 * macs
