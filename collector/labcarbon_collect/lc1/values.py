"""Types and canonical form of parameter values. Pure.

Canonical form: RFC 8785 (JSON Canonicalization Scheme) in UTF-8, text in Unicode's form NFC.
"""

from __future__ import annotations

import ast
import math
import re
import unicodedata
from typing import Any, Dict, List, Mapping, Union

import rfc8785

Value = Union[str, int, float, bool, None, List[Any], Dict[str, Any]]

_WORDS: Mapping[str, Value] = {"true": True, "false": False, "null": None, "none": None}
_INT = re.compile(r"[+-]?(0|[1-9]\d{0,14})")
_FLOAT = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?")
_MAX_TEXT, _MAX_DEPTH, _MAX_EXACT_INT = 4096, 8, 2**53


def parse_value(text: str) -> Value:
    """Return the value of a text: ``"0.10"`` and ``"1e-1"`` are 0.1, ``"True"`` is True, ``"None"``
    is None.

    Lists and mappings in brackets are parsed as Python or JSON. Anything else stays text.
    """
    plain = text.strip()
    if len(plain) > _MAX_TEXT:
        return text
    if plain.lower() in _WORDS:
        return _WORDS[plain.lower()]
    if _INT.fullmatch(plain):
        return int(plain)
    if _FLOAT.fullmatch(plain) and len(plain) < 32 and not re.fullmatch(r"[+-]?0\d+", plain):
        return float(plain)
    if plain[:1] in ("[", "(", "{") and plain[-1:] in ("]", ")", "}"):
        return _parse_brackets(plain, text)
    return _unquote(plain, text)


def is_number(text: str) -> bool:
    """Return whether a text is a number."""
    value = parse_value(text)
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def is_canonical(text: str) -> bool:
    """Return whether no other text has the same value: ``1.1``, but not ``1.10``."""
    return str(parse_value(text)) == text


def canonical(value: Any) -> bytes:
    """Return the canonical bytes of a value of any type: 1 and 1.0 are equal, text is NFC.

    Values outside JSON are text: non-finite numbers, integers beyond 2^53, and other objects by
    ``str``.
    """
    return rfc8785.dumps(_to_json(value, 0))


def _parse_brackets(plain: str, text: str) -> Value:
    try:
        parsed = ast.literal_eval(
            re.sub(r"\b(true|false|null)\b", lambda word: str(_WORDS[word[0]]), plain)
        )
    except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
        return _parse_bare_list(plain) if plain[0] in "[(" else text
    return _plain_container(parsed)


def _parse_bare_list(plain: str) -> Value:
    """Parse a list of unquoted words, as Hydra and OmegaConf write it: ``[relu, 64]``."""
    return (
        [parse_value(part) for part in plain[1:-1].split(",")]
        if not re.search(r"[\[\](){}\"']", plain[1:-1])
        else plain
    )


def _plain_container(parsed: Any) -> Value:
    if isinstance(parsed, (list, tuple, set, frozenset)):
        parts = sorted(parsed, key=repr) if isinstance(parsed, (set, frozenset)) else parsed
        return [_plain_container(part) for part in parts]
    if isinstance(parsed, dict):
        return {str(name): _plain_container(part) for name, part in parsed.items()}
    return parsed if isinstance(parsed, (str, int, float, bool, type(None))) else str(parsed)


def _unquote(plain: str, text: str) -> str:
    return plain[1:-1] if len(plain) > 1 and plain[0] == plain[-1] and plain[0] in "'\"" else text


def _to_json(value: Any, depth: int) -> Any:
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, str):
        return _normalise_text(value)
    if isinstance(value, int):
        return value if abs(value) < _MAX_EXACT_INT else str(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else _non_finite_text(value)
    if depth >= _MAX_DEPTH:
        return _normalise_text(str(value))
    if isinstance(value, Mapping):
        return {
            _normalise_text(str(name)): _to_json(part, depth + 1) for name, part in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [_to_json(part, depth + 1) for part in value]
    return _normalise_text(str(value))


def _normalise_text(text: str) -> str:
    """Return text in NFC, without lone surrogates, which UTF-8 cannot encode."""
    return unicodedata.normalize("NFC", text.encode("utf-8", "replace").decode())


def _non_finite_text(value: float) -> str:
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
