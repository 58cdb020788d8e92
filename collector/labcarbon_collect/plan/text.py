"""The dry run as text for the terminal. Pure."""

from __future__ import annotations

from typing import Iterator, List, Sequence, Tuple

from labcarbon_collect.plan.dry_run import DryRun
from labcarbon_collect.plan.model_costs import LayerCosts

_LAYERS = 10
_BYTE_UNITS: Sequence[Tuple[int, str]] = (
    (1 << 30, "GiB"),
    (1 << 20, "MiB"),
    (1 << 10, "KiB"),
)
_COUNT_UNITS: Sequence[Tuple[int, str]] = ((10**12, "T"), (10**9, "G"), (10**6, "M"), (10**3, "k"))


def format_dry_run(result: DryRun) -> Iterator[str]:
    """Yield the lines: model, memory and largest layers."""
    costs, training, memory = result.costs, result.training, result.memory
    yield f"{costs.name}, input {costs.input}, {costs.source}"
    yield ""
    yield from rows(
        [
            ("Parameters", count_text(costs.parameters)),
            ("  trainable", f"{count_text(result.trainable_parameters)}, {result.trained}"),
            ("MACs of the forward pass", f"{count_text(costs.macs)} per sample"),
            ("FLOPs of a training step", f"{count_text(result.step_flops)} per sample"),
            ("Layer outputs", f"{count_text(costs.layer_outputs)} per sample"),
            ("Saved for the backward pass", f"{bytes_text(result.saved.per_sample)} per sample"),
        ]
    )
    yield ""
    yield (
        f"Memory of a training step, batch {training.batch}, {training.optimiser}, "
        f"{training.precision}, loss: {result.loss}"
    )
    if result.checkpointed:
        yield f"{len(result.checkpointed)} blocks are checkpointed"
    yield from rows(
        [
            ("Weights", bytes_text(memory.weights)),
            ("Optimiser state", bytes_text(memory.optimiser_state)),
            ("Buffers", bytes_text(memory.buffers)),
            ("Input", bytes_text(memory.input)),
            ("Forward and backward pass", bytes_text(memory.passes)),
            ("  saved in between", bytes_text(memory.saved)),
            (
                "or gradients + temporaries",
                bytes_text(memory.gradients + memory.optimiser_temporaries),
            ),
            ("Peak", bytes_text(memory.peak)),
        ]
    )
    yield "A GPU needs more: its context, rounding and workspaces of the libraries."
    yield ""
    yield from layer_table(costs.layers)


def layer_table(layers: Sequence[LayerCosts]) -> Iterator[str]:
    """Yield the lines of the layers with the most MACs."""
    largest = sorted(layers, key=lambda layer: (-layer.macs, -layer.output_elements))[:_LAYERS]
    yield f"Layers with the most MACs ({len(largest)} of {len(layers)})"
    header = ("layer", "kind", "parameters", "MACs", "outputs")
    rows = [
        (
            layer.name,
            layer.kind,
            count_text(layer.parameters),
            count_text(layer.macs),
            count_text(layer.output_elements),
        )
        for layer in largest
    ]
    widths = [max(len(row[column]) for row in [header, *rows]) for column in range(len(header))]
    for row in [header, *rows]:
        cells = [
            text.ljust(width) if column < 2 else text.rjust(width)
            for column, (text, width) in enumerate(zip(row, widths))
        ]
        yield "  " + "  ".join(cells).rstrip()


def rows(pairs: List[Tuple[str, str]]) -> Iterator[str]:
    """Yield names and texts as two columns."""
    width = max(len(name) for name, _ in pairs)
    for name, text in pairs:
        yield f"  {name.ljust(width)}  {text}"


def bytes_text(count: int) -> str:
    """Format bytes in binary units, half up, with two decimals."""
    for size, unit in _BYTE_UNITS:
        if count >= size:
            return f"{_hundredths(count, size)} {unit}"
    return f"{count} B"


def count_text(count: int) -> str:
    """Format a count with k, M, G or T, half up, with two decimals."""
    for size, unit in _COUNT_UNITS:
        if count >= size:
            return f"{_hundredths(count, size)} {unit}"
    return str(count)


def _hundredths(count: int, size: int) -> str:
    whole, rest = divmod((200 * count + size) // (2 * size), 100)
    return f"{whole}.{rest:02d}"
