"""The memory of a training as one bar of parts, with marks for the sizes of cards. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Protocol

from apps.dashboard.planner.sizes import memory_size, memory_text
from apps.planner.formulas.byte_range import ByteRange
from apps.planner.formulas.lesson_memory import LessonMemory

_LEAST_GAP_PERCENT, _GAP_BEFORE_END_PERCENT = 9, 20  # between two labels; the last has the unit
_END_PERCENT = 90  # from here on, a label is left of its mark
_ROOM_PERCENT = 105  # of the memory, at least


class Card(Protocol):
    """A card with its memory."""

    @property
    def memory_bytes(self) -> int | None: ...


@dataclass(frozen=True)
class BarPart:
    """A part of the bar. ``colour``: its class. ``percent``: its width."""

    name: str
    label: str
    colour: str
    bytes: int
    text: str
    percent: str


@dataclass(frozen=True)
class Mark:
    """The size of a card on the bar. ``text`` '': another label is too close. The last one states
    the unit.
    """

    percent: str
    text: str
    is_at_end: bool


@dataclass(frozen=True)
class BarRange:
    """Low and high of the total on the scale."""

    left_percent: str
    width_percent: str


@dataclass(frozen=True)
class MemoryBar:
    """Parts and marks on one scale. ``range`` None: the total is exact."""

    parts: Sequence[BarPart]
    marks: Sequence[Mark]
    range: BarRange | None = None

    @property
    def summary(self) -> str:
        """Return the parts in a sentence."""
        return ", ".join(f"{part.label} {part.text}" for part in self.parts)


def lesson_bar(memory: LessonMemory, cards: Iterable[Card]) -> MemoryBar:
    """Return the parts of the lesson's formula."""
    total = memory.total_bytes
    parts = (
        ("weights", "Weights", "s1", memory.weight_bytes),
        ("gradients", "Gradients", "s2", memory.gradient_bytes),
        ("optimiser", "Optimiser state", "s3", memory.optimiser_bytes),
        ("activations", "Activations", "s4", memory.activation_bytes),
        ("margin", "Margin of 20 %", "s-overhead", memory.margin_bytes),
    )
    return memory_bar(parts, ByteRange(total, total, total), cards)


def memory_bar(
    parts: Iterable[tuple[str, str, str, int]], total: ByteRange, cards: Iterable[Card]
) -> MemoryBar:
    """Return a bar of parts: name, label, colour, likely bytes. The scale ends one card after the
    first with room for the high end of the total, or a bit after it.
    """
    sizes = sorted({card.memory_bytes for card in cards if card.memory_bytes})
    larger = [size for size in sizes if 100 * size >= _ROOM_PERCENT * total.high]
    whole = larger[0] if larger else _ROOM_PERCENT * total.high // 100
    whole = larger[1] if len(larger) > 1 else whole
    between = total.high - total.low
    return MemoryBar(
        [
            BarPart(name, label, colour, count, memory_text(count), _percent(count, whole))
            for name, label, colour, count in parts
        ],
        _marks([size for size in sizes if size <= whole], whole),
        BarRange(_percent(total.low, whole), _percent(between, whole)) if between else None,
    )


def _marks(sizes: Sequence[int], whole: int) -> list[Mark]:
    """Return the marks of card sizes. From the largest on, labels that are too close are left
    out.
    """
    marks: list[Mark] = []
    limit = Decimal(100)
    for size in reversed(sizes):
        place = Decimal(100 * size) / whole
        is_last, text = not marks, ""
        if is_last or place <= limit:
            text = memory_size(size) if is_last else memory_size(size).removesuffix(" GiB")
            limit = place - (_GAP_BEFORE_END_PERCENT if is_last else _LEAST_GAP_PERCENT)
        marks.append(Mark(f"{place:.2f}", text, place > _END_PERCENT))
    return marks[::-1]


def _percent(count: int, whole: int) -> str:
    return f"{Decimal(100 * count) / whole:.2f}" if whole else "0"
