"""Facts of a node at enrolment."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from labcarbon_collect.node_facts import describe_disks, node_facts

from tests.collector.sysfs_tree import board, disk
from tests.collector.sysfs_tree import proc as cpu


def test_disks_are_counted_by_model(tmp_path: Path) -> None:
    disk(tmp_path, "nvme0n1")
    disk(tmp_path, "nvme1n1")
    disk(
        tmp_path, "sda", queue__rotational="1", device__model="ST16000NM001G-2K", size="31251759104"
    )
    disks = "1 × ST16000NM001G-2K (HDD, 16000 GB)", "2 × Samsung SSD 990 PRO 2TB (SSD, 2000 GB)"
    assert describe_disks(tmp_path) == "; ".join(disks)


def test_what_is_no_built_in_disk_is_left_out(tmp_path: Path) -> None:
    for name in ("loop0", "ram0", "zram0", "dm-0", "md127", "sr0", "nbd0"):
        disk(tmp_path, name)
    disk(tmp_path, "sdb", removable="1")
    disk(tmp_path, "sdc", size="0")
    disk(tmp_path, "sdd", device__model=" ")
    assert describe_disks(tmp_path) == ""
    assert describe_disks(tmp_path / "nowhere") == ""


def test_a_disks_words_cannot_forge_another(tmp_path: Path) -> None:
    disk(tmp_path, "sda", device__model="a; 9 × b (SSD, 1 GB)\x1b[31m")
    assert describe_disks(tmp_path) == "1 × a 9 b SSD, 1 GB [31m (SSD, 2000 GB)"


def test_many_disks_stay_a_short_text(tmp_path: Path) -> None:
    for i in range(60):
        disk(tmp_path, f"nvme{i}n1", device__model=f"Model {i} {'x' * 30}")
    told = describe_disks(tmp_path)
    assert len(told) <= 256
    assert told.endswith("GB)")


def test_a_machine_names_its_product_and_serial(tmp_path: Path) -> None:
    proc, sys = cpu(tmp_path / "proc"), tmp_path / "sys"
    board(sys, sys_vendor="Dell Inc.", product_name="PowerEdge R750xa", product_serial="ABC1234")
    disk(sys, "sda")
    facts = node_facts(proc, sys)
    assert (facts["product"], facts["serial"]) == ("Dell Inc. PowerEdge R750xa", "ABC1234")
    assert facts["disks"].startswith("1 × Samsung")
    board(sys, sys_vendor="HPE", product_name="HPE ProLiant DL380")
    assert node_facts(proc, sys)["product"] == "HPE ProLiant DL380"


def test_placeholders_of_a_board_are_left_out(tmp_path: Path) -> None:
    proc, sys = cpu(tmp_path / "proc"), tmp_path / "sys"
    board(
        sys,
        sys_vendor="To Be Filled By O.E.M.",
        product_name="System Product Name",
        product_serial="Default string",
    )
    assert {"product", "serial", "disks"}.isdisjoint(node_facts(proc, sys))


def test_a_virtual_machine_has_neither_board_nor_disks_of_its_own(tmp_path: Path) -> None:
    proc, sys = cpu(tmp_path / "proc", "fpu hypervisor"), tmp_path / "sys"
    board(sys, sys_vendor="QEMU", product_name="Standard PC", product_serial="1")
    disk(sys, "sda")
    assert {"product", "serial", "disks"}.isdisjoint(node_facts(proc, sys))


# Written from docs.cloud-init.io/en/latest/explanation/instance-data.html, read 2026-11-27.
RESOURCE = "/subscriptions/S-1/resourceGroups/Rg/providers/Microsoft.Compute/virtualMachines/T-1"
AZURE = {
    "v1": {"cloud_name": "azure", "instance_id": "0a1b"},
    "ds": {"meta_data": {"imds": {"compute": {"resourceId": RESOURCE}}}},
}


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ({"v1": {"cloud_name": "aws", "instance_id": "i-0abc"}}, "i-0abc"),
        ({"v1": {"cloud_name": "gce", "instance_id": "4471"}}, "4471"),
        (AZURE, RESOURCE.lower()),
        ({"v1": {"cloud_name": "azure", "instance_id": "0a1b"}, "ds": []}, None),
        ({"v1": {"cloud_name": "none", "instance_id": "iid-datasource-none"}}, None),
        ({"v1": "aws"}, None),
        ([], None),
        ("not JSON", None),
        (None, None),
    ],
)
def test_an_instance_of_a_cloud_names_its_id(
    tmp_path: Path, content: Any, expected: str | None
) -> None:
    path = tmp_path / "instance-data.json"
    if content is not None:
        path.write_text(content if isinstance(content, str) else json.dumps(content))
    facts = node_facts(cpu(tmp_path / "proc"), tmp_path / "sys", path)
    assert facts.get("cloud_instance_id") == expected
