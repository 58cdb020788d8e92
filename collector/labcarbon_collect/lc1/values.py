"""The type of a parameter that somebody wrote as text, and its one canonical form. Pure.

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
_MAX_TEXT, _MAX_DEPTH, _EXACT = 4096, 8, 2**53


def typed(text: str) -> Value:
    """Return what a text says: ``"0.10"`` and ``"1e-1"`` are 0.1, ``"True"`` is True, ``"None"`` is None.

    Lists and mappings in brackets are read as Python or JSON writes them; what cannot be read stays text.
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
        return _bracketed(plain, text)
    return _quoted(plain, text)


def canonical(value: Any) -> bytes:
    """Return the canonical bytes of a value, whatever its type: 1 and 1.0 are one number, text is NFC.

    What JSON cannot hold is told as text: numbers that are not finite, integers beyond 2^53, other objects by ``str``.
    """
    return rfc8785.dumps(_storable(value, 0))


def _bracketed(plain: str, text: str) -> Value:
    try:
        found = ast.literal_eval(re.sub(r"\b(true|false|null)\b", lambda word: str(_WORDS[word[0]]), plain))
    except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
        return _bare_list(plain) if plain[0] in "[(" else text
    return _told(found)


def _bare_list(plain: str) -> Value:
    """A list of words without quotes, as Hydra and OmegaConf write it: ``[relu, 64]``."""
    return [typed(part) for part in plain[1:-1].split(",")] if not re.search(r"[\[\](){}\"']", plain[1:-1]) else plain


def _told(found: Any) -> Value:
    if isinstance(found, (list, tuple, set, frozenset)):
        parts = sorted(found, key=repr) if isinstance(found, (set, frozenset)) else found
        return [_told(part) for part in parts]
    if isinstance(found, dict):
        return {str(name): _told(part) for name, part in found.items()}
    return found if isinstance(found, (str, int, float, bool, type(None))) else str(found)


def _quoted(plain: str, text: str) -> str:
    return plain[1:-1] if len(plain) > 1 and plain[0] == plain[-1] and plain[0] in "'\"" else text


def _storable(value: Any, depth: int) -> Any:
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, int):
        return value if abs(value) < _EXACT else str(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else _not_finite(value)
    if depth >= _MAX_DEPTH:
        return _text(str(value))
    if isinstance(value, Mapping):
        return {_text(str(name)): _storable(part, depth + 1) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_storable(part, depth + 1) for part in value]
    return _text(str(value))


def _text(text: str) -> str:
    """NFC, and never a half character: those cannot be written as UTF-8."""
    return unicodedata.normalize("NFC", text.encode("utf-8", "replace").decode())


def _not_finite(value: float) -> str:
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
