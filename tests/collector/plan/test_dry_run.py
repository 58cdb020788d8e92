"""``plan --model`` with a stand-in for torch: costs of the model and memory of its training."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from labcarbon_collect.plan import model_costs

from apps.planner.formulas import model_costs as server_model_costs
from tests.collector.plan.conftest import Plan

MODEL = """
import torch
from torch import nn

def build(width=4, bias=True):
    print("building")
    return nn.Sequential(nn.Flatten(), nn.Linear(6, width, bias), nn.ReLU(), nn.Linear(width, 3))
"""


@pytest.fixture
def model(folder: Path, torch: ModuleType) -> Path:
    path = folder / "net.py"
    path.write_text(MODEL)
    return path


def _json(output: str) -> dict[str, Any]:
    parsed: dict[str, Any] = json.loads(output)
    return parsed


@pytest.mark.parametrize("name", ["LayerCosts", "SavedBytes", "ModelCosts"])
def test_the_fields_are_those_of_the_server(name: str) -> None:
    ours, servers = getattr(model_costs, name), getattr(server_model_costs, name)
    assert [field.name for field in dataclasses.fields(ours)] == [
        field.name for field in dataclasses.fields(servers)
    ]


@pytest.mark.usefixtures("model")
def test_costs_of_a_model(plan: Plan, torch: ModuleType) -> None:
    code, output, errors = plan("--model", "net:build", "--input", "2x3", "--json")
    assert code == 0, errors
    costs = _json(output)["model"]
    assert costs["name"] == "Sequential"
    assert costs["input"] == "2x3"
    assert costs["parameters"] == 6 * 4 + 4 + 4 * 3 + 3
    assert costs["macs"] == 6 * 4 + 4 * 3
    assert costs["layer_outputs"] == 6 + 4 + 4 + 3
    assert costs["parameter_layer_outputs"] == 4 + 3
    assert costs["input_elements"] == 6
    assert costs["largest_output"] == 6
    # The result of ReLU, which the second layer saves too, and the logarithms of the loss.
    assert costs["saved_bytes"]["fp32"] == 4 * (4 + 3)
    assert costs["fixed_bytes_fp32"] == 0
    # 16-bit copies of the inputs and of the result of ReLU, and of the second weights. The first
    # weights are not needed, since the inputs have no gradient.
    assert costs["saved_bytes"]["mixed"] == 2 * (6 + 4) + 4 * 3
    assert costs["fixed_bytes_mixed"] == 2 * 4 * 3
    assert [
        (layer["name"], layer["kind"], layer["parameters"], layer["macs"])
        for layer in costs["layers"]
    ] == [
        ("0", "Flatten", 0, 0),
        ("1", "Linear", 28, 24),
        ("2", "ReLU", 0, 0),
        ("3", "Linear", 15, 12),
    ]
    assert torch.state["allocations"] == 0
    assert "building" in errors  # not between the lines of the JSON


@pytest.mark.usefixtures("model")
@pytest.mark.parametrize(
    ("optimiser", "state", "temporaries"),
    [("sgd", 0, 0), ("momentum", 1, 0), ("adam", 2, 1), ("adamw", 2, 1)],
)
def test_memory_by_optimiser(plan: Plan, optimiser: str, state: int, temporaries: int) -> None:
    _, output, _ = plan(
        *("--model", "net:build", "--input", "6", "--json"),
        *("--batch", "100", "--optimiser", optimiser),
    )
    memory = _json(output)["training"]["memory"]
    weights = 4 * 43
    # Result of ReLU, logarithms of the loss, the loss, gradients of logarithms and of the output.
    passes = 100 * 4 * (4 + 3) + 4 + 2 * 100 * 4 * 3
    assert memory == {
        "weights": weights,
        "optimiser_state": state * weights,
        "buffers": 0,
        "input": 100 * (4 * 6 + 8),
        "saved": 100 * 28,
        "passes": passes,
        "gradients": weights,
        "optimiser_temporaries": temporaries * weights,
        "peak": weights + state * weights + 3200 + passes,
    }


@pytest.mark.usefixtures("model")
def test_arguments_of_the_function(plan: Plan) -> None:
    _, output, _ = plan(
        *("--model", "net.py:build", "--input", "6", "--json"),
        *("--arg", "width=64", "--arg", "bias=False"),
    )
    assert _json(output)["model"]["parameters"] == 6 * 64 + 64 * 3 + 3


@pytest.mark.usefixtures("model")
def test_text(plan: Plan) -> None:
    code, output, _ = plan("--model", "net:build", "--input", "6", "--arg", "width=1000")
    assert code == 0
    assert "MACs of the forward pass     9.00 k per sample" in output
    assert "  1      Linear       7.00 k  6.00 k   1.00 k\n" in output


def test_own_inputs(plan: Plan, folder: Path, torch: ModuleType) -> None:
    (folder / "net.py").write_text(
        MODEL + "\ndef inputs(batch):\n    return {'value': torch.zeros((batch, 6))}\n"
    )
    code, output, errors = plan("--model", "net:build", "--json")
    assert code == 0, errors
    assert _json(output)["model"]["input_elements"] == 6


def test_tokens(plan: Plan, folder: Path, torch: ModuleType) -> None:
    (folder / "net.py").write_text(
        "from torch import nn\n"
        "def build():\n"
        "    return nn.Sequential(nn.Embedding(50, 8), nn.Linear(8, 50, bias=False))\n"
    )
    code, output, errors = plan("--model", "net:build", "--input", "tokens:16:vocab=50", "--json")
    assert code == 0, errors
    parsed = _json(output)
    assert parsed["model"]["input"] == "16 tokens"
    assert parsed["training"]["loss"] == "cross entropy"
    # The embeddings, and three times the output in 32 bits, the largest part of a language model.
    assert parsed["training"]["memory"]["passes"] == 32 * 4 * 16 * (8 + 3 * 50) + 4
    code, _, errors = plan("--model", "net:build", "--input", "tokens:16:vocab=51")
    assert code == 1
    assert "vocabulary of 51, but the largest embedding of the model has 50 rows" in errors


def test_truncated_normal_initialisation(plan: Plan, folder: Path, torch: ModuleType) -> None:
    (folder / "net.py").write_text(
        "from torch import nn\n"
        "def build():\n"
        "    layer = nn.Linear(6, 3)\n"
        "    nn.init.trunc_normal_(layer.weight)\n"
        "    return layer\n"
    )
    original = torch.nn.init._no_grad_trunc_normal_
    assert plan("--model", "net:build", "--input", "6")[0] == 0
    assert torch.nn.init._no_grad_trunc_normal_ is original
