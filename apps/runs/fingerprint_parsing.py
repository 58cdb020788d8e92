"""Parsing of fingerprint payloads (docs/fingerprint.md). Each invalid key gets one message.
Pure.
"""

import math
import re
from typing import Annotated, Any

import msgspec

from apps.core.errors import InvalidInput
from apps.core.text import is_unstorable
from apps.core.units import INT64_MAX
from apps.runs.choices import Intent

VERSION, FORMER_VERSION = "lc2", "lc1"
VERSIONS = (FORMER_VERSION, VERSION)
MAX_PARAMS, MAX_SHINGLES, MAX_VALUES_CHARS, MAX_DEPTH = 500, 20_000, 65_536, 8

Hex64 = Annotated[str, msgspec.Meta(pattern=r"^([0-9a-f]{64})?$")]
Hex32 = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{32}$")]
Hex32OrSecret = Annotated[str, msgspec.Meta(pattern=r"^([0-9a-f]{32})?$")]
Hex8 = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{8}$")]
State = Annotated[str, msgspec.Meta(pattern=r"^(verified|weak|unknown)?$")]
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=256)]
Line = Annotated[str, msgspec.Meta(max_length=255)]
ShortLine = Annotated[str, msgspec.Meta(min_length=1, max_length=100)]
Size = Annotated[int, msgspec.Meta(ge=0, le=INT64_MAX)]
Facts = Annotated[
    dict[Annotated[str, msgspec.Meta(max_length=64)], Line], msgspec.Meta(max_length=100)
]

# Description of each pattern for error messages.
_PATTERN_TEXTS = {
    "^([0-9a-f]{64})?$": "64 hex digits in small letters",
    "^[0-9a-f]{32}$": "32 hex digits in small letters",
    "^([0-9a-f]{32})?$": "32 hex digits in small letters, or empty for a secret",
    "^[0-9a-f]{8}$": "8 hex digits in small letters",
    "^(verified|weak|unknown)?$": "verified, weak or unknown",
    "^([0-9a-f]{40}|[0-9a-f]{64})?$": "40 or 64 hex digits in small letters",
}


class CodeIn(msgspec.Struct, forbid_unknown_fields=True):
    """Part C. With ``state`` weak, ``hash`` misses some changes, so it counts as ``weak``."""

    state: State = ""
    hash: Hex64 = ""
    weak: Hex64 = ""
    normal: Hex64 = ""
    shingles: Annotated[list[Hex8], msgspec.Meta(max_length=MAX_SHINGLES)] = []
    commit: Annotated[str, msgspec.Meta(pattern=r"^([0-9a-f]{40}|[0-9a-f]{64})?$")] = ""
    dirty: bool | None = None


class ItemIn(msgspec.Struct, forbid_unknown_fields=True):
    """One item of the data: displayed, not compared."""

    role: Annotated[str, msgspec.Meta(max_length=32)] = ""
    name: Line = ""
    files: Size | None = None
    bytes: Size | None = None
    state: State = ""


class DataIn(msgspec.Struct, forbid_unknown_fields=True):
    """Part D."""

    weak: Hex64 = ""
    verified: Hex64 = ""
    items: Annotated[list[ItemIn], msgspec.Meta(max_length=100)] = []


class StartIn(msgspec.Struct, forbid_unknown_fields=True):
    """Part M."""

    weak: Hex64 = ""
    verified: Hex64 = ""
    name: Line = ""


class FingerprintIn(msgspec.Struct, forbid_unknown_fields=True):
    """A fingerprint payload.

    ``None`` and ``""`` are unknown. An empty ``seeds`` means that no seed was set. ``dropped`` has
    names only in version lc1. ``not_compared``: what may change the result and was not examined.
    """

    version: str
    entry: Hex64 = ""
    entry_name: Line = ""
    code: CodeIn | None = None
    params: Annotated[dict[Name, Hex32], msgspec.Meta(max_length=MAX_PARAMS)] | None = None
    told: Annotated[dict[Name, Any], msgspec.Meta(max_length=MAX_PARAMS)] | None = None
    dropped: (
        Annotated[list[Name], msgspec.Meta(max_length=MAX_PARAMS)]
        | Annotated[dict[Name, Hex32OrSecret], msgspec.Meta(max_length=MAX_PARAMS)]
        | None
    ) = None
    labels: Annotated[dict[Name, Hex32], msgspec.Meta(max_length=MAX_PARAMS)] | None = None
    not_compared: Annotated[list[ShortLine], msgspec.Meta(max_length=20)] | None = None
    data: DataIn | None = None
    start: StartIn | None = None
    seeds: Annotated[dict[Name, Hex32], msgspec.Meta(max_length=100)] | None = None
    environment: Facts | None = None
    hardware: Facts | None = None
    intent: Intent | None = None
    sweep: Annotated[str, msgspec.Meta(max_length=100)] | None = None


def parse_fingerprint(value: Any, *, field: str = "fingerprint") -> FingerprintIn:
    """Return the ``fingerprint`` of a request.

    Raises InvalidInput with the key, the problem and the expected form.
    """
    try:
        payload = msgspec.convert(value, FingerprintIn)
    except msgspec.ValidationError as error:
        raise _translate_error(str(error), field) from error
    if payload.version not in VERSIONS:
        raise InvalidInput(
            f"Version {payload.version!r} of fingerprints is not supported "
            f"(supported: {' and '.join(VERSIONS)}).",
            field=f"{field}.version",
        )
    if payload.version == FORMER_VERSION:
        _check_former(payload, field)
    if problem := unstorable_part(value):
        raise InvalidInput(problem, field=field)
    if payload.told is not None and len(msgspec.json.encode(payload.told)) > MAX_VALUES_CHARS:
        raise InvalidInput(
            f"Values in 'told' have more than {MAX_VALUES_CHARS} characters.", field=f"{field}.told"
        )
    if payload.code is not None:
        _check_code(payload.code, field)
    return payload


def _check_former(payload: FingerprintIn, field: str) -> None:
    """Raise InvalidInput for keys that version lc1 does not have."""
    for key in ("labels", "not_compared"):
        if getattr(payload, key) is not None:
            raise InvalidInput(
                f"Version {FORMER_VERSION} has no {key!r}.",
                field=f"{field}.{key}",
                hint=f"Use version {VERSION}: docs/fingerprint.md.",
            )
    if isinstance(payload.dropped, dict):
        raise InvalidInput(
            f"In version {FORMER_VERSION}, 'dropped' is a list of names.",
            field=f"{field}.dropped",
            hint=f"Use version {VERSION}: docs/fingerprint.md.",
        )


def _check_code(code: CodeIn, field: str) -> None:
    if code.state == "weak" and code.hash:
        code.weak, code.hash = code.weak or code.hash, ""
    missing = {"verified": not code.hash, "weak": not code.weak}.get(code.state, False)
    if missing:
        key = "hash" if code.state == "verified" else "weak"
        raise InvalidInput(
            f"The code's state is {code.state}, but there is no {key!r}.",
            field=f"{field}.code.{key}",
        )
    if code.state == "unknown" and (code.hash or code.weak):
        raise InvalidInput(
            "The code's state is unknown, but there is a hash.", field=f"{field}.code.state"
        )


def _translate_error(text: str, field: str) -> InvalidInput:
    """Return a validation error of msgspec in plain words."""
    reason, _, location = text.partition(" - at `$")
    if unknown := re.fullmatch(r"Object contains unknown field `(.*)`", reason):
        path = f"{field}{location.rstrip('`')}.{unknown[1]}"
        return InvalidInput("Unknown key.", field=path, hint="docs/fingerprint.md lists the keys.")
    path = f"{field}{location.rstrip('`')}"
    if missing := re.fullmatch(r"Object missing required field `(.*)`", reason):
        return InvalidInput("This key is needed.", field=f"{path}.{missing[1]}")
    if pattern := re.search(r"matching regex '(.*)'", reason):
        return InvalidInput(
            f"This must be {_PATTERN_TEXTS.get(pattern[1], pattern[1])}.", field=path
        )
    return InvalidInput(f"{reason}.", field=path)


def unstorable_part(value: Any, depth: int = 0) -> str:
    """Return why a JSON value cannot be stored; '' if it can."""
    if depth > MAX_DEPTH:
        return f"Values are nested more than {MAX_DEPTH} deep."
    if isinstance(value, dict | list):
        parts: list[Any] = [*value, *value.values()] if isinstance(value, dict) else value
        if is_unstorable(
            "".join(part for part in parts if isinstance(part, str))
        ):  # one check for all: there are many lines of code
            return "NUL and half characters cannot be stored."
        rest = (part for part in parts if not isinstance(part, str))
        return next((problem for part in rest if (problem := unstorable_part(part, depth + 1))), "")
    if isinstance(value, str) and is_unstorable(value):
        return "NUL and half characters cannot be stored."
    if isinstance(value, float) and not math.isfinite(value):
        return "A number is beyond what can be stored."
    return ""
