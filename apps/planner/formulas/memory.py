"""The refined formula of training memory, and its verdict against a card. Pure.

``weights + optimiser state + buffers + input + max(S + w, frozen body, gradients + optimiser
temporaries) + runtime``. S: bytes saved for the backward pass, without the input. w: what exists
beside them in the backward pass, shares of the largest output and of the gradients. State is exact.
Activations and the runtime of a GPU are ranges. docs/planner.md has the source of each figure and
what is fitted.
"""

from dataclasses import dataclass

from apps.planner.formulas.activations import (
    Saved,
    checkpointed_bytes,
    estimate_saved_bytes,
    forward_bytes,
    has_attention,
    working_bytes,
)
from apps.planner.formulas.byte_range import NOTHING, ByteRange, Percent, largest, total
from apps.planner.formulas.lesson_memory import OPTIMISER_STATES
from apps.planner.formulas.model_costs import ModelCosts
from apps.planner.formulas.training_setup import (
    PPM,
    SHARDINGS,
    Training,
    check_training,
    count_trained_parameters,
)

GIB = 2**30
FITS, BORDERLINE, DOES_NOT_FIT = "fits", "borderline", "does_not_fit"
# Between these shares of a card a likely need is borderline.
BORDERLINE_FROM_PERCENT, BORDERLINE_TO_PERCENT = 90, 115

# Temporaries of an update of all weights at once, in numbers for each trained parameter. None if
# weights are updated one by one or by a fused kernel, one more with weight decay.
_TEMPORARIES = {"sgd": 0, "momentum": 0}
# Under checkpointing, gradients collect while few activations are kept: ResNets and ViTs.
_CHECKPOINTED_GRADIENTS: Percent = (70, 90, 100)
_LORA_OF_FULL: Percent = (85, 95, 110)  # of the saved bytes, fitted


@dataclass(frozen=True, slots=True)
class _Fit:
    """Percentages of the backward pass, fitted to measured peaks."""

    output: Percent  # of the largest output
    gradients: Percent  # that exist while most activations are still kept
    checkpointed: Percent  # of the saved bytes


# Blocks of a transformer are alike. A convolutional network has its weights at the end, where the
# backward pass begins, and its activations at the start.
_ATTENTION = _Fit((0, 100, 100), (0, 0, 50), (8, 18, 40))
_OTHER = _Fit((0, 30, 100), (0, 60, 100), (25, 50, 75))
# Share of the saved bytes of last blocks in percent of their share of the parameters.
_LAST_BLOCKS_ATTENTION: Percent = (50, 100, 125)
_LAST_BLOCKS: Percent = (0, 15, 125)
_UNIT_PERCENT = 10  # of the weights, gathered at a time by ZeRO 3, where layers are unknown

_MB = 10**6
_RUNTIME_FIXED = ByteRange(300 * _MB, 600 * _MB, 1_200 * _MB)
_RUNTIME_SHARE: Percent = (0, 10, 10)


@dataclass(frozen=True, slots=True)
class State:
    """Exact bytes on one GPU. Gradients are part of the peak only where they decide it."""

    weight_bytes: int
    copy_bytes: int  # 16-bit copy of the weights under mixed precision
    gradient_bytes: int
    optimiser_bytes: int
    buffer_bytes: int


@dataclass(frozen=True, slots=True)
class Part:
    """One part of the memory, or one moment of a step."""

    key: str
    bytes: ByteRange


@dataclass(frozen=True, slots=True)
class Memory:
    """Memory of one GPU.

    ``parts`` sum to the total: weights, copy, buffers, optimiser, kept_gradients,
    gathered_weights, input, working, runtime. ``working`` is the largest of ``moments``: backward,
    frozen_body, update. ``assumptions`` are keys of what is not known exactly.
    """

    state: State
    parts: tuple[Part, ...]
    moments: tuple[Part, ...]
    assumptions: tuple[str, ...]
    trained_parameters: int

    @property
    def total(self) -> ByteRange:
        """Return the sum of all parts."""
        return total(part.bytes for part in self.parts)

    @property
    def tensors(self) -> ByteRange:
        """Return the sum without the runtime of the GPU."""
        return total(part.bytes for part in self.parts if part.key != "runtime")

    @property
    def deciding_moment(self) -> str:
        """Return the moment of the likely peak."""
        return max(self.moments, key=lambda part: part.bytes.likely).key

    @property
    def largest_part(self) -> str:
        """Return the part with the most likely bytes."""
        return max(self.parts, key=lambda part: part.bytes.likely).key

    def part(self, key: str) -> ByteRange:
        """Return the bytes of a part."""
        return next(part.bytes for part in self.parts if part.key == key)


def compute_memory(costs: ModelCosts, training: Training) -> Memory:
    """Return the memory of one GPU. Raises TrainingError."""
    check_training(training)
    trained = count_trained_parameters(costs, training)
    state = _state(costs, training, trained)
    saved = estimate_saved_bytes(costs, is_mixed=training.is_mixed, attention=training.attention)
    moments = _moments(costs, training, trained, saved)
    parts = [
        Part("weights", ByteRange.exact(state.weight_bytes)),
        Part("copy", ByteRange.exact(state.copy_bytes)),
        Part("buffers", ByteRange.exact(state.buffer_bytes)),
        Part("optimiser", ByteRange.exact(state.optimiser_bytes)),
        Part("kept_gradients", _kept_gradients(training, state)),
        Part("gathered_weights", _gathered_weights(costs, training, state)),
        Part("input", ByteRange.exact(_input_bytes(costs) * training.micro_batch)),
        Part("working", largest(moment.bytes for moment in moments)),
    ]
    parts.append(Part("runtime", _runtime(training, total(part.bytes for part in parts))))
    return Memory(
        state=state,
        parts=tuple(parts),
        moments=moments,
        assumptions=_assumptions(costs, training, saved),
        trained_parameters=trained,
    )


def judge(needed: ByteRange, card_bytes: int) -> str:
    """Return the verdict against a card.

    It fits if the likely need is below 90 % of the card and the high one at most 115 %. It does not
    fit if the likely need is above 115 % and the low one at least 90 %. Else it is borderline.
    """
    from_bytes, to_bytes = BORDERLINE_FROM_PERCENT * card_bytes, BORDERLINE_TO_PERCENT * card_bytes
    if 100 * needed.likely < from_bytes and 100 * needed.high <= to_bytes:
        return FITS
    if 100 * needed.likely > to_bytes and 100 * needed.low >= from_bytes:
        return DOES_NOT_FIT
    return BORDERLINE


def _shards(training: Training, least: str) -> int:
    """Return the number of GPUs that share what is sharded from ``least`` on."""
    is_shared = SHARDINGS.index(training.sharding) >= SHARDINGS.index(least)
    return training.gpus if is_shared else 1


def _state(costs: ModelCosts, training: Training, trained: int) -> State:
    number_bytes = training.number_bytes
    parameters = costs.parameters + (trained if training.part == "lora" else 0)
    copy = 0
    if training.precision == "mixed" and training.sharding != "zero3":
        copy = costs.fixed_bytes_mixed or 2 * costs.parameters
        if training.part in {"head", "last_blocks"}:
            copy = min(copy, 2 * trained)
    gradients = trained * number_bytes
    return State(
        weight_bytes=_ceiling(parameters * number_bytes, _shards(training, "zero3")),
        copy_bytes=copy,
        gradient_bytes=_ceiling(gradients, _shards(training, "zero2")),
        optimiser_bytes=_ceiling(
            gradients * OPTIMISER_STATES[training.optimiser], _shards(training, "zero1")
        ),
        buffer_bytes=costs.buffer_elements * number_bytes,
    )


def _kept_gradients(training: Training, state: State) -> ByteRange:
    """Gradients that exist during the whole step: the sum of earlier forward passes, and the
    buckets from which GPUs that hold all gradients exchange them.
    """
    kept = state.gradient_bytes if training.accumulation_steps > 1 else 0
    has_buckets = training.gpus > 1 and training.sharding in {"none", "zero1"}
    buckets = state.gradient_bytes if has_buckets else 0
    return ByteRange(kept, kept + buckets, kept + buckets)


def _gathered_weights(costs: ModelCosts, training: Training, state: State) -> ByteRange:
    """Under ZeRO 3, the weights of one unit, or of two when the next is fetched early."""
    if _shards(training, "zero3") == 1:
        return NOTHING
    unit = max((layer.parameters for layer in costs.layers), default=0)
    unit = unit or _ceiling(costs.parameters * _UNIT_PERCENT, 100)
    limit = max(0, costs.parameters * training.number_bytes - state.weight_bytes)
    one, two = (min(limit, count * unit * (2 if training.is_mixed else 4)) for count in (1, 2))
    return ByteRange(one, one, two)


def _input_bytes(costs: ModelCosts) -> int:
    """Tokens are 64-bit numbers."""
    return (costs.input_elements or 0) * (8 if costs.input.endswith("tokens") else 4)


def _moments(costs: ModelCosts, training: Training, trained: int, saved: Saved) -> tuple[Part, ...]:
    """Return the memory of each moment of a step that can be its peak, beside the state."""
    forward = forward_bytes(costs, is_mixed=training.is_mixed).times(training.micro_batch)
    frozen = Part("frozen_body", forward)
    if training.is_inference:
        return (frozen,)
    number_bytes, gradients = training.number_bytes, NOTHING
    if training.accumulation_steps == 1:
        shards = _shards(training, "zero2")
        gradients = ByteRange.exact(_ceiling(trained * number_bytes, shards))
    backward = _backward(costs, training, trained, saved, gradients)
    copies = _TEMPORARIES.get(training.optimiser, 1)
    one = _ceiling(trained * number_bytes, _shards(training, "zero1"))
    update = gradients + ByteRange(0, copies * one, (copies + 1) * one)
    moments = (Part("backward", backward), Part("update", update))
    return (*moments, frozen) if training.part in {"head", "last_blocks"} else moments


def _backward(
    costs: ModelCosts, training: Training, trained: int, saved: Saved, gradients: ByteRange
) -> ByteRange:
    """Return the bytes of the backward pass of one micro-batch."""
    if (recorded := _recorded_checkpointed(costs, training)) is not None:
        return recorded.times(training.micro_batch) + gradients.percent(_CHECKPOINTED_GRADIENTS)
    output = working_bytes(costs, is_mixed=training.is_mixed).times(training.micro_batch)
    fit = _fit(costs)
    return total(
        (
            _saved_bytes(costs, training, trained, saved),
            output.percent(fit.output),
            gradients.percent(fit.gradients),
        )
    )


def _recorded_checkpointed(costs: ModelCosts, training: Training) -> ByteRange | None:
    """Return the recorded bytes of one sample under checkpointing of the whole model, or None."""
    if not training.has_checkpointing or training.part != "full":
        return None
    return checkpointed_bytes(costs, is_mixed=training.is_mixed)


def _saved_bytes(costs: ModelCosts, training: Training, trained: int, saved: Saved) -> ByteRange:
    """Return the bytes that the trained part keeps for the backward pass of one micro-batch."""
    # The saved bytes of own code are without the input, all others contain it.
    counted_input = 0 if saved.source == "code" else _input_bytes(costs)
    count = saved.bytes.without(counted_input).times(training.micro_batch)
    if training.precision != "mixed":
        count += ByteRange.exact(costs.fixed_bytes_fp32)
    if training.part == "head":
        return NOTHING
    if training.part == "lora":
        count = count.percent(_LORA_OF_FULL)
    if training.part == "last_blocks":
        count = _last_blocks(costs, training, trained, count)
    return count.percent(_fit(costs).checkpointed) if training.has_checkpointing else count


def _fit(costs: ModelCosts) -> _Fit:
    return _ATTENTION if has_attention(costs) else _OTHER


def _last_blocks(
    costs: ModelCosts, training: Training, trained: int, count: ByteRange
) -> ByteRange:
    if training.saved_ppm is not None:
        share, percent = training.saved_ppm, (100, 100, 100)
    else:
        share = trained * PPM // max(1, costs.parameters)
        percent = _LAST_BLOCKS_ATTENTION if has_attention(costs) else _LAST_BLOCKS
    low, likely, high = (min(PPM, share * each // 100) for each in percent)
    return ByteRange(count.low * low // PPM, count.likely * likely // PPM, count.high * high // PPM)


def _runtime(training: Training, tensors: ByteRange) -> ByteRange:
    if training.runtime is not None:
        return training.runtime
    return _RUNTIME_FIXED + tensors.percent(_RUNTIME_SHARE)


def _assumptions(costs: ModelCosts, training: Training, saved: Saved) -> tuple[str, ...]:
    """Return the keys of what is not known exactly."""
    has_forward = training.part in {"head", "last_blocks", "inference"}
    is_trained_above = training.part not in {"head", "inference"}
    keys = {
        f"saved_bytes_from_{saved.source}": is_trained_above,
        "attention_unknown": is_trained_above
        and training.attention == "unknown"
        and costs.origin != "code"
        and has_attention(costs),
        "largest_output_unknown": costs.largest_output is None,
        "forward_bytes_fitted": has_forward and costs.forward_bytes_fp32 is None,
        "forward_bytes_from_preset": has_forward and costs.forward_bytes_fp32 is not None,
        "last_blocks_share_estimated": training.part == "last_blocks"
        and training.saved_ppm is None,
        "lora_fitted": training.part == "lora",
        "lora_parameters_estimated": training.part == "lora"
        and training.trained_parameters is None,
        "checkpointing_estimated": training.has_checkpointing
        and is_trained_above
        and _recorded_checkpointed(costs, training) is None,
        "checkpointing_from_preset": _recorded_checkpointed(costs, training) is not None,
        "runtime_from_experience": training.runtime is None,
        "runtime_measured": training.runtime is not None,
    }
    return tuple(key for key, holds in keys.items() if holds)


def _ceiling(dividend: int, divisor: int) -> int:
    return -(-dividend // divisor)
