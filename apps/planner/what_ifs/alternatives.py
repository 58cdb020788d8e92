"""Alternatives to a planned training: which of them apply, and how each would be trained."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from apps.planner.choices import Precision, Trainable
from apps.planner.formulas.byte_range import ByteRange
from apps.planner.formulas.layer_shapes import ShapeError, read_shape, shape_text
from apps.planner.formulas.layer_table import LayerTableError, read_layer_table
from apps.planner.formulas.lesson_memory import OPTIMISER_STATES
from apps.planner.formulas.memory import compute_memory
from apps.planner.formulas.model_costs import ModelCosts
from apps.planner.formulas.ranges import EXACT, Spread
from apps.planner.formulas.training_setup import Training as Setup
from apps.planner.formulas.training_setup import TrainingError, head_parameters
from apps.planner.formulas.what_ifs import StoppingShare, needed_epochs
from apps.planner.formulas.work import Work
from apps.planner.job_input import JobInput
from apps.planner.presets import smaller_preset


class Effect(StrEnum):
    """What an alternative changes, which decides how its figures follow from the planned ones."""

    WORK = "work"  # samples: fewer epochs
    OPERATIONS = "operations"  # of each sample, with the same model
    MODEL = "model"
    PRECISION = "precision"
    MEMORY = "memory"  # only


@dataclass(frozen=True)
class Plan:
    """A planned training. ``setup``: how its memory is computed. ``card_bytes`` None: unknown card.
    ``layer_table``: text of its model, '' without one.
    """

    job: JobInput
    setup: Setup
    card_bytes: int | None = None
    layer_table: str = ""

    @property
    def model(self) -> ModelCosts:
        """Return the model costs, which every plan has."""
        assert self.job.model is not None, "a plan has a model"
        return self.job.model


@dataclass(frozen=True)
class Alternative:
    """Another way of training. ``jobs``: its parts, one after the other; none: it is unknown.
    ``memory`` None: unknown. ``facts``: numbers and names of its label. ``ratio_spread``: of its
    work, beside the planned one.
    """

    key: str
    effect: Effect
    jobs: tuple[JobInput, ...]
    memory: ByteRange | None
    facts: Mapping[str, int | str] = field(default_factory=dict)
    ratio_spread: Spread = EXACT


def alternatives(plan: Plan, share: StoppingShare | None) -> list[Alternative]:
    """Return the alternatives that apply to a plan. ``share``: of its epochs, by past curves."""
    return [found for build in _BUILDERS for found in build(plan, share)]


Builder = Callable[[Plan, StoppingShare | None], Iterator[Alternative]]


def _memory(model: ModelCosts, setup: Setup) -> ByteRange | None:
    try:
        return compute_memory(model, setup).total
    except TrainingError:
        return None


def _frozen(plan: Plan, _share: StoppingShare | None) -> Iterator[Alternative]:
    """A new head on a frozen body, and a body that is trained after half of the epochs."""
    setup = replace(plan.setup, part="head", trained_parameters=None, has_checkpointing=False)
    if plan.setup.part not in {"full", "lora"} or head_parameters(plan.model) is None:
        return
    training = replace(plan.job.training, trainable=Trainable.HEAD, checkpointing=False)
    head = replace(plan.job, training=training)
    yield Alternative("head", Effect.OPERATIONS, (head,), _memory(plan.model, setup))
    epochs = plan.job.work.epochs
    if plan.setup.part == "full" and epochs is not None and epochs >= 2:
        frozen = epochs // 2
        jobs = (
            replace(head, work=replace(head.work, epochs=frozen)),
            replace(plan.job, work=replace(plan.job.work, epochs=epochs - frozen)),
        )
        yield Alternative(
            "unfreezing",
            Effect.OPERATIONS,
            jobs,
            _memory(plan.model, plan.setup),
            {"frozen": frozen, "epochs": epochs},
        )


def _early_stop(plan: Plan, share: StoppingShare | None) -> Iterator[Alternative]:
    work = plan.job.work
    if work.stops_early:
        return
    memory = _memory(plan.model, plan.setup)
    total = _total(work)
    if share is None or total is None:
        yield Alternative("early_stop", Effect.WORK, (), memory)
        return
    name, count = total
    needed = needed_epochs(count, share)
    job = replace(plan.job, work=_with_total(work, needed))
    facts: dict[str, int | str] = {name: needed, "of": count, "curves": share.curves}
    yield Alternative("early_stop", Effect.WORK, (job,), memory, facts, share.spread)


def _total(work: Work) -> tuple[str, int] | None:
    """Return what the total of a work is stated in, and its number."""
    if work.steps is not None:
        return "steps", work.steps
    return None if work.epochs is None else ("epochs", work.epochs)


def _with_total(work: Work, count: int) -> Work:
    """Return a work with another total, in what it is stated in."""
    if work.steps is not None:
        return replace(work, steps=count)
    return replace(work, epochs=count)


def _half_epochs(plan: Plan, _share: StoppingShare | None) -> Iterator[Alternative]:
    total = _total(plan.job.work)
    if total is None or total[1] < 2:
        return
    name, count = total
    half = (count + 1) // 2
    job = replace(plan.job, work=_with_total(plan.job.work, half))
    memory = _memory(plan.model, plan.setup)
    facts: dict[str, int | str] = {name: half, "of": count}
    yield Alternative("half_epochs", Effect.WORK, (job,), memory, facts)


def _mixed_precision(plan: Plan, _share: StoppingShare | None) -> Iterator[Alternative]:
    if plan.setup.precision != "fp32":
        return
    job = replace(plan.job, training=replace(plan.job.training, precision=Precision.MIXED))
    setup = replace(plan.setup, precision="mixed")
    yield Alternative("mixed_precision", Effect.PRECISION, (job,), _memory(plan.model, setup))


def _optimiser(plan: Plan, _share: StoppingShare | None) -> Iterator[Alternative]:
    if OPTIMISER_STATES[plan.setup.optimiser] >= 2:
        setup = replace(plan.setup, optimiser="momentum")
        yield Alternative("momentum", Effect.MEMORY, (), _memory(plan.model, setup))


def _checkpointing(plan: Plan, _share: StoppingShare | None) -> Iterator[Alternative]:
    if plan.setup.has_checkpointing or plan.setup.part not in {"full", "lora"}:
        return
    job = replace(plan.job, training=replace(plan.job.training, checkpointing=True))
    setup = replace(plan.setup, has_checkpointing=True)
    yield Alternative("checkpointing", Effect.OPERATIONS, (job,), _memory(plan.model, setup))


def _half_resolution(plan: Plan, _share: StoppingShare | None) -> Iterator[Alternative]:
    model = half_resolution(plan.layer_table, plan.model.input) if plan.layer_table else None
    if model is not None:
        job = replace(plan.job, model=model)
        memory = _memory(model, plan.setup)
        facts: dict[str, int | str] = {"input": model.input}
        yield Alternative("half_resolution", Effect.OPERATIONS, (job,), memory, facts)


def half_resolution(layer_table: str, model_input: str) -> ModelCosts | None:
    """Return a layer table with half of the width, height or tokens of its input. None: the size is
    odd, or too small for the layers.
    """
    try:
        shape = read_shape(model_input)
    except ShapeError:
        return None
    is_text = model_input.endswith("tokens")
    sizes = shape if is_text else shape[1:]
    if not sizes or any(size % 2 for size in sizes):
        return None
    half = tuple(size // 2 for size in sizes)
    text = f"{half[0]} tokens" if is_text else shape_text((shape[0], *half))
    try:
        return read_layer_table(layer_table, input_shape=text)
    except LayerTableError:
        return None


def _smaller_model(plan: Plan, _share: StoppingShare | None) -> Iterator[Alternative]:
    """A smaller preset of the family, trained alone or by the planned model as its teacher."""
    model = smaller_preset(plan.model.name) if plan.model.origin == "preset" else None
    if model is None:
        return
    setup = replace(plan.setup, trained_parameters=None)
    student = replace(plan.job, model=model)
    memory = _memory(model, setup)
    facts: dict[str, int | str] = {"model": model.name}
    yield Alternative("smaller_model", Effect.MODEL, (student,), memory, facts)
    if plan.setup.part != "full":
        return
    # A frozen body is a forward pass, as the teacher needs.
    training = replace(plan.job.training, trainable=Trainable.HEAD, checkpointing=False)
    teacher = replace(plan.job, training=training)
    inference = replace(setup, part="inference", has_checkpointing=False)
    together = memory and memory + compute_memory(plan.model, inference).tensors
    yield Alternative("distillation", Effect.MODEL, (student, teacher), together, facts)


_BUILDERS: tuple[Builder, ...] = (
    _frozen,
    _early_stop,
    _half_epochs,
    _mixed_precision,
    _optimiser,
    _checkpointing,
    _half_resolution,
    _smaller_model,
)
