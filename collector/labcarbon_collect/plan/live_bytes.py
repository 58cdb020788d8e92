"""Bytes of the tensors that exist at the same time in the forward and backward pass."""

from __future__ import annotations

import weakref
from contextlib import ExitStack
from typing import Any, Dict, List, Mapping, Tuple

from labcarbon_collect.plan.loss import compute_loss, tensors_of


class _LiveBytes:
    """Storages that operations return, until they are freed."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._existing: Dict[int, Any] = {}  # the reference keeps the key unique
        self._live: Dict[int, Any] = {}
        self._bytes = 0
        self.peak_bytes = 0

    def exclude(self, tensor: Any) -> None:
        storage = tensor.untyped_storage()
        key = _key(storage)
        self._existing[key] = storage
        self._remove(key, int(storage.nbytes()))

    def add(self, value: Any) -> None:
        for tensor in tensors_of(self._torch, value):
            storage = tensor.untyped_storage()
            key = _key(storage)
            if key in self._existing or key in self._live:
                continue
            size = int(storage.nbytes())
            self._live[key] = weakref.ref(storage, self._removal(key, size))
            self._bytes += size
        self.peak_bytes = max(self.peak_bytes, self._bytes)

    def _removal(self, key: int, size: int) -> Any:
        return lambda _reference: self._remove(key, size)

    def _remove(self, key: int, size: int) -> None:
        if self._live.pop(key, None) is not None:
            self._bytes -= size


def measure_passes(
    torch: Any, model: Any, inputs: Tuple[List[Any], Mapping[str, Any]], *, is_mixed: bool
) -> int:
    """Run forward pass, loss and backward pass, under the fake tensors that are active. Return the
    most bytes at once, beside weights, buffers, inputs and targets.
    """
    positional, keywords = inputs
    input_tensors = list(tensors_of(torch, (positional, keywords)))
    live = _LiveBytes(torch)
    for tensor in [*model.parameters(), *model.buffers(), *input_tensors]:
        live.exclude(tensor)
    with _operations(torch, live), ExitStack() as stack:
        if is_mixed:
            stack.enter_context(torch.autocast("cpu", dtype=torch.bfloat16))
        output = model(*positional, **keywords)
        loss = compute_loss(torch, output, input_tensors)
        for target in loss.targets:
            live.exclude(target)
        del output  # as in a training loop whose loss is computed by a function
        stack.close()
        if loss.value.requires_grad:
            loss.value.backward()
    for parameter in model.parameters():
        parameter.grad = None
    return live.peak_bytes


def _operations(torch: Any, live: _LiveBytes) -> Any:
    base: Any = torch.utils._python_dispatch.TorchDispatchMode  # noqa: SLF001

    class Operations(base):  # type: ignore[misc]
        def __torch_dispatch__(
            self, function: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            result = function(*args, **(kwargs or {}))
            live.add(result)
            return result

    return Operations()


def _key(storage: Any) -> int:
    return int(storage._cdata)  # noqa: SLF001 - torch has no public identity of a storage
