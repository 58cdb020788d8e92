"""Bytes as a range: low, likely, high. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass

Percent = tuple[int, int, int]  # of low, likely and high


@dataclass(frozen=True, slots=True)
class ByteRange:
    """Three figures in ascending order."""

    low: int
    likely: int
    high: int

    @classmethod
    def exact(cls, count: int) -> "ByteRange":
        """Return a range without width."""
        return cls(count, count, count)

    def __add__(self, other: "ByteRange") -> "ByteRange":
        return ByteRange(self.low + other.low, self.likely + other.likely, self.high + other.high)

    def times(self, factor: int) -> "ByteRange":
        """Return the range times a count."""
        return ByteRange(self.low * factor, self.likely * factor, self.high * factor)

    def without(self, count: int) -> "ByteRange":
        """Return the range less a part of it; 0 where the part is larger."""
        return ByteRange(
            max(0, self.low - count), max(0, self.likely - count), max(0, self.high - count)
        )

    def percent(self, percent: Percent) -> "ByteRange":
        """Return a share of each figure, rounded half up."""
        low, likely, high = percent
        return ByteRange(
            (self.low * low + 50) // 100,
            (self.likely * likely + 50) // 100,
            (self.high * high + 50) // 100,
        )


NOTHING = ByteRange.exact(0)


def largest(ranges: Iterable[ByteRange]) -> ByteRange:
    """Return the largest low, likely and high figure."""
    items = list(ranges)
    return ByteRange(
        max(item.low for item in items),
        max(item.likely for item in items),
        max(item.high for item in items),
    )


def total(ranges: Iterable[ByteRange]) -> ByteRange:
    """Return the sum."""
    return sum(ranges, NOTHING)
