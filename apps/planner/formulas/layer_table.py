"""Layer tables: a model as text, one layer a line, and its costs. Pure.

``conv 32 5x5 stride 1 pad 2`` · ``max pool 2x2`` · ``linear 120 no bias`` · ``relu``. A line can
begin with a label (``block1: conv …``). ``from LABEL`` takes the output of that layer as input,
``with LABEL`` is the second input of add and concat. ``repeat 12`` … ``end`` repeats the lines
between them. docs/planner.md lists the kinds.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from apps.planner.formulas.layer_kinds import (
    ELEMENT_OPERATIONS,
    VIEWS,
    Layer,
    LayerError,
    apply_layer,
)
from apps.planner.formulas.layer_shapes import (
    Shape,
    ShapeError,
    element_count,
    read_shape,
    shape_text,
)
from apps.planner.formulas.model_costs import LayerCosts, ModelCosts

MAX_TEXT = 64 * 1024
MAX_LAYERS = 5000
MAX_NUMBER = 10**9
MAX_ELEMENTS = 10**13  # of one layer: outputs, parameters

_CONVOLUTION = {"stride", "pad", "dilation", "groups"}
_POOL = {"stride", "pad"}


@dataclass(frozen=True, slots=True)
class _Form:
    """What a line of a kind contains after its name."""

    sizes: int = 0  # numbers
    has_kernel: bool = False
    options: frozenset[str] = frozenset()
    has_bias: bool = False
    example: str = ""


_FORMS = {
    "conv": _Form(1, True, frozenset(_CONVOLUTION), True, "conv 32 5x5 stride 1 pad 2"),
    "deconv": _Form(1, True, frozenset(_POOL), True, "deconv 32 2x2 stride 2"),
    "linear": _Form(1, has_bias=True, example="linear 120"),
    "max pool": _Form(0, True, frozenset(_POOL), example="max pool 2x2 stride 2"),
    "average pool": _Form(0, True, frozenset(_POOL), example="average pool 2x2 stride 2"),
    "adaptive pool": _Form(0, True, example="adaptive pool 1x1"),
    "batch norm": _Form(example="batch norm"),
    "layer norm": _Form(example="layer norm"),
    "lrn": _Form(1, example="lrn 5"),
    "embedding": _Form(2, example="embedding 30522 768"),
    "attention": _Form(1, has_bias=True, example="attention 12"),
    **{
        kind: _Form(example=kind)
        for kind in (
            *ELEMENT_OPERATIONS, *sorted(VIEWS), "concat", "positions", "class token",
            "first token",
        )
    },
}  # fmt: skip
_SYNONYMS = {"pool": "max pool", "batchnorm": "batch norm", "layernorm": "layer norm"}
KINDS = tuple(sorted(_FORMS))

_LABEL = re.compile(r"([A-Za-z][A-Za-z0-9_.]{0,39}) ?: ?(.*)")
_NUMBER = re.compile(r"[0-9]{1,10}")
_KERNEL = re.compile(r"([0-9]{1,10})x([0-9]{1,10})")


class LayerTableError(ValueError):
    """A layer table that cannot be read. ``line`` is 0 if no single line is the cause."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(f"Line {line}: {message}" if line else message)
        self.line = line


@dataclass(frozen=True, slots=True)
class _Line:
    number: int
    label: str
    layer: Layer
    source: str  # label of its input; '' is the line before
    second: str  # label of the second input


def read_layer_table(text: str, *, input_shape: str, name: str = "layer table") -> ModelCosts:
    """Return the costs of the model that ``text`` states for one sample. Raises LayerTableError."""
    if len(text) > MAX_TEXT:
        raise LayerTableError(
            0, f"The layer table has more than {MAX_TEXT} characters. Use repeat for equal blocks."
        )
    try:
        shape = read_shape(input_shape)
    except ShapeError as error:
        raise LayerTableError(0, str(error)) from error
    if element_count(shape) > MAX_ELEMENTS:
        raise LayerTableError(0, f"The input has more than {MAX_ELEMENTS} elements.")
    layers, buffers = _apply_lines(_expand(text), shape)
    if not layers:
        raise LayerTableError(0, "The layer table is empty. Enter one layer a line.")
    outputs = [layer for layer in layers if layer.kind not in VIEWS]
    return ModelCosts(
        name=name,
        input=" ".join(input_shape.lower().replace("×", "x").split()),
        parameters=sum(layer.parameters for layer in layers),
        macs=sum(layer.macs for layer in layers),
        layer_outputs=sum(layer.output_elements for layer in outputs),
        parameter_layer_outputs=sum(layer.output_elements for layer in outputs if layer.parameters),
        input_elements=element_count(shape),
        buffer_elements=buffers,
        largest_output=max((layer.output_elements for layer in outputs), default=None),
        layers=tuple(layers),
        source="layer table",
    )


def _apply_lines(lines: Iterator[_Line], shape: Shape) -> tuple[list[LayerCosts], int]:
    """Return the costs of each layer and the elements of all buffers."""
    shapes = {"input": shape}
    layers: list[LayerCosts] = []
    buffers = 0
    for line in lines:
        source = _labelled(line, line.source, shapes) if line.source else shape
        other = _labelled(line, line.second, shapes) if line.second else None
        try:
            effect = apply_layer(line.layer, source, other)
        except LayerError as error:
            raise LayerTableError(line.number, str(error)) from error
        shape = effect.shape
        if max(element_count(shape), effect.parameters) > MAX_ELEMENTS:
            raise LayerTableError(
                line.number,
                f"The layer has more than {MAX_ELEMENTS} outputs or parameters "
                f"(output {shape_text(shape)}). Check its sizes.",
            )
        if line.label:
            shapes[line.label] = shape
        layers.append(
            LayerCosts(
                name=line.label or f"{line.layer.kind} {len(layers) + 1}",
                kind=line.layer.kind,
                parameters=effect.parameters,
                macs=effect.macs,
                operations=effect.operations,
                input_elements=element_count(source) + (element_count(other) if other else 0),
                output_elements=element_count(shape),
            )
        )
        buffers += effect.buffers
    return layers, buffers


def _labelled(line: _Line, label: str, shapes: dict[str, Shape]) -> Shape:
    if label not in shapes:
        raise LayerTableError(
            line.number, f"No earlier line has the label {label!r}. Write it before that layer."
        )
    return shapes[label]


def _expand(text: str) -> Iterator[_Line]:
    """Yield all layers, repeated lines as often as their block states."""
    count = 0
    for number, times, lines in _blocks(text):
        count += times * len(lines)
        if count > MAX_LAYERS:
            raise LayerTableError(
                number, f"The table has more than {MAX_LAYERS} layers. Use fewer."
            )
        for _ in range(times):
            yield from lines


def _blocks(text: str) -> Iterator[tuple[int, int, list[_Line]]]:
    """Yield each line or block of repeated lines: number of its last line, times, layers."""
    opened = times = 0  # of the block that is open: its line, and how often it is repeated
    block: list[_Line] = []
    for number, line_text in _content(text):
        first, *rest = line_text.lower().split()
        if first == "repeat":
            if opened:
                raise LayerTableError(number, "A repeat cannot contain a repeat. Add 'end' first.")
            if len(rest) != 1:
                raise LayerTableError(number, "repeat needs a number, such as: repeat 12.")
            opened, times, block = number, _number(number, rest[0], 1), []
        elif line_text.lower() == "end":
            if not opened:
                raise LayerTableError(number, "'end' without 'repeat'. Remove it.")
            yield number, times, block
            opened = 0
        elif opened:
            block.append(_read_line(number, line_text))
        else:
            yield number, 1, [_read_line(number, line_text)]
    if opened:
        raise LayerTableError(opened, "repeat without 'end'. Add a line 'end'.")


def _content(text: str) -> Iterator[tuple[int, str]]:
    """Yield number and text of each line that has content: no comment, single spaces."""
    for number, line in enumerate(text.splitlines(), start=1):
        content = " ".join(line.split("#", 1)[0].replace("×", "x").split())
        if content:
            yield number, content


def _read_line(number: int, text: str) -> _Line:
    labelled = _LABEL.fullmatch(text)
    label, text = (labelled[1], labelled[2]) if labelled else ("", text)
    if label == "input":
        raise LayerTableError(number, "'input' is the label of the input. Use another label.")
    words = text.split()
    kind, words = _kind(number, [word.lower() for word in words], words)
    form = _FORMS[kind]
    sizes = tuple(_number(number, word, 1) for word in words[: form.sizes])
    if len(sizes) < form.sizes:
        raise LayerTableError(number, f"{kind} needs more numbers, such as: {form.example}.")
    words = words[form.sizes :]
    kernel = (1, 1)
    if form.has_kernel:
        match = _KERNEL.fullmatch(words[0].lower()) if words else None
        if match is None:
            raise LayerTableError(number, f"{kind} needs a size, such as: {form.example}.")
        kernel = (_number(number, match[1], 1), _number(number, match[2], 1))
        words = words[1:]
    options, labels, bias = _read_options(number, kind, words)
    layer = Layer(kind, sizes, kernel, options, bias)
    return _Line(number, label, layer, labels.get("from", ""), labels.get("with", ""))


def _kind(number: int, lower: list[str], words: list[str]) -> tuple[str, list[str]]:
    for length in (2, 1):
        kind = " ".join(lower[:length])
        kind = _SYNONYMS.get(kind, kind)
        if len(lower) >= length and kind in _FORMS:
            return kind, words[length:]
    first = words[0][:40] if words else ""
    raise LayerTableError(
        number, f"The kind of layer {first!r} is unknown. Use one of: {', '.join(KINDS)}."
    )


def _read_options(
    number: int, kind: str, words: list[str]
) -> tuple[dict[str, int], dict[str, str], bool]:
    form, options, labels, bias = _FORMS[kind], dict[str, int](), dict[str, str](), True
    place = 0
    while place < len(words):
        word, value = words[place].lower(), words[place + 1] if place + 1 < len(words) else ""
        if form.has_bias and (word, value.lower()) == ("no", "bias"):
            bias = False
        elif word in {"from", "with"} and value:
            labels[word] = value
        elif word in form.options and word not in options:
            options[word] = _number(number, value, 0 if word == "pad" else 1)
        else:
            raise LayerTableError(
                number, f"{kind} has no option {words[place][:40]!r} here. Write: {form.example}."
            )
        place += 2
    return options, labels, bias


def _number(number: int, word: str, least: int) -> int:
    if not _NUMBER.fullmatch(word) or not least <= int(word) <= MAX_NUMBER:
        raise LayerTableError(
            number, f"{word[:40]!r} is not a whole number between {least} and {MAX_NUMBER}."
        )
    return int(word)
