"""The lesson's formula of training memory, exactly. Pure.

``1.2 × (P·b + P·b + P·j·b + M·N·k·b)``: weights, gradients, optimiser state and activations, and a
margin of 20 %. P parameters, N layer outputs of one sample, M batch, j states of the optimiser for
each parameter, k unit constant, b bytes of a number. Source: training memory of the green computing
lesson. docs/planner.md states how far it is from measured memory.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

# j: numbers of state that an optimiser keeps for each trained parameter.
OPTIMISER_STATES = {
    "sgd": 0,
    "momentum": 1,
    "rmsprop": 1,
    "adagrad": 1,
    "lion": 1,
    "adam": 2,
    "adamw": 2,
}
# b
PRECISION_BYTES = {"fp64": 8, "fp32": 4, "tf32": 4, "fp16": 2, "bf16": 2, "fp8": 1, "int8": 1}


@dataclass(frozen=True, slots=True)
class LessonInput:
    """The letters of the formula."""

    parameters: int  # P
    layer_outputs: int  # N, elements of one sample
    batch: int  # M
    optimiser: str  # j by OPTIMISER_STATES
    precision: str = "fp32"  # b by PRECISION_BYTES
    unit_constant: int = 2  # k: 1 outputs, 2 outputs and their gradients

    @property
    def optimiser_states(self) -> int:
        """Return j."""
        return OPTIMISER_STATES[self.optimiser]

    @property
    def number_bytes(self) -> int:
        """Return b."""
        return PRECISION_BYTES[self.precision]


@dataclass(frozen=True, slots=True)
class LessonMemory:
    """The parts of the formula in bytes. They sum to the total."""

    weight_bytes: int
    gradient_bytes: int
    optimiser_bytes: int
    activation_bytes: int
    margin_bytes: int

    @property
    def total_bytes(self) -> int:
        """Return the sum of all parts."""
        return self.without_margin_bytes + self.margin_bytes

    @property
    def without_margin_bytes(self) -> int:
        """Return the sum without the 20 %."""
        return (
            self.weight_bytes + self.gradient_bytes + self.optimiser_bytes + self.activation_bytes
        )


@dataclass(frozen=True, slots=True)
class Assumption:
    """One assumption of the formula changed alone: its key, the memory then, the cards then."""

    key: str
    total_bytes: int
    cards: int


def compute_lesson_memory(values: LessonInput) -> LessonMemory:
    """Return the parts of the formula. Its total is rounded half up to a byte once."""
    weights = values.parameters * values.number_bytes
    optimiser = weights * values.optimiser_states
    activations = values.batch * values.layer_outputs * values.unit_constant * values.number_bytes
    exact = 2 * weights + optimiser + activations
    return LessonMemory(
        weight_bytes=weights,
        gradient_bytes=weights,
        optimiser_bytes=optimiser,
        activation_bytes=activations,
        margin_bytes=(12 * exact + 5) // 10 - exact,
    )


def count_cards(total_bytes: int, card_bytes: int) -> int:
    """Return the number of cards with ``card_bytes`` each that contain ``total_bytes``."""
    return max(1, -(-total_bytes // card_bytes))


def compare_assumptions(
    values: LessonInput, card_bytes: int, parameter_layer_outputs: int | None = None
) -> Sequence[Assumption]:
    """Return each assumption that changes the number of cards when it alone is changed, the one
    with the largest effect first.

    ``layer_outputs``: N counts layers with parameters only. ``unit_constant``: k is 1.
    ``margin``: without the 20 %.
    """
    memory = compute_lesson_memory(values)
    totals = {
        "unit_constant": compute_lesson_memory(replace(values, unit_constant=1)).total_bytes,
        "margin": memory.without_margin_bytes,
    }
    if parameter_layer_outputs is not None:
        fewer = replace(values, layer_outputs=parameter_layer_outputs)
        totals["layer_outputs"] = compute_lesson_memory(fewer).total_bytes
    cards = count_cards(memory.total_bytes, card_bytes)
    changed = [
        Assumption(key, total, count_cards(total, card_bytes)) for key, total in totals.items()
    ]
    return sorted(
        (item for item in changed if item.cards != cards),
        key=lambda item: (item.total_bytes, item.key),
    )
