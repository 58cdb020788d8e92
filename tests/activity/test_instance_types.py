"""Sizes of instance types, and cloud compute that uses them."""

import csv
from pathlib import Path

import pytest

from apps.activity.instance_types import instance_types, with_size
from apps.activity.services import preview_activity
from apps.catalog.choices import HardwareKind
from apps.catalog.selectors import match
from apps.core.clock import now_us
from apps.core.errors import InvalidInput
from tests.activity.support import draft
from tests.builders import SmallLab, small_lab

USE = {"provider": "aws", "hours": "10", "utilization": "50"}
# Accelerators that the catalogue does not have: their maximum power must be recorded first.
UNKNOWN = {"AWS Inferentia2", "AWS Trainium", "AWS Trainium2", "GRID K520", "Radeon Pro V520"}


@pytest.fixture
def lab(db: None) -> SmallLab:
    return small_lab()


def test_every_type_is_listed_once_with_a_size() -> None:
    path = Path("apps/activity/data/instance_types.csv")
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(instance_types()) == len(rows) > 2000
    for row in rows:
        assert row["provider"] in ("aws", "azure", "gcp")
        assert float(row["vcpus"]) > 0
        assert float(row["memory_gb"]) > 0
        assert row["gpus"] == "" or int(row["gpus"]) > 0
        assert row["gpus"] or not row["gpu"]
        assert row["source"]


def test_the_catalogue_knows_the_gpus_of_the_types(lab: SmallLab) -> None:
    names = {row.gpu for row in instance_types().values() if row.gpu}
    unknown = set()
    for name in names:
        model = match(HardwareKind.GPU, name, lab.lab).model
        if model is None or model.tdp_mw is None:
            unknown.add(name)
    assert unknown == UNKNOWN


def test_a_known_type_has_the_energy_of_its_entered_size(lab: SmallLab) -> None:
    def energy(**inputs: str) -> tuple[int, int, int]:
        found = preview_activity(
            lab=lab.lab, draft=draft(kind="cloud_compute", inputs={**USE, **inputs}), now=now_us()
        ).estimate
        return found.low_mj, found.energy_mj, found.high_mj

    by_type = energy(instance_type="P4d.24xlarge")
    by_size = energy(vcpus="96", memory_gb="1152", gpus="8", gpu="NVIDIA A100-SXM4-40GB")
    assert by_type == by_size
    assert energy(instance_type="p4d.24xlarge", vcpus="2") == energy(vcpus="2")


def test_the_filled_size_is_stored_with_its_source(lab: SmallLab) -> None:
    inputs = {**USE, "instance_type": "p4d.24xlarge"}
    found = preview_activity(
        lab=lab.lab, draft=draft(kind="cloud_compute", inputs=inputs), now=now_us()
    )
    assert found.inputs["gpus"] == "8"
    assert found.inputs["vcpus"] == "96"
    assert "size of the instance type" in found.estimate.source


@pytest.mark.parametrize(
    ("provider", "name", "is_known"),
    [
        ("azure", "Standard_NC24ads_A100_v4", True),
        ("azure", "NC24ads A100 v4", True),
        ("aws", "NC24ads A100 v4", False),
        ("other", "p4d.24xlarge", False),
        ("aws", "p99.huge", False),
        ("aws", "", False),
    ],
)
def test_names_of_types(provider: str, name: str, is_known: bool) -> None:
    filled, source = with_size({"provider": provider, "instance_type": name})
    assert ("vcpus" in filled) == is_known
    assert bool(source) == is_known


def test_an_unknown_type_needs_a_size(lab: SmallLab) -> None:
    unknown = draft(kind="cloud_compute", inputs={**USE, "instance_type": "p99.huge"})
    with pytest.raises(InvalidInput) as error:
        preview_activity(lab=lab.lab, draft=unknown, now=now_us())
    assert error.value.field == "vcpus"
