"""One forward pass under fake tensors: operations and outputs of each layer, and the bytes that
are saved for the backward pass.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, Dict, Iterator, List, Mapping, Sequence, Tuple

from labcarbon_collect.plan.loss import compute_loss, tensors_of


@dataclass
class LayerTrace:
    """One module that was called. Counts are for the whole batch."""

    module: Any
    flops: int = 0  # of its own operations, without those of modules inside it
    input_elements: int = 0
    output_elements: int = 0
    has_called_modules: bool = False
    has_input_gradient: bool = False


@dataclass
class Trace:
    """A forward pass with a batch."""

    batch: int
    layers: Dict[str, LayerTrace]  # by name, in the order of the first call
    flops: int
    saved_bytes: int
    input_elements: int
    input_bytes: int  # with the targets of the loss
    loss: str  # its kind


@dataclass
class _Frame:
    name: str
    flops_before: int
    inner_flops: int = 0
    has_called_modules: bool = field(default=False)


class _LayerRecorder:
    """Hooks on all modules of a model."""

    def __init__(self, torch: Any, counter: Any) -> None:
        self._torch, self._counter = torch, counter
        self._frames: List[_Frame] = []
        self.layers: Dict[str, LayerTrace] = {}

    @contextmanager
    def hooks(self, model: Any) -> Iterator[None]:
        handles = []
        for name, module in model.named_modules():
            handles.append(
                module.register_forward_pre_hook(self._start(name, module), with_kwargs=True)
            )
            handles.append(module.register_forward_hook(self._end, with_kwargs=True))
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def _start(self, name: str, module: Any) -> Any:
        def start(called: Any, args: Any, kwargs: Any) -> None:
            if self._frames:
                self._frames[-1].has_called_modules = True
            self._frames.append(_Frame(name, int(self._counter.get_total_flops())))
            layer = self.layers.setdefault(name, LayerTrace(module))
            layer.has_input_gradient = layer.has_input_gradient or any(
                tensor.requires_grad for tensor in tensors_of(self._torch, (args, kwargs))
            )

        return start

    def _end(self, called: Any, args: Any, kwargs: Any, output: Any) -> None:
        frame = self._frames.pop()
        flops = int(self._counter.get_total_flops()) - frame.flops_before
        layer = self.layers[frame.name]
        layer.flops += flops - frame.inner_flops
        layer.has_called_modules = layer.has_called_modules or frame.has_called_modules
        layer.input_elements += _elements(self._torch, (args, kwargs))
        layer.output_elements += _elements(self._torch, output)
        if self._frames:
            self._frames[-1].inner_flops += flops


class _SavedStorages:
    """Storages that autograd keeps, without those that exist anyway."""

    def __init__(self, others: Sequence[Any]) -> None:
        self._others = {_storage_key(tensor) for tensor in others}
        self._storages: Dict[int, Any] = {}  # the reference keeps the key unique

    def pack(self, tensor: Any) -> Any:
        key = _storage_key(tensor)
        if key not in self._others:
            self._storages[key] = tensor.untyped_storage()
        return tensor

    def exclude(self, tensor: Any) -> None:
        self._others.add(_storage_key(tensor))

    @property
    def total_bytes(self) -> int:
        return sum(
            int(storage.nbytes())
            for key, storage in self._storages.items()
            if key not in self._others
        )


def trace_forward(
    torch: Any,
    model: Any,
    inputs: Tuple[List[Any], Mapping[str, Any]],
    batch: int,
    *,
    is_mixed: bool,
) -> Trace:
    """Run the forward pass and the loss, under the fake tensors that are active."""
    positional, keywords = inputs
    input_tensors = list(tensors_of(torch, (positional, keywords)))
    saved = _SavedStorages([*model.parameters(), *model.buffers(), *input_tensors])
    counter = _flop_counter(torch)
    recorder = _LayerRecorder(torch, counter)
    with ExitStack() as stack:
        stack.enter_context(
            torch.autograd.graph.saved_tensors_hooks(saved.pack, lambda packed: packed)
        )
        if is_mixed:
            stack.enter_context(torch.autocast("cpu", dtype=torch.bfloat16))
        with counter, recorder.hooks(model):
            output = model(*positional, **keywords)
        loss = compute_loss(torch, output, input_tensors)
    for target in loss.targets:
        saved.exclude(target)
    all_inputs = [*input_tensors, *loss.targets]
    return Trace(
        batch=batch,
        layers=recorder.layers,
        flops=int(counter.get_total_flops()),
        saved_bytes=saved.total_bytes,
        input_elements=sum(int(tensor.numel()) for tensor in input_tensors),
        input_bytes=sum(_bytes(tensor) for tensor in all_inputs),
        loss=loss.kind,
    )


def _flop_counter(torch: Any) -> Any:
    """Return PyTorch's counter, which leaves out the fused attention of a CPU."""
    attention = getattr(torch.ops.aten, "_scaled_dot_product_flash_attention_for_cpu", None)
    mapping = {} if attention is None else {attention: _attention_flops}
    return torch.utils.flop_counter.FlopCounterMode(display=False, custom_mapping=mapping)


def _attention_flops(query: Any, key: Any, value: Any, *_: Any, **__: Any) -> int:
    """Return the FLOPs from the shapes (batch, heads, length, width) of the two products."""
    batch, heads, length, width = map(int, query)
    return 2 * batch * heads * length * int(key[2]) * (width + int(value[3]))


def _elements(torch: Any, value: Any) -> int:
    return sum(int(tensor.numel()) for tensor in tensors_of(torch, value))


def _bytes(tensor: Any) -> int:
    return int(tensor.numel()) * int(tensor.element_size())


def _storage_key(tensor: Any) -> int:
    return int(tensor.untyped_storage()._cdata)  # noqa: SLF001 - torch has no public identity of a storage
