"""Shapes of one sample: ``3x224x224`` for an image, ``512 tokens`` for a text. Pure."""

import re
from math import prod

Shape = tuple[int, ...]

_MAX_SIZE = 10**9
_IMAGE = re.compile(r"[0-9]{1,10}(x[0-9]{1,10}){0,3}")
_TOKENS = re.compile(r"([0-9]{1,10}) tokens?")


class ShapeError(ValueError):
    """A shape that cannot be read."""


def read_shape(text: str) -> Shape:
    """Return the shape that ``text`` states. Raises ShapeError."""
    text = " ".join(text.lower().replace("×", "x").split())
    tokens = _TOKENS.fullmatch(text)
    sizes = tokens[1] if tokens else text
    if not tokens and not _IMAGE.fullmatch(text):
        raise ShapeError(
            f"Input {text[:40]!r} is not a shape. Enter sizes with x between them, such as "
            "3x224x224, or a number of tokens, such as 512 tokens."
        )
    shape = tuple(int(size) for size in sizes.split("x"))
    if not all(0 < size <= _MAX_SIZE for size in shape):
        raise ShapeError("Input sizes must be between 1 and 1000000000.")
    return shape


def shape_text(shape: Shape) -> str:
    """Return a shape as text: ``3x224x224``."""
    return "x".join(str(size) for size in shape)


def element_count(shape: Shape) -> int:
    """Return the number of elements of a shape."""
    return prod(shape)
