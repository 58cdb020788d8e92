"""Fields and examples of OpenAPI schemas. Pure: a schema and its components are arguments."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

Schema = Mapping[str, Any]
_DEPTH = 4
_REFERENCE = "#/components/schemas/"
_EXAMPLES: dict[str, Any] = {
    "date": "2026-11-02",
    "date-time": "2026-11-02T08:00:00Z",
    "uuid": "7f1d3b52-1111-4333-8444-555566667777",
    "uri": "https://example.org/",
}
_NUMBERS: dict[str, Any] = {"integer": 1, "number": 0.5, "boolean": True}


@dataclass(frozen=True)
class Field:
    """A parameter or a field of a body. ``name``: with the names of what contains it, such as
    ``copies[].path``.
    """

    name: str
    type: str
    required: bool
    description: str
    values: tuple[str, ...] = ()


def resolved(schema: Schema, components: Schema) -> Schema:
    """Return a schema without references; parts of ``allOf`` are merged."""
    if "$ref" in schema:
        return resolved(components[schema["$ref"].removeprefix(_REFERENCE)], components)
    if "allOf" in schema:
        merged: dict[str, Any] = {}
        for part in schema["allOf"]:
            merged.update(resolved(part, components))
        return {**merged, **{name: value for name, value in schema.items() if name != "allOf"}}
    return schema


def type_of(schema: Schema, components: Schema) -> str:
    """Return the type of a schema as text."""
    schema = resolved(schema, components)
    for variants in ("oneOf", "anyOf"):
        if variants in schema:
            types = (type_of(each, components) for each in schema[variants])
            return " or ".join(dict.fromkeys(filter(None, types)))
    if schema.get("type") == "array":
        text = f"list of {type_of(schema.get('items', {}), components)}"
    elif schema.get("format") in _EXAMPLES:
        text = str(schema["format"])
    else:
        text = str(schema.get("type", "any"))
    return f"{text} or null" if schema.get("nullable") else text


def field_of(name: str, schema: Schema, components: Schema, **given: Any) -> Field:
    """Return the field of a schema. ``given``: its facts outside the schema."""
    schema = resolved(schema, components)
    items = resolved(schema.get("items", {}), components)
    values = schema.get("enum") or items.get("enum") or ()
    return Field(
        name,
        type_of(schema, components),
        bool(given.get("required")),
        str(given.get("description") or schema.get("description", "")),
        tuple(str(value) for value in values if value not in (None, "")),
    )


def fields_of(
    schema: Schema, components: Schema, prefix: str = "", depth: int = _DEPTH
) -> Iterator[Field]:
    """Yield the fields of a body with those within them."""
    schema = resolved(schema, components)
    if schema.get("type") == "array":
        yield from fields_of(schema.get("items", {}), components, f"{prefix}[].", depth)
        return
    if depth == 0:
        return
    required = schema.get("required", ())
    for name, part in schema.get("properties", {}).items():
        yield field_of(f"{prefix}{name}", part, components, required=name in required)
        inner = resolved(part, components)
        is_list = inner.get("type") == "array"
        inner = resolved(inner.get("items", {}), components) if is_list else inner
        if inner.get("properties"):
            within = f"{prefix}{name}[]." if is_list else f"{prefix}{name}."
            yield from fields_of(inner, components, within, depth - 1)


def example_of(schema: Schema, components: Schema, depth: int = _DEPTH) -> Any:
    """Return a value that a schema describes: required fields, or all if none is."""
    schema = resolved(schema, components)
    for name in ("example", "default"):
        if schema.get(name) is not None:
            return schema[name]
    if schema.get("enum"):
        return schema["enum"][0]
    for variants in ("oneOf", "anyOf"):
        if variants in schema:
            return example_of(schema[variants][0], components, depth)
    kind = schema.get("type")
    if kind == "array":
        return [example_of(schema.get("items", {}), components, depth - 1)] if depth else []
    if kind == "object" or "properties" in schema:
        required = schema.get("required") or list(schema.get("properties", {}))
        return {
            name: example_of(part, components, depth - 1)
            for name, part in schema.get("properties", {}).items()
            if name in required and depth
        }
    if kind in _NUMBERS:
        return max(_NUMBERS[kind], schema.get("minimum", 0))
    return _EXAMPLES.get(schema.get("format", ""), "text")
