"""Parsing and validation of artifacts in API payloads. Pure."""

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

import msgspec

from apps.artifacts.choices import HEX_DIGITS, Algorithm, CopyState, Form, Kind, LineageRole, Medium
from apps.core.errors import InvalidInput
from apps.core.text import is_unstorable, replace_unstorable
from apps.core.units import INT64_MAX

MAX_ROWS = 1000
MAX_PATH = 4096
_MAX_FACTS = 64

Digest = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{64}\Z")]
Size = Annotated[int, msgspec.Meta(ge=0, le=INT64_MAX)]
Short = Annotated[str, msgspec.Meta(max_length=100)]
Path = Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_PATH)]
Moment = Annotated[datetime, msgspec.Meta(tz=True)]
Fact = Annotated[str, msgspec.Meta(max_length=300)] | int | float | bool | None


class CopyRow(msgspec.Struct, forbid_unknown_fields=True):
    """A path where the content was read."""

    path: Path
    medium: Medium = Medium.UNKNOWN
    modified_at: Moment | None = None


class EdgeRow(msgspec.Struct, forbid_unknown_fields=True):
    """A run related to the artifact."""

    run: UUID
    role: LineageRole


class ArtifactRow(msgspec.Struct, forbid_unknown_fields=True):
    """One artifact. ``user``: the owner's user name on the machine. ``own``: the owner is the
    person who registers it.
    """

    digest: Digest
    name: Annotated[str, msgspec.Meta(min_length=1, max_length=255)]
    bytes: Size
    form: Form = Form.FILE
    files: Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)] = 1
    kind: Kind = Kind.OTHER
    format: Annotated[str, msgspec.Meta(max_length=32, pattern=r"^[a-z0-9_.-]*\Z")] = ""
    payload: Digest | None = None
    licence: Short = ""
    user: Short = ""
    own: bool = False
    project: Annotated[str, msgspec.Meta(max_length=60)] = ""
    aliases: dict[Algorithm, str] = {}
    tags: Annotated[
        dict[Short, Annotated[str, msgspec.Meta(max_length=300)]],
        msgspec.Meta(max_length=_MAX_FACTS),
    ] = {}
    facts: Annotated[dict[Short, Fact], msgspec.Meta(max_length=_MAX_FACTS)] = {}
    copies: Annotated[list[CopyRow], msgspec.Meta(max_length=100)] = []
    runs: Annotated[list[EdgeRow], msgspec.Meta(max_length=100)] = []


class Body(msgspec.Struct, forbid_unknown_fields=True):
    """The payload of POST artifacts/."""

    artifacts: Annotated[list[msgspec.Raw], msgspec.Meta(max_length=MAX_ROWS)]
    node: UUID | None = None


class CopyStateRow(msgspec.Struct, forbid_unknown_fields=True):
    """The state of a copy after a scan."""

    path: Path
    state: CopyState


class CopyStateBody(msgspec.Struct, forbid_unknown_fields=True):
    """The payload of POST artifacts/copies/."""

    copies: Annotated[list[CopyStateRow], msgspec.Meta(max_length=10 * MAX_ROWS)]
    node: UUID | None = None


class SharedRow(msgspec.Struct, forbid_unknown_fields=True):
    """Bytes that ``copies`` copies share, under a key of these copies. ``copies`` null: the files
    have other names.
    """

    key: Digest
    bytes: Size
    copies: Annotated[int, msgspec.Meta(ge=2, le=2**31 - 1)] | None = None


class CopySpaceRow(msgspec.Struct, forbid_unknown_fields=True):
    """The space of a copy. ``own_bytes`` null: it shares no files."""

    path: Path
    own_bytes: Size | None = None
    shared: Annotated[list[SharedRow], msgspec.Meta(max_length=10 * MAX_ROWS)] = []


class CopySpaceBody(msgspec.Struct, forbid_unknown_fields=True):
    """The payload of POST artifacts/copies/space/."""

    copies: Annotated[list[CopySpaceRow], msgspec.Meta(max_length=MAX_ROWS)]
    node: UUID | None = None


_BODY, _COPY_STATES, _COPY_SPACES, _ROW = (
    msgspec.json.Decoder(Body),
    msgspec.json.Decoder(CopyStateBody),
    msgspec.json.Decoder(CopySpaceBody),
    msgspec.json.Decoder(ArtifactRow),
)
_SHAPE = (
    '{"artifacts": [{"digest": "<64 hex>", "name": "best.safetensors", "bytes": 4, "kind": '
    '"model"}]}'
)
_COPY_STATES_SHAPE = (
    '{"node": "<uuid>", "copies": [{"path": "/data/best.safetensors", "state": "missing"}]}'
)
_COPY_SPACES_SHAPE = (
    '{"node": "<uuid>", "copies": [{"path": "/data/m", "own_bytes": 4, "shared": '
    '[{"key": "<64 hex>", "bytes": 8, "copies": 2}]}]}'
)


def parse_artifacts(body: bytes) -> tuple[UUID | None, list[ArtifactRow | str]]:
    """Return the node of the copies and the rows. An invalid row is returned as its error message.

    Raises InvalidInput if the payload as a whole is invalid.
    """
    payload: Body = _decode(_BODY, body, "artifacts", _SHAPE)
    return payload.node, [_decode_row(raw) for raw in payload.artifacts]


def parse_copy_states(body: bytes) -> CopyStateBody:
    """Return the reported states of known copies. Raises InvalidInput."""
    payload: CopyStateBody = _decode(_COPY_STATES, body, "copies", _COPY_STATES_SHAPE)
    allowed = (CopyState.MISSING, CopyState.CORRUPT, CopyState.PRESENT)
    for number, row in enumerate(payload.copies):
        if row.state not in allowed:
            hint = f"Use one of {', '.join(allowed)}."
            raise InvalidInput(
                f"A scan cannot report {row.state.value!r}.",
                field=f"copies[{number}].state",
                hint=hint,
            )
        if is_unstorable(row.path):
            raise InvalidInput("Invalid character in path.", field=f"copies[{number}].path")
    return payload


def parse_copy_spaces(body: bytes) -> CopySpaceBody:
    """Return the reported space of known copies. Raises InvalidInput."""
    payload: CopySpaceBody = _decode(_COPY_SPACES, body, "copies", _COPY_SPACES_SHAPE)
    for number, row in enumerate(payload.copies):
        if is_unstorable(row.path):
            raise InvalidInput("Invalid character in path.", field=f"copies[{number}].path")
        if row.own_bytes is None and row.shared:
            raise InvalidInput(
                "A copy with shared files needs its own bytes.",
                field=f"copies[{number}].own_bytes",
                hint="Send 0 if it has none.",
            )
        if len({group.key for group in row.shared}) != len(row.shared):
            raise InvalidInput("A key occurs twice.", field=f"copies[{number}].shared")
    return payload


def _decode(decoder: msgspec.json.Decoder[Any], body: bytes, field: str, shape: str) -> Any:
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as error:
        text, _, where = str(error).partition(" - at `$.")
        raise InvalidInput(f"{text}.", field=where.strip("`") or field, hint=shape) from error
    except (msgspec.DecodeError, RecursionError) as error:
        raise InvalidInput("The body must be JSON.", code="parse_error", hint=shape) from error


def _decode_row(raw: msgspec.Raw) -> ArtifactRow | str:
    try:
        row = _ROW.decode(raw)
    except msgspec.ValidationError as error:
        return str(error).replace("`$.", "`")
    except (msgspec.DecodeError, RecursionError):
        return "The row must be a JSON object."
    values = msgspec.to_builtins(row)
    if values != replace_unstorable(values):
        return "The row contains an invalid character."
    for algorithm, value in row.aliases.items():
        if len(value) != HEX_DIGITS[algorithm] or set(value) - set("0123456789abcdef"):
            return f"{algorithm.value} must have {HEX_DIGITS[algorithm]} lower-case hex digits."
    if row.form == Form.FILE and row.files != 1:
        return "'files' must be 1 for a file."
    return row
