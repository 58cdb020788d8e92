"""What to change so that a training fits a card: the largest batch, and changes in order. Pure."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from apps.planner.formulas.lesson_memory import OPTIMISER_STATES
from apps.planner.formulas.memory import FITS, Memory, compute_memory, judge
from apps.planner.formulas.model_costs import ModelCosts
from apps.planner.formulas.training_setup import MAX_COUNT, PPM, Training, head_parameters

_MAX_SHARDS = 64

# Units of work of a step: forward pass, gradients of activations, gradients of weights. Each is
# about as many MACs as the forward pass.
_WORK = {"full": 3, "lora": 2, "last_blocks": 1, "head": 1, "inference": 1}


@dataclass(frozen=True, slots=True)
class Change:
    """One change, or several together if no single one is enough.

    ``keys``: smaller_batch, mixed_precision, half_precision, checkpointing, optimiser, lora, head,
    shards. ``operations_ppm``: operations of one sample after the change, 1 000 000 is as before.
    ``effects``: keys of what else it changes, without a figure.
    """

    keys: tuple[str, ...]
    training: Training
    memory: Memory
    operations_ppm: int
    effects: tuple[str, ...]


_EFFECTS = {
    "smaller_batch": ("batch_norm_statistics", "more_passes"),
    "mixed_precision": ("tensor_cores", "less_precision"),
    "half_precision": ("tensor_cores", "less_precision"),
    "checkpointing": ("one_more_forward_pass",),
    "optimiser": ("convergence",),
    "lora": ("adapts_less",),
    "head": ("adapts_less",),
    "shards": ("more_gpus", "communication"),
}


def largest_batch(costs: ModelCosts, training: Training, card_bytes: int) -> int | None:
    """Return the largest micro-batch that fits the card; None if one sample does not fit."""
    low, high = 0, MAX_COUNT
    while low < high:
        middle = (low + high + 1) // 2
        if _fits(costs, replace(training, micro_batch=middle), card_bytes):
            low = middle
        else:
            high = middle - 1
    return low or None


def changes_that_fit(costs: ModelCosts, training: Training, card_bytes: int) -> tuple[Change, ...]:
    """Return the changes after which the training fits, each alone, in the order to try them.

    If none is enough alone, the result is one change with several keys. It is empty if the training
    fits already, or if nothing is enough.
    """
    if _fits(costs, training, card_bytes):
        return ()
    changes = []
    for key, change in _CHANGES.items():
        changed = change(costs, training, card_bytes)
        if changed is not None and _fits(costs, changed, card_bytes):
            changes.append(_change(costs, (key,), training, changed))
    if changes:
        return tuple(changes)
    together = _combine(costs, training, card_bytes)
    return (together,) if together else ()


def _combine(costs: ModelCosts, training: Training, card_bytes: int) -> Change | None:
    """Apply one change after the other until the training fits, at each step with the batch that
    then fits.
    """
    keys: tuple[str, ...] = ()
    changed = training
    for key in ("mixed_precision", "half_precision", "checkpointing", "optimiser", "lora"):
        following = _CHANGES[key](costs, changed, card_bytes)
        if following is None:
            continue
        keys, changed = (*keys, key), following
        enough = _enough(costs, keys, training, changed, card_bytes)
        if enough is not None:
            return enough
    for sharded in _shardings(changed):
        enough = _enough(costs, (*keys, "shards"), training, sharded, card_bytes)
        if enough is not None:
            return enough
    return None


def _enough(
    costs: ModelCosts, keys: tuple[str, ...], before: Training, after: Training, card_bytes: int
) -> Change | None:
    """Return the change if it is enough with the batch as it is or with a smaller one."""
    if _fits(costs, after, card_bytes):
        return _change(costs, keys, before, after)
    smaller = _with_smaller_batch(costs, after, card_bytes)
    if smaller is None:
        return None
    return _change(costs, (*keys, "smaller_batch"), before, smaller)


def _change(costs: ModelCosts, keys: tuple[str, ...], before: Training, after: Training) -> Change:
    work, new_work = _work(before), _work(after)
    return Change(
        keys=keys,
        training=after,
        memory=compute_memory(costs, after),
        operations_ppm=(2 * new_work * PPM + work) // (2 * work),
        effects=tuple(dict.fromkeys(effect for key in keys for effect in _EFFECTS[key])),
    )


def _work(training: Training) -> int:
    is_checkpointed = training.has_checkpointing and training.part in {"full", "lora"}
    return _WORK[training.part] + is_checkpointed


def _fits(costs: ModelCosts, training: Training, card_bytes: int) -> bool:
    return judge(compute_memory(costs, training).total, card_bytes) == FITS


def _with_smaller_batch(costs: ModelCosts, training: Training, card_bytes: int) -> Training | None:
    """The same samples for each update, or a few more, in more and smaller passes."""
    steps = training.accumulation_steps
    samples = training.micro_batch * steps
    several = replace(training, accumulation_steps=1 if training.is_inference else max(2, steps))
    fitting = largest_batch(costs, several, card_bytes)
    if fitting is None or training.micro_batch == 1:
        return None
    if training.is_inference:
        return replace(training, micro_batch=min(fitting, training.micro_batch - 1))
    passes = -(-samples // min(fitting, training.micro_batch - 1))
    return replace(training, micro_batch=-(-samples // passes), accumulation_steps=passes)


def _with_mixed_precision(
    _costs: ModelCosts, training: Training, _card_bytes: int
) -> Training | None:
    if training.precision != "fp32" or training.is_inference:
        return None
    return replace(training, precision="mixed")


def _with_half_precision(
    _costs: ModelCosts, training: Training, _card_bytes: int
) -> Training | None:
    if training.precision == "bf16" or not training.is_inference:
        return None
    return replace(training, precision="bf16")


def _with_checkpointing(
    _costs: ModelCosts, training: Training, _card_bytes: int
) -> Training | None:
    if training.has_checkpointing or training.part not in {"full", "lora"}:
        return None
    return replace(training, has_checkpointing=True)


def _with_momentum(_costs: ModelCosts, training: Training, _card_bytes: int) -> Training | None:
    if OPTIMISER_STATES[training.optimiser] < 2 or training.is_inference:
        return None
    return replace(training, optimiser="momentum")


def _with_lora(_costs: ModelCosts, training: Training, _card_bytes: int) -> Training | None:
    if training.part != "full":
        return None
    return replace(training, part="lora", trained_parameters=None)


def _with_head(costs: ModelCosts, training: Training, _card_bytes: int) -> Training | None:
    if training.part not in {"full", "lora", "last_blocks"} or head_parameters(costs) is None:
        return None
    return replace(training, part="head", trained_parameters=None, has_checkpointing=False)


def _with_shards(costs: ModelCosts, training: Training, card_bytes: int) -> Training | None:
    """The fewest GPUs that are enough."""
    shardings = _shardings(training)
    return next((each for each in shardings if _fits(costs, each, card_bytes)), None)


def _shardings(training: Training) -> Iterator[Training]:
    """Yield the training on more and more GPUs. More GPUs take more samples for each update."""
    gpus = training.gpus
    while gpus < _MAX_SHARDS and not training.is_inference:
        gpus = min(_MAX_SHARDS, 2 * gpus)
        yield replace(training, gpus=gpus, sharding="zero3")


_CHANGES: dict[str, Callable[[ModelCosts, Training, int], Training | None]] = {
    "smaller_batch": _with_smaller_batch,
    "mixed_precision": _with_mixed_precision,
    "half_precision": _with_half_precision,
    "checkpointing": _with_checkpointing,
    "optimiser": _with_momentum,
    "lora": _with_lora,
    "head": _with_head,
    "shards": _with_shards,
}
