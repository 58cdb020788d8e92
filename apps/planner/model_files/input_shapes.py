"""Shapes of a model's inputs for one sample: given by the user, else by the file."""

from collections.abc import Mapping

from onnx import GraphProto, ValueInfoProto

from apps.planner.model_files.graph_checks import check_shape
from apps.planner.model_files.refusals import Refused, shown

Dimension = int | str | None  # a size, the name of a size, or nothing


def set_input_shapes(
    graph: GraphProto, given: Mapping[str, tuple[int, ...]]
) -> dict[str, tuple[int, ...]]:
    """Give each input a fixed shape, with the batch 1. Returns the shapes. Raises Refused."""
    weights = {tensor.name for tensor in graph.initializer}
    inputs = [value for value in graph.input if value.name not in weights]
    if not inputs:
        raise Refused("The model has no input.", hint="Choose a file of a model in ONNX.")
    unknown = sorted(set(given) - {value.name for value in inputs})
    if unknown:
        names = ", ".join(shown(value.name) for value in inputs[:10])
        raise Refused(
            f"The model has no input {shown(unknown[0])!r}.",
            field="input",
            hint=f"Its inputs: {names}.",
        )
    sizes: dict[str, int] = {}
    for value in inputs:
        if value.name in given:
            _learn_names(value, given[value.name], sizes)
    shapes = {}
    for value in inputs:
        own = given.get(value.name)
        shapes[value.name] = own if own is not None else _shape(value, sizes)
        check_shape(shapes[value.name], shown(value.name))
    for value in inputs:
        shape = value.type.tensor_type.shape
        shape.ClearField("dim")
        for size in shapes[value.name]:
            shape.dim.add().dim_value = size
    return shapes


def _dimensions(value: ValueInfoProto) -> list[Dimension] | None:
    """Return the dimensions that the file states, None without a shape."""
    if not value.type.HasField("tensor_type"):
        raise Refused(
            f"The input {shown(value.name)!r} is no tensor.", hint="Export the model with tensors."
        )
    if not value.type.tensor_type.HasField("shape"):
        return None
    return [
        (part.dim_value if part.dim_value > 0 else None)
        if part.HasField("dim_value")
        else (part.dim_param or None)
        for part in value.type.tensor_type.shape.dim
    ]


def _learn_names(value: ValueInfoProto, own: tuple[int, ...], sizes: dict[str, int]) -> None:
    """Add the sizes of named dimensions of a shape of the user: other inputs share them."""
    stated = _dimensions(value)
    if stated is None:
        return
    if len(stated) != len(own):
        raise Refused(
            f"The input {shown(value.name)!r} has {len(stated)} dimensions, not {len(own)}.",
            field="input",
            hint=f"Write it like {_example(value.name, stated)}.",
        )
    for size, part in zip(own, stated):
        if isinstance(part, str) and sizes.setdefault(part, size) != size:
            raise Refused(
                f"The dimension {shown(part)!r} has two different sizes.",
                field="input",
                hint="Give inputs that share it the same size.",
            )


def _shape(value: ValueInfoProto, sizes: Mapping[str, int]) -> tuple[int, ...]:
    stated = _dimensions(value)
    name = shown(value.name)
    if stated is None:
        raise Refused(
            f"The shape of the input {name!r} is unknown.",
            field="input",
            hint=f"State it: --input {name}=1x3x224x224 (in the API: ?input={name}=1x3x224x224).",
        )
    for part in value.type.tensor_type.shape.dim:
        if part.dim_value < 0 and part.dim_value != -1:
            raise Refused(f"The input {name!r} has a negative dimension.", hint="Export it again.")
    shape = []
    for position, part in enumerate(stated):
        if isinstance(part, str) and part in sizes:
            shape.append(sizes[part])
        elif isinstance(part, int):
            shape.append(part)
        elif position == 0:
            shape.append(1)  # the batch
        else:
            raise Refused(
                f"Dimension {position + 1} of the input {name!r} is unknown"
                + (f" ({shown(part)})." if part else "."),
                field="input",
                hint=f"State the shape: --input {_example(value.name, stated)} (in the API: "
                f"?input={_example(value.name, stated)}).",
            )
    if len(shape) > 1 and isinstance(stated[0], int) and shape[0] != 1:
        raise Refused(
            f"The first dimension of the input {name!r} is {shape[0]}, not one sample.",
            field="input",
            hint=f"Export the model with batch 1, or state the shape of one sample: --input {name}="
            f"{'x'.join(map(str, (1, *shape[1:])))}.",
        )
    return tuple(shape)


def _example(name: str, stated: list[Dimension]) -> str:
    sizes = [
        part if isinstance(part, int) else 1 if position == 0 else 224 if len(stated) == 4 else 128
        for position, part in enumerate(stated)
    ]
    return f"{shown(name)}={'x'.join(map(str, sizes))}"
