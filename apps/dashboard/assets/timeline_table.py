"""An asset's months as a table and as lines of a CSV: who bore what, what was written off, what was left."""

from dataclasses import dataclass

from apps.assets.choices import ChargeKind
from apps.carbon.figures.query import iso_hour
from apps.core.units import UG_PER_KG
from apps.dashboard.assets.figure_queries import Parts, ReplacementQuery
from apps.dashboard.assets.timeline import Life, Month, month_name
from apps.dashboard.embodied_format import METRIC, Amount, amount
from apps.dashboard.formatting import Unit, unit_for
from apps.dashboard.periods import Period


@dataclass(frozen=True)
class MonthRow:
    """A line of the chart's table twin."""

    label: str
    cells: list[Amount | None]
    written_off: Amount | None
    balance: Amount


@dataclass(frozen=True)
class LifecycleTable:
    """The table twin of a life's chart."""

    heads: list[str]
    unit: str
    rows: list[MonthRow]
    totals: list[Amount]
    written_off: Amount


def month_unit(told: Life) -> Unit:
    """Return the unit that fits the months."""
    return unit_for(METRIC, [sum(month.borne(who.key) for who in told.bearers) for month in told.months])


def lifecycle_table(told: Life, period: Period, asked: ReplacementQuery) -> LifecycleTable:
    """Return the table of a life that has months, the last first."""
    unit = month_unit(told)
    rows = []

    def borne(value: int, who: str, first: Month, last: Month, parts: Parts) -> Amount:
        query = asked.borne(who, first.from_hour, last.to_hour, parts)
        return amount(value, unit, query=query if value else None)

    def gone(value: int, first: Month, last: Month) -> Amount:
        query = asked.within(first.from_hour, last.to_hour, ChargeKind.WRITTEN_OFF)
        return amount(value, unit, query=query if value else None)

    for month in told.months:
        cells = [(who.key, month.borne(who.key)) for who in told.bearers]
        off = month.written_off_ug
        rows.append(
            MonthRow(
                month_name(month, period.zone),
                [borne(value, who, month, month, month.parts) if value else None for who, value in cells],
                gone(off, month, month) if off else None,
                amount(month.balance_ug, unit),
            )
        )
    first, last, every = told.months[0], told.months[-1], {part for month in told.months for part in month.parts}
    sums = [borne(sum(month.borne(who.key) for month in told.months), who.key, first, last, every) for who in told.bearers]
    lost = gone(sum(month.written_off_ug for month in told.months), first, last)
    return LifecycleTable([who.name for who in told.bearers], unit.name, rows[::-1], sums, lost)


def month_lines(told: Life, period: Period) -> list[tuple[object, ...]]:
    """Return the lines of the CSV: what each bore in each month and why, and the book value at the month's end."""
    lines: list[tuple[object, ...]] = []
    for month in told.months:
        for (who, kind), part in sorted(month.parts.items()):
            lines.append((*_span(month), who, kind, part, part / UG_PER_KG, None))
        lines.append((*_span(month), None, "book_value_at_end", None, None, month.balance_ug))
    return lines


def _span(month: Month) -> tuple[str, str]:
    return iso_hour(month.from_hour), iso_hour(month.to_hour)
