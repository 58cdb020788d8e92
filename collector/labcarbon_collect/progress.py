"""How far a long command is: a bar on a terminal, a plain line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from contextlib import suppress
from typing import Callable, Optional, TextIO, Tuple

_BAR = 30
_TERMINAL_EVERY_S, _PLAIN_EVERY_S = 0.2, 10.0


class Progress:
    """Tells how many rows are done and, by the fraction of the whole, how long the rest takes, at the pace since a fraction
    was known: what an earlier try had done says nothing of that."""

    def __init__(
        self,
        what: str,
        *,
        are_bytes: bool = False,
        out: Optional[TextIO] = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """``what`` is counted: rows, or bytes that are so."""
        self._what, self._are_bytes, self._out, self._now = what, are_bytes, out or sys.stderr, now
        self._terminal = self._out.isatty()
        self._begun_s = now()
        self._shown_s = self._begun_s if not self._terminal else -_PLAIN_EVERY_S
        self._wide = 0
        self._from: Optional[Tuple[float, float]] = None  # when a fraction was known first, and which

    def update(self, rows: int, fraction: float, *, last: bool = False, read_bytes: Optional[int] = None) -> None:
        """Show ``rows`` done, bytes read where they count, and the ``fraction`` (0 to 1) of the whole; 0: not known."""
        now_s = self._now()
        if self._from is None and fraction > 0:
            self._from = now_s, fraction
        every_s = _TERMINAL_EVERY_S if self._terminal else _PLAIN_EVERY_S
        if not last and now_s - self._shown_s < every_s:
            return
        self._shown_s = now_s
        text = self._text(rows, fraction, now_s, done=last, read_bytes=read_bytes)
        if not self._terminal:
            self._write(text + "\n")
            return
        filled = round(_BAR * min(1.0, fraction))
        line = f"[{'#' * filled}{'.' * (_BAR - filled)}] {text}"
        self._write("\r" + line.ljust(self._wide) + ("\n" if last else ""))
        self._wide = len(line)

    def _write(self, text: str) -> None:
        """The work goes on where nobody can be told of it: a log on a full disk, a terminal that is gone."""
        with suppress(OSError):
            self._out.write(text)
            self._out.flush()

    def _text(self, rows: int, fraction: float, now_s: float, *, done: bool, read_bytes: Optional[int]) -> str:
        elapsed_s = now_s - self._begun_s
        rate = 1 / elapsed_s if elapsed_s > 0 else 0.0
        if self._are_bytes:
            parts = [f"{amount(rows)} {self._what}", f"{amount(rows * rate)}/s"]
        elif read_bytes is None:
            parts = [f"{rows:,} {self._what}", f"{rows * rate:,.0f}/s"]
        else:
            parts = [f"{rows:,} {self._what}", f"{amount(read_bytes)} read", f"{amount(read_bytes * rate)}/s"]
        if done:
            parts.append(f"{elapsed_s:.0f} s")
        elif fraction > 0:
            parts.append(f"{fraction * 100:.0f} %")
            left_s = self._left_s(fraction, now_s)
            if left_s is not None:
                parts.append(f"{_duration(left_s)} left")
        return ", ".join(parts)

    def _left_s(self, fraction: float, now_s: float) -> Optional[float]:
        since_s, known = self._from or (now_s, fraction)
        return (1 - fraction) * (now_s - since_s) / (fraction - known) if fraction > known else None


def amount(size: float) -> str:
    """Bytes in decimal units, three digits: ``3.21 GB``."""
    for unit, name in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if size >= 0.9995 * unit:
            return f"{size / unit:.3g} {name}"
    return f"{size:.0f} B"


def _duration(seconds: float) -> str:
    whole = max(0, round(seconds))
    return f"{whole} s" if whole < 100 else f"{whole // 60} min" if whole < 6000 else f"{whole // 3600} h"
