"""Shapes of the inputs of an ONNX graph, from what the user states of one sample. Pure."""

from __future__ import annotations

import io
import re
from dataclasses import dataclass
from typing import Dict, List, Optional, Sequence

from labcarbon_collect.errors import CommandError
from labcarbon_collect.plan.inputs import FORMS, InputSpec, parse_input
from labcarbon_collect.plan.model_files.graph import MAX_FIELDS
from labcarbon_collect.plan.model_files.protobuf import BYTES, Field, ProtobufReader

_FORM = re.compile(r"(?:(?P<name>.{1,200}?)=)??(?P<size>(?:tokens:)?\d[^=]*(?::vocab=\d+)?)", re.S)
_GRAPH, _INITIALIZER, _INPUT = 7, 5, 11
_TENSOR_NAME, _VALUE_NAME, _VALUE_TYPE = 8, 1, 2
_TENSOR_TYPE, _SHAPE, _DIM = 1, 2, 1


@dataclass(frozen=True)
class GraphInput:
    """One input of a graph. ``rank``: number of its dimensions with the batch, None if unknown."""

    name: str
    rank: Optional[int]


def graph_inputs(content: bytes) -> List[GraphInput]:
    """Return the inputs of a graph that are no weights, in their order."""
    reader = ProtobufReader(io.BytesIO(content), len(content), max_fields=2 * MAX_FIELDS)
    weights, values = set(), []
    for graph in _inside(reader, Field(0, BYTES, 0, len(content)), _GRAPH):
        for field in reader.fields(graph.start, graph.end):
            if (field.number, field.kind) == (_INITIALIZER, BYTES):
                weights.add(_text(reader, field, _TENSOR_NAME))
            elif (field.number, field.kind) == (_INPUT, BYTES):
                values.append(GraphInput(_text(reader, field, _VALUE_NAME), _rank(reader, field)))
    return [value for value in values if value.name not in weights]


def input_texts(forms: Sequence[str], inputs: Sequence[GraphInput]) -> List[str]:
    """Return each stated shape as the server reads it: NAME=1x3x224x224. Raises CommandError.

    A form is ``[NAME=]SIZE`` of one sample; the batch is added where the input has one dimension
    more. Forms without a name are those of the first inputs.
    """
    by_name: Dict[str, GraphInput] = {value.name: value for value in inputs}
    unnamed = iter(inputs)
    texts = []
    for form in forms:
        match = _FORM.fullmatch(form)
        if match is None:
            raise CommandError(f"--input {form!r} is not a size. Write {FORMS}")
        spec = parse_input(match["size"])
        if match["name"]:
            value = by_name.get(match["name"])
        else:
            value = next(unnamed, None)
        if value is None:
            raise CommandError(
                f"--input {form!r}: the model has no such input. Its inputs: "
                f"{', '.join(map(_printable, list(by_name)[:10])) or 'none'}"
            )
        texts.append(f"{value.name}={'x'.join(map(str, _shape(spec, value)))}")
    return texts


def _shape(spec: InputSpec, value: GraphInput) -> Sequence[int]:
    is_whole = value.rank is not None and len(spec.shape) == value.rank
    return spec.shape if is_whole else (1, *spec.shape)


def _rank(reader: ProtobufReader, value: Field) -> Optional[int]:
    for type_ in _inside(reader, value, _VALUE_TYPE):
        for tensor in _inside(reader, type_, _TENSOR_TYPE):
            for shape in _inside(reader, tensor, _SHAPE):
                return len(_inside(reader, shape, _DIM))
    return None


def _inside(reader: ProtobufReader, message: Field, number: int) -> List[Field]:
    """Return the messages in a field of a message."""
    fields = reader.fields(message.start, message.end)
    return [field for field in fields if (field.number, field.kind) == (number, BYTES)]


def _text(reader: ProtobufReader, message: Field, number: int) -> str:
    texts = _inside(reader, message, number)
    return reader.content(texts[-1]).decode("utf-8", "replace") if texts else ""


def _printable(text: str) -> str:
    return "".join(letter if letter.isprintable() else "?" for letter in text)[:120]
