"""The dry run: costs of a model and memory of its training from its own code, under PyTorch's fake
tensors. Nothing is allocated and nothing is computed.
"""

from __future__ import annotations

import contextlib
import sys
from dataclasses import dataclass
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

from labcarbon_collect.errors import CommandError
from labcarbon_collect.plan.inputs import FORMS, InputSpec, build_inputs
from labcarbon_collect.plan.memory import (
    STATE_COPIES,
    TEMPORARY_COPIES,
    LinearBytes,
    MemoryParts,
)
from labcarbon_collect.plan.model_code import ModelCode, call_inputs
from labcarbon_collect.plan.model_costs import LayerCosts, ModelCosts, SavedBytes
from labcarbon_collect.plan.torch_package import import_torch
from labcarbon_collect.plan.trace import LayerTrace, Trace, trace_forward

_BATCHES = (2, 4)  # a batch norm refuses 1


@dataclass(frozen=True)
class Training:
    """How the model is trained."""

    batch: int
    optimiser: str
    precision: str  # 'fp32' or 'mixed'


@dataclass(frozen=True)
class DryRun:
    """The result: costs of the model, and memory of the training."""

    costs: ModelCosts
    training: Training
    trainable_parameters: int
    saved: LinearBytes
    loss: str
    memory: MemoryParts

    def to_json(self) -> Dict[str, Any]:
        training = self.training
        return {
            "model": self.costs.to_json(),
            "training": {
                "batch": training.batch,
                "optimiser": training.optimiser,
                "precision": training.precision,
                "trainable_parameters": self.trainable_parameters,
                "saved_bytes": self.saved.per_sample,
                "fixed_bytes": self.saved.fixed,
                "loss": self.loss,
                "memory": self.memory.to_json(),
            },
        }


def run_dry(code: ModelCode, specs: Sequence[InputSpec], training: Training) -> DryRun:
    """Build the model and trace it. Raises CommandError."""
    if bool(specs) == (code.inputs is not None):
        raise CommandError(
            "--input is given and the module has a function inputs(batch) too. Remove one of them"
            if specs
            else f"The size of the input is missing. Give it with --input ({FORMS}), or add a "
            f"function inputs(batch) to the module of the model"
        )
    torch = import_torch()
    fake_tensor = torch._subclasses.fake_tensor  # noqa: SLF001 - where torch has its fake tensors
    with (
        contextlib.redirect_stdout(sys.stderr),
        fake_tensor.FakeTensorMode(allow_non_fake_inputs=True),
    ):
        model = _build(torch, code)
        _check_vocabulary(torch, model, specs)
        traces = {
            is_mixed: [
                _trace(torch, model, code, specs, batch, is_mixed=is_mixed) for batch in _BATCHES
            ]
            for is_mixed in (False, True)
        }
        return _result(torch, model, code, specs, training, traces)


def _build(torch: Any, code: ModelCode) -> Any:
    try:
        with _without_truncated_normal(torch):
            model = code.build(**code.arguments)
    except CommandError:
        raise
    except Exception as error:
        raise CommandError(_failure_text(torch, f"{code.name} fails", error)) from error
    if not isinstance(model, torch.nn.Module):
        raise CommandError(
            f"{code.name} returns {type(model).__name__}, not a torch.nn.Module. Return the model "
            f"from the function"
        )
    model.train()
    return model


@contextlib.contextmanager
def _without_truncated_normal(torch: Any) -> Iterator[None]:
    """Leave out the one initialisation of torch that reads values, which fake tensors lack."""
    init, name = torch.nn.init, "_no_grad_trunc_normal_"
    original = getattr(init, name, None)
    if original is None:
        yield
        return
    setattr(init, name, lambda tensor, *_, **__: tensor)
    try:
        yield
    finally:
        setattr(init, name, original)


def _trace(
    torch: Any,
    model: Any,
    code: ModelCode,
    specs: Sequence[InputSpec],
    batch: int,
    *,
    is_mixed: bool,
) -> Trace:
    try:
        inputs = build_inputs(torch, specs, batch) if specs else call_inputs(code, batch)
        return trace_forward(torch, model, inputs, batch, is_mixed=is_mixed)
    except Exception as error:
        raise CommandError(_failure_text(torch, f"{code.name}: the model fails", error)) from error


def _failure_text(torch: Any, start: str, error: Exception) -> str:
    fake_tensor = torch._subclasses.fake_tensor  # noqa: SLF001
    text = (str(error) or "no message").splitlines()[0]
    if isinstance(
        error,
        (fake_tensor.DataDependentOutputException, fake_tensor.DynamicOutputShapeException),
    ):
        return (
            f"{start} without data: it reads a value of a tensor ({text}), as .item(), a condition "
            f"on a tensor or nonzero() do. Use a fixed value in that place, or estimate the model "
            f"from an ONNX file or a probe"
        )
    return f"{start}: {type(error).__name__}: {text}"


def _check_vocabulary(torch: Any, model: Any, specs: Sequence[InputSpec]) -> None:
    rows = [
        int(module.num_embeddings)
        for module in model.modules()
        if isinstance(module, torch.nn.Embedding)
    ]
    for spec in specs:
        if spec.vocabulary and rows and spec.vocabulary > max(rows):
            raise CommandError(
                f"--input has a vocabulary of {spec.vocabulary}, but the largest embedding of the "
                f"model has {max(rows)} rows. Correct one of the two"
            )


def _result(
    torch: Any,
    model: Any,
    code: ModelCode,
    specs: Sequence[InputSpec],
    training: Training,
    traces: Mapping[bool, Sequence[Trace]],
) -> DryRun:
    small, large = traces[False]
    saved = {
        is_mixed: LinearBytes.through(
            (pair[0].batch, pair[0].saved_bytes), (pair[1].batch, pair[1].saved_bytes)
        )
        for is_mixed, pair in traces.items()
    }
    layers, largest, all_outputs, parameter_outputs = _layers(torch, model, small, large)
    trainable = [parameter for parameter in model.parameters() if parameter.requires_grad]
    costs = ModelCosts(
        name=type(model).__name__,
        input=_input_text(specs, small),
        parameters=sum(int(parameter.numel()) for parameter in model.parameters()),
        macs=_per_sample(small.flops, large.flops) // 2,
        layer_outputs=all_outputs,
        parameter_layer_outputs=parameter_outputs,
        input_elements=_per_sample(small.input_elements, large.input_elements),
        buffer_elements=sum(int(buffer.numel()) for buffer in model.buffers()),
        saved_bytes=SavedBytes(fp32=saved[False].per_sample, mixed=saved[True].per_sample),
        fixed_bytes_fp32=saved[False].fixed,
        fixed_bytes_mixed=saved[True].fixed,
        largest_output=largest,
        layers=layers,
        source=f"dry run of {code.name} with PyTorch {torch.__version__}",
    )
    is_mixed = training.precision == "mixed"
    return DryRun(
        costs,
        training,
        sum(int(parameter.numel()) for parameter in trainable),
        saved[is_mixed],
        small.loss,
        _memory(model, trainable, training, saved[is_mixed], traces[is_mixed]),
    )


def _memory(
    model: Any,
    trainable: Sequence[Any],
    training: Training,
    saved: LinearBytes,
    traces: Sequence[Trace],
) -> MemoryParts:
    small, large = traces
    trainable_bytes = _total_bytes(trainable)
    working = _line(small, large, lambda trace: 2 * trace.loss_output_bytes).at(training.batch)
    for name, layer in small.layers.items():
        larger = large.layers[name].output_bytes
        line = LinearBytes.through((small.batch, layer.output_bytes), (large.batch, larger))
        working = max(working, line.at(training.batch))
    return MemoryParts(
        weights=_total_bytes(list(model.parameters())),
        optimiser_state=STATE_COPIES[training.optimiser] * trainable_bytes,
        buffers=_total_bytes(list(model.buffers())),
        input=_line(small, large, lambda trace: trace.input_bytes).at(training.batch),
        saved=saved.at(training.batch),
        working=working,
        gradients=trainable_bytes,
        optimiser_temporaries=TEMPORARY_COPIES[training.optimiser] * trainable_bytes,
    )


def _layers(
    torch: Any, model: Any, small: Trace, large: Trace
) -> Tuple[Tuple[LayerCosts, ...], int, int, int]:
    """Return the layers, their largest output, the sum of all outputs and that of layers with
    parameters.
    """
    parameters = _parameters_by_layer(model, small.layers)
    layers: List[LayerCosts] = []
    all_outputs = parameter_outputs = largest = 0
    for name, first in small.layers.items():
        second = large.layers[name]
        macs = _per_sample(first.flops, second.flops) // 2
        outputs = _per_sample(first.output_elements, second.output_elements)
        count = parameters.get(name, 0)
        is_layer = not first.has_called_modules
        if is_layer:
            all_outputs += outputs
            parameter_outputs += outputs if count else 0
            largest = max(largest, outputs)
        elif not macs and not count:
            continue
        layers.append(
            LayerCosts(
                name=name or type(model).__name__,
                kind=type(first.module).__name__,
                parameters=count,
                macs=macs,
                operations=macs + _other_operations(first.module, macs, outputs),
                input_elements=_per_sample(first.input_elements, second.input_elements),
                output_elements=outputs,
            )
        )
    return tuple(layers), largest, all_outputs, parameter_outputs


def _other_operations(module: Any, macs: int, outputs: int) -> int:
    """Return the operations of biases, poolings and element-wise layers."""
    if macs:
        return outputs if getattr(module, "bias", None) is not None else 0
    if next(module.children(), None) is not None:
        return 0
    kernel: Optional[Any] = getattr(module, "kernel_size", None)
    if isinstance(kernel, int):
        kernel = (kernel, kernel)
    if isinstance(kernel, tuple):
        window = 1
        for size in kernel:
            window *= int(size)
        return (window - 1) * outputs
    return 2 * outputs


def _parameters_by_layer(model: Any, called: Mapping[str, LayerTrace]) -> Dict[str, int]:
    """Return the parameters of each called module: its own, and those of modules inside it that
    are used without a call.
    """
    counts: Dict[str, int] = {}
    for name, parameter in model.named_parameters():
        owner = name.rpartition(".")[0]
        while owner and owner not in called:
            owner = owner.rpartition(".")[0]
        counts[owner] = counts.get(owner, 0) + int(parameter.numel())
    return counts


def _input_text(specs: Sequence[InputSpec], trace: Trace) -> str:
    if specs:
        return ", ".join(spec.text for spec in specs)
    return f"{trace.input_elements // trace.batch} elements"


def _line(small: Trace, large: Trace, quantity: Any) -> LinearBytes:
    return LinearBytes.through((small.batch, quantity(small)), (large.batch, quantity(large)))


def _per_sample(small: int, large: int) -> int:
    return LinearBytes.through((_BATCHES[0], small), (_BATCHES[1], large)).per_sample


def _total_bytes(tensors: Sequence[Any]) -> int:
    return sum(int(tensor.numel()) * int(tensor.element_size()) for tensor in tensors)
