"""The four Scope 2 activities of the case study, recorded on pages: training on a workstation with
a collector, training and serving in a cloud region, a backup server, a backup in the cloud.
"""

import csv
import io
import re
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
import time_machine
from django.test import Client

from apps.activity.models import Activity
from apps.billing.models import BilledMonth
from apps.core.jobs import run_until_idle
from apps.core.units import MJ_PER_KWH
from tests.assets.support import bought
from tests.billing.exports import aws_row, csv_bytes
from tests.billing.pages import assigned, uploaded
from tests.builders import T0, SmallLab
from tests.dashboard.support import assert_each_figure_explains_itself, figures_on, text_of, use

MONTH = "from=2026-10-31T23:00Z&to=2026-11-30T23:00Z"  # November in Berlin
DECEMBER = datetime(2026, 12, 2, 8, tzinfo=UTC)
DAYS = {"first_day": "2026-11-01", "last_day": "2026-11-30", "project": "demo"}
CLOUD_HOURS, VCPU_MW = 48, 740 + (3500 - 740) // 2  # of AWS at 50 %
ENTERED = {
    "cloud_compute": {
        "name": "Training and serving", "zone": "eu-central-1", "provider": "aws",
        "hours": str(CLOUD_HOURS), "utilization": "50", "vcpus": "8", "instances": "1",
    },
    "file_server": {"name": "Backup server", "zone": "DE", "kwh": "31.5"},
    "cloud_backup": {
        "name": "Backup in the cloud", "zone": "eu-central-1", "provider": "aws",
        "tb_months": "12", "medium": "hdd", "replicas": "1",
    },
}  # fmt: skip
ENERGY_MJ = {
    "cloud_compute": CLOUD_HOURS * 8 * VCPU_MW * 3600,
    "file_server": 31_500 * MJ_PER_KWH // 1000,
    "cloud_backup": 5_694 * MJ_PER_KWH // 1000,  # 0.65 W per TB for a year
}
WORKSTATION_MJ = 5 * 10_000_003  # of the windows of ``use``


@pytest.fixture
def lab(lab: SmallLab) -> Iterator[SmallLab]:
    with time_machine.travel(DECEMBER, tick=False):
        yield lab


def _enter(client: Client) -> dict[str, str]:
    """Record the activities on their pages; return the address of each."""
    addresses = {}
    for kind, form in ENTERED.items():
        reply = client.post(f"/activities/add/{kind}/", {**DAYS, **form})
        assert reply.status_code == 302, text_of(reply)[:3000]
        addresses[kind] = reply["Location"]
    run_until_idle(worker="test")
    return addresses


def _scopes(client: Client) -> dict[tuple[str, str], tuple[int, int]]:
    """Return {(profile, scope): (energy, emissions)} of the CSV, with lines of use added."""
    sums: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0])
    for row in csv.DictReader(io.StringIO(text_of(client.get(f"/scopes.csv?{MONTH}")))):
        sums[row["profile"], row["scope"]][0] += int(row["energy_mj"] or 0)
        sums[row["profile"], row["scope"]][1] += int(row["emission_ug_co2e"] or 0)
    return {key: (energy, emission) for key, (energy, emission) in sums.items()}


def test_the_case_study_in_both_profiles_down_to_factor_and_source(
    lab: SmallLab, owner: Client
) -> None:
    use(lab, runs=5)
    bought(lab, name="Workstation GPU", kg=150, at_us=T0 - 10**12)
    addresses = _enter(owner)
    emissions = {}
    for kind, address in addresses.items():
        page = text_of(owner.get(address))
        shown = {
            re.search(r"metric=(\w+)", query)[1]: value  # type: ignore[index]
            for query, value in figures_on(page)
        }
        assert shown["energy_mj"] == ENERGY_MJ[kind]
        assert "data-source" in page
        assert assert_each_figure_explains_itself(owner, page) >= 3
        [explained] = {query for query, _ in figures_on(page) if "emission_ug" in query}
        explanation = text_of(owner.get(f"/explain/?{explained}"))
        assert "data-factor" in explanation
        assert "Germany" in explanation
        emissions[kind] = shown["emission_ug"]
    sums = _scopes(owner)
    cloud = ENERGY_MJ["cloud_compute"] + ENERGY_MJ["cloud_backup"]
    own = ENERGY_MJ["file_server"] + WORKSTATION_MJ
    assert sums["ghg_protocol", "2"][0] == own
    assert sums["ghg_protocol", "3.1"] == (
        cloud,
        emissions["cloud_compute"] + emissions["cloud_backup"],
    )
    assert sums["lesson", "2"][0] == own + cloud
    assert sums["lesson", "2"][1] == sums["ghg_protocol", "2"][1] + sums["ghg_protocol", "3.1"][1]
    embodied = {
        profile: sum(
            emission
            for (found, scope), (_, emission) in sums.items()
            if found == profile and scope not in ("2", "3.1")
        )
        for profile in ("ghg_protocol", "lesson")
    }
    assert embodied["ghg_protocol"] == embodied["lesson"] > 0
    page = text_of(owner.get(f"/scopes/?{MONTH}&both=1"))
    assert assert_each_figure_explains_itself(owner, page) > 8


def test_the_four_activities_are_four_lines_of_the_project(lab: SmallLab, owner: Client) -> None:
    use(lab)
    _enter(owner)
    page = text_of(owner.get(f"/projects/demo/?{MONTH}"))
    for form in ENTERED.values():
        assert form["name"] in page
    assert "train.py" in page


def _november(first: int, hours: int, instance_type: str, **changes: str) -> list[dict[str, str]]:
    """Return lines of ``hours`` successive hours of an instance from a day of November on."""
    rows = []
    for i in range(hours):
        day, hour = first + i // 24, i % 24
        end = datetime(2026, 11, day, hour, tzinfo=UTC).timestamp() + 3600
        rows.append(
            aws_row(
                BillingPeriodStartDate="2026-11-01T00:00:00Z",
                UsageStartDate=f"2026-11-{day:02}T{hour:02}:00:00Z",
                UsageEndDate=f"{datetime.fromtimestamp(end, UTC):%Y-%m-%dT%H:%M:%SZ}",
                UsageType=f"EUC1-BoxUsage:{instance_type}",
                instanceType=instance_type,
                **changes,
            )
        )
    return rows


def test_training_and_serving_in_the_cloud_by_the_bill_of_its_provider(
    lab: SmallLab, owner: Client
) -> None:
    """p3.2xlarge: 8 vCPUs, 61 GB, a V100 of 300 W. g4dn.xlarge: 4 vCPUs, 16 GB, a T4 of 70 W."""
    use(lab, runs=5)
    serving = {"ResourceId": "i-serving"}
    stored = aws_row(
        BillingPeriodStartDate="2026-11-01T00:00:00Z",
        UsageStartDate="2026-11-01T00:00:00Z",
        UsageEndDate="2026-11-30T00:00:00Z",
        UsageType="EUC1-EBS:VolumeUsage.gp3",
        UsageAmount="500",
        instanceType="",
    )
    credit = aws_row(
        BillingPeriodStartDate="2026-11-01T00:00:00Z", LineItemType="Credit", UnblendedCost="-9"
    )
    rows = [
        *_november(3, 20, "p3.2xlarge"),
        *_november(5, 72, "g4dn.xlarge", **serving),
        stored,
        credit,
    ]
    address = uploaded(owner, csv_bytes(rows))
    assigned(owner, address)
    owner.post(address)
    run_until_idle(worker="test")
    training_mj = 20 * 3600 * (8 * VCPU_MW + 61 * 392 + 150_000)
    serving_mj = 72 * 3600 * (4 * VCPU_MW + 16 * 392 + 35_000)
    stored_mj = round(500 * 2**30 * 720 * 1.2 / 10**12 * 3_600_000)  # 1.2 Wh per TB-hour
    month = BilledMonth.objects.get()
    page = text_of(owner.get(f"/billing/months/{month.pk}/"))
    found = re.findall(r'data-activity="([^"]+)"', page)
    sums: dict[str, int] = defaultdict(int)
    for uuid in found:
        activity = text_of(owner.get(f"/activities/{uuid}/"))
        assert "data-source" in activity
        assert assert_each_figure_explains_itself(owner, activity) >= 3
        name = re.search(r"<h1[^>]*>(.*?)[,<]", activity)
        assert name is not None
        [energy] = {value for query, value in figures_on(activity) if "=energy_mj" in query}
        sums[name[1].strip()] += energy
    assert sums["p3.2xlarge"] == training_mj
    assert sums["g4dn.xlarge"] == serving_mj
    assert abs(sums["Storage"] - stored_mj) <= 4
    scopes = _scopes(owner)
    cloud = sum(sums.values())
    assert scopes["ghg_protocol", "2"][0] == WORKSTATION_MJ
    assert scopes["ghg_protocol", "3.1"][0] == cloud == month.energy_mj
    assert scopes["lesson", "2"][0] == WORKSTATION_MJ + cloud
    stated = Activity.objects.exclude(embodied_ug=None).values_list("embodied_ug", flat=True)
    assert len(stated) == 4  # a day of training, three of serving
    page = text_of(owner.get(f"/scopes/?{MONTH}"))
    assert f'data-cloud-hardware="{sum(stated)}"' in page
