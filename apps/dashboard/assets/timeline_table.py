"""An asset's months as a table and as CSV lines: charges, write-offs and book value."""

from dataclasses import dataclass

from apps.assets.choices import ChargeKind
from apps.carbon.figures.figure_query import iso_hour
from apps.core.units import UG_PER_KG
from apps.dashboard.assets.figure_queries import AssetQueries, Parts
from apps.dashboard.assets.timeline import Life, Month, month_name
from apps.dashboard.embodied_format import METRIC, Amount, amount
from apps.dashboard.formatting import Unit, unit_for
from apps.dashboard.periods import Period


@dataclass(frozen=True)
class MonthRow:
    """A line of the chart's data table."""

    label: str
    cells: list[Amount | None]
    written_off: Amount | None
    balance: Amount


@dataclass(frozen=True)
class LifecycleTable:
    """The data table of a lifecycle chart."""

    heads: list[str]
    unit: str
    rows: list[MonthRow]
    totals: list[Amount]
    written_off: Amount


def month_unit(service_life: Life) -> Unit:
    """Return the unit that fits the months."""
    return unit_for(
        METRIC,
        [
            sum(month.charged_ug(who.key) for who in service_life.charged_parties)
            for month in service_life.months
        ],
    )


def lifecycle_table(service_life: Life, period: Period, queries: AssetQueries) -> LifecycleTable:
    """Return the table of a lifecycle with months, the last first."""
    unit = month_unit(service_life)
    rows = []

    def charged(value: int, who: str, first: Month, last: Month, parts: Parts) -> Amount:
        query = queries.charged_to(who, first.from_hour, last.to_hour, parts)
        return amount(value, unit, query=query if value else None)

    def written_off(value: int, first: Month, last: Month) -> Amount:
        query = queries.within(first.from_hour, last.to_hour, ChargeKind.WRITTEN_OFF)
        return amount(value, unit, query=query if value else None)

    for month in service_life.months:
        cells = [(who.key, month.charged_ug(who.key)) for who in service_life.charged_parties]
        off = month.written_off_ug
        rows.append(
            MonthRow(
                month_name(month, period.zone),
                [
                    charged(value, who, month, month, month.parts) if value else None
                    for who, value in cells
                ],
                written_off(off, month, month) if off else None,
                amount(month.balance_ug, unit),
            )
        )
    first, last, all_parts = (
        service_life.months[0],
        service_life.months[-1],
        {part for month in service_life.months for part in month.parts},
    )
    sums = [
        charged(
            sum(month.charged_ug(who.key) for month in service_life.months),
            who.key,
            first,
            last,
            all_parts,
        )
        for who in service_life.charged_parties
    ]
    written_off_total = written_off(
        sum(month.written_off_ug for month in service_life.months), first, last
    )
    return LifecycleTable(
        [who.name for who in service_life.charged_parties],
        unit.name,
        rows[::-1],
        sums,
        written_off_total,
    )


def month_lines(service_life: Life, period: Period) -> list[tuple[object, ...]]:
    """Return the CSV lines: charges by month, party and reason, and book values."""
    lines: list[tuple[object, ...]] = []
    for month in service_life.months:
        for (who, kind), part in sorted(month.parts.items()):
            lines.append((*_span(month), who, kind, part, part / UG_PER_KG, None))
        lines.append((*_span(month), None, "book_value_at_end", None, None, month.balance_ug))
    return lines


def _span(month: Month) -> tuple[str, str]:
    return iso_hour(month.from_hour), iso_hour(month.to_hour)
