"""The daemon's answer to ``top`` as lines of text that fit a terminal. Pure."""

from __future__ import annotations

import time
import unicodedata
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional

from labcarbon_collect.totals import three_digits

MJ_PER_WH = 3_600_000
UNKNOWN_VALUE = "–"
BOLD, FAINT, OURS = "1", "2", "32"
Paint = Callable[[str, str], str]


def plain(text: str, style: str) -> str:
    """No colours."""
    return text


def coloured(text: str, style: str) -> str:
    """ANSI colours."""
    return f"\x1b[{style}m{text}\x1b[0m"


def lines(answer: Mapping[str, Any], *, width: int, now_us: int, paint: Paint = plain) -> Iterator[str]:
    """Header, and per device what it does and who does it; no line is wider than ``width`` columns."""
    devices = answer["devices"]
    count = f"{len(devices)} device" + ("" if len(devices) == 1 else "s")
    yield paint(fitted(f"labcarbon top  {_clock(now_us)} UTC  {count}, windows of {answer['interval_s']} s", width), BOLD)
    if answer.get("full"):
        yield fitted(str(answer["full"]), width)
    if not devices:
        yield fitted("Nothing is measured here; see why: labcarbon-collect doctor", width)
    for device in devices:
        yield ""
        yield paint(fitted(f"{device['name']}  {device['device']}", width), BOLD)
        yield fitted(_state(device), width)
        for row in device["who"]:
            mark = "*" if row["yours"] else " "
            text = f"{mark} {_watts(row['power_mw']):>8}  {_energy(row['energy_mj']):>10}  {row['who']}"
            yield paint(fitted(text, width), OURS if row["yours"] else FAINT)
    if any(row["yours"] for device in devices for row in device["who"]):
        yield ""
        yield fitted("* yours; of others only the kind is told, but to root", width)


def _state(device: Mapping[str, Any]) -> str:
    since = f" since {_clock(device['since_us'])}" if device["since_us"] is not None else ""
    use, memory = device["util_pm"], device["memory_mib"]
    parts = [
        f"{_watts(device['power_mw'])} now", f"{_energy(device['energy_mj'])}{since}",
        f"use {UNKNOWN_VALUE if use is None else f'{use / 10:.0f} %'}",
        f"memory {UNKNOWN_VALUE if memory is None else f'{memory} MiB'}", str(device["measurement"]),
    ]  # fmt: skip
    return "  ".join(parts)


def _watts(power_mw: Optional[int]) -> str:
    if power_mw is None:
        return f"{UNKNOWN_VALUE} W"
    return f"{power_mw / 1000:.0f} W" if power_mw >= 10_000 else f"{power_mw / 1000:.1f} W"


def _energy(energy_mj: Optional[int]) -> str:
    return f"{UNKNOWN_VALUE} Wh" if energy_mj is None else f"{three_digits(energy_mj / MJ_PER_WH)} Wh"


def _clock(moment_us: int) -> str:
    return time.strftime("%H:%M:%S", time.gmtime(moment_us // 1_000_000))


def fitted(text: str, width: int) -> str:
    """One printable line of at most ``width`` columns; names come from others and may hold anything."""
    clean = "".join(letter if letter.isprintable() else "?" for letter in text)
    if columns(clean) <= width:
        return clean
    while clean and columns(clean) > width - 1:
        clean = clean[:-1]
    return clean + "…" if width > 0 else ""


def columns(text: str) -> int:
    """Columns that a terminal gives to a text."""
    return sum(_columns_of(letter) for letter in text)


def _columns_of(letter: str) -> int:
    if unicodedata.combining(letter):
        return 0
    return 2 if unicodedata.east_asian_width(letter) in ("W", "F") else 1


def page(text: List[str], height: int) -> List[str]:
    """As many lines as the terminal has, the last of them saying what is left out."""
    if len(text) <= height:
        return text
    return [*text[: max(0, height - 1)], f"… {len(text) - height + 1} more lines: labcarbon-collect top --once"][:height]


def as_json(answer: Mapping[str, Any], *, now_us: int) -> Dict[str, Any]:
    """For programs: the answer and when it was asked."""
    return {**{key: value for key, value in answer.items() if key != "ok"}, "asked_us": now_us}
