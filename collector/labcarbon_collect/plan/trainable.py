"""Which part of a model is trained, and what is checkpointed: the model is changed accordingly."""

from __future__ import annotations

import functools
import importlib
import re
from dataclasses import dataclass
from typing import Any, List, Sequence, Tuple

from labcarbon_collect.errors import CommandError
from labcarbon_collect.plan.blocks import ModelParts, Named

_FORMS = "all, head, last-blocks=2 or lora=8"
_TEXT = re.compile(r"(all|head)|(last-blocks|lora)=(\d{1,6})")
_SCALE = 2  # of a low-rank branch; its value does not change the memory


@dataclass(frozen=True)
class TrainablePart:
    """``all``, ``head``, ``last-blocks`` with a count, ``lora`` with a rank."""

    kind: str = "all"
    count: int = 0

    @property
    def text(self) -> str:
        return f"{self.kind}={self.count}" if self.count else self.kind


def parse_trainable(text: str) -> TrainablePart:
    """Parse ``--trainable``. Raises CommandError."""
    match = _TEXT.fullmatch(text)
    if match is None or (match[3] and not int(match[3])):
        raise CommandError(f"--trainable {text!r} is not known. Write {_FORMS}")
    return TrainablePart(match[1] or match[2], int(match[3] or 0))


def freeze(
    torch: Any, model: Any, part: TrainablePart, parts: ModelParts, called: Sequence[str]
) -> str:
    """Leave only the part trainable. Return what is trained. Raises CommandError."""
    if part.kind == "all":
        return "as the code leaves it"
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    if part.kind == "lora":
        count = _add_low_rank_branches(torch, model, part.count, called)
        return f"low-rank branches of rank {part.count} beside {count} layers"
    trained = _trained_parts(part, parts)
    for _, module in trained:
        for parameter in module.parameters():
            parameter.requires_grad_(True)
    return ", ".join(name or type(module).__name__ for name, module in trained)


def checkpoint_blocks(torch: Any, model: Any, parts: ModelParts) -> Tuple[str, ...]:
    """Let each block keep its inputs only, and compute again in the backward pass. Return their
    names. Raises CommandError.
    """
    blocks = parts.blocks or parts.sequences
    if not blocks:
        raise CommandError(
            "--checkpoint finds no blocks: the model has no modules in nn.Sequential or "
            "nn.ModuleList. Call torch.utils.checkpoint in the code of the model and leave "
            "--checkpoint out"
        )
    checkpoint = importlib.import_module("torch.utils.checkpoint").checkpoint
    for _, module in blocks:
        module.forward = functools.partial(checkpoint, module.forward, use_reentrant=False)
    return tuple(name for name, _ in blocks)


def _trained_parts(part: TrainablePart, parts: ModelParts) -> Sequence[Named]:
    if not parts.parts:
        raise CommandError(f"--trainable {part.text}: the model has no parameters")
    if part.kind == "head":
        return [parts.head]
    if part.count > len(parts.countable):
        names = ", ".join(name for name, _ in parts.countable)
        raise CommandError(
            f"--trainable {part.text}: the model has {len(parts.countable)} blocks"
            f"{f' ({names})' if names else ''}. Give a smaller number, or all"
        )
    return parts.last_blocks(part.count)


def _add_low_rank_branches(torch: Any, model: Any, rank: int, called: Sequence[str]) -> int:
    """Add a branch beside each linear layer and each convolution without groups that is called."""
    names = set(called)
    count = 0
    for name, layer in list(model.named_modules()):
        branch = _low_rank_layers(torch, layer, rank) if name in names else []
        if branch:
            layer.add_module("low_rank", torch.nn.Sequential(*branch))
            layer.register_forward_hook(_add_low_rank_output, with_kwargs=True)
            count += 1
    if not count:
        raise CommandError(
            f"--trainable lora={rank}: the model calls no linear layer and no convolution"
        )
    return count


def _low_rank_layers(torch: Any, layer: Any, rank: int) -> List[Any]:
    nn = torch.nn
    if isinstance(layer, nn.Linear):
        first = nn.Linear(layer.in_features, rank, bias=False)
        return [first, nn.Linear(rank, layer.out_features, bias=False)]
    for kind in (nn.Conv1d, nn.Conv2d, nn.Conv3d):
        if isinstance(layer, kind) and layer.groups == 1:
            first = kind(
                layer.in_channels,
                rank,
                layer.kernel_size,
                layer.stride,
                layer.padding,
                layer.dilation,
                bias=False,
            )
            return [first, kind(rank, layer.out_channels, 1, bias=False)]
    return []


def _add_low_rank_output(layer: Any, args: Any, kwargs: Any, output: Any) -> Any:
    value = args[0] if args else kwargs["input"]
    return output + layer.low_rank(value) * _SCALE
