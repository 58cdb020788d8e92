"""Show the current state of each device: watts, utilisation, memory, energy since the start of its
window, consumers.

Your own runs and processes are listed by name, those of other users are summed by kind. Press q to
quit. Without a terminal, one snapshot is printed as plain text.
"""

from __future__ import annotations

import argparse
import json
import os
import select
import shutil
import signal
import sys
import time
import unicodedata
from contextlib import contextmanager
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional

from labcarbon_collect.config import client_sockets
from labcarbon_collect.errors import CommandError
from labcarbon_collect.figure_text import window_energy_text
from labcarbon_collect.ipc.client import Client, DaemonUnavailable, response_error

UNKNOWN_VALUE = "–"
BOLD, FAINT, OWN = "1", "2", "32"
Style = Callable[[str, str], str]


def unstyled(text: str, style: str) -> str:
    """Return the text without colours."""
    return text


def ansi_styled(text: str, style: str) -> str:
    """Return the text with ANSI colours."""
    return f"\x1b[{style}m{text}\x1b[0m"


def format_lines(
    response: Mapping[str, Any], *, width: int, now_us: int, style: Style = unstyled
) -> Iterator[str]:
    """Yield a header and, per device, its state and consumers. No line is wider than ``width``
    columns.
    """
    devices = response["devices"]
    count = f"{len(devices)} device" + ("" if len(devices) == 1 else "s")
    yield style(
        fit_line(
            f"labcarbon top  {_clock(now_us)} UTC  {count}, windows of {response['interval_s']} s",
            width,
        ),
        BOLD,
    )
    if response.get("full"):
        yield fit_line(str(response["full"]), width)
    if not devices:
        yield fit_line("Nothing is measured; diagnose with: labcarbon-collect doctor", width)
    for device in devices:
        yield ""
        yield style(fit_line(f"{device['name']}  {device['device']}", width), BOLD)
        yield fit_line(_device_line(device), width)
        for row in device["who"]:
            mark = "*" if row["yours"] else " "
            text = (
                f"{mark} {_watts(row['power_mw']):>8}  {_energy(row['energy_mj']):>10}  "
                f"{row['who']}"
            )
            yield style(fit_line(text, width), OWN if row["yours"] else FAINT)
    if any(row["yours"] for device in devices for row in device["who"]):
        yield ""
        yield fit_line("* yours; other users' work is summed by kind, except for root", width)


def _device_line(device: Mapping[str, Any]) -> str:
    since = f" since {_clock(device['since_us'])}" if device["since_us"] is not None else ""
    use, memory = device["util_pm"], device["memory_mib"]
    parts = [
        f"{_watts(device['power_mw'])} now",
        f"{_energy(device['energy_mj'])}{since}",
        f"use {UNKNOWN_VALUE if use is None else f'{use / 10:.0f} %'}",
        f"memory {UNKNOWN_VALUE if memory is None else f'{memory} MiB'}",
        str(device["measurement"]),
    ]
    return "  ".join(parts)


def _watts(power_mw: Optional[int]) -> str:
    if power_mw is None:
        return f"{UNKNOWN_VALUE} W"
    return f"{power_mw / 1000:.0f} W" if power_mw >= 10_000 else f"{power_mw / 1000:.1f} W"


def _energy(energy_mj: Optional[int]) -> str:
    return f"{UNKNOWN_VALUE} Wh" if energy_mj is None else window_energy_text(energy_mj)


def _clock(moment_us: int) -> str:
    return time.strftime("%H:%M:%S", time.gmtime(moment_us // 1_000_000))


def fit_line(text: str, width: int) -> str:
    """Return one printable line of at most ``width`` columns. Names come from other users and may
    contain any characters.
    """
    clean = "".join(letter if letter.isprintable() else "?" for letter in text)
    if display_width(clean) <= width:
        return clean
    while clean and display_width(clean) > width - 1:
        clean = clean[:-1]
    return clean + "…" if width > 0 else ""


def display_width(text: str) -> int:
    """Return the columns of a text on a terminal."""
    return sum(_letter_width(letter) for letter in text)


def _letter_width(letter: str) -> int:
    if unicodedata.combining(letter):
        return 0
    return 2 if unicodedata.east_asian_width(letter) in ("W", "F") else 1


def clip_lines(text: List[str], height: int) -> List[str]:
    """Return as many lines as the terminal has. The last one counts the omitted lines."""
    if len(text) <= height:
        return text
    return [
        *text[: max(0, height - 1)],
        f"… {len(text) - height + 1} more lines: labcarbon-collect top --once",
    ][:height]


def to_json(response: Mapping[str, Any], *, now_us: int) -> Dict[str, Any]:
    """Return the response with the time of the request."""
    return {**{key: value for key, value in response.items() if key != "ok"}, "asked_us": now_us}


_TIMEOUT_S = 5.0
_MIN_INTERVAL_S, _MAX_INTERVAL_S = 1.0, 60.0
_PLAIN_WIDTH = 80
# Alternate screen without a cursor, and back.
_ENTER, _LEAVE = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--interval",
        type=_interval_s,
        default=2.0,
        metavar="S",
        help="seconds between updates, 1 to 60 (default: 2)",
    )
    parser.add_argument("--once", action="store_true", help="print one snapshot as plain text")
    parser.add_argument("--json", action="store_true", help="print one snapshot as JSON")


def run(args: argparse.Namespace) -> int:
    if args.json:
        print(json.dumps(to_json(_query_daemon(), now_us=_now_us()), indent=2))
    elif args.once or not _is_terminal():
        width = (
            shutil.get_terminal_size((_PLAIN_WIDTH, 24)).columns
            if sys.stdout.isatty()
            else _PLAIN_WIDTH
        )
        print("\n".join(format_lines(_query_daemon(), width=width, now_us=_now_us())))
    else:
        _query_daemon()  # without a daemon, fail with one line before switching the screen
        with _alternate_screen():
            _refresh_until_quit(args.interval)
    return 0


def _refresh_until_quit(interval_s: float) -> None:
    """Draw a snapshot each ``interval_s`` seconds until q, the end of input, or a signal."""
    style: Style = unstyled if os.environ.get("NO_COLOR") else ansi_styled
    while True:
        _draw(_render(style))
        deadline_s = time.monotonic() + interval_s
        while True:
            remaining_s = deadline_s - time.monotonic()
            if remaining_s <= 0 or not select.select([sys.stdin], [], [], remaining_s)[0]:
                break
            keys = os.read(sys.stdin.fileno(), 64)
            if not keys or b"q" in keys.lower():
                return


def _render(style: Style) -> List[str]:
    size = shutil.get_terminal_size((_PLAIN_WIDTH, 24))
    try:
        text = list(
            format_lines(_query_daemon(), width=size.columns, now_us=_now_us(), style=style)
        )
    except CommandError as failed:
        text = list(
            format_lines(
                {"devices": [], "interval_s": "?", "full": str(failed)},
                width=size.columns,
                now_us=_now_us(),
            )
        )
    return clip_lines(text, size.lines)


def _draw(text: List[str]) -> None:
    sys.stdout.write("\x1b[H" + "\r\n".join(line + "\x1b[K" for line in text) + "\x1b[J")
    sys.stdout.flush()


@contextmanager
def _alternate_screen() -> Iterator[None]:
    """Read single keys on the alternate screen. The terminal is restored after any end."""
    import termios
    import tty

    before = termios.tcgetattr(sys.stdin.fileno())
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _exit_on_signal)
    try:
        tty.setcbreak(sys.stdin.fileno())
        sys.stdout.write(_ENTER)
        yield
    finally:
        sys.stdout.write(_LEAVE)
        sys.stdout.flush()
        termios.tcsetattr(sys.stdin.fileno(), termios.TCSADRAIN, before)


def _exit_on_signal(number: int, frame: object) -> None:
    raise SystemExit(128 + number)


def _query_daemon() -> Dict[str, Any]:
    """Return the daemon's response. Raises CommandError."""
    try:
        client = Client(client_sockets(os.environ), timeout_s=_TIMEOUT_S)
        try:
            response = client.call({"op": "top"}, timeout_s=_TIMEOUT_S)
        finally:
            client.close()
    except DaemonUnavailable as error:
        raise CommandError(str(error)) from error
    message = response_error(response)
    if message:
        raise CommandError(f"the daemon returned an error: {message}")
    return response


def _is_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"


def _now_us() -> int:
    return time.time_ns() // 1000


def _interval_s(text: str) -> float:
    value = float(text)
    if not _MIN_INTERVAL_S <= value <= _MAX_INTERVAL_S:
        raise argparse.ArgumentTypeError(
            f"the interval must be {_MIN_INTERVAL_S:.0f} to {_MAX_INTERVAL_S:.0f} seconds, not "
            f"{text}"
        )
    return value
