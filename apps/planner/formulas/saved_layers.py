"""Bytes that a list of layers keeps for the backward pass of one sample, in FP32. Pure.

A layer keeps its input (a convolution needs it for the gradient of its weights), its output (a
ReLU), or neither (an addition). A tensor that two layers keep is kept once, so an output counts if
its own layer keeps it or the next one does. The list has no branches: the next layer is the next
line. docs/planner.md has the measured errors.
"""

from collections.abc import Sequence

from apps.planner.formulas.layer_kinds import VIEWS
from apps.planner.formulas.model_costs import LayerCosts

# Names of layer tables, and the operators of ONNX files that are the same layers.
_NAMES = {
    "Conv": "conv", "ConvTranspose": "deconv", "Gemm": "linear", "BatchNormalization": "batch norm",
    "LayerNormalization": "layer norm", "LRN": "lrn", "MaxPool": "max pool", "Relu": "relu",
    "AveragePool": "average pool", "GlobalAveragePool": "adaptive pool", "LeakyRelu": "leaky relu",
    "Sigmoid": "sigmoid", "Tanh": "tanh", "Softmax": "softmax", "Gelu": "gelu", "Add": "add",
    "Dropout": "dropout", "Concat": "concat", "Flatten": "flatten", "Reshape": "flatten",
}  # fmt: skip
_KEEPS_INPUT = {
    "conv", "deconv", "linear", "batch norm", "layer norm", "lrn", "max pool", "average pool",
    "leaky relu", "silu", "gelu", "attention",
}  # fmt: skip
_KEEPS_OUTPUT = {"relu", "sigmoid", "tanh", "softmax", "lrn"}
_KEEPS_NEITHER = {
    "add", "concat", "dropout", "embedding", "positions", "class token", "first token",
    "adaptive pool", *VIEWS,
}  # fmt: skip
_KINDS = _KEEPS_INPUT | _KEEPS_OUTPUT | _KEEPS_NEITHER
# Bytes for each output beside the tensors: the index of each maximum, the mask of a dropout, and
# query, key, value and mix of an attention.
_MORE_BYTES = {"max pool": 8, "dropout": 1, "attention": 4 * 4}
_FP32_BYTES = 4


def count_saved_bytes(layers: Sequence[LayerCosts]) -> int | None:
    """Return the bytes; None if there are no layers, or if one of them is of an unknown kind."""
    kinds = [_NAMES.get(layer.kind, layer.kind) for layer in layers]
    if not layers or not _KINDS.issuperset(kinds):
        return None
    saved = layers[0].input_elements * _FP32_BYTES if kinds[0] in _KEEPS_INPUT else 0
    following = ""  # kind of the next layer that is no view
    for layer, kind in zip(reversed(layers), reversed(kinds), strict=True):
        saved += layer.output_elements * _MORE_BYTES.get(kind, 0)
        if kind in VIEWS:
            continue
        if kind in _KEEPS_OUTPUT or following in _KEEPS_INPUT:
            saved += layer.output_elements * _FP32_BYTES
        following = kind
    return saved
