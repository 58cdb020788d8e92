"""Text that a database can hold (PostgreSQL refuses NUL, UTF-8 refuses lone surrogates), and numbers of records in text.
Pure."""

import re
from typing import Any

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


def is_unstorable(text: str) -> bool:
    """Return whether ``text`` holds a NUL or a lone surrogate."""
    return _UNSTORABLE.search(text) is not None


def parse_record_number(text: str) -> int | None:
    """Return the number of a record that a form or an address names in ASCII digits; None where it names none.

    Up to 18 digits always fit into a database's 64 bits.
    """
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 19 else None


def replace_unstorable(value: Any) -> Any:
    """Return a JSON value with every NUL and lone surrogate replaced by U+FFFD, in keys and values."""
    if isinstance(value, str):
        return _UNSTORABLE.sub("\ufffd", value)
    if isinstance(value, dict):
        return {replace_unstorable(key): replace_unstorable(part) for key, part in value.items()}
    if isinstance(value, list):
        return [replace_unstorable(part) for part in value]
    return value
