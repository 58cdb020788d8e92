"""Memory of one training step, by the parts of the dry run. Pure."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Dict, Mapping

# Copies of the trainable weights: state of the optimiser, and temporaries of its step when it
# updates all weights together, as it does on a GPU.
STATE_COPIES: Mapping[str, int] = {"sgd": 0, "momentum": 1, "adam": 2, "adamw": 2}
TEMPORARY_COPIES: Mapping[str, int] = {"sgd": 0, "momentum": 0, "adam": 1, "adamw": 1}


@dataclass(frozen=True)
class MemoryParts:
    """Bytes of each part at the batch of the training."""

    weights: int
    optimiser_state: int
    buffers: int
    input: int
    saved: int  # kept for the backward pass; a part of `passes`
    passes: int  # most bytes at once during the forward and backward pass, beside the parts above
    gradients: int
    optimiser_temporaries: int

    @property
    def peak(self) -> int:
        return (
            self.weights
            + self.optimiser_state
            + self.buffers
            + self.input
            + max(self.passes, self.gradients + self.optimiser_temporaries)
        )

    def to_json(self) -> Dict[str, int]:
        return {**asdict(self), "peak": self.peak}


@dataclass(frozen=True)
class LinearBytes:
    """Bytes that grow with the batch: ``fixed + per_sample × batch``."""

    per_sample: int
    fixed: int

    @classmethod
    def through(cls, small: tuple[int, int], large: tuple[int, int]) -> LinearBytes:
        """Return the line through two (batch, bytes), with its slope rounded half up."""
        (first, first_bytes), (second, second_bytes) = small, large
        span = second - first
        per_sample = (2 * (second_bytes - first_bytes) + span) // (2 * span)
        return cls(per_sample, max(0, second_bytes - per_sample * second))

    def at(self, batch: int) -> int:
        return self.fixed + self.per_sample * batch
