"""The page Planner: alternatives to the plan, and the interval between checkpoints."""

import csv
import io
import re

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from apps.runs.choices import Failure, RunState
from tests.artifacts.support import run_jobs, trained_model
from tests.builders import SmallLab
from tests.dashboard.support import HOSTILE, text_of
from tests.dashboard.test_planner_estimate import WORK, place, rows
from tests.preflight.support import stored

pytestmark = pytest.mark.django_db
HOUR_US = 3_600_000_000
_CELL = re.compile(
    r'data-difference="(\w+)"\s+data-low="(-?\d+)" data-likely="(-?\d+)" data-high="(-?\d+)"'
)


def differences(page: str) -> dict[str, dict[str, tuple[int, int, int]]]:
    """Return the exact integers of each alternative."""
    parts = re.split(r'<tr data-what-if="(\w+)"', page)[1:]
    return {
        key: {name: (int(a), int(b), int(c)) for name, a, b, c in _CELL.findall(body)}
        for key, body in zip(parts[::2], parts[1::2], strict=True)
    }


def test_the_difference_is_that_of_the_form_with_the_change(owner: Client, lab: SmallLab) -> None:
    fields = {**WORK, "place": place(lab)}
    page = text_of(owner.get("/planner/", fields))
    planned, found = rows(page), differences(page)
    for key, change in (
        ("head", {"trainable": "head"}),
        ("half_epochs", {"epochs": 45}),
        ("checkpointing", {"checkpointing": "on"}),
        ("smaller_model", {"preset": "resnet18"}),
    ):
        changed = rows(text_of(owner.get("/planner/", {**fields, **change})))
        for name in ("time", "energy", "emission"):
            low, likely, high = found[key][name]
            assert likely == changed[name][1] - planned[name][1], (key, name)
            assert low <= likely <= high
    assert found["momentum"] == {}
    assert found["early_stop"] == {}
    assert "cost" not in found["head"], "the site has no price"
    assert page.count("data-risk") == len(found)


def test_without_a_basis_there_is_memory_only(owner: Client) -> None:
    page = text_of(owner.get("/planner/", {"preset": "resnet50"}))
    found = differences(page)
    assert found
    assert not any(found.values())
    assert "No basis. The planned training has no basis." in page


def test_more_work_than_a_figure_can_hold(owner: Client, lab: SmallLab) -> None:
    fields = {
        "source": "numbers", "parameters": 1, "macs": 10**12, "layer_outputs": 1,
        "samples": 10**12, "epochs": 10**12, "place": place(lab),
    }  # fmt: skip
    assert "data-what-ifs" not in text_of(owner.get("/planner/", fields))


def test_models_of_the_registry_are_linked(owner: Client, lab: SmallLab) -> None:
    trained_model(lab, HOSTILE, tags={"architecture": "resnet34"})
    run_jobs()
    page = text_of(owner.get("/planner/", {"preset": "resnet50"}))
    href = re.search(r'href="(/artifacts/\?architecture=resnet[^"]*)"', page)
    assert href is not None
    listed = text_of(owner.get(href[1].replace("&amp;", "&")))
    assert "alert(1)" in listed
    assert "<script>alert" not in page


def checkpoint(page: str) -> dict[str, int]:
    found = re.findall(r'data-checkpoint="(\w+)"\s+data-count="(\d+)"', page)
    return {name: int(value) for name, value in found}


def test_the_interval_of_young(owner: Client, lab: SmallLab) -> None:
    fields = {**WORK, "place": place(lab), "checkpoint_s": 50, "between_h": 25}
    page = text_of(owner.get("/planner/", fields))
    assert checkpoint(page) == {
        "interval": 3_000_000_000, "loss": 1_500_000_000, "overhead": 33_333,
    }  # fmt: skip
    assert 'data-past-failures="0" data-past-runs="0"' in re.sub(r"\s+", " ", page)
    link = re.search(r'id="plan-link"[^>]*>([^<]+)<', page)
    assert link is not None
    assert "checkpoint_s=50" in link[1], "the address is the state"


def test_the_labs_own_failures_are_used(owner: Client, lab: SmallLab) -> None:
    where = place(lab)
    stored(lab, minutes=0)
    stored(lab, minutes=5, state=RunState.FAILED, failure=Failure.NODE)
    page = text_of(owner.get("/planner/", {**WORK, "place": where, "checkpoint_s": 1}))
    assert 'data-past-failures="1" data-past-runs="2"' in re.sub(r"\s+", " ", page)
    # √(2 × 1 s × 120 s) = 15.49 s.
    assert checkpoint(page)["interval"] == 15_491_933
    page = text_of(owner.get("/planner/", {**WORK, "place": where}))
    assert checkpoint(page) == {}
    assert "Enter the time to write one checkpoint." in page


def test_a_training_that_ends_before_its_first_checkpoint(owner: Client, lab: SmallLab) -> None:
    fields = {**WORK, "samples": 100, "epochs": 1, "place": place(lab)}
    page = text_of(owner.get("/planner/", {**fields, "checkpoint_s": 60, "between_h": 1000}))
    assert "data-longer" in page
    assert "data-not-valid" not in page
    page = text_of(owner.get("/planner/", {**fields, "checkpoint_s": 3600, "between_h": 2}))
    assert "data-not-valid" in page


@pytest.mark.parametrize(
    "fields", [{"checkpoint_s": "0"}, {"checkpoint_s": "86401"}, {"between_h": "x"}]
)
def test_invalid_times_are_refused_in_their_field(owner: Client, fields: dict[str, str]) -> None:
    response = owner.get("/planner/", {"preset": "resnet18", **fields})
    page = text_of(response)
    assert response.status_code == 400
    assert f'data-field-error="{next(iter(fields))}"' in page
    assert checkpoint(page) == {}


def test_the_csv_has_the_differences(owner: Client, lab: SmallLab) -> None:
    fields = {**WORK, "place": place(lab), "checkpoint_s": 50, "between_h": 25}
    found = differences(text_of(owner.get("/planner/", fields)))
    lines = list(csv.DictReader(io.StringIO(text_of(owner.get("/planner/result.csv", fields)))))
    by_name = {line["name"]: line for line in lines if line["section"] == "what_if"}
    assert int(by_name["head: energy_low"]["value"].lstrip("'")) == found["head"]["energy"][0]
    assert by_name["head: energy_low"]["unit"] == "mj"
    assert by_name["head: memory_likely"]["verdict"] == "fits"
    assert by_name["head: cost_likely"]["value"] == ""
    interval = next(line for line in lines if line["name"] == "interval")
    assert (interval["section"], interval["value"], interval["unit"]) == (
        "checkpoints", "3000000000", "us",
    )  # fmt: skip


def test_queries_do_not_grow_with_models_and_runs(owner: Client, lab: SmallLab) -> None:
    fields = {**WORK, "place": place(lab)}

    def count() -> int:
        with CaptureQueriesContext(connection) as queries:
            owner.get("/planner/", fields)
        return len(queries)

    trained_model(lab, "a.pt", tags={"architecture": "resnet34"})
    run_jobs()
    few = count()
    for number in range(5):
        trained_model(lab, f"b{number}.pt", tags={"architecture": "resnet34"})
        stored(lab, minutes=number, state=RunState.LOST)
    run_jobs()
    assert count() == few <= 70
