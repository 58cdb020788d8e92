"""The bar of the memory of a training."""

from dataclasses import dataclass

from apps.dashboard.planner.memory_bar import BarRange, memory_bar
from apps.planner.formulas.byte_range import ByteRange

GIB = 1 << 30


@dataclass(frozen=True)
class Size:
    memory_bytes: int | None


PARTS = [("weights", "Weights", "s1", 2 * GIB), ("working", "Activations", "s4", 6 * GIB)]


def test_the_scale_contains_the_high_end_and_one_card_more() -> None:
    cards = [Size(gib * GIB) for gib in (8, 10, 16, 40)] + [Size(None)]
    bar = memory_bar(PARTS, ByteRange(6 * GIB, 8 * GIB, 10 * GIB), cards)
    assert [part.percent for part in bar.parts] == ["5.00", "15.00"]  # of 40 GiB
    assert bar.range == BarRange("15.00", "10.00")
    assert [mark.percent for mark in bar.marks] == ["20.00", "25.00", "40.00", "100.00"]


def test_without_cards_the_bar_ends_after_the_high_end() -> None:
    bar = memory_bar(PARTS, ByteRange(8 * GIB, 8 * GIB, 8 * GIB), [])
    assert bar.range is None  # exact
    assert bar.marks == []
    assert [part.percent for part in bar.parts] == ["23.81", "71.43"]  # of 105 %
