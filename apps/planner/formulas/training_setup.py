"""How a model is trained: what the refined formula of memory needs beside the model costs. Pure."""

from dataclasses import dataclass
from math import isqrt

from apps.planner.formulas.byte_range import ByteRange
from apps.planner.formulas.lesson_memory import OPTIMISER_STATES
from apps.planner.formulas.model_costs import ModelCosts

PARTS = ("full", "last_blocks", "head", "lora", "inference")  # what is trained
SHARDINGS = ("none", "zero1", "zero2", "zero3")  # zero3: also FSDP with full sharding
ATTENTIONS = ("unknown", "fused", "stored")
# Bytes of a weight, a gradient and a number of optimiser state.
PRECISIONS = {"fp32": 4, "mixed": 4, "bf16": 2}
MAX_COUNT = 10**6
PPM = 1_000_000


class TrainingError(ValueError):
    """A training that cannot be computed. ``field`` is the field of Training to change."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


@dataclass(frozen=True, slots=True)
class Training:
    """One training. ``None`` is unknown."""

    micro_batch: int  # samples of one forward pass on one GPU
    optimiser: str = "adam"  # OPTIMISER_STATES
    precision: str = "fp32"  # PRECISIONS; mixed: 16-bit computation, 32-bit weights
    part: str = "full"  # PARTS
    # Of the head, the last blocks or LoRA. None: the head of the model, or all of lora_rank.
    trained_parameters: int | None = None
    # Of last blocks: share of the saved bytes at and above the first trained layer.
    saved_ppm: int | None = None
    lora_rank: int = 8
    attention: str = "unknown"  # ATTENTIONS
    has_checkpointing: bool = False
    accumulation_steps: int = 1  # forward passes for each update
    gpus: int = 1
    sharding: str = "none"  # SHARDINGS
    runtime: ByteRange | None = None  # device memory less the tensors, as the lab measured it

    @property
    def is_inference(self) -> bool:
        """Return whether nothing is trained."""
        return self.part == "inference"

    @property
    def number_bytes(self) -> int:
        """Return the bytes of a weight."""
        return PRECISIONS[self.precision]

    @property
    def is_mixed(self) -> bool:
        """Return whether activations have 16 bits."""
        return self.precision != "fp32"


def check_training(training: Training) -> None:
    """Raise TrainingError if a field has no such value."""
    choices = {
        "optimiser": OPTIMISER_STATES, "precision": PRECISIONS, "part": PARTS,
        "attention": ATTENTIONS, "sharding": SHARDINGS,
    }  # fmt: skip
    for field, allowed in choices.items():
        if getattr(training, field) not in allowed:
            raise TrainingError(field, f"Choose one of: {', '.join(allowed)}.")
    for field in ("micro_batch", "lora_rank", "accumulation_steps", "gpus"):
        if not 1 <= getattr(training, field) <= MAX_COUNT:
            raise TrainingError(field, f"Enter a whole number between 1 and {MAX_COUNT}.")
    if training.saved_ppm is not None and not 0 <= training.saved_ppm <= PPM:
        raise TrainingError("saved_ppm", "Enter a share between 0 % and 100 %.")
    if training.trained_parameters is not None and training.trained_parameters < 0:
        raise TrainingError("trained_parameters", "Enter a whole number of 0 or more.")


def count_trained_parameters(costs: ModelCosts, training: Training) -> int:
    """Return the trained parameters. Raises TrainingError where they are unknown."""
    if training.is_inference:
        return 0
    if training.part == "full":
        return costs.parameters
    if training.trained_parameters is not None:
        is_added = training.part == "lora"
        if not is_added and training.trained_parameters > costs.parameters:
            raise TrainingError(
                "trained_parameters",
                f"The model has {costs.parameters} parameters. Enter that number or fewer.",
            )
        return training.trained_parameters
    if training.part == "lora":
        return estimate_lora_parameters(costs, training.lora_rank)
    head = head_parameters(costs) if training.part == "head" else None
    if head is None:
        raise TrainingError(
            "trained_parameters", "The trained parameters of this model are unknown. Enter them."
        )
    return head


def head_parameters(costs: ModelCosts) -> int | None:
    """Return the parameters of the last layer that has some; None is unknown."""
    if costs.head_parameters is not None:
        return costs.head_parameters
    with_parameters = [layer.parameters for layer in costs.layers if layer.parameters]
    return with_parameters[-1] if with_parameters else None


def estimate_lora_parameters(costs: ModelCosts, rank: int) -> int:
    """Return the parameters of LoRA matrices beside all weights: ``2·r·P ÷ d``.

    A weight matrix d × d gets two matrices d × r. The width d is that of a transformer with
    12·L·d² parameters and 128 features for each of its L blocks: ``d³ = 128·P ÷ 12``.
    """
    width = max(1, _cube_root(128 * costs.parameters // 12))
    return min(costs.parameters, 2 * rank * costs.parameters // width)


def _cube_root(number: int) -> int:
    """Return the largest whole number with a cube of at most ``number``."""
    low, high = 0, isqrt(number) + 1
    while low < high:
        middle = (low + high + 1) // 2
        if middle**3 <= number:
            low = middle
        else:
            high = middle - 1
    return low
