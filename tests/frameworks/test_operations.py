"""Code that reads values while it builds the model, and operations that differ on a GPU."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from labcarbon_collect.errors import CommandError
from labcarbon_collect.plan.dry_run import DryRun, Training, run_dry
from labcarbon_collect.plan.inputs import parse_input
from labcarbon_collect.plan.model_code import ModelCode
from torch import nn


def _run(build: Callable[[], nn.Module], batch: int = 8) -> DryRun:
    code = ModelCode("build", build, {}, None)
    return run_dry(code, [parse_input("64")], Training(batch, "sgd", "fp32"))


def test_rates_from_linspace() -> None:
    def build() -> nn.Module:
        rates = [rate.item() for rate in torch.linspace(0, 0.1, 3)]
        assert rates == pytest.approx([0, 0.05, 0.1])
        return nn.Sequential(*(nn.Dropout(rate) for rate in rates), nn.Linear(64, 4))

    assert _run(build).costs.macs == 256


def test_a_mask_of_dropout_is_one_byte() -> None:
    layers = [nn.Linear(64, 64, bias=False), nn.Linear(64, 4)]
    plain = _run(lambda: nn.Sequential(*layers)).saved.per_sample
    masked = _run(lambda: nn.Sequential(layers[0], nn.Dropout(0.1), layers[1])).saved.per_sample
    assert masked - plain == 64


def test_attention_with_dropout_is_fused() -> None:
    class Attention(nn.Module):
        def __init__(self, rate: float) -> None:
            super().__init__()
            self.rate = rate
            self.qkv = nn.Linear(64, 3 * 64 * 64)

        def forward(self, value: torch.Tensor) -> torch.Tensor:
            query, key, values = self.qkv(value).view(-1, 3, 1, 64, 64).unbind(1)
            attention = nn.functional.scaled_dot_product_attention
            return attention(query, key, values, dropout_p=self.rate).flatten(1)

    assert _run(lambda: Attention(0.1)).memory == _run(lambda: Attention(0.0)).memory


def test_a_value_of_a_tensor_is_read() -> None:
    class Reader(nn.Linear):
        def forward(self, value: torch.Tensor) -> torch.Tensor:
            return super().forward(value) if value.sum() > 0 else value

    with pytest.raises(CommandError, match="without data: it reads a value of a tensor"):
        _run(lambda: Reader(64, 4))


def test_the_lines_do_not_depend_on_the_batch() -> None:
    def build() -> nn.Module:
        return nn.Sequential(nn.Linear(64, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 4))

    small, large = _run(build, 8), _run(build, 64)
    assert small.saved == large.saved
    assert small.costs == large.costs
    assert large.memory.passes > small.memory.passes
