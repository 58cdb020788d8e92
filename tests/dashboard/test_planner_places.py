"""The page Planner: the table of places where a training could run."""

import csv
import io
import re

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from apps.fleet.models import Node
from tests.builders import T0, SmallLab
from tests.dashboard.support import text_of
from tests.dashboard.test_planner import add_gpu
from tests.dashboard.test_planner_estimate import A100_KEY, WORK, rows
from tests.planner.support import A100

pytestmark = pytest.mark.django_db
H100 = "NVIDIA H100 80GB HBM3"
_PLACE = re.compile(r'<tr data-place="([^"]+)"\s+data-fit="(\w*)">(.*?)</tr>', re.DOTALL)
_CELL = re.compile(
    r'data-cell="(\w+)"\s+data-low="(\d+)"\s+data-likely="(\d+)"\s+data-high="(\d+)"'
)


def places(page: str) -> dict[str, dict[str, int]]:
    """Return the likely figures by place and column, in the order of the page."""
    return {
        key: {name: int(likely) for name, _, likely, _ in _CELL.findall(row)}
        for key, _, row in _PLACE.findall(page)
    }


def second_node(lab: SmallLab, number: int = 0) -> Node:
    """Add a node at the same site."""
    from apps.fleet.services import register_node

    return register_node(
        lab=lab.lab, uuid=f"00000000-0000-4000-8000-{number:012d}", hostname=f"gpu-{number}",
        facts={}, site=lab.site, now=T0,
    )  # type: ignore[arg-type,return-value]  # fmt: skip


def test_a_place_has_the_figures_of_the_estimate(owner: Client, lab: SmallLab) -> None:
    add_gpu(lab, A100)
    page = text_of(owner.get("/planner/", {**WORK, "place": f"{lab.node.uuid}.{A100_KEY}"}))
    (figures,) = (row for key, row in places(page).items() if str(lab.node.uuid) in key)
    estimate = rows(page)
    assert figures["time"] == estimate["time"][1]
    assert figures["energy"] == estimate["energy"][1]
    assert figures["carbon"] == estimate["emission"][1]


def test_the_order_is_by_carbon_or_a_column(owner: Client, lab: SmallLab) -> None:
    add_gpu(lab, A100)
    add_gpu(lab, H100, 1, second_node(lab))
    by_carbon = [row["carbon"] for row in places(text_of(owner.get("/planner/", WORK))).values()
                 if "carbon" in row]  # fmt: skip
    assert len(by_carbon) >= 2
    assert by_carbon == sorted(by_carbon)
    page = text_of(owner.get("/planner/", {**WORK, "sort": "-time"}))
    by_time = [row["time"] for row in places(page).values() if "time" in row]
    assert by_time == sorted(by_time, reverse=True)
    assert 'aria-sort="descending"' in page


def test_an_unknown_order_is_refused(owner: Client) -> None:
    response = owner.get("/planner/", {**WORK, "sort": "beauty"})
    assert response.status_code == 400


def test_without_work_there_are_no_places(owner: Client, lab: SmallLab) -> None:
    add_gpu(lab, A100)
    page = text_of(owner.get("/planner/", {"preset": "resnet50"}))
    assert "data-no-places" in page
    assert places(page) == {}


def test_the_csv_has_the_places(owner: Client, lab: SmallLab) -> None:
    add_gpu(lab, A100)
    found = places(text_of(owner.get("/planner/", WORK)))
    lines = csv.DictReader(io.StringIO(text_of(owner.get("/planner/result.csv", WORK))))
    listed = {line["name"]: line for line in lines if line["section"] == "place"}
    for key, row in found.items():
        for name, value in row.items():
            assert int(listed[f"{key}: {name}_likely"]["value"]) == value
    assert any(row["value"] == "" for row in listed.values())  # unknown is not zero


def test_the_number_of_queries_does_not_depend_on_nodes(owner: Client, lab: SmallLab) -> None:
    add_gpu(lab, A100)
    owner.get("/planner/", WORK)
    with CaptureQueriesContext(connection) as few:
        owner.get("/planner/", WORK)
    for number in range(20):
        add_gpu(lab, A100, number + 1, second_node(lab, number))
    with CaptureQueriesContext(connection) as many:
        owner.get("/planner/", WORK)
    assert len(few) == len(many) <= 60
