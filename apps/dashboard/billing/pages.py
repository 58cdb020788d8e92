"""Contents of the pages of billing exports."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date

from apps.accounts.models import Lab
from apps.activity.formulas.cloud_storage import MEDIA
from apps.activity.models import Activity
from apps.billing.choices import Category, Charge, FileState, Provider
from apps.billing.models import BilledMonth, BillingFile, BillingItem
from apps.billing.selectors import (
    MonthSums,
    UseRow,
    activities_of_month,
    files_of,
    item_rows,
    month_sums,
    months_of,
    previous_of,
    use_rows,
)
from apps.core.clock import utc
from apps.core.units import amount_text, money_unit
from apps.dashboard.formatting import ENERGY, grouped

SHOWN_MONTHS = 120
SHOWN_FILES = 20
SHOWN_USES = 200
SHOWN_ACTIVITIES = 100
ITEM_HEADER = (
    "charge", "category", "from_utc", "to_utc", "instance_type", "gpu", "medium", "region",
    "instance_id", "project", "amount_millionths", "unit", "covered_millionths", "cost_millionths",
    "currency", "lines", "problem",
)  # fmt: skip
UNITS = {
    Category.COMPUTE: "hours",
    Category.STORAGE: "GB-months",
    Category.TRANSFER: "GB",
    Category.NONE: "",
}
_MEDIA = dict(MEDIA)


@dataclass(frozen=True)
class MonthRow:
    """A month with its sums, and the version that it replaces or None."""

    month: BilledMonth
    name: str
    sums: MonthSums
    hours: str
    energy: str
    cost: str
    before: "MonthRow | None" = None


@dataclass(frozen=True)
class BillingPage:
    """The list of months and exports."""

    months: list[MonthRow]
    files: list[BillingFile]


@dataclass(frozen=True)
class UseLine:
    """A row of use with its amounts as displayed."""

    use: UseRow
    category: str
    what: str
    amount: str
    covered: str
    cost: str


@dataclass(frozen=True)
class FilePage:
    """An export in its state. ``charges``: name and cost of each kind of charge, by currency."""

    file: BillingFile
    is_busy: bool
    percent: int | None
    months: list[MonthRow]
    charges: list[tuple[str, str]]
    problems: list[UseLine]
    has_new_uses: bool


@dataclass(frozen=True)
class MonthPage:
    """A billed month: charges, use by type, region and project, and its activities."""

    row: MonthRow
    charges: list[tuple[str, str]]
    uses: list[UseLine]
    more_uses: int
    activities: list[tuple[Activity, str]]
    more_activities: int
    provider: str


def billing_page(lab: Lab) -> BillingPage:
    """Return the list. Three queries."""
    months = list(months_of(lab)[:SHOWN_MONTHS])
    return BillingPage(_month_rows(months), files_of(lab, SHOWN_FILES))


def _month_rows(months: list[BilledMonth]) -> list[MonthRow]:
    sums = month_sums(months)
    return [_month_row(month, sums[month.pk]) for month in months]


def _month_row(month: BilledMonth, sums: MonthSums, before: "MonthRow | None" = None) -> MonthRow:
    return MonthRow(
        month=month,
        name=f"{date.fromisoformat(f'{month.month}-01'):%B %Y}",
        sums=sums,
        hours=_amount(sums.hours_millionths, "h"),
        energy=amount_text(month.energy_mj, ENERGY),
        cost=_cost(sums.cost_ucurrency, month.currency),
        before=before,
    )


def _amount(millionths: int, unit: str) -> str:
    tenths = (abs(millionths) + 50_000) // 100_000
    sign = "−" if millionths < 0 and tenths else ""
    return f"{sign}{grouped(tenths // 10)}.{tenths % 10} {unit}"


def _cost(ucurrency: int, currency: str) -> str:
    return amount_text(ucurrency, (money_unit(currency),))


def file_page(file: BillingFile) -> FilePage:
    """Return the page of an export."""
    is_busy = file.state in (FileState.SCANNING, FileState.READING, FileState.RECORDING)
    months: list[BilledMonth] = []
    if file.state in (FileState.CHECKED, FileState.DONE):
        months = list(file.months.select_related("file").order_by("month", "account"))
    before = previous_of(months) if file.state == FileState.CHECKED else {}
    sums = month_sums([*months, *before.values()])
    rows = []
    for month in months:
        earlier = before.get((month.account, month.month))
        row = None if earlier is None else _month_row(earlier, sums[earlier.pk])
        rows.append(_month_row(month, sums[month.pk], row))
    done = file.bytes_done if file.state != FileState.RECORDING else 0
    return FilePage(
        file=file,
        is_busy=is_busy,
        percent=100 * done // file.bytes if done and file.bytes else None,
        months=rows,
        charges=_charges(rows),
        problems=[
            _use_line(use, month.currency)
            for month in months
            for use in use_rows(month)
            if use.problem
        ][:SHOWN_USES],
        has_new_uses=any(month.number_of_uses for month in months),
    )


def _charges(rows: list[MonthRow]) -> list[tuple[str, str]]:
    """Return name and cost of each kind of charge; of several currencies each."""
    sums: dict[tuple[str, str], int] = {}
    for row in rows:
        for charge, cost in row.sums.costs_ucurrency.items():
            key = charge, row.month.currency
            sums[key] = sums.get(key, 0) + cost
    return [
        (Charge(charge).label, _cost(sums[charge, currency], currency))
        for charge in Charge.values
        for currency in sorted({currency for _, currency in sums})
        if (charge, currency) in sums
    ]


def month_page(month: BilledMonth) -> MonthPage:
    """Return the page of a month."""
    [row] = _month_rows([month])
    uses = use_rows(month)
    activities = activities_of_month(month)
    listed = list(activities[:SHOWN_ACTIVITIES])
    return MonthPage(
        row=row,
        charges=_charges([row]),
        uses=[_use_line(use, month.currency) for use in uses[:SHOWN_USES]],
        more_uses=max(0, len(uses) - SHOWN_USES),
        activities=[(each, amount_text(each.energy_mj, ENERGY)) for each in listed],
        more_activities=activities.count() - len(listed),
        provider=Provider(month.provider).label,
    )


def _use_line(use: UseRow, currency: str) -> UseLine:
    category = Category(use.category)
    unit = "h" if category == Category.COMPUTE else UNITS[category]
    return UseLine(
        use=use,
        category=category.label,
        what=_what(use),
        amount=_amount(use.amount_millionths, unit) if use.amount_millionths else "",
        covered=_amount(use.covered_millionths, unit) if use.covered_millionths else "",
        cost=_cost(use.cost_ucurrency, currency),
    )


def _what(use: UseRow) -> str:
    if use.category == Category.STORAGE and use.medium:
        return f"Storage: {_MEDIA.get(use.medium, use.medium).lower()}"
    if use.category == Category.COMPUTE:
        return use.gpu or use.instance_type or "Memory and reservations"
    return "Data transfer"


def csv_rows(month: BilledMonth) -> Iterator[tuple[object, ...]]:
    """Return the items of a month as rows of the CSV."""
    return (_csv_row(month, item) for item in item_rows(month))


def _csv_row(month: BilledMonth, item: BillingItem) -> tuple[object, ...]:
    return (
        item.charge,
        item.category,
        utc(item.start_us).isoformat() if item.end_us else None,
        utc(item.end_us).isoformat() if item.end_us else None,
        item.instance_type,
        item.gpu,
        item.medium,
        item.region,
        item.resource,
        item.project.slug if item.project else None,
        item.amount_millionths,
        UNITS[Category(item.category)],
        item.covered_millionths,
        item.cost_ucurrency,
        month.currency,
        item.lines,
        item.problem,
    )
