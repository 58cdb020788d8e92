"""Saved estimates: saved from the page Planner, listed, and shown with their outcome."""

import math
import re

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from apps.core.clock import now_us
from apps.planner.choices import Basis
from apps.planner.models import Estimate
from apps.runs.choices import RunState
from apps.runs.models import Run
from tests.builders import SmallLab, small_lab
from tests.dashboard.support import text_of
from tests.dashboard.test_planner_estimate import WORK, place, rows

pytestmark = pytest.mark.django_db
_FIGURE = re.compile(
    r'data-figure="(\w+)"\s+data-low="(\d+)"\s+data-likely="(\d+)"\s+data-high="(\d+)"'
    r'\s+data-place="(\w*)"'
)


def query_of(page: str) -> str:
    """Return the plan in the form that saves it."""
    found = re.search(r'name="query"\s+value="([^"]+)"', page)
    assert found is not None
    return found[1].replace("&amp;", "&")


def save(owner: Client, lab: SmallLab) -> Estimate:
    page = text_of(owner.get("/planner/", {**WORK, "place": place(lab)}))
    response = owner.post("/planner/estimates/save/", {"query": query_of(page)})
    estimate = Estimate.objects.get()
    assert response.status_code == 302
    assert response["Location"] == f"/planner/estimates/{estimate.uuid}/"
    return estimate


def test_the_saved_figures_are_those_of_the_page(owner: Client, lab: SmallLab) -> None:
    estimate = save(owner, lab)
    page = text_of(owner.get(f"/planner/estimates/{estimate.uuid}/"))
    figures = {key: tuple(map(int, ends)) for key, *ends, _ in _FIGURE.findall(page)}
    again = re.search(r'href="/planner/\?([^"]+)"', page)
    assert again is not None
    planned = rows(text_of(owner.get(f"/planner/?{again[1].replace('&amp;', '&')}")))
    assert figures == planned
    assert 'data-outcome="open"' in page
    assert f"labcarbon-collect run --estimate {estimate.uuid} --" in page
    assert estimate.person == lab.owner


def test_the_outcome_is_inside_below_above_or_unknown(owner: Client, lab: SmallLab) -> None:
    estimate = save(owner, lab)
    now = now_us()
    run = Run.objects.create(
        lab=lab.lab, uuid=estimate.uuid, name="train", state=RunState.FINISHED,
        started_us=now - 2 * 10**10, ended_us=now - 10**10,
    )  # fmt: skip
    Estimate.objects.update(
        run=run, attached_us=now, scored_us=now, actual_time_us=estimate.time_high_us + 1,
        actual_node_energy_mj=estimate.node_energy_low_mj,
    )  # fmt: skip
    page = text_of(owner.get(f"/planner/estimates/{estimate.uuid}/"))
    assert 'data-outcome="scored"' in page
    assert {key: where for key, *_, where in _FIGURE.findall(page)} == {
        "time": "above", "gpu_energy": "", "energy": "inside", "emission": "",
    }  # fmt: skip
    assert "not measured" in page
    assert f"/runs/{run.uuid}/" in page
    assert "run --estimate" not in page


def test_the_list(owner: Client, lab: SmallLab) -> None:
    assert "data-empty" in text_of(owner.get("/planner/estimates/"))
    estimate = save(owner, lab)
    page = text_of(owner.get("/planner/estimates/"))
    assert f'data-estimate="{estimate.uuid}"' in page
    with CaptureQueriesContext(connection) as one:
        owner.get("/planner/estimates/")
    for _ in range(5):
        owner.post("/planner/estimates/save/", {"query": estimate.input["query"]})
    with CaptureQueriesContext(connection) as many:
        owner.get("/planner/estimates/")
    assert Estimate.objects.count() == 6
    assert len(many) == len(one)


@pytest.mark.parametrize("query", ["", "preset=resnet50", "preset=none", "epochs=x", "run=x"])
def test_what_cannot_be_estimated_is_not_saved(owner: Client, lab: SmallLab, query: str) -> None:
    response = owner.post("/planner/estimates/save/", {"query": query})
    assert response.status_code == 400
    assert not Estimate.objects.exists()


def test_an_estimate_of_another_lab_is_not_found(owner: Client, lab: SmallLab) -> None:
    estimate = save(owner, lab)
    Estimate.objects.update(lab=small_lab(name="Other").lab)
    assert owner.get(f"/planner/estimates/{estimate.uuid}/").status_code == 404
    assert str(estimate.uuid) not in text_of(owner.get("/planner/estimates/"))


def test_saving_is_a_post(owner: Client, lab: SmallLab) -> None:
    assert owner.get("/planner/estimates/save/").status_code == 405


def test_a_viewer_cannot_save(viewer: Client, lab: SmallLab) -> None:
    where = place(lab)
    page = text_of(viewer.get("/planner/", {**WORK, "place": where}))
    assert "/planner/estimates/save/" not in page
    response = viewer.post("/planner/estimates/save/", {"query": f"preset=resnet50&place={where}"})
    assert response.status_code == 403


def test_the_calibration_of_a_thousand_outcomes(owner: Client, lab: SmallLab) -> None:
    """Of the newest 200: 50 ran twice as long as estimated, in a range of ×÷ 1.5."""
    assert "data-no-outcome" in text_of(owner.get("/planner/estimates/"))
    Estimate.objects.bulk_create(
        Estimate(
            lab=lab.lab, basis=Basis.PROBE, version=1, created_us=number, expires_us=10**16,
            time_low_us=666_667, time_likely_us=10**6, time_high_us=1_500_000, scored_us=10**15,
            actual_time_us=2 * 10**6 if number % 4 == 0 else 10**6,
        )
        for number in range(1000)
    )  # fmt: skip
    page = text_of(owner.get("/planner/estimates/"))
    found = re.search(
        r'data-of="probe.Time"\s+data-number="(\d+)"\s+data-inside="(\d+)"'
        r'\s+data-bias="(\d+)"\s+data-widening="(\d+)"',
        page,
    )
    assert found is not None
    number, inside, bias, widening = map(int, found.groups())
    assert (number, inside) == (200, 150)
    assert bias == pytest.approx(2**0.25 * 10**6, abs=1)
    assert widening == pytest.approx(math.log(2) / math.log(1.5) * 10**6, abs=2)
