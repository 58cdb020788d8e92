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

from apps.core.jobs import run_until_idle
from apps.core.units import MJ_PER_KWH
from tests.assets.support import bought
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
