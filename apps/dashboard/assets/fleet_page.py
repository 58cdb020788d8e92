"""The fleet by age: year of purchase, assets past their planned end, and planned ends in the
next months.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from zoneinfo import ZoneInfo

from apps.accounts.models import Lab
from apps.assets.balances import YEAR_HOURS
from apps.assets.choices import AssetState
from apps.assets.models import Asset
from apps.assets.selectors import Book, Books, Sums, assets_of, books_of, through
from apps.catalog.choices import HardwareKind
from apps.core.intervals import datetime_to_us
from apps.core.units import US_PER_HOUR
from apps.dashboard.assets.asset_charts import fleet
from apps.dashboard.charts import Chart
from apps.dashboard.embodied_format import METRIC, Amount, amount, column_unit, hour_to_us, years
from apps.dashboard.formatting import Unit, percent, unit_for
from apps.dashboard.periods import local

MAX_ENDS = 50
COLOURS = dict(
    zip(
        HardwareKind.values,
        ("s1", "s2", "s3", "s4", "s5", "s6", "s-unattributed", "s-overhead", "s-idle"),
        strict=True,
    )
)


@dataclass(frozen=True)
class YearRow:
    """Assets by year of purchase: the data table of the chart, with totals over kinds."""

    year: str
    cells: list[tuple[int, Amount | None]]
    number: int
    unknown: int
    total: Amount


@dataclass(frozen=True)
class EndRow:
    """An asset whose planned end is near or past."""

    asset: Asset
    end_us: int
    when: str
    balance: Amount | None


@dataclass(frozen=True)
class FleetPage:
    """The fleet: all assets that are not disposed of."""

    number: int
    unknown: int
    total: Amount
    total_column: Amount
    balance: Amount
    started: int
    past: int
    past_share: str
    chart: Chart | None
    unit: str
    heads: list[str]
    rows: list[YearRow]
    sums: list[tuple[int, Amount | None]]
    ending: list[EndRow]
    ending_more: int
    over: list[EndRow]
    over_more: int


def fleet_page(*, lab: Lab, now: int) -> FleetPage:
    """Return the fleet by age. The number of queries does not depend on the number of rows."""
    hour = through(now)
    every = Books(lab, assets_of(lab).exclude(state=AssetState.DISPOSED), hour)
    names, starts = _years(lab, every)
    sums_by_cell = every.by_kind_and_year(starts)
    cells = {
        (names[place], kind): sums
        for (kind, place), sums in sums_by_cell.items()
        if place is not None
    }
    present = [kind for kind in HardwareKind if kind in {kind for kind, _ in sums_by_cell}]
    whole = sum(sums_by_cell.values(), Sums())
    unit = column_unit([whole.largest_ug])
    over, soon = every.ending(0, hour, MAX_ENDS), every.ending(hour, hour + YEAR_HOURS, MAX_ENDS)
    assets_by_id = assets_of(lab).select_related("owner").in_bulk([*soon, *over])
    books = books_of(assets_of(lab).filter(pk__in=list(assets_by_id)), hour)
    return FleetPage(
        number=whole.assets,
        unknown=whole.assets - whole.known,
        total=amount(whole.total_ug),
        total_column=amount(whole.total_ug, unit),
        balance=amount(whole.balance_ug),
        started=whole.begun,
        past=whole.past,
        past_share=percent(whole.past, whole.begun),
        chart=_chart(names, present, cells) if whole.known else None,
        unit=unit.name,
        heads=[kind.label for kind in present],
        rows=[_year(year, present, cells, unit) for year in reversed(names)],
        sums=[_cell(_together(cells, kinds=[kind]), unit) for kind in present],
        ending=_ends(soon, assets_by_id, books, hour),
        ending_more=max(0, whole.soon - MAX_ENDS),
        over=_ends(over, assets_by_id, books, hour),
        over_more=max(0, whole.past - MAX_ENDS),
    )


Cells = dict[tuple[str, str], Sums]


def _years(lab: Lab, every: Books) -> tuple[list[str], list[int]]:
    """Return all years from the first purchase to the last, and the first hour of each but the
    first.
    """
    zone = ZoneInfo(lab.time_zone)
    bounds = every.bought()
    if bounds is None:
        return [], []
    first, last = (local(hour, zone).year for hour in bounds)
    starts = [
        -(-datetime_to_us(datetime(year, 1, 1, tzinfo=zone)) // US_PER_HOUR)
        for year in range(first + 1, last + 1)
    ]
    return [str(year) for year in range(first, last + 1)], starts


def _together(cells: Cells, *, years: Sequence[str] = (), kinds: Sequence[str] = ()) -> Sums:
    """Return the sum of the cells of these years or kinds."""
    return sum(
        (part for (year, kind), part in cells.items() if year in years or kind in kinds), Sums()
    )


def _cell(sums: Sums, unit: Unit) -> tuple[int, Amount | None]:
    if not sums.assets:
        return 0, None
    return sums.assets, amount(sums.total_ug if sums.known else None, unit)


def _year(year: str, present: list[HardwareKind], cells: Cells, unit: Unit) -> YearRow:
    every = _together(cells, years=[year])
    row_cells = [_cell(cells.get((year, kind), Sums()), unit) for kind in present]
    return YearRow(
        year, row_cells, every.assets, every.assets - every.known, amount(every.total_ug, unit)
    )


def _chart(years_: list[str], present: list[HardwareKind], cells: Cells) -> Chart:
    def total(year: str, kind: str) -> int:
        return cells.get((year, kind), Sums()).total_ug

    heights = [sum(total(year, kind) for kind in present) for year in years_]
    unit = unit_for(METRIC, heights)
    most = years_[max(range(len(years_)), key=lambda i: heights[i])]
    sizes = {kind: sum(total(year, kind) for year in years_) for kind in present}
    top = max(present, key=lambda kind: sizes[kind])
    summary = (
        f"Embodied carbon of the fleet by year of purchase: {amount(sum(heights)).text} total, "
        "the largest part purchased "
        f"in {most}, {amount(sizes[top]).text} in the largest kind ({top.label})."
    )
    series = [
        (
            kind.label,
            COLOURS[kind],
            [total(year, kind) / unit.divisor for year in years_],
            [cells.get((year, kind), Sums()).assets for year in years_],
        )
        for kind in present
    ]
    return fleet(name="fleet-age", summary=summary, unit=unit.name, years=years_, series=series)


def _ago(hours: int) -> str:
    return f"{years(hours)} years ago" if hours >= YEAR_HOURS else f"{_days(hours)} ago"


def _days(hours: int) -> str:
    days = max(1, -(-hours // 24))
    return f"{days} day{'' if days == 1 else 's'}"


def _ends(
    listed: list[int], assets_by_id: dict[int, Asset], books: dict[int, Book], hour: int
) -> list[EndRow]:
    rows = []
    for pk in listed:
        end = books[pk].life_end_hour if pk in books else None
        if pk not in assets_by_id or end is None:
            continue
        when = _ago(hour - end) if end < hour else f"in {_days(end - hour)}"
        balance = None if books[pk].total_ug is None else amount(books[pk].balance_ug)
        rows.append(EndRow(assets_by_id[pk], hour_to_us(end) or 0, when, balance))
    return rows
