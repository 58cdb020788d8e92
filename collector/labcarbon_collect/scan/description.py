"""Description of an artifact besides its digest, and texts for terminal and server. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Dict, Iterable, Mapping, Optional, Tuple, Union

from labcarbon_collect.redaction import is_secret_value

CHECKPOINT, MODEL, DATASET, LOG, OTHER = "checkpoint", "model", "dataset", "log", "other"
# Limits of the server: docs/artifacts.md.
_MAX_FACT_CHARS, _MAX_NAME_CHARS, _MAX_FACTS = 300, 100, 64
_CHECKPOINT_NAME = re.compile(
    r"(?:^|[^a-z])(?:epochs?|steps?|iter|iteration|ckpt|checkpoint|global_?step|optim|optimizer|"
    r"scheduler|trainer_state|"
    r"model_states|last)(?:[^a-z]|$)|\.ckpt(?:\.|$)"
)
_STEP_NUMBER = re.compile(r"(?:^|[^a-z])(epoch|step)[=_-]?(\d{1,15})(?!\d)")
_LOG_NAME = re.compile(r"\.(?:log|out|err)$")
_UNSTORABLE = re.compile("[\x00-\x1f\x7f\ud800-\udfff]")


class InvalidFormat(Exception):
    """A file has the signature of a format but violates it. The text says how."""


@dataclass(frozen=True)
class Description:
    """Kind, format and facts of an artifact.

    ``payload_offset``: byte offset of the weights behind a header. None if the format has no such
    header.
    """

    kind: str
    format: str
    facts: Mapping[str, Any] = field(default_factory=dict)
    licence: str = ""
    payload_offset: Optional[int] = None

    def wire(self, payload: Optional[str]) -> Dict[str, Any]:
        """Return the fields for the server, without empty ones. ``payload``: SHA-256 of the
        payload, 64 hex digits.
        """
        fields = {
            "kind": self.kind,
            "format": self.format,
            "licence": self.licence,
            "facts": dict(self.facts),
        }
        return {name: value for name, value in {**fields, "payload": payload}.items() if value}


def kind_and_step(name: str) -> Tuple[str, Dict[str, Any]]:
    """Return kind (checkpoint or model), epoch and step from a name like
    ``epoch=3-step=1000.ckpt``.
    """
    lowered = name.lower()
    facts = {counter: int(number) for counter, number in _STEP_NUMBER.findall(lowered)}
    return (CHECKPOINT if _CHECKPOINT_NAME.search(lowered) else MODEL), facts


def describe_unrecognised(name: str) -> Description:
    """Describe a file of unknown format (``--include-unknown``)."""
    return Description(LOG if _LOG_NAME.search(name.lower()) else OTHER, "")


def clean_facts(facts: Iterable[Tuple[str, Any]]) -> Dict[str, Any]:
    """Return the facts that the server accepts: numbers and short single lines. Drops empty values
    and values that look like a secret.
    """
    cleaned: Dict[str, Any] = {}
    for name, value in facts:
        if isinstance(value, str):
            value = one_line(value, _MAX_FACT_CHARS)
            if not value or is_secret_value(value):
                continue
        elif not isinstance(value, (int, float)) or value != value or abs(value) >= 1 << 63:
            continue
        if len(cleaned) < _MAX_FACTS:
            cleaned[one_line(name, _MAX_NAME_CHARS)] = value
    return cleaned


def one_line(text: str, max_chars: int) -> str:
    """Return ``text`` without control characters and lone surrogates, truncated to
    ``max_chars``.
    """
    line = _UNSTORABLE.sub(" ", text).strip()
    return line if len(line) <= max_chars else line[: max_chars - 1] + "…"


_MAX_PRINTED_CHARS = 300
_MAX_PATH_CHARS = 4096  # limit of the server


def path_problem(path: bytes) -> str:
    """Return why a path cannot be registered, or ""."""
    try:
        text = path.decode("utf-8")
    except UnicodeDecodeError:
        return "its path is not UTF-8: rename it"
    return (
        f"its path is longer than {_MAX_PATH_CHARS} characters"
        if len(text) > _MAX_PATH_CHARS
        else ""
    )


def printable(path: Union[bytes, str]) -> str:
    """Return a path for the terminal: one line without control characters."""
    text = path.decode("utf-8", "backslashreplace") if isinstance(path, bytes) else path
    if text.isprintable() and len(text) <= _MAX_PRINTED_CHARS:
        return text
    return one_line(
        "".join(letter if letter.isprintable() else f"\\x{ord(letter):02x}" for letter in text),
        _MAX_PRINTED_CHARS,
    )
