"""Cloud bills: damaged or overlapping ones, two workers, and hours that a collector measured."""

import io
import zipfile
from datetime import UTC, datetime
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
from apps.billing.models import BilledMonth, BillingFile, BillingItem, FilePart
from apps.billing.services import month_uses
from apps.billing.services.month_versions import confirm, record_batches, remove_month
from apps.core.clock import now_us
from apps.core.errors import Conflict
from apps.core.jobs import run_until_idle
from apps.core.units import US_PER_HOUR
from apps.energy.models import DeviceHour
from apps.fleet.models import Device, Node
from apps.ingest.services.seal import seal_windows
from tests.billing.exports import (
    AZURE_COLUMNS,
    OTHER_ACCOUNT,
    aws_row,
    azure_row,
    csv_bytes,
    gcp_row,
    json_bytes,
    packed,
)
from tests.billing.support import active, checked, hours, ledger_mj, recorded, review, uploaded
from tests.builders import SmallLab, small_lab

pytestmark = pytest.mark.django_db
# p3.2xlarge: 8 vCPUs, 61 GB, a V100 of 300 W, at 50 %: 8 × (0.74 + 2.76 / 2) + 61 × 0.392 + 150 W.
P3_MW = 8 * (740 + (3500 - 740) // 2) + 61 * 392 + 150_000


@pytest.fixture
def lab() -> SmallLab:
    return small_lab()


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
