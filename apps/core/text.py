"""Text that a database can hold: PostgreSQL refuses NUL, UTF-8 refuses lone surrogates. Pure."""

import re
from typing import Any

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


def unstorable(text: str) -> bool:
    """Return whether ``text`` holds a NUL or a lone surrogate."""
    return _UNSTORABLE.search(text) is not None


def storable(value: Any) -> Any:
    """Return a JSON value with every NUL and lone surrogate replaced by U+FFFD, in keys and values."""
    if isinstance(value, str):
        return _UNSTORABLE.sub("\ufffd", value)
    if isinstance(value, dict):
        return {storable(key): storable(part) for key, part in value.items()}
    if isinstance(value, list):
        return [storable(part) for part in value]
    return value
