"""Billing exports: hours count once, money lines carry no hours, a month is replaced as a whole."""

import io
import random
import zipfile
from collections import Counter
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import time_machine
from django.test import override_settings

from apps.accounts.models import AuditEntry
from apps.activity.models import Activity
from apps.activity.services import withdraw_activity
from apps.billing.formats import gcp
from apps.billing.models import BilledMonth, BilledUse, BillingFile, BillingItem, FilePart
from apps.billing.services import month_uses
from apps.billing.services.month_versions import confirm, record_batches, remove_month
from apps.core.clock import now_us
from apps.core.errors import Conflict, InvalidInput
from apps.core.jobs import enqueue, run_until_idle
from apps.core.units import US_PER_HOUR
from apps.energy.models import DeviceHour, LedgerEntry
from apps.fleet.models import Device, Node
from apps.ingest.services.seal import seal_windows
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
from tests.billing.support import checked, recorded, uploaded
from tests.builders import SmallLab, small_lab

pytestmark = pytest.mark.django_db
# p3.2xlarge: 8 vCPUs, 61 GB, a V100 of 300 W, at 50 %: 8 × (0.74 + 2.76 / 2) + 61 × 0.392 + 150 W.
P3_MW = 8 * (740 + (3500 - 740) // 2) + 61 * 392 + 150_000


@pytest.fixture
def lab() -> SmallLab:
    return small_lab()


def active() -> list[Activity]:
    return list(Activity.objects.filter(withdrawn_us=None).order_by("start_us", "pk"))


def review() -> None:
    """Run the daily review."""
    enqueue(kind="billing.review_months", key="")
    run_until_idle(worker="test")


def ledger_mj() -> int:
    return sum(LedgerEntry.objects.values_list("energy_mj", flat=True))


def hours(activity: Activity) -> Fraction:
    return Fraction(activity.inputs["hours"])


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
    from apps.billing.services import month_uses, month_versions

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


def test_every_gpu_of_google_is_in_the_catalogue(lab: SmallLab) -> None:
    for name in gcp.GPUS:
        sku = {"description": f"Nvidia Tesla {name} GPU running in Netherlands"}
        row = gcp_row(sku=sku, usage={"amount": 3600, "unit": "seconds"}, system_labels=[])
        recorded(lab, json_bytes([row]), tag="none")
        assert len(active()) == 1, name


def test_hours_that_a_collector_measured_count_once(lab: SmallLab) -> None:
    """An instance was billed for 6 h. Its collector measured 90 min: 4.5 h remain."""
    lab.node.facts = {"cloud_instance_id": "i-0abc"}
    lab.node.save()
    device = Device.objects.create(lab=lab.lab, node=lab.node, key="gpu:1", kind="gpu")
    start = 1_791_158_400_000_000  # 5 October 2026
    for hour, covered_us in ((0, US_PER_HOUR), (1, US_PER_HOUR // 2)):
        DeviceHour.objects.create(
            device=device,
            hour=start // US_PER_HOUR + hour,
            node=lab.node,
            lab=lab.lab,
            covered_us=covered_us,
            windows=1,
            energy_mj=1,
        )
    rows = [aws_row(hour=hour) for hour in range(6)]
    other = aws_row(ResourceId="i-0other", instanceType="p3.8xlarge")
    recorded(lab, csv_bytes([*rows, other]))
    by_type = {each.inputs["instance_type"]: hours(each) for each in active()}
    assert by_type == {"p3.2xlarge": Fraction(9, 2), "p3.8xlarge": 1}
    item = BillingItem.objects.get(resource="i-0abc")
    assert (item.amount_millionths, item.covered_millionths) == (6_000_000, 1_500_000)
    # later uploads of the collector
    DeviceHour.objects.create(
        device=device,
        hour=start // US_PER_HOUR + 2,
        node=lab.node,
        lab=lab.lab,
        covered_us=US_PER_HOUR,
        windows=1,
        energy_mj=1,
    )
    review()
    by_type = {each.inputs["instance_type"]: hours(each) for each in active()}
    assert by_type == {"p3.2xlarge": Fraction(7, 2), "p3.8xlarge": 1}


def test_an_archived_month_is_not_replaced(lab: SmallLab, tmp_path: Path) -> None:
    recorded(lab, csv_bytes([aws_row()]))
    run_until_idle(worker="test")
    before = list(Activity.objects.order_by("pk").values())
    ledger = ledger_mj()
    with override_settings(ARCHIVE_DIR=tmp_path / "archive"):
        assert seal_windows(before_hour=active()[0].end_us // US_PER_HOUR + 1).windows == 1
    file = recorded(lab, csv_bytes([aws_row(UsageAmount="2")]))
    [month] = file.months.all()
    assert not month.is_current
    assert "archived" in month.problem
    assert list(Activity.objects.order_by("pk").values()) == before
    assert ledger_mj() == ledger


def test_a_damaged_archive_is_refused(lab: SmallLab) -> None:
    for method in (zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2, zipfile.ZIP_DEFLATED):
        archive = io.BytesIO()
        with zipfile.ZipFile(archive, "w", method) as zipped:
            zipped.writestr("a.csv", csv_bytes(aws_row(hour=hour) for hour in range(20)))
        content = bytearray(archive.getvalue())
        content[60:120] = bytes(60)
        file = uploaded(lab, bytes(content))
        assert file.state == "refused", method
    newer = bytearray(archive.getvalue())
    newer[newer.rindex(b"PK\x01\x02") + 6] = 99  # needs version 9.9
    assert uploaded(lab, bytes(newer)).state == "refused"


def test_the_same_lines_in_two_files_are_refused(lab: SmallLab) -> None:
    content = csv_bytes(aws_row(hour=hour) for hour in range(3))
    for other in (packed(content), content.replace(b"\r\n", b"\n"), content + b"\n"):
        file = uploaded(lab, content, other)
        assert file.state == "refused"
        assert "same lines" in file.problem


def test_use_between_preview_and_recording_is_counted(lab: SmallLab) -> None:
    """The energy of the month is that of its activities on the day of recording."""
    with time_machine.travel(datetime(2026, 10, 3, 12, tzinfo=UTC), tick=False):
        file = checked(lab, csv_bytes(aws_row(day=day) for day in range(1, 7)))
        assert file.months.get().number_of_uses == 2
    with time_machine.travel(datetime(2026, 10, 20, tzinfo=UTC), tick=False):
        confirm(file=file, by=lab.owner, now=now_us())
        run_until_idle(worker="test")
    month = file.months.get()
    assert (month.number_of_uses, len(active())) == (6, 6)
    assert month.energy_mj == sum(each.energy_mj for each in active()) == 6 * P3_MW * 3600


def test_days_that_end_later_are_counted_by_the_review(lab: SmallLab) -> None:
    with time_machine.travel(datetime(2026, 10, 3, 12, tzinfo=UTC), tick=False):
        recorded(lab, csv_bytes(aws_row(day=day) for day in range(1, 7)))
        assert len(active()) == 2
    with time_machine.travel(datetime(2026, 10, 9, tzinfo=UTC), tick=False):
        review()
    assert len(active()) == 6
    assert BilledMonth.objects.get().energy_mj == ledger_mj()


def test_two_workers_record_versions_of_a_month(
    lab: SmallLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(month_uses, "BATCH", 3)
    recorded(lab, csv_bytes(aws_row(day=day) for day in range(1, 20)))
    second = checked(lab, csv_bytes(aws_row(day=day, hour=5) for day in range(2, 25)))
    rows = [aws_row(day=day, instanceType="g4dn.xlarge") for day in range(1, 25)]
    third = checked(lab, csv_bytes([*rows, aws_row(day=3)]))
    workers = []
    for file in (second, third):
        confirm(file=file, by=lab.owner, now=now_us())
        workers.append(record_batches(uuid=file.uuid, now=now_us()))
    while workers:
        for worker in list(workers):
            if next(worker, None) is None:
                workers.remove(worker)
    month = BilledMonth.objects.get(is_current=True)
    assert month.file == third
    assert len(active()) == 25 == month.uses.count()
    assert month.energy_mj == sum(each.energy_mj for each in active())


GPU_SKU = {"description": "Nvidia Tesla T4 GPU running in Netherlands"}
ON_INSTANCE = {"resource": {"global_name": "//compute.googleapis.com/projects/p/instances/77"}}


def measure(lab: SmallLab, hours_of_day: range, name: str = "gpu:1", **node: Any) -> None:
    """Let a collector on an instance measure hours of 5 October 2026."""
    lab.node.facts = {"cloud_instance_id": "77"}
    lab.node.save()
    where = node.get("node", lab.node)
    device = Device.objects.create(lab=lab.lab, node=where, key=name, kind="gpu")
    for hour in hours_of_day:
        DeviceHour.objects.create(
            device=device, hour=1_791_158_400_000_000 // US_PER_HOUR + hour, node=where,
            lab=lab.lab, covered_us=US_PER_HOUR, windows=1, energy_mj=1,
        )  # fmt: skip


def billed_hours(first: int, hours: int, **changes: Any) -> list[dict[str, Any]]:
    return [
        gcp_row(
            usage_start_time=f"2026-10-05 {hour:02}:00:00 UTC",
            usage_end_time=f"2026-10-05 {hour:02}:59:59 UTC",
            **{**ON_INSTANCE, **changes},
        )
        for hour in range(first, first + hours)
    ]


def test_gpus_of_a_covered_instance_are_covered(lab: SmallLab) -> None:
    measure(lab, range(6))
    gpus = billed_hours(0, 12, sku=GPU_SKU, usage={"amount": 7200, "unit": "seconds"})
    recorded(lab, json_bytes([*billed_hours(0, 12), *gpus]))
    left = {each.name.partition(",")[0]: hours(each) for each in active()}
    assert left == {"n1-standard-8": 6, "Tesla T4": 12}  # half of 12 h, half of 24 GPU-hours


def test_a_day_on_two_bills_is_covered_once(lab: SmallLab) -> None:
    measure(lab, range(10))
    november = {"invoice": {"month": "202611"}}
    recorded(lab, json_bytes([*billed_hours(0, 7), *billed_hours(7, 17, **november)]))
    assert sorted(hours(each) for each in active()) == [14]


def test_an_instance_that_was_installed_anew(lab: SmallLab) -> None:
    other = Node.objects.create(
        lab=lab.lab, uuid=uuid4(), hostname="b", enrolled_us=1, facts={"cloud_instance_id": "77"}
    )
    measure(lab, range(12))
    measure(lab, range(12, 24), "gpu:2", node=other)
    recorded(lab, json_bytes(billed_hours(0, 24)))
    assert not active()
    # enrolled by a collector that does not report the id: what was measured stays
    Node.objects.update(facts={})
    review()
    assert not active()
    recorded(lab, json_bytes(billed_hours(0, 24, cost=0.5)))
    assert not active()


def test_commitments_are_money_only(lab: SmallLab) -> None:
    sku = {"description": "Commitment v1: Nvidia Tesla T4 GPU running in EMEA for 1 Year"}
    row = gcp_row(sku=sku, usage={"amount": 86400, "unit": "seconds"}, cost=5, system_labels=[])
    recorded(lab, json_bytes([row, gcp_row()]))
    assert [each.name for each in active()] == ["n1-standard-8, europe-west4"]
    assert BillingItem.objects.get(charge="fee").cost_ucurrency == 5_000_000


def test_large_buckets_and_capacity_by_the_hour(lab: SmallLab) -> None:
    bucket = {"description": "Cloud Storage"}
    month = {"amount": 5e14 * 86400 * 31, "unit": "byte-seconds"}
    row = gcp_row(service=bucket, sku={"description": "Standard Storage"}, usage=month)
    recorded(lab, json_bytes([row]))
    assert active()[0].inputs["tb_months"].startswith("509.58904")  # 500 TB × 744 h ÷ 730 h
    rows = [
        azure_row(MeterCategory="Storage", MeterName="Ultra LRS Provisioned Capacity",
                  UnitOfMeasure="1 GiB/Hour", Quantity="7300"),
        azure_row(MeterCategory="Storage", MeterName="P30 LRS Disk Mount",
                  UnitOfMeasure="1/Month", Quantity="1"),
        azure_row(MeterCategory="Bandwidth", MeterName="Standard Inter-Availability Zone",
                  UnitOfMeasure="1 GB", Quantity="5"),
    ]  # fmt: skip
    recorded(lab, csv_bytes(rows, AZURE_COLUMNS))
    [disk] = [each for each in active() if each.zone == "NL" and each.inputs["medium"] == "ssd"]
    assert disk.inputs["tb_months"] == "0.010737418"  # 10 GiB-months of 730 h
    assert len(active()) == 2


def test_unused_reservations_are_money_only(lab: SmallLab) -> None:
    unused = aws_row(UsageType="EUC1-UnusedBox:p3.2xlarge", UnblendedCost="7")
    recorded(lab, csv_bytes([aws_row(), unused]))
    assert [hours(each) for each in active()] == [1]
    assert BillingItem.objects.get(charge="fee").cost_ucurrency == 7_000_000


def test_a_removed_month_counts_no_more(lab: SmallLab) -> None:
    recorded(lab, csv_bytes([aws_row(), aws_row(UsageAccountId=OTHER_ACCOUNT)]))
    month = BilledMonth.objects.get(account=OTHER_ACCOUNT)
    remove_month(month=month, reason="not ours", by=lab.owner, now=now_us())
    run_until_idle(worker="test")
    assert len(active()) == 1
    assert ledger_mj() == P3_MW * 3600
    assert AuditEntry.objects.filter(action="billing.removed").count() == 1
    with pytest.raises(Conflict, match="cloud bill"):
        withdraw_activity(activity=active()[0], reason="x", by=lab.owner, now=now_us())


def test_an_archived_month_does_not_stop_the_review_of_others(
    lab: SmallLab, tmp_path: Path
) -> None:
    measure(lab, range(2))
    recorded(lab, json_bytes(billed_hours(0, 6)))
    with override_settings(ARCHIVE_DIR=tmp_path / "archive"):
        assert seal_windows(before_hour=active()[0].end_us // US_PER_HOUR + 1).windows == 1
    later = small_lab()
    measure(later, range(2))
    recorded(later, json_bytes(billed_hours(0, 6)))
    for each in (lab, later):
        measure(each, range(2, 4), "gpu:9")
    review()
    assert "archived" in BilledMonth.objects.get(lab=lab.lab).problem
    assert [hours(each) for each in active() if each.lab == later.lab] == [2]


def test_unconfirmed_exports_are_deleted_after_a_week(lab: SmallLab) -> None:
    file = uploaded(lab, csv_bytes([aws_row()]))
    BillingFile.objects.filter(pk=file.pk).update(created_us=now_us() - 8 * 86_400_000_000)
    review()
    assert not BillingFile.objects.exists()
    assert not FilePart.objects.exists()


def test_the_last_object_needs_no_end_of_line(lab: SmallLab) -> None:
    recorded(lab, json_bytes([gcp_row()]).rstrip())
    assert [hours(each) for each in active()] == [1]
    file = uploaded(lab, json_bytes([gcp_row(), gcp_row()])[:-5])
    assert file.state == "refused"


def test_names_that_no_database_stores(lab: SmallLab) -> None:
    rows = [aws_row(project="de\x00mo"), aws_row()]
    assert [hours(each) for each in active()] == []
    recorded(lab, csv_bytes(rows))
    assert {each.project.slug if each.project else "" for each in active()} == {"", "demo"}
    recorded(lab, json_bytes([gcp_row(labels=[{"key": "project", "value": "\ud800"}])]))


def test_many_values_of_a_tag_are_mentioned(lab: SmallLab) -> None:
    file = uploaded(lab, csv_bytes(aws_row(project=f"p{i}") for i in range(350)))
    assert len(file.found["tags"]["project"]) == 300
    assert file.found["has_more_tags"]
