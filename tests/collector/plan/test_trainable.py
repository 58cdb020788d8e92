"""``plan --trainable`` and ``--checkpoint`` with a stand-in for torch."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.collector.plan.conftest import Plan

MODEL = """
from torch import nn

class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear, self.act = nn.Linear(width, width), nn.ReLU()

    def forward(self, value):
        return self.act(self.linear(value))

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(8, 3)  # called last
        self.stem = nn.Linear(6, 8)
        self.blocks = nn.ModuleList(Block(8) for _ in range(3))

    def forward(self, value):
        value = self.stem(value)
        for block in self.blocks:
            value = block(value)
        return self.head(value)

def build():
    return Net()

def plain():
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 3))

def frozen():
    net = Net()
    for parameter in net.stem.parameters():
        parameter.requires_grad_(False)
    return net

class Bare(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(6, 3)

    def forward(self, value):
        return self.linear(value)

def bare():
    return Bare()

def branches(rate=0.5):
    net = Net()
    net.blocks = nn.ModuleList([Block(8), nn.Dropout(rate)])
    return net
"""
STEM, BLOCK, HEAD = 6 * 8 + 8, 8 * 8 + 8, 8 * 3 + 3
BATCH = 10


@pytest.fixture
def run(folder: Path, torch: ModuleType, plan: Plan) -> Any:
    (folder / "net.py").write_text(MODEL)

    def run_plan(name: str, *arguments: str) -> Any:
        code, output, errors = plan(
            *("--model", f"net:{name}", "--input", "6", "--batch", str(BATCH)),
            *("--optimiser", "adam", "--json", *arguments),
        )
        return json.loads(output)["training"] if code == 0 else errors

    return run_plan


@pytest.mark.parametrize(
    ("name", "part", "trained", "parameters"),
    [
        ("build", "all", "as the code leaves it", STEM + 3 * BLOCK + HEAD),
        ("frozen", "all", "as the code leaves it", 3 * BLOCK + HEAD),
        ("build", "head", "head", HEAD),
        ("build", "last-blocks=1", "blocks.2, head", BLOCK + HEAD),
        ("build", "last-blocks=3", "blocks.0, blocks.1, blocks.2, head", 3 * BLOCK + HEAD),
        ("plain", "head", "4", HEAD),
        ("plain", "last-blocks=1", "2, 4", BLOCK + HEAD),
        ("bare", "head", "linear", 6 * 3 + 3),
        (
            "build",
            "lora=2",
            "low-rank branches of rank 2 beside 5 layers",
            2 * (6 + 8 + 3 * (8 + 8) + 8 + 3),
        ),
    ],
)
def test_trained_part(run: Any, name: str, part: str, trained: str, parameters: int) -> None:
    training = run(name, "--trainable", part)
    assert training["trainable"] == part
    assert training["trained"] == trained
    assert training["trainable_parameters"] == parameters
    memory = training["memory"]
    assert memory["gradients"] == 4 * parameters
    assert memory["optimiser_state"] == 8 * parameters
    added = parameters if part.startswith("lora") else 0
    whole = 21 if name == "bare" else STEM + HEAD + BLOCK * (1 if name == "plain" else 3)
    assert memory["weights"] == 4 * (whole + added)


def test_saved_bytes(run: Any) -> None:
    loss = 4 * 3
    # Inputs of the blocks and of the head; the result of each ReLU is the next input.
    assert run("build")["saved_bytes"] == 4 * 4 * 8 + loss
    assert run("build", "--trainable", "head")["saved_bytes"] == 4 * 8 + loss
    assert run("build", "--trainable", "last-blocks=1")["saved_bytes"] == 2 * 4 * 8 + loss
    # A low-rank branch saves its input and the rank: as much as the whole model, and more.
    assert run("build", "--trainable", "lora=2")["saved_bytes"] == 4 * 4 * 8 + 5 * 4 * 2 + loss


def test_operations_of_a_step(run: Any) -> None:
    stem, block, head = 6 * 8, 8 * 8, 8 * 3
    forward = stem + 3 * block + head
    assert run("build")["step_flops"] == 6 * forward
    assert run("build", "--trainable", "head")["step_flops"] == 2 * (forward + head)
    # Last block: its weights; head: weights and input.
    assert run("build", "--trainable", "last-blocks=1")["step_flops"] == 2 * (
        forward + block + 2 * head
    )
    assert run("build", "--checkpoint")["step_flops"] == 2 * (
        forward + 3 * block + stem + 2 * (3 * block + head)
    )


def test_checkpointed_blocks(run: Any) -> None:
    plain, checkpointed = run("build"), run("build", "--checkpoint")
    assert checkpointed["checkpointed"] == ["blocks.0", "blocks.1", "blocks.2"]
    assert plain["checkpointed"] == []
    # Inputs of the three blocks and of the head.
    assert checkpointed["saved_bytes"] == 4 * 4 * 8 + 4 * 3
    assert run("plain", "--checkpoint")["checkpointed"] == [""]
    assert run("plain", "--checkpoint")["saved_bytes"] == 4 * 3


def test_memory_of_a_dropout_mask(run: Any) -> None:
    with_mask = run("branches")["saved_bytes"]
    assert with_mask - run("branches", "--arg", "rate=0.0")["saved_bytes"] == 8 + 4 * 8


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("build", ["--trainable", "body"], "--trainable 'body' is not known. Write all, head"),
        ("build", ["--trainable", "lora=0"], "--trainable 'lora=0' is not known"),
        (
            "build",
            ["--trainable", "last-blocks=4"],
            "the model has 3 blocks (blocks.0, blocks.1, blocks.2). Give a smaller number, or all",
        ),
        ("bare", ["--trainable", "last-blocks=1"], "the model has 0 blocks. Give a smaller"),
        ("bare", ["--checkpoint"], "--checkpoint finds no blocks"),
    ],
)
def test_invalid_parts(run: Any, name: str, arguments: list[str], message: str) -> None:
    assert message in run(name, *arguments)


def test_no_layer_for_a_branch(folder: Path, torch: ModuleType, plan: Plan) -> None:
    (folder / "net.py").write_text(
        "from torch import nn\ndef build(): return nn.Sequential(nn.Embedding(5, 3))\n"
    )
    code, _, errors = plan("--model", "net:build", "--input", "tokens:4", "--trainable", "lora=4")
    assert code == 1
    assert "lora=4: the model calls no linear layer and no convolution" in errors


def test_text(folder: Path, torch: ModuleType, plan: Plan) -> None:
    (folder / "net.py").write_text(MODEL)
    code, output, _ = plan(
        *("--model", "net:build", "--input", "6", "--trainable", "head", "--checkpoint")
    )
    assert code == 0
    assert "  trainable                  27, head\n" in output
    assert "3 blocks are checkpointed\n" in output


def test_rates_of_linspace(folder: Path, torch: ModuleType, plan: Plan) -> None:
    (folder / "net.py").write_text(
        "import torch\n"
        "def build():\n"
        "    rates = torch.linspace(0, 0.1, 4)\n"
        "    assert rates.constant.shape == (4,)\n"
        "    return torch.nn.Linear(6, 3)\n"
    )
    original = torch.linspace
    code, _, errors = plan("--model", "net:build", "--input", "6")
    assert code == 0, errors
    assert torch.linspace is original
