"""Billing exports: hours count once, money lines carry no hours, a month is replaced as a whole."""

import io
import random
import zipfile
from collections import Counter
from decimal import Decimal
from fractions import Fraction

import pytest

from apps.accounts.models import AuditEntry
from apps.activity.models import Activity
from apps.billing.models import BilledMonth, BilledUse, BillingFile, BillingItem, FilePart
from apps.billing.services import month_uses
from apps.billing.services.month_versions import confirm
from apps.core.clock import now_us
from apps.core.errors import InvalidInput
from apps.core.jobs import run_until_idle
from tests.billing.exports import (
    AWS_ACCOUNT,
    AZURE_COLUMNS,
    OTHER_ACCOUNT,
    aws_row,
    azure_row,
    csv_bytes,
    gcp_row,
    json_bytes,
    packed,
)
from tests.billing.support import active, checked, hours, ledger_mj, recorded, uploaded
from tests.builders import SmallLab, small_lab

pytestmark = pytest.mark.django_db
# p3.2xlarge: 8 vCPUs, 61 GB, a V100 of 300 W, at 50 %: 8 × (0.74 + 2.76 / 2) + 61 × 0.392 + 150 W.
P3_MW = 8 * (740 + (3500 - 740) // 2) + 61 * 392 + 150_000


@pytest.fixture
def lab() -> SmallLab:
    return small_lab()


def test_hours_of_a_day_are_one_activity_of_the_tagged_project(lab: SmallLab) -> None:
    file = recorded(lab, csv_bytes(aws_row(hour=hour) for hour in range(6)))
    [activity] = active()
    assert activity.project == lab.lab.projects.get(slug="demo")
    assert activity.kind == "cloud_compute"
    assert (hours(activity), activity.zone, activity.inputs["gpus"]) == (6, "DE", "1")
    assert activity.energy_mj == P3_MW * 6 * 3600 == ledger_mj()
    assert activity.end_us - activity.start_us == 86_400_000_000
    [month] = file.months.all()
    assert (month.month, month.version, month.is_current, month.currency) == (
        "2026-10",
        1,
        True,
        "USD",
    )
    assert [item.cost_ucurrency for item in month.items.all()] == [6 * 3_823_000]
    assert not FilePart.objects.exists()
    assert AuditEntry.objects.filter(action="billing.recorded").count() == 1


MONEY = {
    "Credit": ("credit", "-10"),
    "Tax": ("tax", "1.9"),
    "Refund": ("refund", "-3.823"),
    "RIFee": ("fee", "100"),
    "SavingsPlanNegation": ("discount", "-3.823"),
    "EdpDiscount": ("discount", "-0.5"),
    "SomethingNew": ("other", "2"),
}


@pytest.mark.parametrize("kind", sorted(MONEY))
def test_money_lines_carry_no_hours(lab: SmallLab, kind: str) -> None:
    charge, cost = MONEY[kind]
    money = aws_row(LineItemType=kind, UsageAmount="744", UnblendedCost=cost)
    file = recorded(lab, csv_bytes([aws_row(), money]))
    assert [hours(each) for each in active()] == [1]
    item = BillingItem.objects.get(charge=charge)
    assert (item.amount_millionths, item.category, item.start_us) == (0, "", 0)
    assert item.cost_ucurrency == int(Decimal(cost) * 10**6)
    assert (file.lines, file.ignored) == (2, 0)


@pytest.mark.parametrize("kind", ["DiscountedUsage", "SavingsPlanCoveredUsage"])
def test_reserved_hours_are_hours(lab: SmallLab, kind: str) -> None:
    recorded(lab, csv_bytes([aws_row(LineItemType=kind, UnblendedCost="0")]))
    assert [hours(each) for each in active()] == [1]


def test_other_accounts_and_services_are_not_stored(lab: SmallLab) -> None:
    rows = [
        aws_row(),
        aws_row(UsageAccountId=OTHER_ACCOUNT),
        aws_row(ProductCode="AmazonRoute53", UsageType="DNS-Queries"),
        aws_row(UsageType="EUC1-EBS:VolumeIOUsage", instanceType=""),
    ]
    accounts = {AWS_ACCOUNT: (True, ""), OTHER_ACCOUNT: (False, "")}
    file = recorded(lab, csv_bytes(rows), accounts=accounts)
    assert (file.lines, file.ignored) == (4, 3)
    assert BillingItem.objects.count() == 1
    assert not BilledMonth.objects.filter(account=OTHER_ACCOUNT).exists()


def test_the_same_export_twice_changes_nothing(lab: SmallLab) -> None:
    content = csv_bytes(aws_row(day=day, hour=3) for day in range(1, 10))
    recorded(lab, content)
    before = list(Activity.objects.order_by("pk").values())
    recorded(lab, packed(content))
    assert list(Activity.objects.order_by("pk").values()) == before
    [month] = BilledMonth.objects.filter(is_current=True)
    assert month.version == 2
    assert BilledUse.objects.filter(month=month).count() == 9


def test_a_corrected_month_replaces_the_whole_month_and_only_it(lab: SmallLab) -> None:
    october = [aws_row(day=day) for day in (1, 2, 3)]
    september = [
        row
        | {"bill/BillingPeriodStartDate": "2026-09-01T00:00:00Z"}
        | {
            "lineItem/UsageStartDate": "2026-09-10T00:00:00Z",
            "lineItem/UsageEndDate": "2026-09-10T01:00:00Z",
        }
        for row in [aws_row()]
    ]
    recorded(lab, csv_bytes([*september, *october]))
    kept = {each.pk for each in active() if each.start_us % 10 == 0}
    corrected = [aws_row(day=1), aws_row(day=2, UsageAmount="5"), aws_row(day=4)]
    recorded(lab, csv_bytes(corrected))
    assert [hours(each) for each in active()] == [1, 1, 5, 1]
    assert len(kept & {each.pk for each in active()}) == 2  # September and 1 October
    assert ledger_mj() == sum(each.energy_mj for each in active())
    withdrawn = Activity.objects.exclude(withdrawn_us=None)
    assert [each.withdrawn_reason for each in withdrawn] == [
        "Replaced by version 2 of the billing export"
    ] * 2
    recorded(lab, csv_bytes(october))  # back to the first version
    assert [hours(each) for each in active()] == [1, 1, 1, 1]
    assert ledger_mj() == sum(each.energy_mj for each in active())


def test_a_killed_recording_continues(lab: SmallLab, monkeypatch: pytest.MonkeyPatch) -> None:
    from apps.billing.services import month_versions

    monkeypatch.setattr(month_uses, "BATCH", 2)
    file = checked(lab, csv_bytes(aws_row(day=day) for day in range(1, 10)))
    confirm(file=file, by=lab.owner, now=now_us())
    for number, _ in enumerate(month_versions.record_batches(uuid=file.uuid, now=now_us())):
        if number == 1:
            break
    assert 0 < len(active()) < 9
    run_until_idle(worker="test")
    assert len(active()) == 9
    assert AuditEntry.objects.filter(action="billing.recorded").count() == 1


def test_unknown_types_and_regions_are_listed_and_counted_nowhere(lab: SmallLab) -> None:
    rows = [
        aws_row(),
        aws_row(instanceType="x99.huge"),
        aws_row(region="eu-nowhere-9"),
        aws_row(region=""),
        aws_row(UsageAmount="-2", instanceType="p3.8xlarge"),
    ]
    recorded(lab, csv_bytes(rows))
    assert len(active()) == 1
    problems = BillingItem.objects.exclude(problem="")
    assert problems.count() == 4
    assert "x99.huge" in BillingItem.objects.get(instance_type="x99.huge").problem


def test_storage_and_transfer(lab: SmallLab) -> None:
    rows = [
        aws_row(
            UsageType="EUC1-EBS:VolumeUsage.gp3",
            instanceType="",
            UsageAmount="1000",
            UsageEndDate="2026-11-01T00:00:00Z",
            UsageStartDate="2026-10-01T00:00:00Z",
        ),
        aws_row(
            ProductCode="AmazonS3",
            UsageType="EUC1-TimedStorage-ByteHrs",
            instanceType="",
            UsageAmount="10",
            hour=4,
        ),
        aws_row(UsageType="EUC1-DataTransfer-Out-Bytes", instanceType="", UsageAmount="100"),
    ]
    recorded(lab, csv_bytes(rows))
    gib_month = Fraction(2**30, 10**9) * 744 / 730
    by_kind = {(each.kind, each.inputs.get("medium")): each for each in active()}
    volume = by_kind["cloud_storage", "ssd"]
    assert abs(Fraction(volume.inputs["tb_months"]) - gib_month) < Fraction(1, 10**9)
    assert volume.end_us - volume.start_us == 31 * 86_400_000_000
    bucket = by_kind["cloud_storage", "object"]
    assert abs(Fraction(bucket.inputs["tb_months"]) - gib_month / 100) < Fraction(1, 10**9)
    transfer = by_kind["network_transfer", None]
    assert transfer.inputs["gigabytes"] == "107.374182"


def test_use_of_a_day_that_did_not_end_waits(lab: SmallLab) -> None:
    later = "2999-01-01T0{}:00:00Z"
    row = aws_row(
        UsageStartDate=later.format(1),
        UsageEndDate=later.format(2),
        BillingPeriodStartDate="2999-01-01T00:00:00Z",
    )
    with pytest.raises(AssertionError, match="out of range"):
        recorded(lab, csv_bytes([row]))
    row = aws_row(
        UsageStartDate="2199-12-01T01:00:00Z",
        UsageEndDate="2199-12-01T02:00:00Z",
        BillingPeriodStartDate="2199-12-01T00:00:00Z",
    )
    recorded(lab, csv_bytes([aws_row(), row]))
    assert len(active()) == 1
    assert BillingItem.objects.filter(problem="").count() == 2


def test_several_files_and_a_zip_form_one_export(lab: SmallLab) -> None:
    first = csv_bytes(aws_row(day=day) for day in (1, 2))
    second = csv_bytes(aws_row(day=day) for day in (2, 3))
    recorded(lab, first, packed(second))
    assert [hours(each) for each in active()] == [1, 2, 1]
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as zipped:
        zipped.writestr("a/1.csv", first)
        zipped.writestr("a/2.csv.txt", second)
    recorded(lab, archive.getvalue())
    assert [hours(each) for each in active()] == [1, 2, 1]
    assert Activity.objects.count() == 3  # the same uses
    with pytest.raises(InvalidInput, match="same content"):
        uploaded(lab, first, first)


CUR2 = (
    "bill_billing_period_start_date,line_item_usage_account_id,line_item_line_item_type,"
    "line_item_usage_start_date,line_item_usage_end_date,line_item_product_code,"
    "line_item_usage_type,line_item_usage_amount,line_item_unblended_cost,"
    "line_item_currency_code,product_region_code,resource_tags\n"
    "2026-10-01T00:00:00.000Z,111111111111,Usage,2026-10-05T10:00:00.000Z,"
    "2026-10-05T11:00:00.000Z,AmazonEC2,EUC1-BoxUsage:p3.2xlarge,1.0,3.823,USD,eu-central-1,"
    '"{""user_project"": ""demo""}"\n'
)


def test_cur_2(lab: SmallLab) -> None:
    recorded(lab, CUR2.encode())
    [activity] = active()
    assert (hours(activity), activity.project and activity.project.slug) == (1, "demo")


def test_azure(lab: SmallLab) -> None:
    rows = [
        azure_row(),
        azure_row(UnitOfMeasure="100 Hours", Quantity="2", Date="2026-10-06"),
        azure_row(ChargeType="UnusedReservation", Quantity="10", CostInBillingCurrency="9"),
        azure_row(ChargeType="Purchase", MeterCategory="", Quantity="1"),
        azure_row(ChargeType="Refund", Quantity="-24", CostInBillingCurrency="-73.44"),
        azure_row(
            MeterCategory="Storage", MeterName="P10 LRS Disk", UnitOfMeasure="1/Month",
            Quantity="0.5", AdditionalInfo="",
        ),
        azure_row(
            MeterCategory="Bandwidth", MeterName="Standard Data Transfer Out",
            UnitOfMeasure="1 GB", Quantity="3",
        ),
        azure_row(MeterCategory="Key Vault", UnitOfMeasure="10K", Quantity="1"),
    ]  # fmt: skip
    file = recorded(lab, csv_bytes(rows, AZURE_COLUMNS))
    assert file.provider == "azure"
    compute = [each for each in active() if each.kind == "cloud_compute"]
    assert [hours(each) for each in compute] == [24, 2]
    assert {each.zone for each in active()} == {"NL"}
    assert {each.kind for each in active()} == {
        "cloud_compute", "cloud_storage", "network_transfer",
    }  # fmt: skip
    assert file.ignored == 1
    charges = Counter(dict(BillingItem.objects.values_list("charge", "cost_ucurrency")))
    assert charges["refund"] == -73_440_000


def test_google(lab: SmallLab) -> None:
    gpu = {"id": "g", "description": "Nvidia Tesla V100 GPU running in Netherlands"}
    ram = {"id": "r", "description": "N1 Predefined Instance Ram running in Netherlands"}
    disk = {"id": "d", "description": "SSD backed PD Capacity in Netherlands"}
    rows = [
        gcp_row(credits=[{"name": "Sustained", "amount": -0.05}]),
        gcp_row(sku=ram, usage={"amount": 1.1e14, "unit": "byte-seconds"}, cost=0.1),
        gcp_row(sku=gpu, usage={"amount": 3600.0, "unit": "seconds"}, cost=1.0),
        gcp_row(sku=disk, usage={"amount": 3.6e15, "unit": "byte-seconds"}, system_labels=[]),
        gcp_row(cost_type="tax", service={"description": "Invoice"}, usage=None, cost=7),
        gcp_row(cost_type="adjustment", usage={"amount": -28800, "unit": "seconds"}, cost=-0.2),
        gcp_row(service={"description": "BigQuery"}),
    ]
    file = recorded(lab, packed(json_bytes(rows)))
    assert file.provider == "gcp"
    by_name = {each.name.partition(",")[0]: each for each in active()}
    assert hours(by_name["n1-standard-8"]) == 1
    assert by_name["Tesla V100-SXM2-16GB"].inputs["gpus"] == "1"
    assert hours(by_name["Tesla V100-SXM2-16GB"]) == 1
    assert by_name["Storage"].inputs["tb_months"] == "0.001369863"  # 1 GB, 1 000 h of 730
    assert sum(BillingItem.objects.values_list("cost_ucurrency", flat=True)) == int(
        Decimal("8.35") * 10**6
    )


def test_random_exports_sum_as_an_oracle(lab: SmallLab) -> None:
    """The oracle sums the rows as it makes them, by day and type, in whole milli-hours."""
    random.seed(7)
    expected: Counter[tuple[int, str, str]] = Counter()
    cost = 0
    rows = []
    for _ in range(600):
        day, hour = random.randrange(1, 20), random.randrange(24)
        kind = random.choice(["p3.2xlarge", "p4d.24xlarge", "m5.large"])
        line = random.choice(["Usage", "DiscountedUsage", "Credit", "Refund", "RIFee"])
        tag = random.choice(["demo", "unknown", ""])
        thousandths, cents = random.randrange(1, 1000), random.randrange(-500, 500)
        rows.append(
            aws_row(
                day=day, hour=hour, instanceType=kind, LineItemType=line, project=tag,
                UsageAmount=f"{thousandths / 1000:.3f}", UnblendedCost=f"{cents / 100:.2f}",
            )
        )  # fmt: skip
        cost += cents * 10_000
        if line in ("Usage", "DiscountedUsage"):
            expected[day, kind, tag if tag == "demo" else ""] += thousandths
    recorded(lab, csv_bytes(rows))
    found: Counter[tuple[int, str, str]] = Counter()
    for activity in active():
        day = (activity.start_us // 86_400_000_000 - 20_727) + 1  # since 1 October 2026
        slug = activity.project.slug if activity.project else ""
        found[day, activity.inputs["instance_type"], slug] += int(hours(activity) * 1000)
    assert found == expected
    assert sum(BillingItem.objects.values_list("cost_ucurrency", flat=True)) == cost
    assert ledger_mj() == sum(each.energy_mj for each in active())


BAD = {
    "empty": b" ",
    "no export": b"a,b\n1,2\n",
    "parquet": b"PAR1xxxx",
    "binary": b"\x00\xff" * 100,
    "broken gzip": packed(csv_bytes([aws_row()]))[:-20],
    "bad number": csv_bytes([aws_row(UsageAmount="many")]),
    "bad time": csv_bytes([aws_row(UsageStartDate="5 October")]),
    "NUL": csv_bytes([aws_row(region="eu\x00")]),
    "quote": csv_bytes([aws_row()]) + b'"open',
    "column": csv_bytes([aws_row()]).replace(b"lineItem/UsageAmount", b"lineItem/X"),
    "twice": csv_bytes([aws_row()]).replace(b"identity/LineItemId", b"lineItem/UsageAmount"),
    "currencies": csv_bytes([aws_row(), aws_row(CurrencyCode="EUR")]),
    "json": b'{"service": []}\n',
    "json line": json_bytes([gcp_row()]) + b"[1]\n",
    "nothing": csv_bytes([aws_row(ProductCode="AmazonRoute53")]),
    "cut at the end": csv_bytes([aws_row()])[:-3],
    "cut after the last cell": csv_bytes([aws_row()]).rstrip(),
    "cells": csv_bytes([aws_row()]) + b"a,b,c\n",
    "no amount": csv_bytes([aws_row(UsageAmount="")]),
    "no cost": csv_bytes([aws_row(UnblendedCost="")]),
    "null amount": json_bytes([gcp_row(usage={"amount": None, "unit": "seconds"})]),
    "exponent": json_bytes([gcp_row(cost=1)]).replace(
        b'"cost": 1,', b'"cost": 1e9999999999999999999,'
    ),
    "gzip twice": packed(packed(csv_bytes([aws_row()]))),
    "long currency": csv_bytes([aws_row(CurrencyCode="X" * 50)]),
    "day first": csv_bytes([azure_row(Date="05/10/2026")], AZURE_COLUMNS),
    "latin": csv_bytes([aws_row(region="é")]).decode().encode("latin-1"),
}


@pytest.mark.parametrize("name", sorted(BAD))
def test_files_that_cannot_be_read_say_why_and_record_nothing(lab: SmallLab, name: str) -> None:
    file = checked(lab, BAD[name])
    assert file.state == "refused"
    assert len(file.problem) > 20
    assert not BillingItem.objects.exists()
    assert not FilePart.objects.exists()
    assert not Activity.objects.exists()


def test_a_bomb_is_refused(lab: SmallLab, monkeypatch: pytest.MonkeyPatch) -> None:
    from apps.billing.services import file_contents

    monkeypatch.setattr(file_contents, "MAX_UNPACKED_BYTES", 1 << 20)
    content = csv_bytes([aws_row()]) + b" " * (4 << 20)
    file = uploaded(lab, packed(content))
    assert file.state == "refused"
    assert "GiB" in file.problem


def test_the_files_of_another_lab_are_unaffected(lab: SmallLab) -> None:
    other = small_lab()
    recorded(lab, csv_bytes([aws_row()]))
    assert not BilledMonth.objects.filter(lab=other.lab).exists()
    assert not BillingFile.objects.filter(lab=other.lab).exists()
