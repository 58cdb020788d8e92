"""Cost and Usage Report of AWS, as CSV. Pure.

Columns: docs.aws.amazon.com/cur/latest/userguide/data-dictionary.html (legacy report, headings such
as lineItem/UsageAmount) and .../table-dictionary-cur2.html (CUR 2.0, line_item_usage_amount), read
2026-11-27. Units: GB are 2³⁰ bytes, and a GB-month is of the hours of its month.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from apps.billing.choices import Category, Charge
from apps.billing.formats.line import (
    GB,
    GIB,
    MAX_CURRENCY,
    MAX_RESOURCE,
    MONTH_HOURS,
    Line,
    decimal_of,
    json_texts,
    known_tags,
    month_hours,
    month_of,
    text_of,
    time_us,
)

NAME = "Cost and Usage Report of AWS (CSV)"
REQUIRED = (
    "bill_billing_period_start_date",
    "line_item_usage_account_id",
    "line_item_line_item_type",
    "line_item_usage_start_date",
    "line_item_usage_end_date",
    "line_item_product_code",
    "line_item_usage_type",
    "line_item_usage_amount",
    "line_item_unblended_cost",
    "line_item_currency_code",
)
_TAG = re.compile(r"^resourcetags/(?:user:)?(.+)$", re.IGNORECASE)
_CHARGES = {
    "Usage": Charge.USAGE,
    "DiscountedUsage": Charge.USAGE,
    "SavingsPlanCoveredUsage": Charge.USAGE,
    "Fee": Charge.FEE,
    "RIFee": Charge.FEE,
    "SavingsPlanUpfrontFee": Charge.FEE,
    "SavingsPlanRecurringFee": Charge.FEE,
    "SavingsPlanNegation": Charge.DISCOUNT,
    "BundledDiscount": Charge.DISCOUNT,
    "Discount": Charge.DISCOUNT,
    "EdpDiscount": Charge.DISCOUNT,
    "PrivateRateDiscount": Charge.DISCOUNT,
    "Credit": Charge.CREDIT,
    "Refund": Charge.REFUND,
    "Tax": Charge.TAX,
}
_PRODUCTS = frozenset(
    {
        "AmazonEC2", "AmazonSageMaker", "AmazonS3", "AmazonS3GlacierDeepArchive", "AmazonGlacier",
        "AmazonEFS", "AmazonFSx", "AWSBackup", "AWSDataTransfer", "ComputeSavingsPlans",
    }
)  # fmt: skip
# Usage types may begin with the short name of a region: EUC1-BoxUsage:p3.2xlarge.
_INSTANCE = re.compile(r"(?:^|-)(?:BoxUsage|SpotUsage|DedicatedUsage|HostBoxUsage)(?::(.+))?$")
_SAGEMAKER = re.compile(r"(?:^|-)[A-Za-z_-]+:ml\.(.+)$")
# Capacity that was reserved and not used.
_UNUSED = re.compile(r"(?:^|-)(?:UnusedBox|UnusedDed|Reservation)(?::|$)")
_VOLUME = re.compile(r"(?:^|-)EBS:(VolumeUsage|SnapshotUsage|SnapshotArchiveStorage)(?:\.(.+))?$")
_TIMED = re.compile(r"(?:^|-)(?:TimedStorage|Storage|WarmStorage|ColdStorage)\b.*$")
_TRANSFER = re.compile(r"(?:^|-)(?:DataTransfer-(?:Out|In)-Bytes|AWS-Out-Bytes)$")
_DISKS = frozenset({"standard", "st1", "sc1"})


def column_name(heading: str) -> str:
    """Return a heading in the form of CUR 2.0: lineItem/UsageAmount is line_item_usage_amount."""
    parts = [re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", part) for part in heading.split("/")]
    return "_".join(parts).lower()


def lines(headings: Sequence[str], rows: Iterator[Sequence[str]]) -> Iterator[Line]:
    """Yield the lines of a report. Raises InvalidInput."""
    position = {column_name(heading.strip()): i for i, heading in enumerate(headings)}
    tags = {
        match[1]: i for i, heading in enumerate(headings) if (match := _TAG.match(heading.strip()))
    }
    for row in rows:

        def cell(name: str, row: Sequence[str] = row) -> str:
            i = position.get(name)
            return "" if i is None else row[i]

        yield _line(cell, known_tags((name, row[i]) for name, i in tags.items() if row[i]))


def _line(cell: Callable[[str], str], tags: Mapping[str, str]) -> Line:
    charge = _CHARGES.get(cell("line_item_line_item_type").strip(), Charge.OTHER)
    product = cell("line_item_product_code").strip()
    start = time_us(cell("line_item_usage_start_date"), "UsageStartDate")
    month = month_of(time_us(cell("bill_billing_period_start_date"), "BillingPeriodStartDate"))
    usage = cell("line_item_usage_type").strip()
    category, instance_type, medium = Category.NONE, "", ""
    if charge == Charge.USAGE and product == "AmazonEC2" and _UNUSED.search(usage):
        charge = Charge.FEE
    if charge == Charge.USAGE and product in _PRODUCTS:
        category, instance_type, medium = _use(product, usage, cell("product_instance_type"))
    amount = decimal_of(
        cell("line_item_usage_amount"), "UsageAmount", is_required=category != Category.NONE
    )
    is_listed = product in _PRODUCTS and (charge != Charge.USAGE or category != Category.NONE)
    if category == Category.STORAGE:
        amount = amount * GIB / GB * month_hours(month) / MONTH_HOURS
    elif category == Category.TRANSFER:
        amount = amount * GIB / GB
    elif category == Category.NONE:
        amount *= 0
    if not tags:
        tags = {
            name.removeprefix("user_"): value
            for name, value in json_texts(cell("resource_tags")).items()
        }
    return Line(
        account=text_of(cell("line_item_usage_account_id"), "UsageAccountId"),
        month=month,
        start_us=start,
        end_us=max(time_us(cell("line_item_usage_end_date"), "UsageEndDate"), start),
        charge=charge,
        category=category,
        amount=amount,
        cost=decimal_of(cell("line_item_unblended_cost"), "UnblendedCost", is_required=is_listed),
        currency=text_of(cell("line_item_currency_code"), "CurrencyCode", MAX_CURRENCY),
        is_listed=is_listed,
        instance_type=text_of(instance_type, "InstanceType"),
        medium=medium,
        region=text_of(_region(cell), "Region"),
        resource=text_of(cell("line_item_resource_id"), "ResourceId", MAX_RESOURCE)
        if category == Category.COMPUTE
        else "",
        tags=tags,
    )


def _region(cell: Callable[[str], str]) -> str:
    for name in ("product_region_code", "product_region"):
        if cell(name).strip():
            return cell(name).strip()
    return re.sub(r"[a-z]$", "", cell("line_item_availability_zone").strip())


def _use(product: str, usage: str, instance_type: str) -> tuple[Category, str, str]:
    """Return what a usage type counts: category, instance type, and medium of storage."""
    if product == "AmazonEC2" and (match := _INSTANCE.search(usage)):
        # Without a type in the usage type it is the smallest of the first generation.
        return Category.COMPUTE, instance_type.strip() or match[1] or "m1.small", ""
    if product == "AmazonSageMaker" and (match := _SAGEMAKER.search(usage)):
        return Category.COMPUTE, match[1], ""
    if product == "AmazonEC2" and (match := _VOLUME.search(usage)):
        if match[1] != "VolumeUsage":
            return Category.STORAGE, "", "object"
        return Category.STORAGE, "", "hdd" if (match[2] or "standard") in _DISKS else "ssd"
    if _TRANSFER.search(usage):
        return Category.TRANSFER, "", ""
    if product not in ("AmazonEC2", "AmazonSageMaker", "AWSDataTransfer") and _TIMED.search(usage):
        return Category.STORAGE, "", "object"
    return Category.NONE, "", ""
