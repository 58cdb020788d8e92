"""One forward pass under fake tensors: operations and outputs of each layer, and the bytes that
are saved for the backward pass.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple


@dataclass
class LayerTrace:
    """One module that was called. Counts are for the whole batch."""

    module: Any
    flops: int = 0  # of its own operations, without those of modules inside it
    input_elements: int = 0
    output_elements: int = 0
    output_bytes: int = 0
    has_called_modules: bool = False


@dataclass
class Trace:
    """A forward pass with a batch."""

    batch: int
    layers: Dict[str, LayerTrace]  # by name, in the order of the first call
    flops: int
    saved_bytes: int
    input_elements: int
    input_bytes: int  # with the targets of the loss
    loss: str  # 'cross entropy', 'mean square' or 'of the model'
    loss_output_bytes: int  # of the model's output, in 32 bits


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
            self.layers.setdefault(name, LayerTrace(module))

        return start

    def _end(self, called: Any, args: Any, kwargs: Any, output: Any) -> None:
        frame = self._frames.pop()
        flops = int(self._counter.get_total_flops()) - frame.flops_before
        layer = self.layers[frame.name]
        layer.flops += flops - frame.inner_flops
        layer.has_called_modules = layer.has_called_modules or frame.has_called_modules
        layer.input_elements += _elements(self._torch, (args, kwargs))
        layer.output_elements += _elements(self._torch, output)
        layer.output_bytes += sum(_bytes(tensor) for tensor in tensors_of(self._torch, output))
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
    counter = torch.utils.flop_counter.FlopCounterMode(display=False)
    recorder = _LayerRecorder(torch, counter)
    with ExitStack() as stack:
        stack.enter_context(
            torch.autograd.graph.saved_tensors_hooks(saved.pack, lambda packed: packed)
        )
        if is_mixed:
            stack.enter_context(torch.autocast("cpu", dtype=torch.bfloat16))
        with counter, recorder.hooks(model):
            output = model(*positional, **keywords)
        loss_kind, output_bytes, targets = _loss(torch, output, input_tensors)
    for target in targets:
        saved.exclude(target)
    all_inputs = [*input_tensors, *targets]
    return Trace(
        batch=batch,
        layers=recorder.layers,
        flops=int(counter.get_total_flops()),
        saved_bytes=saved.total_bytes,
        input_elements=sum(int(tensor.numel()) for tensor in input_tensors),
        input_bytes=sum(_bytes(tensor) for tensor in all_inputs),
        loss=loss_kind,
        loss_output_bytes=output_bytes,
    )


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


def _loss(torch: Any, output: Any, inputs: Sequence[Any]) -> Tuple[str, int, List[Any]]:
    """Compute a loss, so that what it saves is counted. Return its kind, the bytes of the output in
    32 bits and the targets.
    """
    own: Optional[Any] = getattr(output, "loss", None)
    floats = [tensor for tensor in tensors_of(torch, output) if tensor.is_floating_point()]
    if isinstance(own, torch.Tensor):
        largest = max((int(tensor.numel()) for tensor in floats), default=0)
        return "of the model", 4 * largest, []
    if not floats:
        raise ValueError("the model returns no tensor of floating-point numbers")
    result = floats[0]
    elements = int(result.numel())
    has_tokens = any(not tensor.is_floating_point() for tensor in inputs)
    functional = torch.nn.functional
    if result.dim() == 2 or (result.dim() == 3 and has_tokens):
        rows = result.reshape(-1, result.shape[-1])
        targets = torch.zeros((rows.shape[0],), dtype=torch.int64)
        functional.cross_entropy(rows, targets)
        return "cross entropy", 4 * elements, [targets]
    targets = torch.zeros(tuple(result.shape), dtype=torch.float32)
    functional.mse_loss(result, targets)
    return "mean square", 4 * elements, [targets]


def _elements(torch: Any, value: Any) -> int:
    return sum(int(tensor.numel()) for tensor in tensors_of(torch, value))


def _bytes(tensor: Any) -> int:
    return int(tensor.numel()) * int(tensor.element_size())


def _storage_key(tensor: Any) -> int:
    return int(tensor.untyped_storage()._cdata)  # noqa: SLF001 - torch has no public identity of a storage
