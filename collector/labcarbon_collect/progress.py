"""Progress of a long command: a bar on a terminal, a line every ten seconds elsewhere."""

from __future__ import annotations

import sys
import time
from contextlib import suppress
from typing import Callable, Optional, TextIO, Tuple

_BAR_WIDTH = 30
_TERMINAL_INTERVAL_S, _PLAIN_INTERVAL_S = 0.2, 10.0


class Progress:
    """Prints the rows done and estimates the remaining time.

    The rate is measured from the first known fraction on, because work of an earlier attempt does
    not count.
    """

    def __init__(
        self,
        unit: str,
        *,
        counts_bytes: bool = False,
        out: Optional[TextIO] = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """``unit`` names the counted rows, or the counted bytes with ``counts_bytes``."""
        self._unit, self._counts_bytes, self._out, self._now = (
            unit,
            counts_bytes,
            out or sys.stderr,
            now,
        )
        self._terminal = self._out.isatty()
        self._started_s = now()
        self._updated_s = self._started_s if not self._terminal else -_PLAIN_INTERVAL_S
        self._line_width = 0
        self._first_estimate: Optional[Tuple[float, float]] = (
            None  # time and value of the first known fraction
        )

    def update(
        self,
        count: int,
        fraction: float,
        *,
        is_final: bool = False,
        read_bytes: Optional[int] = None,
    ) -> None:
        """Print the rows done, the bytes read if they count, and the ``fraction`` done (0 to 1; 0:
        unknown).
        """
        now_s = self._now()
        if self._first_estimate is None and fraction > 0:
            self._first_estimate = now_s, fraction
        interval_s = _TERMINAL_INTERVAL_S if self._terminal else _PLAIN_INTERVAL_S
        if not is_final and now_s - self._updated_s < interval_s:
            return
        self._updated_s = now_s
        text = self._text(count, fraction, now_s, is_final=is_final, read_bytes=read_bytes)
        if not self._terminal:
            self._write(text + "\n")
            return
        filled = round(_BAR_WIDTH * min(1.0, fraction))
        line = f"[{'#' * filled}{'.' * (_BAR_WIDTH - filled)}] {text}"
        self._write("\r" + line.ljust(self._line_width) + ("\n" if is_final else ""))
        self._line_width = len(line)

    def _write(self, text: str) -> None:
        """Write to the output. Errors are ignored: a log on a full disk or a closed terminal must
        not stop the work.
        """
        with suppress(OSError):
            self._out.write(text)
            self._out.flush()

    def _text(
        self,
        count: int,
        fraction: float,
        now_s: float,
        *,
        is_final: bool,
        read_bytes: Optional[int],
    ) -> str:
        elapsed_s = now_s - self._started_s
        rate = 1 / elapsed_s if elapsed_s > 0 else 0.0
        if self._counts_bytes:
            parts = [f"{format_bytes(count)} {self._unit}", f"{format_bytes(count * rate)}/s"]
        elif read_bytes is None:
            parts = [f"{count:,} {self._unit}", f"{count * rate:,.0f}/s"]
        else:
            parts = [
                f"{count:,} {self._unit}",
                f"{format_bytes(read_bytes)} read",
                f"{format_bytes(read_bytes * rate)}/s",
            ]
        if is_final:
            parts.append(f"{elapsed_s:.0f} s")
        elif fraction > 0:
            parts.append(f"{fraction * 100:.0f} %")
            remaining_s = self._remaining_s(fraction, now_s)
            if remaining_s is not None:
                parts.append(f"{format_duration(remaining_s)} left")
        return ", ".join(parts)

    def _remaining_s(self, fraction: float, now_s: float) -> Optional[float]:
        start_s, start_fraction = self._first_estimate or (now_s, fraction)
        return (
            (1 - fraction) * (now_s - start_s) / (fraction - start_fraction)
            if fraction > start_fraction
            else None
        )


def format_bytes(size: float) -> str:
    """Format bytes in decimal units with three digits: ``3.21 GB``."""
    for unit, name in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if size >= 0.9995 * unit:
            return f"{size / unit:.3g} {name}"
    return f"{size:.0f} B"


def format_duration(seconds: float) -> str:
    rounded = max(0, round(seconds))
    return (
        f"{rounded} s"
        if rounded < 100
        else f"{rounded // 60} min"
        if rounded < 6000
        else f"{rounded // 3600} h"
    )
