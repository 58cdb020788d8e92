"""Work and training of a run from its parameters with well-known names. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
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
_MODEL = ("model", "model_name", "arch", "architecture", "backbone", "network")
_OPTIMISER = ("optimizer", "optimiser", "optim", "optimizer_name", "opt")
_OPTIMISERS = ("adamw", "adam", "sgd", "rmsprop", "adagrad", "lion")
_PRECISION = ("precision", "mixed_precision", "dtype", "torch_dtype")
_MIXED_FLAGS = ("fp16", "bf16", "amp", "use_amp")
_PRECISIONS = {
    "32": "fp32", "32_true": "fp32", "fp32": "fp32", "float32": "fp32", "no": "fp32",
    "16": "mixed", "16_mixed": "mixed", "bf16_mixed": "mixed", "mixed": "mixed", "fp16": "mixed",
    "amp": "mixed", "bf16_true": "bf16", "bfloat16": "bf16",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class NamedTraining:
    """How a run was trained, as its parameters state it. '' is unknown. ``optimiser`` and
    ``precision``: keys of the formulas of memory.
    """

    model: str = ""
    optimiser: str = ""
    precision: str = ""


def training_from_params(params: Mapping[str, Any]) -> NamedTraining:
    """Return model, optimiser and precision that parameters state."""
    by_name = {name.rpartition(".")[2].lower(): value for name, value in params.items()}
    model = next(
        (value for name in _MODEL if isinstance(value := by_name.get(name), str) and value), ""
    )
    return NamedTraining(model, _optimiser(by_name), _precision(by_name))


def _optimiser(by_name: Mapping[str, Any]) -> str:
    text = next((str(by_name[name]).lower() for name in _OPTIMISER if name in by_name), "")
    known = next((name for name in _OPTIMISERS if text == name or text.startswith(f"{name}_")), "")
    momentum = by_name.get("momentum")
    has_momentum = isinstance(momentum, int | float) and momentum > 0
    return "momentum" if known == "sgd" and has_momentum else known


def _precision(by_name: Mapping[str, Any]) -> str:
    for name in _PRECISION:
        text = str(by_name.get(name, "")).lower().replace("-", "_").removeprefix("torch.")
        if text == "bf16":  # mixed in accelerate and Lightning
            return "mixed"
        if text in _PRECISIONS:
            return _PRECISIONS[text]
    flags = [
        str(by_name[name]).lower() in {"true", "1"} for name in _MIXED_FLAGS if name in by_name
    ]
    return "" if not flags else "mixed" if any(flags) else "fp32"


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
