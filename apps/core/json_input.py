"""The one reader of JSON that clients send: UTF-8, limited depth, no duplicate keys. Pure."""

import json
import re
from collections.abc import Callable
from typing import Any

from apps.core.errors import InvalidInput

MAX_DEPTH = 32
# A bracket, or a string with the colon after it if it is a key. Without possessive quantifiers:
# before Python 3.11.5 they skip matches (github.com/python/cpython/issues/106052).
_TOKEN = re.compile(rb'[{}\[\]]|"[^"]*"(?:\s*(:))?')


def check_json(body: bytes) -> None:
    """Raise InvalidInput if ``body`` is not UTF-8, is nested too deeply, or has a key twice in an
    object.

    It reads brackets and keys only, in about the time of parsing. Other errors are left to the
    parser.
    """
    _decode(body)
    outer: list[set[bytes] | None] = []  # the keys of the objects around; None: a list
    keys: set[bytes] | None = None
    # Escaped quotes are masked, at equal length: the other quotes are ends of strings.
    masked = body.replace(b"\\\\", b"__").replace(b'\\"', b"__") if b"\\" in body else body
    for match in _TOKEN.finditer(masked):
        token = match[0]
        if token[:1] == b'"':
            if keys is None or match[1] is None:
                continue
            key = _unescape(body[match.start() : match.end() - 1].rstrip())
            if key in keys:
                raise _refused(f"the key {_shown(key)} occurs twice in an object")
            keys.add(key)
        elif token in b"[{":
            outer.append(keys)
            if len(outer) > MAX_DEPTH:
                raise _refused(f"it is nested deeper than {MAX_DEPTH} levels")
            keys = set() if token == b"{" else None
        elif outer:
            keys = outer.pop()


def parse_json(body: bytes, *, parse_float: Callable[[str], Any] = float) -> Any:
    """Return the value in ``body``. Raises InvalidInput.

    ``parse_float`` returns a number with a fraction or exponent. JSON escapes can contain lone
    surrogates, and numbers can exceed a double: see has_unstorable.
    """
    check_json(body)
    try:
        return json.loads(_decode(body), parse_float=parse_float, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        reason = f"{error.msg[:1].lower()}{error.msg[1:]}"
        raise _not_json(f"{reason} at character {error.pos}") from error
    except ValueError as error:  # of integers with thousands of digits
        raise _not_json("a number is out of range") from error


def _decode(body: bytes) -> str:
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _not_json(f"byte {error.start} is not UTF-8") from error


def _unescape(key: bytes) -> bytes:
    """Return a key without its quotes, so that \\u0061 equals a."""
    if b"\\" not in key:
        return key[1:-1]
    try:
        text: str = json.loads(key.decode("utf-8"), strict=False)
    except ValueError:
        return key[1:-1]  # invalid: the parser refuses it
    return text.encode("utf-8", "surrogatepass")


def _shown(key: bytes) -> str:
    return repr(key[:80].decode("utf-8", "replace"))


def _refuse_constant(text: str) -> float:
    raise _not_json(f"{text} is no number")


def _not_json(reason: str) -> InvalidInput:
    return InvalidInput(f"The body is not JSON: {reason}.", code="parse_error", hint=_HINT)


def _refused(reason: str) -> InvalidInput:
    return InvalidInput(f"The body is refused: {reason}.", code="parse_error", hint=_HINT)


_HINT = "The body must be JSON in UTF-8."
