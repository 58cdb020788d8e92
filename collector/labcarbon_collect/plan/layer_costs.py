"""Costs of each layer, from two traces of the forward pass. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple

from labcarbon_collect.plan.memory import LinearBytes
from labcarbon_collect.plan.model_costs import LayerCosts
from labcarbon_collect.plan.trace import LayerTrace, Trace


@dataclass(frozen=True)
class LayerSums:
    """All layers, and elements of their outputs."""

    layers: Tuple[LayerCosts, ...]
    largest_output: int
    outputs: int
    parameter_outputs: int  # of layers with parameters


def compute_layers(model: Any, small: Trace, large: Trace) -> LayerSums:
    """Return the costs of the layers for one sample."""
    parameters = _parameters_by_layer(model.named_parameters(), small.layers)
    layers: List[LayerCosts] = []
    all_outputs = parameter_outputs = largest = 0
    for name, first in small.layers.items():
        second = large.layers[name]
        macs = per_sample(small, large, first.flops, second.flops) // 2
        outputs = per_sample(small, large, first.output_elements, second.output_elements)
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
                input_elements=per_sample(
                    small, large, first.input_elements, second.input_elements
                ),
                output_elements=outputs,
            )
        )
    return LayerSums(tuple(layers), largest, all_outputs, parameter_outputs)


def step_flops(model: Any, small: Trace, large: Trace, computed_twice: Sequence[str]) -> int:
    """Return the FLOPs of a training step for one sample: each layer once, once more for the
    gradient of its input and once more for that of its parameters, where they are needed, and
    once more inside the modules that are computed twice.
    """
    parameters = _parameters_by_layer(model.named_parameters(), small.layers)
    trainable = _parameters_by_layer(
        ((name, one) for name, one in model.named_parameters() if one.requires_grad), small.layers
    )
    total = 0
    for name, first in small.layers.items():
        is_twice = any(
            not block or name == block or name.startswith(f"{block}.") for block in computed_twice
        )
        has_own_gradient = (
            bool(trainable.get(name)) if parameters.get(name) else first.has_input_gradient
        )
        passes = 1 + int(is_twice) + int(first.has_input_gradient) + int(has_own_gradient)
        total += passes * per_sample(small, large, first.flops, large.layers[name].flops)
    return total


def per_sample(small: Trace, large: Trace, of_small: int, of_large: int) -> int:
    """Return what one more sample adds."""
    return LinearBytes.through((small.batch, of_small), (large.batch, of_large)).per_sample


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


def _parameters_by_layer(
    named_parameters: Iterable[Tuple[str, Any]], called: Mapping[str, LayerTrace]
) -> Dict[str, int]:
    """Return the parameters of each called module: its own, and those of modules inside it that
    are used without a call.
    """
    counts: Dict[str, int] = {}
    for name, parameter in named_parameters:
        owner = name.rpartition(".")[0]
        while owner and owner not in called:
            owner = owner.rpartition(".")[0]
        counts[owner] = counts.get(owner, 0) + int(parameter.numel())
    return counts
