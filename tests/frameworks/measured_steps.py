"""The measurement that estimates are compared with: real training steps on the CPU, in which the
bytes of all live tensors are counted. It shares no code with the dry run.

As on a GPU, the optimiser updates all weights together and dropout keeps a mask of one byte.
"""

from __future__ import annotations

import weakref
from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.checkpoint import checkpoint

from tests.frameworks.models import VOCABULARY, Kind

VARIANTS = ("full", "frozen body", "last block", "LoRA", "mixed", "checkpointed")
RANK = 8
_STEPS = 3  # the state of the optimiser exists from the second on


class _LiveTensors(TorchDispatchMode):
    """Counts the bytes of each storage from its creation to its end."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes = self.peak = 0
        self._known: set[int] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(result):
            if isinstance(leaf, torch.Tensor):
                self._begin(leaf.untyped_storage())
        self.peak = max(self.peak, self.bytes)
        return result

    def _begin(self, storage: torch.UntypedStorage) -> None:
        identity = storage._cdata
        if identity not in self._known:
            self._known.add(identity)
            self.bytes += storage.nbytes()
            weakref.finalize(storage, self._end, identity, storage.nbytes()).atexit = False

    def _end(self, identity: int, size: int) -> None:
        self._known.discard(identity)
        self.bytes -= size


class _LowRank(nn.Module):
    """A frozen layer with a low-rank branch beside it."""

    def __init__(self, layer: nn.Linear | nn.Conv2d) -> None:
        super().__init__()
        self.layer = layer
        if isinstance(layer, nn.Linear):
            self.down: nn.Module = nn.Linear(layer.in_features, RANK, bias=False)
            self.up: nn.Module = nn.Linear(RANK, layer.out_features, bias=False)
        else:
            shape = (layer.kernel_size, layer.stride, layer.padding, layer.dilation)
            self.down = nn.Conv2d(layer.in_channels, RANK, *shape, bias=False)
            self.up = nn.Conv2d(RANK, layer.out_channels, 1, bias=False)

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        return self.layer(value) + 2 * self.up(self.down(value))


class _ByteMaskDropout(nn.Module):
    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        return torch.native_dropout(value, self.rate, True)[0]


def measure_peak(kind: Kind, batch: int, optimiser: str, variant: str) -> int:
    """Train for three steps and return the peak of the last."""
    torch.manual_seed(0)
    functional = nn.functional
    with _LiveTensors() as live:
        model = kind.build()
        model.train()
        _replace_dropout(model)
        _change(kind, model, variant)
        step = _optimiser(optimiser, [one for one in model.parameters() if one.requires_grad])
        inputs, targets = _data(kind, batch)
        for _ in range(_STEPS):
            step.zero_grad()
            live.peak = live.bytes
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=variant == "mixed"):
                loss = functional.cross_entropy(model(inputs).flatten(0, -2), targets)
            loss.backward()
            step.step()
            del loss
        return live.peak


def _data(kind: Kind, batch: int) -> tuple[torch.Tensor, torch.Tensor]:
    if kind.input.startswith("tokens:"):
        length = int(kind.input.split(":")[1])
        ids = torch.randint(VOCABULARY, (batch, length))
        return ids, torch.randint(VOCABULARY, (batch * length,))
    shape = map(int, kind.input.split("x"))
    return torch.randn(batch, *shape), torch.randint(10, (batch,))


def _optimiser(name: str, parameters: list[nn.Parameter]) -> torch.optim.Optimizer:
    if name == "adam":
        return torch.optim.Adam(parameters, foreach=True)
    momentum = 0.9 if name == "momentum" else 0.0
    return torch.optim.SGD(parameters, lr=0.01, momentum=momentum, foreach=True)


def _change(kind: Kind, model: nn.Module, variant: str) -> None:
    if variant == "checkpointed":
        for block in kind.blocks(model):
            block.forward = _checkpointed(block.forward)
    elif variant == "LoRA":
        model.requires_grad_(False)
        _add_low_rank(model)
    elif variant in {"frozen body", "last block"}:
        model.requires_grad_(False)
        trained = [kind.head(model)] if variant == "frozen body" else kind.last_block(model)
        for module in trained:
            module.requires_grad_(True)


def _checkpointed(forward: Any) -> Any:
    return lambda *args: checkpoint(forward, *args, use_reentrant=False)


def _add_low_rank(module: nn.Module) -> None:
    for name, child in module.named_children():
        if isinstance(child, nn.MultiheadAttention):
            continue  # it uses the weights of its layer without a call
        if isinstance(child, nn.Linear) or (isinstance(child, nn.Conv2d) and child.groups == 1):
            setattr(module, name, _LowRank(child))
        else:
            _add_low_rank(child)


def _replace_dropout(module: nn.Module) -> None:
    for name, child in module.named_children():
        if isinstance(child, nn.Dropout):
            setattr(module, name, _ByteMaskDropout(child.p) if child.p else nn.Identity())
        else:
            _replace_dropout(child)
