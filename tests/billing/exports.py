"""Rows of billing exports for tests and benchmarks, written from the published columns.

AWS: docs.aws.amazon.com/cur/latest/userguide/Lineitem-columns.html and
.../table-dictionary-cur2.html. Google Cloud: cloud.google.com/billing/docs/how-to/
export-data-bigquery-tables/detailed-usage. Azure: learn.microsoft.com/azure/
cost-management-billing/automate/understand-usage-details-fields. All read 2026-11-27. No row is
taken from a real bill.
"""

import csv
import gzip
import io
import json
from collections.abc import Iterable, Mapping
from typing import Any

AWS_ACCOUNT, OTHER_ACCOUNT = "111111111111", "222222222222"
AWS_COLUMNS = (
    "identity/LineItemId",
    "bill/BillingPeriodStartDate",
    "lineItem/UsageAccountId",
    "lineItem/LineItemType",
    "lineItem/UsageStartDate",
    "lineItem/UsageEndDate",
    "lineItem/ProductCode",
    "lineItem/UsageType",
    "lineItem/ResourceId",
    "lineItem/UsageAmount",
    "lineItem/CurrencyCode",
    "lineItem/UnblendedCost",
    "product/instanceType",
    "product/region",
    "resourceTags/user:project",
)


def aws_row(**changes: Any) -> dict[str, str]:
    """Return an hour of an instance with a V100 in Frankfurt on 5 October 2026."""
    hour = changes.pop("hour", 0)
    day = changes.pop("day", 5)
    values = {
        "identity/LineItemId": "a",
        "bill/BillingPeriodStartDate": "2026-10-01T00:00:00Z",
        "lineItem/UsageAccountId": AWS_ACCOUNT,
        "lineItem/LineItemType": "Usage",
        "lineItem/UsageStartDate": f"2026-10-{day:02}T{hour:02}:00:00Z",
        "lineItem/UsageEndDate": f"2026-10-{day + (hour == 23):02}T{(hour + 1) % 24:02}:00:00Z",
        "lineItem/ProductCode": "AmazonEC2",
        "lineItem/UsageType": "EUC1-BoxUsage:p3.2xlarge",
        "lineItem/ResourceId": "i-0abc",
        "lineItem/UsageAmount": "1.0000000000",
        "lineItem/CurrencyCode": "USD",
        "lineItem/UnblendedCost": "3.8230000000",
        "product/instanceType": "p3.2xlarge",
        "product/region": "eu-central-1",
        "resourceTags/user:project": "demo",
    }
    short = {name.partition("/")[2].removeprefix("user:"): name for name in AWS_COLUMNS}
    return values | {short[name]: str(value) for name, value in changes.items()}


def csv_bytes(rows: Iterable[Mapping[str, str]], columns: Iterable[str] = AWS_COLUMNS) -> bytes:
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, fieldnames=list(columns))
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()


AZURE_COLUMNS = (
    "SubscriptionId",
    "Date",
    "ChargeType",
    "MeterCategory",
    "MeterName",
    "UnitOfMeasure",
    "Quantity",
    "CostInBillingCurrency",
    "BillingCurrency",
    "ResourceLocation",
    "ResourceId",
    "AdditionalInfo",
    "Tags",
    "BillingPeriodStartDate",
)


def azure_row(**changes: Any) -> dict[str, str]:
    """Return a day of an instance with a V100 in the Netherlands."""
    values = {
        "SubscriptionId": "sub-1",
        "Date": "10/05/2026",
        "ChargeType": "Usage",
        "MeterCategory": "Virtual Machines",
        "MeterName": "NC6s v3",
        "UnitOfMeasure": "1 Hour",
        "Quantity": "24",
        "CostInBillingCurrency": "73.44",
        "BillingCurrency": "EUR",
        "ResourceLocation": "westeurope",
        "ResourceId": "/subscriptions/sub-1/resourceGroups/rg/providers/vm/train-1",
        "AdditionalInfo": '{"ServiceType":"Standard_NC6s_v3","VMName":""}',
        "Tags": '"project": "demo","env": "x"',
        "BillingPeriodStartDate": "10/01/2026",
    }
    return values | {name: str(value) for name, value in changes.items()}


def gcp_row(**changes: Any) -> dict[str, Any]:
    """Return an hour of the cores of an instance of 8 cores in the Netherlands."""
    values: dict[str, Any] = {
        "billing_account_id": "01-02-03",
        "service": {"id": "6F81", "description": "Compute Engine"},
        "sku": {"id": "s", "description": "N1 Predefined Instance Core running in Netherlands"},
        "usage_start_time": "2026-10-05 10:00:00 UTC",
        "usage_end_time": "2026-10-05 11:00:00 UTC",
        "project": {"id": "lab-train", "labels": []},
        "labels": [{"key": "project", "value": "demo"}],
        "system_labels": [
            {"key": "compute.googleapis.com/machine_spec", "value": "n1-standard-8"},
            {"key": "compute.googleapis.com/cores", "value": "8"},
        ],
        "location": {"region": "europe-west4"},
        "cost": 0.25,
        "currency": "EUR",
        "usage": {"amount": 28800.0, "unit": "seconds"},
        "credits": [],
        "invoice": {"month": "202610"},
        "cost_type": "regular",
    }
    return values | changes


def json_bytes(rows: Iterable[Mapping[str, Any]]) -> bytes:
    return "".join(f"{json.dumps(row)}\n" for row in rows).encode()


def packed(content: bytes) -> bytes:
    return gzip.compress(content)
