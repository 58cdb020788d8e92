"""Costs of a layer by its kind. Pure.

Operations are MACs, biases and element-wise operations of one sample, as the lesson counts them: a
ReLU is two for each output (compare, select), a maximum over n inputs is n − 1. The operations of
other element-wise layers are counted by their formula.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from apps.planner.formulas.layer_shapes import Shape, element_count, shape_text

# Operations for each output of element-wise layers without parameters.
ELEMENT_OPERATIONS = {
    "relu": 2, "leaky relu": 3, "sigmoid": 4, "tanh": 6, "silu": 5, "gelu": 8, "softmax": 3,
    "dropout": 1, "add": 1,
}  # fmt: skip
VIEWS = {"flatten", "tokens"}  # the same elements in another shape: no output of their own


class LayerError(ValueError):
    """A layer that cannot be applied to its input."""


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer as its table states it."""

    kind: str
    sizes: Shape = ()  # output channels, features, heads
    kernel: tuple[int, int] = (1, 1)
    options: Mapping[str, int] = field(default_factory=dict)  # stride, pad, dilation, groups
    bias: bool = True


@dataclass(frozen=True, slots=True)
class Effect:
    """What a layer does to one sample."""

    shape: Shape
    parameters: int = 0
    macs: int = 0
    operations: int = 0
    buffers: int = 0


def apply_layer(layer: Layer, shape: Shape, other: Shape | None = None) -> Effect:
    """Return the effect of ``layer`` on an input of ``shape``. Raises LayerError.

    ``other`` is the second input of add and concat.
    """
    if layer.kind in {"add", "concat"}:
        return _join(layer.kind, shape, other)
    if layer.kind in ELEMENT_OPERATIONS:
        return Effect(shape, operations=ELEMENT_OPERATIONS[layer.kind] * element_count(shape))
    return _EFFECTS[layer.kind](layer, shape)


def _image(layer: Layer, shape: Shape) -> tuple[int, int, int]:
    if len(shape) != 3:
        raise LayerError(
            f"{layer.kind} needs an image (channels x height x width), and its input is "
            f"{shape_text(shape)}. Move it before the layer that changes the shape."
        )
    return shape[0], shape[1], shape[2]


def _sequence(layer: Layer, shape: Shape) -> tuple[int, int]:
    if len(shape) != 2:
        raise LayerError(
            f"{layer.kind} needs a sequence (tokens x features), and its input is "
            f"{shape_text(shape)}. Put embedding or tokens before it."
        )
    return shape[0], shape[1]


def _windows(layer: Layer, height: int, width: int, default_stride: int) -> tuple[int, int]:
    """Return the height and width of the output of a kernel that moves over an image."""
    stride, pad = _option(layer, "stride", default_stride), _option(layer, "pad", 0)
    dilation = _option(layer, "dilation", 1)
    out = tuple(
        (size + 2 * pad - dilation * (kernel - 1) - 1) // stride + 1
        for size, kernel in zip((height, width), layer.kernel, strict=True)
    )
    if min(out) < 1:
        raise LayerError(
            f"The kernel {layer.kernel[0]}x{layer.kernel[1]} is larger than its input "
            f"{height}x{width}. Use a smaller kernel or more padding."
        )
    return out[0], out[1]


def _option(layer: Layer, name: str, default: int) -> int:
    return layer.options.get(name, default)


def _convolution(layer: Layer, shape: Shape) -> Effect:
    channels, height, width = _image(layer, shape)
    out_height, out_width = _windows(layer, height, width, 1)
    out, groups = layer.sizes[0], _option(layer, "groups", 1)
    if channels % groups or out % groups:
        raise LayerError(
            f"groups {groups} does not divide {channels} input and {out} output channels. "
            "Use a divisor of both."
        )
    weights = out * (channels // groups) * layer.kernel[0] * layer.kernel[1]
    macs = weights * out_height * out_width
    return _weighted(layer, (out, out_height, out_width), weights, macs, out)


def _deconvolution(layer: Layer, shape: Shape) -> Effect:
    channels, height, width = _image(layer, shape)
    stride, pad, out = _option(layer, "stride", 1), _option(layer, "pad", 0), layer.sizes[0]
    sizes = [
        (size - 1) * stride - 2 * pad + kernel
        for size, kernel in zip((height, width), layer.kernel, strict=True)
    ]
    if min(sizes) < 1:
        raise LayerError(f"pad {pad} leaves no output. Use less padding.")
    weights = channels * out * layer.kernel[0] * layer.kernel[1]
    return _weighted(layer, (out, sizes[0], sizes[1]), weights, weights * height * width, out)


def _linear(layer: Layer, shape: Shape) -> Effect:
    """An image is flattened. Of a sequence, each token is multiplied."""
    rows = shape[:1] if len(shape) == 2 else ()
    features = shape[-1] if rows else element_count(shape)
    out = layer.sizes[0]
    weights = features * out
    return _weighted(layer, (*rows, out), weights, weights * element_count(rows), out)


def _weighted(layer: Layer, shape: Shape, weights: int, macs: int, biases: int) -> Effect:
    return Effect(
        shape,
        parameters=weights + (biases if layer.bias else 0),
        macs=macs,
        operations=macs + (element_count(shape) if layer.bias else 0),
    )


def _pool(layer: Layer, shape: Shape) -> Effect:
    channels, height, width = _image(layer, shape)
    out = (channels, *_windows(layer, height, width, layer.kernel[0]))
    inputs = layer.kernel[0] * layer.kernel[1]
    each = inputs if layer.kind == "average pool" else inputs - 1
    return Effect(out, operations=each * element_count(out))


def _adaptive_pool(layer: Layer, shape: Shape) -> Effect:
    """Average pool to a given size: each input is added once, each output divided once."""
    channels, height, width = _image(layer, shape)
    if layer.kernel[0] > height or layer.kernel[1] > width:
        raise LayerError(
            f"adaptive pool {layer.kernel[0]}x{layer.kernel[1]} is larger than its input "
            f"{height}x{width}. Use a smaller size."
        )
    return Effect((channels, *layer.kernel), operations=element_count(shape))


def _batch_norm(_layer: Layer, shape: Shape) -> Effect:
    """Scale and shift for each channel. Buffers: mean, variance, and a counter."""
    channels = shape[0] if len(shape) == 3 else shape[-1]
    return Effect(shape, 2 * channels, 0, 4 * element_count(shape), 2 * channels + 1)


def _layer_norm(_layer: Layer, shape: Shape) -> Effect:
    features = shape[-1]
    return Effect(shape, 2 * features, 0, 8 * element_count(shape))


def _lrn(layer: Layer, shape: Shape) -> Effect:
    """Local response normalisation: squares and sums of n neighbours, then scale, power, divide."""
    return Effect(shape, operations=(2 * layer.sizes[0] + 3) * element_count(shape))


def _embedding(layer: Layer, shape: Shape) -> Effect:
    if len(shape) != 1:
        raise LayerError(
            f"embedding needs tokens, and its input is {shape_text(shape)}. State the input as "
            "a number of tokens."
        )
    vocabulary, features = layer.sizes
    return Effect((shape[0], features), parameters=vocabulary * features)


def _positions(_layer: Layer, shape: Shape) -> Effect:
    """Learned positions: one vector for each token, added."""
    return Effect(shape, element_count(shape), 0, element_count(shape))


def _class_token(layer: Layer, shape: Shape) -> Effect:
    tokens, features = _sequence(layer, shape)
    return Effect((tokens + 1, features), parameters=features)


def _first_token(layer: Layer, shape: Shape) -> Effect:
    return Effect((_sequence(layer, shape)[1],))


def _attention(layer: Layer, shape: Shape) -> Effect:
    """Multi-head self-attention with its four projections; scores and mix are T² × features."""
    tokens, features = _sequence(layer, shape)
    heads = layer.sizes[0]
    if features % heads:
        raise LayerError(f"{heads} heads do not divide {features} features. Use a divisor.")
    biases = 4 * features if layer.bias else 0
    macs = 4 * tokens * features**2 + 2 * tokens**2 * features
    softmax = ELEMENT_OPERATIONS["softmax"] * heads * tokens**2
    return Effect(shape, 4 * features**2 + biases, macs, macs + tokens * biases + softmax)


def _flatten(_layer: Layer, shape: Shape) -> Effect:
    return Effect((element_count(shape),))


def _tokens(layer: Layer, shape: Shape) -> Effect:
    """An image as a sequence: one token for each place."""
    channels, height, width = _image(layer, shape)
    return Effect((height * width, channels))


def _join(kind: str, shape: Shape, other: Shape | None) -> Effect:
    if other is None:
        raise LayerError(f"{kind} needs a second input. Add 'with' and the label of a layer.")
    if kind == "add":
        if shape != other:
            raise LayerError(
                f"add needs two inputs of one shape, and they are {shape_text(shape)} and "
                f"{shape_text(other)}. Change the layers before it."
            )
        return Effect(shape, operations=element_count(shape))
    if shape[1:] != other[1:]:
        raise LayerError(
            f"concat needs inputs that differ in their first size only, and they are "
            f"{shape_text(shape)} and {shape_text(other)}. Change the layers before it."
        )
    return Effect((shape[0] + other[0], *shape[1:]))


_EFFECTS: dict[str, Callable[[Layer, Shape], Effect]] = {
    "conv": _convolution,
    "deconv": _deconvolution,
    "linear": _linear,
    "max pool": _pool,
    "average pool": _pool,
    "adaptive pool": _adaptive_pool,
    "batch norm": _batch_norm,
    "layer norm": _layer_norm,
    "lrn": _lrn,
    "embedding": _embedding,
    "positions": _positions,
    "class token": _class_token,
    "first token": _first_token,
    "attention": _attention,
    "flatten": _flatten,
    "tokens": _tokens,
}
