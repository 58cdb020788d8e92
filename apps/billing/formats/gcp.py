"""Google Cloud's billing export to BigQuery, as newline-delimited JSON. Pure.

Fields: cloud.google.com/billing/docs/how-to/export-data-bigquery-tables/standard-usage and
.../detailed-usage, read 2026-11-27. Cores, memory and GPUs are separate lines. Hours of an
instance are the core-seconds of its line ÷ the cores of its label; its memory is part of its
machine type, so that lines of memory carry money only.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any

from apps.billing.choices import Category, Charge
from apps.billing.formats.line import (
    GB,
    MAX_CURRENCY,
    MAX_RESOURCE,
    MONTH_HOURS,
    Line,
    decimal_of,
    known_tags,
    text_of,
    time_us,
)
from apps.core.errors import InvalidInput

NAME = "Billing export of Google Cloud (newline-delimited JSON)"
REQUIRED = ("service", "sku", "usage_start_time", "usage_end_time", "cost", "currency", "invoice")
_SERVICES = frozenset(
    {
        "Compute Engine", "Cloud Storage", "Cloud Filestore", "Networking",
    }
)  # fmt: skip
_COST_TYPES = {"regular": Charge.USAGE, "tax": Charge.TAX, "adjustment": Charge.REFUND}
_CORE = re.compile(r"\bCore\b", re.IGNORECASE)
_MEMORY = re.compile(r"\bRam\b", re.IGNORECASE)
_GPU = re.compile(r"\bNvidia\s+(?:Tesla\s+)?(.+?)\s+GPU\b", re.IGNORECASE)
_TRANSFER = re.compile(r"egress|data transfer", re.IGNORECASE)
_WITHIN_REGION = re.compile(r"inter-? ?zone|intra-? ?zone", re.IGNORECASE)
_UNITS = frozenset({"seconds", "byte-seconds", "bytes"})
_SOLID = re.compile(r"\bSSD\b|balanced|hyperdisk|extreme", re.IGNORECASE)
_LABEL = "compute.googleapis.com/"
# GPUs that are attached to other machine types, by their name in a SKU: names of the catalogue.
# cloud.google.com/compute/docs/gpus, read 2026-11-27.
GPUS = {
    "K80": "Tesla K80",
    "P4": "Tesla P4",
    "P100": "Tesla P100-PCIE-16GB",
    "V100": "Tesla V100-SXM2-16GB",
    "T4": "Tesla T4",
    "L4": "NVIDIA L4",
    "A100": "NVIDIA A100-SXM4-40GB",
    "A100 80GB": "NVIDIA A100-SXM4-80GB",
    "H100 80GB": "NVIDIA H100 80GB HBM3",
}


def lines(objects: Iterator[str]) -> Iterator[Line]:
    """Yield the lines of an export: of an object with credits, the use and then each credit.
    Raises InvalidInput.
    """
    for text in objects:
        try:
            row = json.loads(text, parse_float=Decimal)
        except (ValueError, ArithmeticError, RecursionError) as error:
            raise InvalidInput("The line is not a JSON object.", field="file") from error
        if not isinstance(row, dict):
            raise InvalidInput("The line is not a JSON object.", field="file")
        yield from _lines(row)


def _lines(row: Mapping[str, Any]) -> Iterator[Line]:
    service = str(_part(row, "service").get("description") or "")
    sku = str(_part(row, "sku").get("description") or "")
    charge = _COST_TYPES.get(str(row.get("cost_type") or "regular"), Charge.OTHER)
    if charge == Charge.USAGE and sku.startswith("Commitment"):
        charge = Charge.FEE  # the use that it covers has lines of its own
    labels = _labels(row.get("system_labels"))
    category, amount, instance_type, gpu, medium = _NOTHING
    if charge == Charge.USAGE and service in _SERVICES:
        category, amount, instance_type, gpu, medium = _use(row, sku, labels)
    resource = _part(row, "resource")
    start = time_us(row.get("usage_start_time"), "usage_start_time")
    is_listed = category != Category.NONE or (charge != Charge.USAGE and _is_listed(service))
    line = Line(
        account=text_of(_part(row, "project").get("id"), "project.id"),
        month=_month(_part(row, "invoice").get("month")),
        start_us=start,
        end_us=max(time_us(row.get("usage_end_time"), "usage_end_time"), start),
        charge=charge,
        category=category,
        amount=amount,
        cost=decimal_of(row.get("cost"), "cost", is_required=is_listed),
        currency=text_of(row.get("currency"), "currency", MAX_CURRENCY),
        is_listed=is_listed,
        instance_type=text_of(instance_type, "machine_spec"),
        gpu=text_of(gpu, "sku.description"),
        medium=medium,
        region=text_of(_part(row, "location").get("region"), "location.region"),
        resource=text_of(
            str(resource.get("global_name") or "").rpartition("/")[2],
            "resource.global_name",
            MAX_RESOURCE,
        ),
        tags=_labels(_part(row, "project").get("labels")) | _labels(row.get("labels")),
    )
    yield line
    granted = row.get("credits") or ()
    if not isinstance(granted, list | tuple):
        raise InvalidInput("credits is not a list of objects.", field="file")
    for credit in granted:
        if not isinstance(credit, dict):
            raise InvalidInput("credits is not a list of objects.", field="file")
        cost = decimal_of(credit.get("amount"), "credits.amount")
        yield replace(
            line, charge=Charge.CREDIT, category=Category.NONE, amount=Decimal(0), cost=cost
        )


def _is_listed(service: str) -> bool:
    """Taxes and adjustments of a whole invoice belong to no service."""
    return service in _SERVICES or service in ("", "Invoice")


_Use = tuple[Category, Decimal, str, str, str]
_NOTHING: _Use = (Category.NONE, Decimal(0), "", "", "")


def _use(row: Mapping[str, Any], sku: str, labels: Mapping[str, str]) -> _Use:
    """Return category, amount, machine type, GPU and medium of what a line counts."""
    usage = _part(row, "usage")
    unit = str(usage.get("unit") or "")
    amount = decimal_of(usage.get("amount"), "usage.amount", is_required=unit in _UNITS)
    if labels.get(f"{_LABEL}is_unused_reservation", "").lower() == "true":
        return Category.COMPUTE, Decimal(0), "", "", ""
    hours = amount / 3600
    if unit == "seconds" and (match := _GPU.search(sku)):
        machine = labels.get(f"{_LABEL}machine_spec", "")
        if re.match(r"(?:a\d|g\d)-", machine):  # its GPUs are part of the machine type
            return Category.COMPUTE, Decimal(0), "", "", ""
        return Category.COMPUTE, hours, "", GPUS.get(match[1], match[1]), ""
    if unit == "seconds" and _CORE.search(sku):
        machine = labels.get(f"{_LABEL}machine_spec", "")
        cores = decimal_of(labels.get(f"{_LABEL}cores"), "cores")
        if machine and cores > 0 and "custom" not in machine:
            return Category.COMPUTE, hours / cores, machine, "", ""
        return Category.COMPUTE, hours, "vCPU", "", ""
    if unit == "byte-seconds" and _MEMORY.search(sku):
        return Category.COMPUTE, Decimal(0), "", "", ""
    if unit == "byte-seconds":
        medium = "object"
        if str(_part(row, "service").get("description")) == "Compute Engine":
            medium = "ssd" if _SOLID.search(sku) else "hdd"
        return Category.STORAGE, hours / GB / MONTH_HOURS, "", "", medium
    if unit == "bytes" and _TRANSFER.search(sku) and not _WITHIN_REGION.search(sku):
        return Category.TRANSFER, amount / GB, "", "", ""
    return _NOTHING


def _part(row: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = row.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise InvalidInput(f"{name} is not an object.", field="file")
    return value


def _labels(value: Any) -> dict[str, str]:
    if value is None:
        return {}
    if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
        raise InvalidInput("Labels are not a list of key and value.", field="file")
    return known_tags((each.get("key"), each.get("value") or "") for each in value)


def _month(value: Any) -> str:
    text = str(value or "")
    if not re.fullmatch(r"(?:19|20|21)\d\d(?:0[1-9]|1[0-2])", text):
        raise InvalidInput(f"invoice.month {text[:20]!r} is not a month.", field="file")
    return f"{text[:4]}-{text[4:]}"
