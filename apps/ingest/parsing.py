"""Parse a batch: columns of JSON to windows. Each window with an error is refused separately.
Pure.
"""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any
from uuid import UUID

import msgspec

from apps.core.errors import InvalidInput, UpgradeRequired
from apps.core.text import replace_unstorable
from apps.core.units import INT64_MAX
from apps.ingest.window_rules import WindowIn, problem

SCHEMA_MAJOR = 1
MAX_WINDOWS = 1000
MAX_SHARES = 64_000
MAX_NESTING = 8

Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=INT64_MAX)]
Text = Annotated[str, msgspec.Meta(max_length=256)]


class WindowColumns(msgspec.Struct):
    """Columns of windows, all of the same length."""

    device: list[Int64]
    epoch: list[Text]
    seq: list[Int64]
    start: list[Int64]
    end: list[Int64]
    mono_start: list[Int64]
    mono_end: list[Int64]
    counter_start: list[Int64 | None]
    counter_end: list[Int64 | None]
    energy_mj: list[Int64]
    measurement: list[Text]
    flags: list[Int64]
    util_mean_pm: list[Int64 | None]
    util_max_pm: list[Int64 | None]
    mem_mean_mib: list[Int64 | None]
    mem_max_mib: list[Int64 | None]
    processes: list[Int64 | None]


class ShareColumns(msgspec.Struct):
    """Columns of shares: index of window, index of consumer, energy."""

    window: list[Int64]
    consumer: list[Int64]
    energy_mj: list[Int64]


class GapIn(msgspec.Struct):
    device: Int64
    epoch: Text
    start: Int64 = msgspec.field(name="from")
    end: Int64 = msgspec.field(name="to")
    reason: Text = ""


class Header(msgspec.Struct):
    """Header of a batch. Unknown keys are ignored, because newer minor versions can add some."""

    schema: Text
    batch: UUID
    sent_at: Int64
    node: UUID
    boot: Text
    monotonic: Int64
    devices: Annotated[list[Text], msgspec.Meta(max_length=1024)]
    consumers: Annotated[list[Text], msgspec.Meta(max_length=20_000)]
    windows: msgspec.Raw
    shares: msgspec.Raw
    gaps: list[GapIn] = []
    health: dict[str, Any] = {}
    device_facts: dict[str, dict[str, Any]] = {}
    acknowledged: Int64 | None = None
    boot_clocks: Annotated[dict[Text, tuple[Int64, Int64]], msgspec.Meta(max_length=64)] = {}


@dataclass(slots=True)
class BatchIn:
    """A parsed batch: header, windows (None for a refused one), and the reasons of refusals by
    index.
    """

    header: Header
    windows: list[WindowIn | None]
    refused: dict[int, str]


_header = msgspec.json.Decoder(Header)
_windows = msgspec.json.Decoder(WindowColumns)
_shares = msgspec.json.Decoder(ShareColumns)
_COLUMNS = WindowColumns.__struct_fields__
_NULLABLE = frozenset(
    (
        "counter_start",
        "counter_end",
        "util_mean_pm",
        "util_max_pm",
        "mem_mean_mib",
        "mem_max_mib",
        "processes",
    )
)
_TEXTS = frozenset(("epoch", "measurement"))


def _bad(message: str, field_name: str | None = None) -> InvalidInput:
    return InvalidInput(
        message,
        field=field_name,
        hint="See docs/collector.md for the batch format.",
        code="bad_batch",
    )


def parse_batch(body: bytes) -> BatchIn:
    """Return the batch in ``body``.

    Raises InvalidInput for an unreadable batch, UpgradeRequired for a newer major schema. A window
    with a value of the wrong type is refused with a reason. The others are accepted.
    """
    try:
        header = _header.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _bad(f"The batch cannot be read: {error}") from error
    except RecursionError as error:
        raise _bad("The batch is nested too deeply.") from error
    if not _shallow(header.health, MAX_NESTING) or not _shallow(header.device_facts, MAX_NESTING):
        raise _bad(f"health and device_facts can have at most {MAX_NESTING} levels.")
    header.health, header.device_facts = (
        replace_unstorable(header.health),
        replace_unstorable(header.device_facts),
    )
    for gap in header.gaps:
        gap.epoch, gap.reason = replace_unstorable(gap.epoch), replace_unstorable(gap.reason)
    major = header.schema.split(".", 1)[0]
    if not major.isdecimal():
        raise _bad(f"Invalid schema version {header.schema!r}.", "schema")
    if int(major) > SCHEMA_MAJOR:
        raise UpgradeRequired(
            f"This server accepts batches of schema {SCHEMA_MAJOR}.x, not {header.schema}.",
            field="schema",
            hint="Upgrade the server. The collector keeps its windows until then.",
        )
    columns, refused = _read_windows(header.windows)
    count = len(columns["device"])
    if count > MAX_WINDOWS:
        raise _bad(f"The batch has {count} windows. The maximum is {MAX_WINDOWS}.", "windows")
    windows = _create_windows(header.devices, columns, refused)
    _give_shares(header, windows, refused)
    for i, window in enumerate(windows):
        if window is not None:
            reason = problem(window)
            if reason:
                windows[i], refused[i] = None, reason
    return BatchIn(header, windows, refused)


def _read_windows(raw: msgspec.Raw) -> tuple[dict[str, list[Any]], dict[int, str]]:
    """Return the columns, and the reasons of windows with a value of the wrong type (slow path)."""
    try:
        good = _windows.decode(raw)
        columns = {name: getattr(good, name) for name in _COLUMNS}
        refused: dict[int, str] = {}
    except msgspec.DecodeError:
        parsed = _leniently(raw, _COLUMNS, "windows")
        columns = {name: parsed[name] for name in _COLUMNS}
        refused = _wrong_types(columns)
    if len({len(columns[name]) for name in _COLUMNS}) != 1:
        raise _bad("The columns of windows have different lengths.", "windows")
    return columns, refused


def _create_windows(
    devices: list[str], columns: dict[str, list[Any]], refused: dict[int, str]
) -> list[WindowIn | None]:
    """Return the windows without shares. The columns are in the order of the fields of WindowIn."""
    windows: list[WindowIn | None] = []
    for i, (device, *values) in enumerate(zip(*columns.values(), strict=True)):
        if i in refused:
            windows.append(None)
        elif 0 <= device < len(devices):
            windows.append(WindowIn(devices[device], *values))
        else:
            refused[i] = "device is out of range"
            windows.append(None)
    return windows


def _shallow(value: Any, depth: int) -> bool:
    """Return whether ``value`` is nested at most ``depth`` deep."""
    if not isinstance(value, dict | list):
        return True
    inner = value.values() if isinstance(value, dict) else value
    return depth > 0 and all(_shallow(part, depth - 1) for part in inner)


def _leniently(raw: msgspec.Raw, names: Sequence[str], what: str) -> dict[str, list[Any]]:
    """Return columns with unchecked values. Numbers out of range become infinity, which no
    column accepts.
    """
    try:
        columns = json.loads(
            bytes(raw), parse_int=lambda text: int(text) if len(text) < 21 else math.inf
        )
    except (ValueError, RecursionError) as error:
        raise _bad(f"The {what} cannot be read: {type(error).__name__}.", what) from error
    if not isinstance(columns, dict) or any(
        not isinstance(columns.get(name), list) for name in names
    ):
        raise _bad(f"A column of {what} is missing, or is not a list.", what)
    return columns


def _wrong_types(columns: dict[str, list[Any]]) -> dict[int, str]:
    refused: dict[int, str] = {}
    for name in _COLUMNS:
        for i, value in enumerate(columns[name]):
            if value is None and name in _NULLABLE:
                continue
            if name in _TEXTS:
                good = isinstance(value, str) and len(value) <= 256
            else:
                good = type(value) is int and -(2**63) <= value <= INT64_MAX
            if not good:
                kind = (
                    "a text of at most 256 characters"
                    if name in _TEXTS
                    else "an integer of 64 bits"
                )
                refused.setdefault(i, f"{name} is not {kind}")
    return refused


def _read_shares(raw: msgspec.Raw, refused: dict[int, str]) -> list[tuple[int, int, int]]:
    """Return the shares as (window, consumer, mJ). A wrong value refuses only its own window."""
    try:
        good = _shares.decode(raw)
        columns = {"window": good.window, "consumer": good.consumer, "energy_mj": good.energy_mj}
    except msgspec.DecodeError:
        columns = _leniently(raw, ShareColumns.__struct_fields__, "shares")
        for index, *rest in zip(columns["window"], columns["consumer"], columns["energy_mj"]):
            if type(index) is int and not all(
                type(value) is int and abs(value) <= INT64_MAX for value in rest
            ):
                refused.setdefault(index, "a share is not an integer of 64 bits")
    if (
        not len(columns["window"])
        == len(columns["consumer"])
        == len(columns["energy_mj"])
        <= MAX_SHARES
    ):
        raise _bad("The columns of shares have different lengths, or too many rows.", "shares")
    return list(zip(columns["window"], columns["consumer"], columns["energy_mj"], strict=True))


def _give_shares(header: Header, windows: list[WindowIn | None], refused: dict[int, str]) -> None:
    for index, consumer, energy_mj in _read_shares(header.shares, refused):
        if type(index) is not int or not 0 <= index < len(windows):
            raise _bad("A share refers to a window that is not in the batch.", "shares.window")
        window = windows[index]
        if window is None:
            continue
        if index in refused:
            windows[index] = None
        elif not 0 <= consumer < len(header.consumers):
            windows[index], refused[index] = None, "consumer is out of range"
        else:
            window.shares.append((header.consumers[consumer], energy_mj))
