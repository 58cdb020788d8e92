"""A line of a statement that does not keep a sum. Pure."""

from dataclasses import dataclass

from apps.reports.rows import Row


@dataclass(frozen=True)
class Imbalance:
    """A line that differs from the sum of others."""

    row: Row
    message: str
