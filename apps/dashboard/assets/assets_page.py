"""The list of assets: filtered, sorted, paged. Totals are those of all filtered assets."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.db.models import QuerySet
from django.urls import reverse

from apps.accounts.models import Lab
from apps.assets.balances import COLUMNS
from apps.assets.choices import AssetState
from apps.assets.models import Asset
from apps.assets.selectors import (
    IS_DEFAULT,
    LAB_ITSELF,
    NOWHERE,
    Book,
    Books,
    Filters,
    Sums,
    assets_of,
    books_of,
    matching,
    through,
)
from apps.catalog.choices import HardwareKind
from apps.core.errors import InvalidInput
from apps.dashboard.embodied_format import Amount, amount, column_unit, hour_to_us, years
from apps.dashboard.formatting import Unit, percent
from apps.dashboard.runs.runs_page import Sort
from apps.fleet.selectors import sites_of

PAGE_ROWS = 50
UNDO_ROWS = 200  # events that one link can undo
DEFAULT_SORT = "name"
EMPTY = Book()
FIGURE_LABELS = {
    "default": "Default (average)",
    "model": "Of the model",
    "stated": "Stated",
    "unknown": "Unknown",
}
BY_COLUMN = {"name": "name", "kind": "kind", "state": "state", "owner": "owner__name"}
SORTS = (*BY_COLUMN, *COLUMNS)


@dataclass(frozen=True)
class AssetRow:
    """An asset in the list. ``past``: it is past its planned end."""

    asset: Asset
    age: str
    total: Amount
    charged: Amount | None
    balance: Amount | None
    life_end_us: int | None
    past: bool


@dataclass(frozen=True)
class Totals:
    """Sums over assets with known embodied carbon. ``unknown`` is the number of the others."""

    number: int
    unknown: int
    total: Amount
    charged: Amount
    balance: Amount
    written_off: Amount


@dataclass(frozen=True)
class DefaultShare:
    """The assets whose embodied carbon is the average of a category. ``href``: their list."""

    number: int
    percent: str
    total: Amount
    href: str


@dataclass(frozen=True)
class AssetsPage:
    """A page of the list."""

    rows: list[AssetRow]
    unit: str
    headline: Totals | None
    totals: Totals | None
    filters: Filters
    number_of_filters: int
    sort: str
    sorts: dict[str, Sort]
    kinds: list[tuple[str, str]]
    states: list[tuple[str, str]]
    owners: list[tuple[str, str]]
    sites: list[tuple[str, str]]
    first: int
    last: int
    before: str
    after: str
    csv: str
    filter_query: str
    here: str
    any_assets: bool
    figures: list[tuple[str, str]]
    defaults: DefaultShare | None


def _page_number(text: str) -> int:
    if not (text.isascii() and text.isdecimal()) or not 1 <= int(text[:9]) <= 10**7:
        raise InvalidInput(
            f"{text[:20]!r} is not a page.", field="page", hint="Pages count from 1."
        )
    return int(text)


def _known_sort(sort: str) -> str:
    """Return the sort column. Raises InvalidInput for an unknown one."""
    column = sort.removeprefix("-")
    if column not in SORTS:
        known = ", ".join(SORTS)
        raise InvalidInput(
            f"{sort[:40]!r} is not a sort.",
            field="sort",
            hint=f"Use one of {known}, with - for descending.",
        )
    return column


def _by_text(assets: QuerySet[Asset], column: str, *, falling: bool) -> list[int]:
    """Return all ids in the order of a text, ignoring case."""
    keys = [
        ((text or "").casefold(), pk)
        for pk, text in assets.order_by().values_list("pk", BY_COLUMN[column])
    ]
    return [pk for _, pk in sorted(keys, reverse=falling)]


def totals_of(sums: Sums, spread: tuple[int, int], unit: Unit | None = None) -> Totals:
    """Return sums for display. ``spread``: uncertainty of the sum, (below, above)."""
    less, more = spread
    return Totals(
        number=sums.assets,
        unknown=sums.assets - sums.known,
        total=amount(sums.total_ug, unit, low=sums.total_ug - less, high=sums.total_ug + more),
        charged=amount(sums.charged_ug, unit),
        balance=amount(sums.balance_ug, unit),
        written_off=amount(sums.written_off_ug, unit),
    )


def parse_filters(params: Mapping[str, str]) -> Filters:
    """Return the filters of a list of assets."""
    return Filters(**{name: params.get(name, "").strip() for name in Filters.__dataclass_fields__})


def assets_page(*, lab: Lab, params: Mapping[str, str], now: int) -> AssetsPage:
    """Return a page of assets. The number of queries does not depend on the number of rows."""
    filters = parse_filters(params)
    sort, hour = params.get("sort", DEFAULT_SORT), through(now)
    number = _page_number(params.get("page", "1"))
    column, before = _known_sort(sort), (number - 1) * PAGE_ROWS
    assets = matching(lab, filters)
    every = Books(lab, assets, hour)
    sums, spread = every.whole(), every.spread()
    if column in COLUMNS:
        page_ids = every.sorted(
            column, falling=sort.startswith("-"), limit=PAGE_ROWS, offset=before
        )
    else:
        page_ids = _by_text(assets, column, falling=sort.startswith("-"))[
            before : before + PAGE_ROWS
        ]
    by_id = assets_of(lab).select_related("model", "owner", "site", "parent").in_bulk(page_ids)
    books = books_of(assets_of(lab).filter(pk__in=page_ids), hour)
    unit = column_unit(book.total_ug or 0 for book in books.values())
    filter_params = {name: value for name, value in vars(filters).items() if value}
    list_params = filter_params | ({"sort": sort} if sort != DEFAULT_SORT else {})

    def address(**changes: str) -> str:
        return "?" + urlencode({**list_params, **changes})

    projects = list(lab.projects.order_by("name").values_list("slug", "name"))
    places = list(sites_of(lab))
    return AssetsPage(
        rows=[_row(by_id[pk], books.get(pk, EMPTY), unit, hour) for pk in page_ids if pk in by_id],
        unit=unit.name,
        headline=totals_of(sums, spread) if sums.assets else None,
        totals=totals_of(sums, spread, unit) if sums.assets else None,
        filters=filters,
        number_of_filters=len(filter_params),
        sort=sort,
        sorts={name: _sort(name, sort, address) for name in SORTS},
        kinds=list(HardwareKind.choices),
        states=list(AssetState.choices),
        owners=[(LAB_ITSELF, "The lab"), *projects],
        sites=[*((str(site.pk), site.name) for site in places), (NOWHERE, "No site said")],
        first=before + 1,
        last=before + len(page_ids),
        before=address(page=str(number - 1)) if number > 1 else "",
        after=address(page=str(number + 1)) if sums.assets > number * PAGE_ROWS else "",
        filter_query=urlencode(filter_params),
        csv=reverse("assets-csv") + (f"?{urlencode(filter_params)}" if filter_params else ""),
        here=address(page=str(number)) if number > 1 else address(),
        any_assets=bool(sums.assets) or assets_of(lab).exists(),
        figures=list(FIGURE_LABELS.items()),
        defaults=_default_share(lab, assets, sums, hour, address) if sums.known else None,
    )


def _default_share(
    lab: Lab, assets: QuerySet[Asset], sums: Sums, hour: int, address: Callable[..., str]
) -> DefaultShare:
    """Return the part of ``sums`` that rests on default figures."""
    part = Books(lab, assets.filter(IS_DEFAULT), hour).whole()
    return DefaultShare(
        part.known,
        percent(part.total_ug, sums.total_ug),
        amount(part.total_ug),
        address(figure="default"),
    )


def _sort(name: str, current: str, address: Callable[..., str]) -> Sort:
    now = {f"-{name}": "descending", name: "ascending"}.get(current, "")
    return Sort(address(sort=f"-{name}" if now == "ascending" else name), now)


def _row(asset: Asset, book: Book, unit: Any, hour: int) -> AssetRow:
    known = book.total_ug is not None
    end = book.life_end_hour
    return AssetRow(
        asset=asset,
        age=""
        if book.bought_hour is None
        else years((book.disposed_hour or hour) - book.bought_hour),
        total=amount(
            book.total_ug, unit, low=book.low_ug, high=book.high_ug, at_least=book.at_least
        ),
        charged=amount(book.charged_ug, unit) if known else None,
        balance=amount(book.balance_ug, unit) if known else None,
        life_end_us=None if book.disposed_hour is not None else hour_to_us(end),
        past=end is not None and end < hour and book.disposed_hour is None,
    )
