"""Memory by the refined formula as text: parts as ranges, assumptions, and what to change first."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from apps.core.units import PPM
from apps.dashboard.planner.memory_bar import Card, MemoryBar, memory_bar
from apps.dashboard.planner.sizes import memory_number, memory_text, memory_unit
from apps.planner.formulas.byte_range import ByteRange
from apps.planner.formulas.memory import Memory
from apps.planner.formulas.memory_changes import Change, changes_that_fit, largest_batch
from apps.planner.formulas.model_costs import ModelCosts
from apps.planner.formulas.training_setup import Training

# Label and colour.
_PARTS = {
    "weights": ("Weights", "s1"),
    "copy": ("16-bit copy of the weights", "s6"),
    "buffers": ("Buffers", "s-more"),
    "optimiser": ("Optimiser state", "s3"),
    "kept_gradients": ("Kept gradients", "s2"),
    "gathered_weights": ("Gathered weights", "s-more"),
    "input": ("Input", "s5"),
    "working": ("Activations and gradients", "s4"),
    "runtime": ("Runtime of the GPU", "s-overhead"),
}
_CHANGES = {
    "smaller_batch": "a smaller batch with accumulation",
    "mixed_precision": "mixed precision",
    "half_precision": "BF16",
    "checkpointing": "checkpointing",
    "optimiser": "SGD with momentum",
    "lora": "adapters (LoRA)",
    "head": "a new head on a frozen body",
    "shards": "more GPUs with sharded state",
}
_ASSUMPTIONS = {
    "saved_bytes_from_code": "Activations: recorded from the code of the model",
    "saved_bytes_from_preset": "Activations: recorded for this preset with one version of torch",
    "saved_bytes_from_layers": "Activations: counted from the layers",
    "saved_bytes_from_layer_outputs": "Activations: a share of all layer outputs",
    "attention_unknown": "The kind of attention is unknown: the range contains both",
    "largest_output_unknown": "The largest output of a layer is unknown",
    "forward_bytes_fitted": "The forward pass of the frozen part: a multiple of the largest output",
    "forward_bytes_from_preset": "The forward pass of the frozen part: recorded for this preset",
    "last_blocks_share_estimated": "The share of the last blocks is estimated",
    "lora_fitted": "Adapters: fitted to measured peaks",
    "lora_parameters_estimated": "The parameters of adapters: estimated for rank 8",
    "checkpointing_estimated": "Checkpointing: a share of the activations",
    "checkpointing_from_preset": "Checkpointing of each block: recorded for this preset",
    "runtime_from_experience": "Runtime of the GPU: experience, not measured",
    "runtime_measured": "Runtime of the GPU: as the lab measured it",
}


@dataclass(frozen=True)
class RefinedPart:
    """A part of the memory. ``colour``: its class."""

    key: str
    label: str
    colour: str
    bytes: ByteRange

    @property
    def likely(self) -> str:
        """Return the likely figure as text."""
        return memory_text(self.bytes.likely)

    @property
    def range(self) -> str:
        """Return low and high as text, '' for an exact part."""
        return range_text(self.bytes)


@dataclass(frozen=True)
class ChangeRow:
    """A change after which the training fits."""

    keys: str
    label: str
    batch: int
    accumulation_steps: int
    gpus: int
    memory: ByteRange
    operations_percent: int

    @property
    def likely(self) -> str:
        """Return the new memory as text."""
        return memory_text(self.memory.likely)

    @property
    def range(self) -> str:
        """Return low and high of the new memory as text."""
        return range_text(self.memory)


@dataclass(frozen=True)
class Refined:
    """The refined memory of a GPU. ``batch``: samples of a step on it. ``largest_batch``: of the
    selected card, None if no sample fits or no card is selected.
    """

    total: ByteRange
    parts: Sequence[RefinedPart]
    bar: MemoryBar
    assumptions: Sequence[str]
    trained_parameters: int
    batch: int
    largest_batch: int | None
    changes: Sequence[ChangeRow]

    @property
    def likely(self) -> str:
        """Return the likely total as text."""
        return memory_text(self.total.likely)

    @property
    def range(self) -> str:
        """Return low and high of the total as text."""
        return range_text(self.total)


def range_text(count: ByteRange) -> str:
    """Return low and high in one unit: 3.1–4.2 GiB; '' for an exact figure."""
    if count.low == count.high:
        return ""
    unit = memory_unit([count.high])
    return f"{memory_number(count.low, unit)}–{memory_number(count.high, unit)} {unit.name}"


def refined_memory(
    costs: ModelCosts,
    training: Training,
    memory: Memory,
    cards: Iterable[Card],
    card_bytes: int | None,
) -> Refined:
    """Return the refined memory, with what to change on a card of ``card_bytes``. ``cards``: those
    of the scale.
    """
    parts = [
        RefinedPart(part.key, *_PARTS[part.key], part.bytes)
        for part in memory.parts
        if part.bytes.high
    ]
    return Refined(
        total=memory.total,
        parts=parts,
        bar=memory_bar(
            [(part.key, part.label, part.colour, part.bytes.likely) for part in parts],
            memory.total,
            cards,
        ),
        assumptions=[_ASSUMPTIONS[key] for key in memory.assumptions],
        trained_parameters=memory.trained_parameters,
        batch=training.micro_batch,
        largest_batch=largest_batch(costs, training, card_bytes) if card_bytes else None,
        changes=[_change(each) for each in changes_that_fit(costs, training, card_bytes)]
        if card_bytes
        else [],
    )


def _change(change: Change) -> ChangeRow:
    label = " and ".join(_CHANGES[key] for key in change.keys)
    return ChangeRow(
        keys=" ".join(change.keys),
        label=label[:1].upper() + label[1:],
        batch=change.training.micro_batch,
        accumulation_steps=change.training.accumulation_steps,
        gpus=change.training.gpus,
        memory=change.memory.total,
        operations_percent=(100 * change.operations_ppm + PPM // 2) // PPM,
    )
