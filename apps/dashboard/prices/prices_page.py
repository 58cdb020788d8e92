"""Content of the page of the electricity prices of a site: the prices of a week by local hour, the
files of hourly prices, and the preview of a file.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from zoneinfo import ZoneInfo

from django.db import transaction

from apps.accounts import audit
from apps.accounts.models import Lab
from apps.carbon.figures.energy import figure
from apps.carbon.figures.figure_query import COST, FigureQuery
from apps.carbon.hour_prices import hours_with_prices
from apps.carbon.services import apply_factors
from apps.core.errors import InvalidInput
from apps.core.intervals import midnight_hour
from apps.core.units import US_PER_HOUR, format_value
from apps.dashboard.formatting import figure_text, unit_for
from apps.dashboard.nodes.site_pages import FactRow, price_rows
from apps.fleet.choices import PriceKind
from apps.fleet.dated_facts import started_value_at
from apps.fleet.models import ACTIVE, Site, SitePrice
from apps.fleet.price_files import PriceFile
from apps.fleet.selectors import hourly_prices_at
from apps.fleet.tariffs import DAYS, range_text

MAX_FILES = 100
_DECIMALS = 3


@dataclass(frozen=True)
class PriceCell:
    """The price of a local hour. A repeated hour can have two, a skipped one has none. ``values``
    are in millionths, '' if the hour has no price.
    """

    texts: tuple[str, ...]
    values: tuple[str, ...]
    is_skipped: bool

    @property
    def text(self) -> str:
        return "" if self.is_skipped else " / ".join(self.texts)

    @property
    def value(self) -> str:
        return " ".join(self.values)


@dataclass(frozen=True)
class WeekRow:
    """Local hours with equal prices on each day: '07–20'."""

    hours: str
    cells: list[PriceCell]


@dataclass(frozen=True)
class Week:
    """The prices of a week. ``unit`` is '' if no hour has a price. ``monday`` is its first day."""

    monday: date
    days: list[str]
    rows: list[WeekRow]
    unit: str
    unknown: int

    @property
    def earlier(self) -> date:
        return self.monday - timedelta(days=7)

    @property
    def later(self) -> date:
        return self.monday + timedelta(days=7)


@dataclass(frozen=True)
class FileRow:
    """A file of hourly prices."""

    price: SitePrice

    @property
    def from_us(self) -> int:
        return self.price.from_hour * US_PER_HOUR

    @property
    def to_us(self) -> int:
        return int(self.price.content["last_hour"] + 1) * US_PER_HOUR


@dataclass(frozen=True)
class PricesPage:
    """The prices of a site."""

    site: Site
    week: Week
    prices: list[FactRow]
    files: list[FileRow]


@dataclass(frozen=True)
class FilePreview:
    """What recording a file changes. ``rows`` are names with the value before and after."""

    hours: int
    new: int
    changed: int
    from_us: int
    to_us: int
    range: str
    currency: str
    rows: list[tuple[str, str, str]]

    @property
    def same(self) -> int:
        return self.hours - self.new - self.changed


def prices_page(*, site: Site, zone: ZoneInfo, monday: date) -> PricesPage:
    """Return the page of a site's prices. The number of queries grows with files of hourly prices
    only.
    """
    files = [FileRow(price) for price in hourly_prices_at(site)[:MAX_FILES]]
    return PricesPage(site, week_of(site, zone, monday), price_rows(site), files)


def monday_of(text: str, now: int, zone: ZoneInfo) -> date:
    """Return the Monday of the week of a day, '': of today. Raises InvalidInput."""
    today = datetime.fromtimestamp(now / 1_000_000, tz=UTC).astimezone(zone).date()
    try:
        day = date.fromisoformat(text) if text else today
    except ValueError:
        day = date.min
    if not 1971 <= day.year <= 2200:
        raise InvalidInput(
            f"{text[:20]!r} is not a day.", field="week", hint="Enter a day as 2026-01-31."
        )
    return day - timedelta(days=day.weekday())


def week_of(site: Site, zone: ZoneInfo, monday: date) -> Week:
    """Return the prices of a week from the facts of a site, in local hours of ``zone``."""
    starts = [midnight_hour(monday + timedelta(days=i), zone) for i in range(8)]
    known = _prices_between(site, starts[0], starts[-1])
    currencies = {currency for _, currency in known.values()}
    unit = currencies.pop() if len(currencies) == 1 else ""
    by_local: dict[tuple[int, int], list[tuple[int, str] | None]] = {}
    for day in range(7):
        for hour in range(starts[day], starts[day + 1]):
            local = datetime.fromtimestamp(hour * 3600, tz=zone)
            by_local.setdefault((day, local.hour), []).append(known.get(hour))
    lines = [
        [_cell(by_local.get((day, hour), []), with_currency=not unit) for day in range(7)]
        for hour in range(24)
    ]
    rows: list[WeekRow] = []
    first = 0
    for hour in range(24):
        if hour == 23 or lines[hour + 1] != lines[first]:
            rows.append(WeekRow(f"{first:02}–{hour + 1:02}", lines[first]))
            first = hour + 1
    return Week(
        monday=monday,
        days=[f"{name} {(monday + timedelta(days=i)).day}" for i, name in enumerate(DAYS)],
        rows=rows,
        unit=f"{unit} per kWh" if unit else "",
        unknown=starts[-1] - starts[0] - len(known),
    )


def _cell(prices: list[tuple[int, str] | None], *, with_currency: bool) -> PriceCell:
    distinct = list(dict.fromkeys(prices))
    texts = []
    for price in distinct:
        number = "—" if price is None else f"{Decimal(price[0]) / 1_000_000:.{_DECIMALS}f}"
        texts.append(f"{number} {price[1]}" if price and with_currency else number)
    values = tuple("" if price is None else str(price[0]) for price in distinct)
    return PriceCell(tuple(texts), values, is_skipped=not prices)


def _prices_between(site: Site, from_hour: int, to_hour: int) -> dict[int, tuple[int, str]]:
    """Return {hour: (price in millionths, currency)} of the hours with a known price."""
    active = list(site.prices.filter(ACTIVE).order_by("pk"))
    by_id = {price.pk: price for price in active}
    by_hour = hours_with_prices(active, from_hour, to_hour).get(site.pk, {})
    history = sorted(
        (price.from_hour, price.pk) for price in active if price.kind != PriceKind.HOURLY
    )
    known: dict[int, tuple[int, str]] = {}
    for hour in range(from_hour, to_hour):
        dated_id = started_value_at(history, hour)
        dated = None if dated_id is None else by_id[dated_id]
        if hour in by_hour:
            price_id, value = by_hour[hour]
            known[hour] = (value, by_id[price_id].currency)
        elif dated is not None and dated.ucurrency_per_kwh is not None:
            known[hour] = (dated.ucurrency_per_kwh, dated.currency)
    return known


def file_preview(
    *, lab: Lab, site: Site, file: PriceFile, currency: str, write: Callable[[], object]
) -> FilePreview:
    """Return what ``write`` changes, which records the file and is rolled back."""
    from_hour, to_hour = min(file.hours), max(file.hours) + 1
    before = _prices_between(site, from_hour, to_hour)
    query = FigureQuery(
        COST, from_hour, to_hour, basis=lab.basis, currency=lab.currency or currency
    )
    with transaction.atomic():
        locked = audit.hold(lab)
        sides = [figure(lab, query)]
        write()
        apply_factors(lab=locked)
        sides.append(figure(lab, query))
        transaction.set_rollback(True)
    unit = unit_for(COST, [side.cost_ucurrency for side in sides], currency=query.currency)
    cost, cost_after = (f"{format_value(side.cost_ucurrency, unit)} {unit.name}" for side in sides)
    unpriced, unpriced_after = (figure_text("energy_mj", side.without_price_mj) for side in sides)
    return FilePreview(
        hours=len(file.hours),
        new=sum(hour not in before for hour in file.hours),
        changed=_changed(before, file.hours, currency),
        from_us=from_hour * US_PER_HOUR,
        to_us=to_hour * US_PER_HOUR,
        range=range_text(min(file.hours.values()), max(file.hours.values())),
        currency=currency,
        rows=[
            ("Cost of the lab in this time", cost, cost_after),
            ("Energy without a price", unpriced, unpriced_after),
        ],
    )


def _changed(before: Mapping[int, tuple[int, str]], hours: Mapping[int, int], currency: str) -> int:
    return sum(
        hour in before and before[hour] != (value, currency) for hour, value in hours.items()
    )
