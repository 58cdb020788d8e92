"""The fleet by age: what was bought when, what serves longer than planned, and which lives end soon."""

from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime
from zoneinfo import ZoneInfo

from apps.accounts.models import Lab
from apps.assets.choices import AssetState
from apps.assets.models import Asset
from apps.assets.selectors import Book, assets_of, books_of, through
from apps.catalog.choices import HardwareKind
from apps.core.intervals import us_of
from apps.core.units import US_PER_HOUR
from apps.dashboard.asset_charts import fleet
from apps.dashboard.calc import Unit, percent, unit_for
from apps.dashboard.charts import Chart
from apps.dashboard.contexts.embodied import METRIC, Amount, amount, column_unit, us, years
from apps.dashboard.periods import local

YEAR_HOURS = 8_760
MOST_ENDS = 50
COLOURS = dict(
    zip(HardwareKind.values, ("s1", "s2", "s3", "s4", "s5", "s6", "s-unattributed", "s-overhead", "s-idle"), strict=True)
)


@dataclass(frozen=True)
class YearRow:
    """Things bought in a year that are still there: the table twin of the chart, with totals over kinds."""

    year: str
    cells: list[tuple[int, Amount | None]]
    number: int
    unknown: int
    total: Amount


@dataclass(frozen=True)
class EndRow:
    """A life that ends soon, or should have ended."""

    asset: Asset
    end_us: int
    when: str
    balance: Amount | None


@dataclass(frozen=True)
class FleetPage:
    """The fleet: everything that is not disposed of."""

    number: int
    unknown: int
    total: Amount
    total_column: Amount
    balance: Amount
    begun: int
    past: int
    past_share: str
    chart: Chart | None
    unit: str
    heads: list[str]
    rows: list[YearRow]
    sums: list[tuple[int, Amount]]
    ending: list[EndRow]
    ending_more: int
    over: list[EndRow]
    over_more: int


def fleet_page(*, lab: Lab, now: int) -> FleetPage:
    """Return the fleet by age. The number of queries does not depend on the number of rows."""
    hour = through(now)
    here = assets_of(lab).exclude(state=AssetState.DISPOSED)
    kinds = dict(here.values_list("pk", "kind"))
    books = {pk: book for pk, book in books_of(here, hour).items() if pk in kinds}
    known = [book for book in books.values() if book.total_ug is not None]
    begun = {pk: book.life_end_hour for pk, book in books.items() if book.life_end_hour is not None}
    over = sorted((end, pk) for pk, end in begun.items() if end < hour)
    soon = sorted((end, pk) for pk, end in begun.items() if hour <= end < hour + YEAR_HOURS)
    shown = assets_of(lab).select_related("owner").in_bulk([pk for _, pk in (*soon[:MOST_ENDS], *over[:MOST_ENDS])])
    present = [kind for kind in HardwareKind if kind in set(kinds.values())]
    years_, cells = _years(lab, books, kinds)
    by_kind: dict[str, list[Book]] = defaultdict(list)
    for pk, book in books.items():
        by_kind[kinds[pk]].append(book)
    unit = column_unit(book.total_ug or 0 for book in known)
    rows = [_year(year, present, cells, unit) for year in reversed(years_)]
    return FleetPage(
        number=len(kinds),
        unknown=len(kinds) - len(known),
        total=amount(sum(book.total_ug or 0 for book in known)),
        total_column=amount(sum(book.total_ug or 0 for book in known), unit),
        balance=amount(sum(book.balance_ug for book in known)),
        begun=len(begun),
        past=len(over),
        past_share=percent(len(over), len(begun)),
        chart=_chart(years_, present, cells) if known else None,
        unit=unit.name,
        heads=[kind.label for kind in present],
        rows=rows,
        sums=[_sum(by_kind[kind], unit) for kind in present],
        ending=_ends(soon, shown, books, hour),
        ending_more=max(0, len(soon) - MOST_ENDS),
        over=_ends(over, shown, books, hour),
        over_more=max(0, len(over) - MOST_ENDS),
    )


Cells = dict[tuple[str, str], list[Book]]


def _years(lab: Lab, books: dict[int, Book], kinds: dict[int, str]) -> tuple[list[str], Cells]:
    """Return all years from the first purchase to the last, and books by (year, kind)."""
    zone = ZoneInfo(lab.time_zone)
    cells: Cells = defaultdict(list)
    hours = [book.bought_hour for book in books.values() if book.bought_hour is not None]
    if not hours:
        return [], cells
    first, last = local(min(hours), zone).year, local(max(hours), zone).year
    # Searching among the starts of years is a tenth of asking the time zone for each of many assets.
    starts = [-(-us_of(datetime(year, 1, 1, tzinfo=zone)) // US_PER_HOUR) for year in range(first + 1, last + 1)]
    names = [str(year) for year in range(first, last + 1)]
    for pk, book in books.items():
        if book.bought_hour is not None:
            cells[names[bisect_right(starts, book.bought_hour)], kinds[pk]].append(book)
    return names, cells


def _sum(listed: list[Book], unit: Unit) -> tuple[int, Amount]:
    known = [book.total_ug for book in listed if book.total_ug is not None]
    return len(listed), amount(sum(known) if known else None, unit)


def _year(year: str, present: list[HardwareKind], cells: Cells, unit: Unit) -> YearRow:
    every = [book for kind in present for book in cells.get((year, kind), [])]
    told = []
    for kind in present:
        listed = cells.get((year, kind), [])
        known = [book.total_ug for book in listed if book.total_ug is not None]
        told.append((len(listed), amount(sum(known), unit) if known else amount(None) if listed else None))
    known = [book.total_ug for book in every if book.total_ug is not None]
    return YearRow(year, told, len(every), len(every) - len(known), amount(sum(known), unit))


def _chart(years_: list[str], present: list[HardwareKind], cells: Cells) -> Chart:
    def total(year: str, kind: str) -> int:
        return sum(book.total_ug or 0 for book in cells.get((year, kind), []))

    heights = [sum(total(year, kind) for kind in present) for year in years_]
    unit = unit_for(METRIC, heights)
    most = years_[max(range(len(years_)), key=lambda i: heights[i])]
    sizes = {kind: sum(total(year, kind) for year in years_) for kind in present}
    top = max(present, key=lambda kind: sizes[kind])
    summary = (
        f"Embodied carbon of what is still there, by the year it was bought: {amount(sum(heights)).text} in all, most of it "
        f"bought in {most}, {amount(sizes[top]).text} of it {top.label}."
    )
    series = [
        (
            kind.label, COLOURS[kind], [total(year, kind) / unit.divisor for year in years_],
            [len(cells.get((year, kind), [])) for year in years_],
        )
        for kind in present
    ]  # fmt: skip
    return fleet(name="fleet-age", summary=summary, unit=unit.name, years=years_, series=series)


def _ago(hours: int) -> str:
    return f"{years(hours)} years ago" if hours >= YEAR_HOURS else f"{_days(hours)} ago"


def _days(hours: int) -> str:
    days = max(1, -(-hours // 24))
    return f"{days} day{'' if days == 1 else 's'}"


def _ends(listed: list[tuple[int, int]], shown: dict[int, Asset], books: dict[int, Book], hour: int) -> list[EndRow]:
    rows = []
    for end, pk in listed[:MOST_ENDS]:
        if pk not in shown:
            continue
        book = books[pk]
        when = _ago(hour - end) if end < hour else f"in {_days(end - hour)}"
        balance = None if book.total_ug is None else amount(book.balance_ug)
        rows.append(EndRow(shown[pk], us(end) or 0, when, balance))
    return rows
