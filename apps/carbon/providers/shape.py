"""Compare a JSON response with the documented shape, field by field. Pure.

A shape is a set of type names (“number”, “text”, “null”, “boolean”), a dict of fields, or a list
with the shape of its items. A field whose name ends with ``?`` can be missing.
"""

from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

Shape = frozenset[str] | Mapping[str, Any] | list[Any]
NUMBER, TEXT, BOOLEAN = frozenset({"number"}), frozenset({"text"}), frozenset({"boolean"})
NUMBER_OR_NULL, TEXT_OR_NULL = NUMBER | {"null"}, TEXT | {"null"}
_TYPES: tuple[tuple[Any, str], ...] = (
    (bool, "boolean"),
    (Decimal | int | float, "number"),
    (str, "text"),
    (list, "list"),
    (dict, "object"),
)


def shape_differences(expected: Shape, value: Any) -> list[str]:
    """Return the differences of a value from its shape, a sentence each. Differences of the items
    of a list are stated once, with their number.
    """
    counts: dict[str, int] = {}
    for difference in _differences(expected, value, ""):
        counts[difference] = counts.get(difference, 0) + 1
    return [
        difference if count == 1 else f"{difference} ({count} times)"
        for difference, count in counts.items()
    ]


def _differences(expected: Shape, value: Any, path: str) -> Iterator[str]:
    place = path or "response"
    if isinstance(expected, frozenset):
        if _type(value) not in expected:
            yield f"{place}: {_type(value)} instead of {' or '.join(sorted(expected))}"
    elif isinstance(expected, list):
        if not isinstance(value, list):
            yield f"{place}: {_type(value)} instead of list"
            return
        for item in value:
            yield from _differences(expected[0], item, f"{path}[]")
    elif not isinstance(value, dict):
        yield f"{place}: {_type(value)} instead of object"
    else:
        yield from _field_differences(expected, value, path)


def _field_differences(
    expected: Mapping[str, Any], value: dict[str, Any], path: str
) -> Iterator[str]:
    prefix = f"{path}." if path else ""
    names = {name.removesuffix("?") for name in expected}
    for name, shape in expected.items():
        plain = name.removesuffix("?")
        if plain in value:
            yield from _differences(shape, value[plain], f"{prefix}{plain}")
        elif not name.endswith("?"):
            yield f"{prefix}{plain}: missing"
    for name in value:
        if name not in names:
            yield f"{prefix}{str(name)[:60]!a}: not in the documentation"


def _type(value: Any) -> str:
    return next((name for types, name in _TYPES if isinstance(value, types)), "null")
