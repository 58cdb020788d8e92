"""Cost and usage details of Azure, as CSV: actual or amortized cost. Pure.

Columns: learn.microsoft.com/azure/cost-management-billing/automate/understand-usage-details-fields,
read 2026-11-27. ``Quantity`` counts hours, GB-months or GB, also where the unit of measure is a
block such as 100 Hours. Sizes of disks: learn.microsoft.com/azure/virtual-machines/disks-types.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal

from apps.billing.choices import Category, Charge
from apps.billing.formats.line import (
    DAY_US,
    GB,
    GIB,
    MAX_CURRENCY,
    MAX_RESOURCE,
    MONTH_HOURS,
    Line,
    day_us,
    decimal_of,
    json_texts,
    month_hours,
    month_of,
    text_of,
)
from apps.core.errors import InvalidInput

NAME = "Cost and usage details of Azure (CSV)"
REQUIRED = ("date", "chargetype", "metercategory", "quantity", "unitofmeasure")
# Columns by any of their names in the agreements of Azure.
ONE_OF = {
    "subscription": ("subscriptionid", "subscriptionguid"),
    "cost": ("costinbillingcurrency", "cost", "pretaxcost"),
    "currency": ("billingcurrency", "billingcurrencycode", "currency", "currencycode"),
}
_CHARGES = {
    "usage": Charge.USAGE,
    "purchase": Charge.FEE,
    "unusedreservation": Charge.FEE,
    "unusedsavingsplan": Charge.FEE,
    "refund": Charge.REFUND,
    "credit": Charge.CREDIT,
    "tax": Charge.TAX,
}
_COMPUTE = frozenset({"virtual machines", "azure machine learning", "cloud services"})
_STORAGE = frozenset({"storage", "azure netapp files", "backup"})
_TRANSFER = frozenset({"bandwidth"})
_RESERVATIONS = frozenset({"", "reservations", "savings plans", "savings plan"})
_WITHIN_REGION = re.compile(r"inter-?\s?(?:availability )?zone|intra", re.IGNORECASE)
_DISK = re.compile(r"^([PES])(\d+)(?:\s|$)")
DISK_GIB = {
    1: 4, 2: 8, 3: 16, 4: 32, 6: 64, 10: 128, 15: 256, 20: 512, 30: 1024, 40: 2048, 50: 4096,
    60: 8192, 70: 16_384, 80: 32_767,
}  # fmt: skip


def column_name(heading: str) -> str:
    """Return a heading without case and spaces."""
    return heading.strip().lstrip("\ufeff").replace(" ", "").lower()


def lines(headings: Sequence[str], rows: Iterator[Sequence[str]]) -> Iterator[Line]:
    """Yield the lines of an export. Raises InvalidInput."""
    position = {column_name(heading): i for i, heading in enumerate(headings)}
    for each, names in ONE_OF.items():
        position[f"*{each}"] = next(position[name] for name in names if name in position)
    for row in rows:

        def cell(name: str, row: Sequence[str] = row) -> str:
            i = position.get(name)
            return "" if i is None else row[i].strip()

        yield _line(cell)


def _line(cell: Callable[[str], str]) -> Line:
    charge = _CHARGES.get(cell("chargetype").lower(), Charge.OTHER)
    meter = cell("metercategory").lower()
    start = day_us(cell("date"), "Date")
    period = cell("billingperiodstartdate")
    month = month_of(day_us(period, "BillingPeriodStartDate") if period else start)
    if abs(_number(month_of(start)) - _number(month)) > 1:
        raise InvalidInput(
            f"Date {cell('date')[:20]!r} is not in the billing month {month}.",
            field="file",
            hint="Days are read as month/day/year, or as 2026-10-31.",
        )
    extra = json_texts(cell("additionalinfo"))
    category, amount, medium = Category.NONE, Decimal(0), ""
    if charge == Charge.USAGE:
        category, amount, medium = _use(cell, meter, month)
    is_listed = category != Category.NONE
    if charge != Charge.USAGE:
        is_listed = meter in _COMPUTE | _STORAGE | _TRANSFER | _RESERVATIONS
    is_instance = category == Category.COMPUTE
    instance_type = extra.get("ServiceType") or _type_of_meter(cell("metername"))
    return Line(
        account=text_of(cell("*subscription"), "SubscriptionId"),
        month=month,
        start_us=start,
        end_us=start + DAY_US,
        charge=charge,
        category=category,
        amount=amount,
        cost=decimal_of(cell("*cost"), "Cost", is_required=is_listed),
        currency=text_of(cell("*currency"), "BillingCurrency", MAX_CURRENCY),
        is_listed=is_listed,
        instance_type=text_of(instance_type, "ServiceType") if is_instance else "",
        medium=medium,
        region=text_of(
            (cell("resourcelocation") or cell("meterregion")).replace(" ", "").lower(),
            "ResourceLocation",
        ),
        resource=text_of(cell("resourceid").lower(), "ResourceId", MAX_RESOURCE)
        if is_instance
        else "",
        tags=json_texts(cell("tags")),
    )


def _use(cell: Callable[[str], str], meter: str, month: str) -> tuple[Category, Decimal, str]:
    """Return category, amount and medium of what a line counts."""
    unit, name = cell("unitofmeasure").lower(), cell("metername")
    is_known = meter in _COMPUTE | _STORAGE | _TRANSFER
    quantity = decimal_of(cell("quantity"), "Quantity", is_required=is_known)
    gibibytes = quantity * GIB / GB
    of_month = month_hours(month) / MONTH_HOURS
    if meter in _COMPUTE and "hour" in unit:
        return Category.COMPUTE, quantity, ""
    if meter in _TRANSFER and "gb" in unit and not _WITHIN_REGION.search(name):
        return Category.TRANSFER, gibibytes, ""
    if meter in _STORAGE:
        if re.search(r"gi?b", unit) and "month" in unit:
            return Category.STORAGE, gibibytes * of_month, "object"
        if re.search(r"gi?b", unit) and "hour" in unit:  # provisioned capacity
            return Category.STORAGE, gibibytes / MONTH_HOURS, "ssd"
        disk = None if "mount" in name.lower() else _DISK.match(name)
        if disk and "month" in unit and int(disk[2]) in DISK_GIB:
            medium = "hdd" if disk[1] == "S" else "ssd"
            return Category.STORAGE, gibibytes * DISK_GIB[int(disk[2])] * of_month, medium
    return Category.NONE, Decimal(0), ""


def _number(month: str) -> int:
    """Return the number of a month such as 2026-10."""
    return 12 * int(month[:4]) + int(month[5:])


def _type_of_meter(name: str) -> str:
    """Return the instance type of a meter such as ``D2 v3/D2s v3 Spot``: the first one."""
    return re.sub(r"\s+(?:Spot|Low Priority)$", "", name.split("/")[0].strip())
