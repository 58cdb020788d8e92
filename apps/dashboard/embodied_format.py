"""Amounts of embodied carbon on pages, for the tag ``{% amount %}``."""

from collections.abc import Iterable
from dataclasses import dataclass

from apps.carbon.figures.figure_query import FigureQuery
from apps.core.units import UG_PER_KG, US_PER_HOUR
from apps.dashboard.formatting import Unit, exact, format_value, unit_for

METRIC = "emission_ug"
UNKNOWN = "unknown"


@dataclass(frozen=True)
class Amount:
    """µg of embodied carbon: the exact integer, its text, its range ('' for none), and its
    figure query (None: none, e.g. for a book value).
    """

    value: int
    number: str
    unit: str
    exact: str
    at_least: bool = False
    range_text: str = ""
    missing: str = ""
    query: FigureQuery | None = None

    @property
    def text(self) -> str:
        """Return plain text, for titles and messages."""
        return self.missing or f"{'at least ' if self.at_least else ''}{self.number} {self.unit}"


def amount(
    value: int | None,
    unit: Unit | None = None,
    *,
    low: int = 0,
    high: int = 0,
    at_least: bool = False,
    query: FigureQuery | None = None,
) -> Amount:
    """Return an amount of µg in ``unit`` (default: a suitable one). None: unknown."""
    if value is None:
        return Amount(0, "", "", "", missing=UNKNOWN)
    unit = unit or unit_for(METRIC, [value or UG_PER_KG])
    range_text = (
        f"{format_value(low, unit)}–{format_value(high, unit)}"
        if low < value or high > value
        else ""
    )
    return Amount(
        value,
        format_value(value, unit),
        unit.name,
        exact(value, METRIC),
        at_least,
        range_text if high else "",
        query=query,
    )


def column_unit(values: Iterable[int]) -> Unit:
    """Return one unit for a column."""
    return unit_for(METRIC, values, column=True)


def years(hours: int) -> str:
    """Return a length of time in years of 8 760 h, one decimal."""
    return f"{max(0, hours) / 8_760:.1f}"


def hour_to_us(hour: int | None) -> int | None:
    """Return the start of an hour in µs."""
    return None if hour is None else hour * US_PER_HOUR
