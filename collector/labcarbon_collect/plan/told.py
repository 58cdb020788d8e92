"""What happened, counted for the summary."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Dict, List, Tuple

from labcarbon_collect.cleanup.client import Line

Said = List[Tuple[Line, str]]  # a line, and a word to it


@dataclass
class Told:
    """Lines by what became of them in this call."""

    done: Said = field(default_factory=list)  # moved, brought back or deleted
    along: Said = field(default_factory=list)  # moved with the folder that it lies in
    refused: Said = field(default_factory=list)  # left where it was, and why
    stays: Said = field(default_factory=list)  # kept by the server's word since it was approved
    waiting: List[Line] = field(default_factory=list)  # in the trash, and not for long enough
    not_taken: Dict[int, str] = field(default_factory=dict)  # lines that the server takes no word of, and why

    @property
    def bytes(self) -> int:
        """Bytes of what was done."""
        return sum(line.bytes for line, _ in self.done)


def amount(size: int) -> str:
    """Bytes in words, decimal, three digits."""
    value, unit = float(size), "B"
    for unit in ("B", "kB", "MB", "GB", "TB", "PB"):
        if value < 999.5 or unit == "PB":
            break
        value /= 1000
    return f"{value:.0f} {unit}" if unit == "B" or value >= 99.95 else f"{value:.3g} {unit}"
