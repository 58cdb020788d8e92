"""Work of a run from its parameters with well-known names. Pure."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from apps.planner.formulas.work import Work

MAX_NUMBER = 10**15
_NAMES = {
    "epochs": ("epochs", "num_epochs", "n_epochs", "max_epochs", "num_train_epochs", "nepochs"),
    "steps": (
        "max_steps", "steps", "num_steps", "n_steps", "total_steps", "train_steps", "max_iters",
        "max_iter", "num_iters", "iterations", "num_training_steps", "max_train_steps",
    ),
    "samples": ("max_samples", "max_train_samples", "num_samples", "n_samples", "train_samples"),
    "batch": ("batch_size", "batch", "train_batch_size", "per_device_train_batch_size"),
}  # fmt: skip


def work_from_params(params: Mapping[str, Any]) -> Work:
    """Return the work that parameters state. A number without a positive whole value counts as
    unknown, such as max_steps −1.
    """
    by_name = {name.rpartition(".")[2].lower(): value for name, value in params.items()}
    numbers = {
        field: next(
            (number for name in names if (number := _whole(by_name.get(name))) is not None), None
        )
        for field, names in _NAMES.items()
    }
    return Work(numbers["samples"], numbers["epochs"], numbers["steps"], numbers["batch"])


def fill_work(stated: Work, params: Mapping[str, Any]) -> Work:
    """Return the stated work, with unknown parts from parameters. A stated total is the total."""
    known = work_from_params(params)
    filled = replace(
        stated, samples=stated.samples or known.samples, batch=stated.batch or known.batch
    )
    if stated.is_known:
        return filled
    return replace(filled, epochs=known.epochs, steps=known.steps)


def _whole(value: Any) -> int | None:
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) <= 15:
        value = int(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    return value if is_whole and 0 < value <= MAX_NUMBER else None
