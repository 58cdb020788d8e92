"""Activations of one sample as ranges: bytes saved for the backward pass, and the largest output.
Pure.

The saved bytes are recorded (by the researcher's own code or a preset), counted from the layers, or
estimated from the layer outputs. The less is known, the wider is the range. docs/planner.md has the
sources of all percentages.
"""

from dataclasses import dataclass

from apps.planner.formulas.byte_range import ByteRange, Percent, largest
from apps.planner.formulas.model_costs import ModelCosts, SavedBytes
from apps.planner.formulas.saved_layers import count_saved_bytes

# Measured bytes in percent of these, by source.
_RECORDED: dict[str, Percent] = {"code": (94, 100, 105)}
_OTHER_VERSION: Percent = (85, 100, 115)
_LAYERS: Percent = (80, 100, 120)
_STORED_OF_FUSED: Percent = (125, 200, 240)
_MIXED_OF_FP32: Percent = (50, 60, 74)
# Saved bytes in percent of the bytes of all layer outputs.
_OUTPUTS: Percent = (64, 80, 111)
_OUTPUTS_FUSED: Percent = (90, 125, 170)
_OUTPUTS_STORED: Percent = (110, 200, 370)
# The largest output in percent of all layer outputs, where it is unknown.
_LARGEST_OF_OUTPUTS: Percent = (2, 5, 12)

# Most bytes of a forward pass in percent of the largest output: plain networks 2, ResNet-50 and
# ViT-B/16 3.3 times.
_FORWARD_OF_LARGEST: Percent = (170, 330, 400)

_FP32_BYTES = 4


@dataclass(frozen=True, slots=True)
class Saved:
    """Saved bytes of one sample, and their source: 'code', 'preset', 'layers', 'layer_outputs'."""

    bytes: ByteRange
    source: str


def estimate_saved_bytes(costs: ModelCosts, *, is_mixed: bool, attention: str) -> Saved:
    """Return the saved bytes. ``attention``: 'fused', 'stored', or 'unknown', which is the range
    of both with fused as likely. The attention of own code is that of the code.
    """
    if attention != "unknown" or costs.origin == "code" or not has_attention(costs):
        is_stored = attention == "stored" and costs.origin != "code" and has_attention(costs)
        return _saved(costs, is_mixed=is_mixed, is_stored=is_stored)
    fused, stored = (_saved(costs, is_mixed=is_mixed, is_stored=kind) for kind in (False, True))
    high = max(fused.bytes.high, stored.bytes.high)
    return Saved(ByteRange(fused.bytes.low, fused.bytes.likely, high), fused.source)


def has_attention(costs: ModelCosts) -> bool:
    """Return whether the model has attention layers, as far as its costs show."""
    return (
        costs.input.endswith("tokens")
        or costs.saved_bytes.fp32_stored_attention is not None
        or any("attention" in layer.kind.lower() for layer in costs.layers)
    )


def working_elements(costs: ModelCosts) -> ByteRange:
    """Return the elements of the largest output of a layer."""
    if costs.largest_output is not None:
        return ByteRange.exact(costs.largest_output)
    return ByteRange.exact(costs.layer_outputs).percent(_LARGEST_OF_OUTPUTS)


def working_bytes(costs: ModelCosts, *, is_mixed: bool) -> ByteRange:
    """Return the bytes in use while the backward pass begins: the largest output, or output and
    gradient of the model in FP32, as the loss needs them.
    """
    outputs = costs.output_elements
    if outputs is None:
        outputs = costs.layers[-1].output_elements if costs.layers else 0
    number_bytes = _FP32_BYTES // 2 if is_mixed else _FP32_BYTES
    return largest(
        (
            working_elements(costs).times(number_bytes),
            ByteRange.exact(2 * outputs * _FP32_BYTES),
        )
    )


def forward_bytes(costs: ModelCosts, *, is_mixed: bool) -> ByteRange:
    """Return the most bytes at once in a forward pass that keeps nothing, as in a frozen body: as
    recorded, else a multiple of the largest output.
    """
    if costs.forward_bytes_fp32 is None:
        return working_bytes(costs, is_mixed=is_mixed).percent(_FORWARD_OF_LARGEST)
    return _recorded_pass(costs, costs.forward_bytes_fp32, is_mixed=is_mixed)


def checkpointed_bytes(costs: ModelCosts, *, is_mixed: bool) -> ByteRange | None:
    """Return the most bytes at once of a training with gradient checkpointing, without the
    gradients, None if they are not recorded.
    """
    if costs.checkpointed_bytes_fp32 is None:
        return None
    return _recorded_pass(costs, costs.checkpointed_bytes_fp32, is_mixed=is_mixed)


def _recorded_pass(costs: ModelCosts, recorded: int, *, is_mixed: bool) -> ByteRange:
    count = _recorded_range(costs, recorded)
    return count.percent(_MIXED_OF_FP32) if is_mixed else count


def _saved(costs: ModelCosts, *, is_mixed: bool, is_stored: bool) -> Saved:
    recorded = _recorded(costs.saved_bytes, is_mixed=is_mixed, is_stored=is_stored)
    if recorded is not None:
        return Saved(_recorded_range(costs, recorded), costs.origin)
    if is_mixed:
        full = _saved(costs, is_mixed=False, is_stored=is_stored)
        return Saved(full.bytes.percent(_MIXED_OF_FP32), full.source)
    if is_stored and costs.saved_bytes.fp32 is not None:
        fused = _recorded_range(costs, costs.saved_bytes.fp32)
        return Saved(fused.percent(_STORED_OF_FUSED), costs.origin)
    counted = count_saved_bytes(costs.layers)
    if counted is not None:
        saved = ByteRange.exact(counted).percent(_LAYERS)
        return Saved(saved.percent(_STORED_OF_FUSED) if is_stored else saved, "layers")
    outputs = ByteRange.exact(costs.layer_outputs * _FP32_BYTES)
    percent = _OUTPUTS_STORED if is_stored else _OUTPUTS
    if has_attention(costs) and not is_stored:
        percent = _OUTPUTS_FUSED
    return Saved(outputs.percent(percent), "layer_outputs")


def _recorded(saved: SavedBytes, *, is_mixed: bool, is_stored: bool) -> int | None:
    if is_stored:
        return saved.mixed_stored_attention if is_mixed else saved.fp32_stored_attention
    return saved.mixed if is_mixed else saved.fp32


def _recorded_range(costs: ModelCosts, recorded: int) -> ByteRange:
    return ByteRange.exact(recorded).percent(_RECORDED.get(costs.origin, _OTHER_VERSION))
