"""The work of a training: samples, steps, and operations. Pure."""

from dataclasses import dataclass
from fractions import Fraction

from apps.planner.choices import Precision, Trainable

LARGE_MACS = 10**9  # of a forward pass of one sample: a large net, which can fill a GPU
# Passes of the operations of one forward pass: forward, gradients of activations, of weights.
_PASSES = {Trainable.FULL: 3, Trainable.ADAPTERS: 2, Trainable.HEAD: 1}


@dataclass(frozen=True, slots=True)
class Work:
    """How much a training does. ``samples``: of an epoch. None is unknown. ``stops_early``: it can
    end before, so that the number of epochs or steps is the expected one.
    """

    samples: int | None = None
    epochs: int | None = None
    steps: int | None = None
    batch: int | None = None
    stops_early: bool = False

    @property
    def sample_count(self) -> int | None:
        """Return the samples of the whole training."""
        if self.steps is not None:
            return None if self.batch is None else self.steps * self.batch
        if self.samples is None or self.epochs is None:
            return None
        return self.samples * self.epochs

    @property
    def epoch_steps(self) -> int | None:
        """Return the steps of an epoch."""
        if self.samples is None or self.batch is None:
            return None
        return -(-self.samples // self.batch)

    @property
    def step_count(self) -> int | None:
        """Return the steps of the whole training."""
        if self.steps is not None:
            return self.steps
        if self.epochs is None or self.epoch_steps is None:
            return None
        return self.epochs * self.epoch_steps

    @property
    def is_known(self) -> bool:
        """Whether the total is stated, in samples, epochs or steps."""
        return self.steps is not None or self.epochs is not None


def work_ratio(work: Work, past: Work) -> Fraction | None:
    """Return how often ``work`` contains ``past``, both on the same data. None: not comparable."""
    if work.sample_count and past.sample_count:
        return Fraction(work.sample_count, past.sample_count)
    if work.steps and past.steps:
        batches = (work.batch or 1, past.batch or 1) if work.batch and past.batch else (1, 1)
        return Fraction(work.steps * batches[0], past.steps * batches[1])
    if work.epochs and past.epochs and not (work.steps or past.steps):
        return Fraction(work.epochs, past.epochs)  # the data are those of the family
    return None


@dataclass(frozen=True, slots=True)
class Training:
    """How a model is trained."""

    trainable: Trainable = Trainable.FULL
    precision: Precision = Precision.FP32
    checkpointing: bool = False
    gpus: int | None = None


def training_flops(macs: int, sample_count: int, training: Training) -> int:
    """Return the FLOPs of a training: 2 a MAC, and 3, 2 or 1 passes. Gradient checkpointing adds a
    forward pass.
    """
    passes = _PASSES[training.trainable] + int(training.checkpointing)
    return 2 * macs * passes * sample_count


def is_large(macs: int) -> bool:
    """Return whether a model is a large net."""
    return macs >= LARGE_MACS


def modality(model_input: str) -> str:
    """Return the kind of input: text or arrays."""
    return "text" if model_input.endswith("tokens") else "arrays"
