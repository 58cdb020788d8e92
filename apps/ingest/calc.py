"""Parsing, bounds and the clock rule of a pushed batch. Pure."""

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from typing import Annotated, Any
from uuid import UUID

import msgspec

from apps.core.errors import InvalidInput, UpgradeRequired
from apps.core.text import storable, unstorable
from apps.core.units import INT64_MAX, US_PER_S
from apps.ingest.choices import (
    COUNTER_MEASUREMENTS,
    FLAG_BRIDGED,
    FLAG_CLOCK,
    FLAG_MERGED,
    FLAG_RECOVERED,
    Measurement,
    PlacementQuality,
)

SCHEMA_MAJOR = 1
MAX_WINDOWS = 1000
MAX_SHARES = 64_000
MAX_NESTING = 8
SKEW_TRUSTED_US = 300 * US_PER_S
FUTURE_US = 24 * 3600 * US_PER_S
MAX_DURATION_US = 400 * 24 * 3600 * US_PER_S
MEASUREMENTS = {choice.label: int(choice) for choice in Measurement}
PUSHED_MEASUREMENTS = frozenset(MEASUREMENTS) - {"declared", "host_static"}
SHIPPED_FLAGS = FLAG_BRIDGED | FLAG_RECOVERED | FLAG_MERGED

Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=INT64_MAX)]
Text = Annotated[str, msgspec.Meta(max_length=256)]


class WindowColumns(msgspec.Struct):
    """Columns of windows, all of one length."""

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
    """What a batch says about itself. Unknown keys are ignored: a newer minor version may bring some."""

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


@dataclass(slots=True)
class WindowIn:
    """One window as pushed. ``shares`` are (consumer key, mJ)."""

    device: str
    epoch: str
    sequence: int
    start_us: int
    end_us: int
    mono_end_us: int
    counter_start: int | None
    counter_end: int | None
    energy_mj: int
    measurement: str
    flags: int
    util_mean_pm: int | None = None
    util_max_pm: int | None = None
    mem_mean_mib: int | None = None
    mem_max_mib: int | None = None
    processes: int | None = None
    shares: list[tuple[str, int]] = field(default_factory=list)


@dataclass(slots=True)
class BatchIn:
    """A parsed batch: its header, its windows (None where one was refused), and the reason for each refusal."""

    header: Header
    windows: list[WindowIn | None]
    refused: dict[int, str]


_header = msgspec.json.Decoder(Header)
_windows = msgspec.json.Decoder(WindowColumns)
_shares = msgspec.json.Decoder(ShareColumns)
_COLUMNS = WindowColumns.__struct_fields__
_NULLABLE = frozenset(
    ("counter_start", "counter_end", "util_mean_pm", "util_max_pm", "mem_mean_mib", "mem_max_mib", "processes")
)
_TEXTS = frozenset(("epoch", "measurement"))


def _bad(message: str, field_name: str | None = None) -> InvalidInput:
    return InvalidInput(message, field=field_name, hint="See docs/collector.md for the form of a batch.", code="bad_batch")


def parse_batch(body: bytes) -> BatchIn:
    """Return the batch in ``body``.

    Raises InvalidInput when it cannot be read as a batch at all, UpgradeRequired for a newer major schema. A window with
    a value of the wrong type is refused by itself, with the reason; the others stay good.
    """
    try:
        header = _header.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _bad(f"The batch cannot be read: {error}") from error
    except RecursionError as error:
        raise _bad("The batch is nested too deep.") from error
    if not _shallow(header.health, MAX_NESTING) or not _shallow(header.device_facts, MAX_NESTING):
        raise _bad(f"health and device_facts are nested at most {MAX_NESTING} deep.")
    header.health, header.device_facts = storable(header.health), storable(header.device_facts)
    for gap in header.gaps:
        gap.epoch, gap.reason = storable(gap.epoch), storable(gap.reason)
    major = header.schema.split(".", 1)[0]
    if not major.isdecimal():
        raise _bad(f"{header.schema!r} is not a schema version.", "schema")
    if int(major) > SCHEMA_MAJOR:
        raise UpgradeRequired(
            f"This server reads batches of schema {SCHEMA_MAJOR}.x, not {header.schema}.",
            field="schema",
            hint="Upgrade the server; the collector keeps its windows until then.",
        )
    columns, refused = _read_windows(header.windows)
    count = len(columns["device"])
    if count > MAX_WINDOWS:
        raise _bad(f"{count} windows in one batch; at most {MAX_WINDOWS}.", "windows")
    windows = [_window(header, columns, i, refused) if i not in refused else None for i in range(count)]
    _give_shares(header, windows, refused)
    for i, window in enumerate(windows):
        if window is not None:
            reason = problem(window)
            if reason:
                windows[i], refused[i] = None, reason
    return BatchIn(header, windows, refused)


def _read_windows(raw: msgspec.Raw) -> tuple[dict[str, list[Any]], dict[int, str]]:
    """Return the columns, and which windows hold a value of the wrong type (the slow path, only then)."""
    try:
        good = _windows.decode(raw)
        columns = {name: getattr(good, name) for name in _COLUMNS}
        refused: dict[int, str] = {}
    except msgspec.DecodeError:
        columns = _leniently(raw, _COLUMNS, "windows")
        refused = _wrong_types(columns)
    if len({len(columns[name]) for name in _COLUMNS}) != 1:
        raise _bad("The columns of windows have different lengths.", "windows")
    return columns, refused


def _shallow(value: Any, depth: int) -> bool:
    """Return whether ``value`` is nested at most ``depth`` deep."""
    if not isinstance(value, dict | list):
        return True
    inner = value.values() if isinstance(value, dict) else value
    return depth > 0 and all(_shallow(part, depth - 1) for part in inner)


def _leniently(raw: msgspec.Raw, names: Sequence[str], what: str) -> dict[str, list[Any]]:
    """Return columns whose values may be anything: numbers out of range become infinity, which no column takes."""
    try:
        columns = json.loads(bytes(raw), parse_int=lambda text: int(text) if len(text) < 21 else math.inf)
    except (ValueError, RecursionError) as error:
        raise _bad(f"The {what} cannot be read: {type(error).__name__}.", what) from error
    if not isinstance(columns, dict) or any(not isinstance(columns.get(name), list) for name in names):
        raise _bad(f"{what} lacks a column, or one is not a list.", what)
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
                kind = "a text of at most 256 characters" if name in _TEXTS else "an integer of 64 bits"
                refused.setdefault(i, f"{name} is not {kind}")
    return refused


def _window(header: Header, columns: dict[str, list[Any]], i: int, refused: dict[int, str]) -> WindowIn | None:
    index = columns["device"][i]
    if not 0 <= index < len(header.devices):
        refused[i] = "device is out of range"
        return None
    return WindowIn(
        device=header.devices[index],
        epoch=columns["epoch"][i],
        sequence=columns["seq"][i],
        start_us=columns["start"][i],
        end_us=columns["end"][i],
        mono_end_us=columns["mono_end"][i],
        counter_start=columns["counter_start"][i],
        counter_end=columns["counter_end"][i],
        energy_mj=columns["energy_mj"][i],
        measurement=columns["measurement"][i],
        flags=columns["flags"][i],
        util_mean_pm=columns["util_mean_pm"][i],
        util_max_pm=columns["util_max_pm"][i],
        mem_mean_mib=columns["mem_mean_mib"][i],
        mem_max_mib=columns["mem_max_mib"][i],
        processes=columns["processes"][i],
    )


def _read_shares(raw: msgspec.Raw, refused: dict[int, str]) -> list[tuple[int, int, int]]:
    """Return the shares as (window, consumer, mJ); a wrong value refuses the window it belongs to, and only that."""
    try:
        good = _shares.decode(raw)
        columns = {"window": good.window, "consumer": good.consumer, "energy_mj": good.energy_mj}
    except msgspec.DecodeError:
        columns = _leniently(raw, ShareColumns.__struct_fields__, "shares")
        for index, *rest in zip(columns["window"], columns["consumer"], columns["energy_mj"]):
            if type(index) is int and not all(type(value) is int and abs(value) <= INT64_MAX for value in rest):
                refused.setdefault(index, "a share is not an integer of 64 bits")
    if not len(columns["window"]) == len(columns["consumer"]) == len(columns["energy_mj"]) <= MAX_SHARES:
        raise _bad("The columns of shares have different lengths, or too many rows.", "shares")
    return list(zip(columns["window"], columns["consumer"], columns["energy_mj"], strict=True))


def _give_shares(header: Header, windows: list[WindowIn | None], refused: dict[int, str]) -> None:
    for index, consumer, energy_mj in _read_shares(header.shares, refused):
        if type(index) is not int or not 0 <= index < len(windows):
            raise _bad("A share names a window that is not in the batch.", "shares.window")
        window = windows[index]
        if window is None:
            continue
        if index in refused:
            windows[index] = None
        elif not 0 <= consumer < len(header.consumers):
            windows[index], refused[index] = None, "consumer is out of range"
        else:
            window.shares.append((header.consumers[consumer], energy_mj))


def _bad_text(text: str) -> bool:
    return not text or unstorable(text)


def problem(window: WindowIn) -> str:
    """Return why a window cannot be stored, or ''."""
    if window.energy_mj < 0:
        return "energy_mj below zero"
    if window.end_us <= window.start_us:
        return "end is not after start"
    if window.start_us < 0 or window.end_us - window.start_us > MAX_DURATION_US:
        return "times out of range"
    if window.sequence < 0:
        return "seq below zero"
    if window.measurement not in MEASUREMENTS:
        return "unknown measurement"
    if window.flags & ~SHIPPED_FLAGS:
        return "unknown flags"
    if _bad_text(window.epoch) or len(window.epoch) > 200:
        return "epoch is not a usable text"
    for value in (window.util_mean_pm, window.util_max_pm):
        if value is not None and not 0 <= value <= 1000:
            return "utilisation is not 0 to 1000 per mille"
    for value in (window.mem_mean_mib, window.mem_max_mib, window.processes):
        if value is not None and not 0 <= value < 2**31:
            return "memory or process count out of range"
    return _share_problem(window) or _counter_problem(window)


def _share_problem(window: WindowIn) -> str:
    if any(energy_mj < 0 for _, energy_mj in window.shares):
        return "a share is below zero"
    if len({key for key, _ in window.shares}) != len(window.shares):
        return "a consumer stands twice in the shares"
    if any(consumer_kind(key) is None for key, _ in window.shares):
        return "unknown kind of consumer"
    if sum(energy_mj for _, energy_mj in window.shares) != window.energy_mj:
        return "the shares do not sum to energy_mj"
    return ""


def _counter_problem(window: WindowIn) -> str:
    if MEASUREMENTS[window.measurement] not in COUNTER_MEASUREMENTS or window.flags & FLAG_BRIDGED:
        return ""
    if window.counter_start is None or window.counter_end is None:
        return "a counter's window without its readings"
    if window.counter_end - window.counter_start != window.energy_mj:
        return "energy_mj is not the difference of the counter readings"
    return ""


_KINDS = frozenset(("run", "job", "pod", "container", "proc"))


@lru_cache(maxsize=65_536)  # a batch names few consumers and epochs many times
def consumer_kind(key: str) -> str | None:
    """Return the kind of a consumer key that a collector may push, or None."""
    if key in ("idle", "unknown"):
        return key
    kind, _, rest = key.partition(":")
    if kind not in _KINDS or _bad_text(rest) or len(key) > 256:
        return None
    if kind == "run" and run_of(key) is None:
        return None
    return kind


def run_of(key: str) -> UUID | None:
    """Return the run of a consumer key, or None."""
    if not key.startswith("run:"):
        return None
    try:
        return UUID(key[4:])
    except ValueError:
        return None


def content_digest(window: WindowIn) -> int:
    """Return 64 bits over all that makes a window what it is: equal content, equal number."""
    content = (
        window.start_us, window.end_us, window.energy_mj, window.counter_start, window.counter_end, window.measurement,
        window.flags, sorted(window.shares),
    )  # fmt: skip
    return int.from_bytes(blake2b(repr(content).encode(), digest_size=8).digest(), "big", signed=True)


@dataclass(frozen=True)
class ClockFacts:
    """What is known about a collector's clocks when a batch arrives."""

    received_us: int
    sent_us: int
    sent_monotonic_us: int
    boot: str


def skew_us(received_us: int, sent_us: int) -> int:
    """Return by how much a collector's clock is behind ours, within what the database holds."""
    return max(-INT64_MAX, min(received_us - sent_us, INT64_MAX))


@dataclass(frozen=True)
class Placed:
    """How far a window is moved in time and how sure that is; ``reason`` set: it cannot be placed."""

    shift_us: int = 0
    quality: int = PlacementQuality.EXACT
    flags: int = 0
    reason: str = ""


def place(window: WindowIn, clock: ClockFacts, known_shift_us: Callable[[], int | None]) -> Placed:
    """Apply the clock rule to one window.

    A window of the running boot ended (monotonic now − its monotonic end) ago: if its wall time agrees within five
    minutes it stands; else it is moved there, IMPUTED, by the same shift as its epoch's earlier windows
    (``known_shift_us``, asked only then), so that neighbours stay neighbours. A window of an earlier boot stands if the
    clock is right now; else nobody knows where it belongs.
    """
    if window.epoch.startswith(clock.boot) and clock.sent_monotonic_us - window.mono_end_us >= 0:
        expected_end = clock.received_us - (clock.sent_monotonic_us - window.mono_end_us)
        shift = expected_end - window.end_us
        if abs(shift) >= SKEW_TRUSTED_US:
            known = known_shift_us()
            if known is not None and abs(shift - known) < SKEW_TRUSTED_US:
                shift = known
            if window.start_us + shift < 0:
                return Placed(reason="clock")
            return Placed(shift, PlacementQuality.IMPUTED, FLAG_CLOCK)
    elif abs(clock.received_us - clock.sent_us) >= SKEW_TRUSTED_US:
        return Placed(reason="clock")
    if window.end_us > clock.received_us + FUTURE_US:
        return Placed(reason="future")
    return Placed()


# 1.5 × the largest board of each kind on the market in 2026, rounded up, where the catalogue does not know the device.
DEFAULT_LIMIT_MW: dict[str, int | None] = {"gpu": 3_000_000, "mig": 3_000_000, "cpu": 1_500_000, "dram": 1_000_000}


def power_limit_mw(kind: str, tdp_mw: int | None) -> int | None:
    """Return the power above which a window cannot be true, or None where nothing is known."""
    return tdp_mw * 3 // 2 if tdp_mw else DEFAULT_LIMIT_MW.get(kind)


def impossible(energy_mj: int, duration_us: int, limit_mw: int | None) -> bool:
    """Return whether a window holds more energy than ``limit_mw`` gives over it (and one second of slack)."""
    return limit_mw is not None and energy_mj * US_PER_S > limit_mw * (duration_us + US_PER_S)


def overlaps(taken: Sequence[tuple[int, int]], at: int, start_us: int, end_us: int) -> bool:
    """Return whether ``[start_us, end_us)`` overlaps a neighbour of position ``at`` in the sorted, disjoint ``taken``."""
    return (at > 0 and taken[at - 1][1] > start_us) or (at < len(taken) and taken[at][0] < end_us)
