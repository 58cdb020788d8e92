"""The loss of a training step: that of the model, else one that fits its output."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Iterator, List, Mapping, Sequence


@dataclass(frozen=True)
class Loss:
    """The loss of a batch."""

    kind: str  # 'cross entropy', 'mean square' or 'of the model'
    value: Any  # the tensor
    targets: List[Any]


def compute_loss(torch: Any, output: Any, inputs: Sequence[Any]) -> Loss:
    """Compute the loss from the output of the model. Raises ValueError."""
    own = getattr(output, "loss", None)
    if isinstance(own, torch.Tensor):
        return Loss("of the model", own, [])
    floats = [tensor for tensor in tensors_of(torch, output) if tensor.is_floating_point()]
    if not floats:
        raise ValueError("the model returns no tensor of floating-point numbers")
    result = floats[0]
    has_tokens = any(not tensor.is_floating_point() for tensor in inputs)
    functional = torch.nn.functional
    if result.dim() == 2 or (result.dim() == 3 and has_tokens):
        rows = result.reshape(-1, result.shape[-1])
        targets = torch.zeros((rows.shape[0],), dtype=torch.int64)
        return Loss("cross entropy", functional.cross_entropy(rows, targets), [targets])
    targets = torch.zeros(tuple(result.shape), dtype=torch.float32)
    return Loss("mean square", functional.mse_loss(result, targets), [targets])


def tensors_of(torch: Any, value: Any) -> Iterator[Any]:
    """Yield the tensors in nested tuples, lists and mappings."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, Mapping):
        for part in value.values():
            yield from tensors_of(torch, part)
    elif isinstance(value, (tuple, list)):
        for part in value:
            yield from tensors_of(torch, part)
