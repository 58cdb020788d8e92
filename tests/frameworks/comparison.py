"""Estimates of the dry run and of the lesson's formula beside the measured peak of each case."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from itertools import product
from multiprocessing import get_context

import torch
from labcarbon_collect.plan.dry_run import DryRun, Training, run_dry
from labcarbon_collect.plan.inputs import parse_input
from labcarbon_collect.plan.memory import STATE_COPIES, TEMPORARY_COPIES
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
    """Yield each model × batch × variant × optimiser, computed by all cores."""
    cases = [*zip(*product(KINDS, BATCHES, VARIANTS))]
    names = [kind.name for kind in cases[0]]
    # PyTorch refuses autograd in a forked process if its parent has used it.
    pool = ProcessPoolExecutor(
        mp_context=get_context("spawn"), initializer=torch.set_num_threads, initargs=(1,)
    )
    with pool:
        for comparisons in pool.map(_compare, names, *cases[1:]):
            yield from comparisons


def error_ppm(estimate: int, measured: int) -> int:
    return (estimate - measured) * 1_000_000 // measured


def quantile_ppm(errors: Sequence[int], percent: int) -> int:
    """Return a percentile of errors."""
    return round(statistics.quantiles(errors, n=100, method="inclusive")[percent - 1])


def _compare(name: str, batch: int, variant: str) -> list[Comparison]:
    kind = next(kind for kind in KINDS if kind.name == name)
    precision = "mixed" if variant == "mixed" else "fp32"
    part = _PARTS.get(variant, TrainablePart())
    training = Training(batch, "sgd", precision, part, is_checkpointed=variant == "checkpointed")
    code = ModelCode(kind.name, kind.build, {}, None)
    result = run_dry(code, [parse_input(kind.input)], training)
    return [_row(kind, result, optimiser, variant) for optimiser in OPTIMISERS]


def _row(kind: Kind, result: DryRun, optimiser: str, variant: str) -> Comparison:
    batch, gradients = result.training.batch, result.memory.gradients
    memory = replace(  # the optimiser changes these two parts only
        result.memory,
        optimiser_state=STATE_COPIES[optimiser] * gradients,
        optimiser_temporaries=TEMPORARY_COPIES[optimiser] * gradients,
    )
    lesson = compute_lesson_memory(
        LessonInput(
            parameters=result.trainable_parameters,
            layer_outputs=result.costs.layer_outputs,
            batch=batch,
            optimiser=optimiser,
            precision="bf16" if variant == "mixed" else "fp32",
        )
    )
    measured = measure_peak(kind, batch, optimiser, variant)
    return Comparison(
        kind.name, batch, optimiser, variant, measured, memory.peak, lesson.total_bytes
    )
