"""Estimates of the dry run and of the lesson's formula beside the measured peak of each case."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from labcarbon_collect.plan.dry_run import Training, run_dry
from labcarbon_collect.plan.inputs import parse_input
from labcarbon_collect.plan.model_code import ModelCode
from labcarbon_collect.plan.trainable import TrainablePart

from apps.planner.formulas.lesson_memory import LessonInput, compute_lesson_memory
from tests.frameworks.measured_steps import RANK, VARIANTS, measure_peak
from tests.frameworks.models import KINDS, Kind

BATCHES = (4, 16)
OPTIMISERS = ("sgd", "momentum", "adam")
_PARTS = {
    "frozen body": TrainablePart("head"),
    "last block": TrainablePart("last-blocks", 1),
    "LoRA": TrainablePart("lora", RANK),
}


@dataclass(frozen=True)
class Comparison:
    """One training and its memory in bytes."""

    model: str
    batch: int
    optimiser: str
    variant: str
    measured: int
    dry_run: int
    lesson: int

    @property
    def dry_run_ppm(self) -> int:
        return error_ppm(self.dry_run, self.measured)

    @property
    def lesson_ppm(self) -> int:
        return error_ppm(self.lesson, self.measured)


def compare_all() -> Iterator[Comparison]:
    """Yield each model × batch × variant × optimiser."""
    for kind, batch, variant in product(KINDS, BATCHES, VARIANTS):
        for optimiser in OPTIMISERS:
            yield _compare(kind, batch, variant, optimiser)


def error_ppm(estimate: int, measured: int) -> int:
    return (estimate - measured) * 1_000_000 // measured


def quantile_ppm(errors: Sequence[int], percent: int) -> int:
    """Return a percentile of errors."""
    return round(statistics.quantiles(errors, n=100, method="inclusive")[percent - 1])


def _compare(kind: Kind, batch: int, variant: str, optimiser: str) -> Comparison:
    precision = "mixed" if variant == "mixed" else "fp32"
    training = Training(
        batch,
        optimiser,
        precision,
        _PARTS.get(variant, TrainablePart()),
        is_checkpointed=variant == "checkpointed",
    )
    code = ModelCode(kind.name, kind.build, {}, None)
    result = run_dry(code, [parse_input(kind.input)], training)
    lesson = compute_lesson_memory(
        LessonInput(
            parameters=result.trainable_parameters,
            layer_outputs=result.costs.layer_outputs,
            batch=batch,
            optimiser=optimiser,
            precision="bf16" if variant == "mixed" else "fp32",
        )
    )
    return Comparison(
        kind.name,
        batch,
        optimiser,
        variant,
        measure_peak(kind, batch, optimiser, variant),
        result.memory.peak,
        lesson.total_bytes,
    )
