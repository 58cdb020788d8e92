"""Text that databases can store (PostgreSQL rejects NUL, UTF-8 has no lone surrogates), and record
numbers in text. Pure.
"""

import math
import re
from decimal import Decimal
from typing import Any
from uuid import UUID

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


def is_unstorable(text: str) -> bool:
    """Return whether ``text`` contains a NUL or a lone surrogate."""
    return _UNSTORABLE.search(text) is not None


def has_unstorable(value: Any) -> bool:
    """Return whether a JSON value contains a NUL, a lone surrogate, or a number beyond a double."""
    if isinstance(value, str):
        return is_unstorable(value)
    if isinstance(value, float):
        return not math.isfinite(value)
    if isinstance(value, dict):
        return any(has_unstorable(name) or has_unstorable(part) for name, part in value.items())
    return isinstance(value, list) and any(map(has_unstorable, value))


def parse_record_number(text: str) -> int | None:
    """Parse a record number from a form or URL: ASCII digits only. Returns None for anything else.

    Up to 18 digits always fit into 64 bits.
    """
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 19 else None


_DECIMAL = re.compile(r"[0-9]*\.?[0-9]+")
MAX_DECIMAL_CHARS = 400  # every double in plain digits


def parse_decimal(text: str) -> Decimal | None:
    """Parse a number from a form, file or request: ASCII digits with at most one decimal point.
    Returns None for anything else, such as a sign, an exponent, a separator or a space.
    """
    is_plain = len(text) <= MAX_DECIMAL_CHARS and _DECIMAL.fullmatch(text)
    return Decimal(text) if is_plain else None


_UUID_START = re.compile(r"[0-9a-f]{8}[0-9a-f-]{0,28}", re.IGNORECASE)


def uuid_range(text: str) -> tuple[UUID, UUID] | None:
    """Return the first and the last UUID that begin with ``text``, None if it is not the start of
    one. At least eight digits.
    """
    digits = text.replace("-", "")
    if not _UUID_START.fullmatch(text) or len(digits) > 32:
        return None
    return UUID(digits.ljust(32, "0")), UUID(digits.ljust(32, "f"))


def replace_unstorable(value: Any) -> Any:
    """Return a JSON value with each NUL and lone surrogate replaced by U+FFFD, in keys and
    values.
    """
    if isinstance(value, str):
        return _UNSTORABLE.sub("\ufffd", value)
    if isinstance(value, dict):
        return {replace_unstorable(key): replace_unstorable(part) for key, part in value.items()}
    if isinstance(value, list):
        return [replace_unstorable(part) for part in value]
    return value
