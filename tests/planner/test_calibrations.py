"""Ranges of estimates are widened by the outcomes of earlier ones."""

import uuid
from dataclasses import replace
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from apps.core.units import PPM
from apps.planner.calibrations import calibrations_of, with_calibration
from apps.planner.choices import Basis
from apps.planner.evidence import read_evidence
from apps.planner.formulas.calibration import Calibration
from apps.planner.formulas.ranges import Range
from apps.planner.formulas.time_and_energy import Figures
from apps.planner.formulas.work import Training, Work
from apps.planner.job_input import JobInput, Place
from apps.planner.models import Estimate
from apps.planner.places.needs import job_needs
from apps.planner.places.place import CloudChoice
from apps.planner.places.selectors import places_for
from apps.planner.presets import presets
from apps.planner.services import compute_estimate, create_estimate, estimate_from
from tests.builders import T0, SmallLab, small_lab
from tests.planner.places.support import report_gpus
from tests.planner.support import A100

NOW = T0 + 3_600_000_000
pytestmark = pytest.mark.django_db


def scored(small: SmallLab, number: int, actual_us: int, **facts: Any) -> None:
    """Store scored estimates of 0.5, 1 and 2 s by the catalogue."""
    values = {
        "basis": Basis.CATALOGUE, "time_low_us": 500_000, "time_likely_us": 1_000_000,
        "time_high_us": 2_000_000, "created_us": T0, "expires_us": NOW, "version": 1,
        "scored_us": NOW, "actual_time_us": actual_us, **facts,
    }  # fmt: skip
    Estimate.objects.bulk_create(
        Estimate(lab=small.lab, uuid=uuid.uuid4(), **values) for _ in range(number)
    )


def job(small: SmallLab) -> JobInput:
    return JobInput(
        model=presets()["resnet50"],
        training=Training(gpus=1),
        work=Work(samples=1000, epochs=30, batch=10),
        place=Place(node=small.node, card=A100),
    )


def test_outcomes_widen_the_ranges_of_their_basis_and_quantity() -> None:
    small = small_lab()
    report_gpus(small.node, [A100])
    before = compute_estimate(lab=small.lab, job=job(small), now=NOW).figures
    assert before is not None
    scored(small, 10, 4_000_000)  # ×4 where the range is ×2
    estimate, after = create_estimate(lab=small.lab, job=job(small), person=None, now=NOW)
    figures = after.figures
    assert figures is not None
    assert figures.gpu_energy_mj == before.gpu_energy_mj  # no outcome of it
    assert figures.time_us.likely == before.time_us.likely
    factor = before.time_us.high / before.time_us.likely
    assert figures.time_us.high == pytest.approx(before.time_us.likely * factor**2, rel=1e-4)
    assert figures.facts["widening_time_ppm"] == pytest.approx(2 * PPM, abs=2)
    # Later outcomes are judged by the range before it.
    assert estimate.facts["unwidened_time_low_us"] == before.time_us.low
    assert estimate.facts["unwidened_time_high_us"] == before.time_us.high


def test_widening_does_not_grow_by_itself() -> None:
    small = small_lab()
    report_gpus(small.node, [A100])
    scored(small, 10, 4_000_000)
    first, computed = create_estimate(lab=small.lab, job=job(small), person=None, now=NOW)
    assert computed.figures is not None
    Estimate.objects.exclude(pk=first.pk).delete()
    for _ in range(10):
        again, _ = create_estimate(lab=small.lab, job=job(small), person=None, now=NOW)
        high = again.facts.get("unwidened_time_high_us", again.time_high_us)
        Estimate.objects.filter(pk=again.pk).update(scored_us=NOW, actual_time_us=high)
    found = calibrations_of(small.lab)[Basis.CATALOGUE]["time"]
    assert (found.number, found.inside, found.widening_ppm) == (10, 10, PPM)


def test_repetitions_of_a_work_count_once_and_unknown_work_always() -> None:
    small = small_lab()
    scored(small, 5, 1_000_000, f2=7)
    scored(small, 3, 1_000_000)
    scored(small, 2, 1_000_000, f2=7, basis=Basis.PROBE)
    scored(small_lab(name="Other"), 9, 1_000_000)
    numbers = {basis: each["time"].number for basis, each in calibrations_of(small.lab).items()}
    assert numbers == {Basis.CATALOGUE: 4, Basis.PROBE: 1}


def test_an_unmeasured_outcome_is_unknown_and_not_zero() -> None:
    small = small_lab()
    energy = {"node_energy_low_mj": 1, "node_energy_likely_mj": 2, "node_energy_high_mj": 3}
    scored(small, 1, 1_000_000, **energy)
    scored(small, 1, 1_000_000, **energy, actual_node_energy_mj=0)
    found = calibrations_of(small.lab)[Basis.CATALOGUE]
    assert found["node_energy"] == Calibration(1, below=1)
    assert found["time"].number == 2


def test_places_are_widened_as_the_estimate() -> None:
    small = small_lab()
    report_gpus(small.node, [A100])
    scored(small, 10, 4_000_000)
    evidence = read_evidence(small.lab, job(small), NOW)
    computed = estimate_from(evidence, job(small))
    needs = job_needs(evidence, computed, None)
    [place] = places_for(small.lab, needs, NOW, CloudChoice(regions=("none",))).places
    assert computed.figures is not None
    assert place.time_us == computed.figures.time_us
    assert place.node_energy_mj == computed.figures.node_energy_mj


def test_a_thousand_outcomes_are_one_query_and_the_newest_count() -> None:
    small = small_lab()
    scored(small, 900, 1_000_000)
    scored(small, 100, 10_000_000, created_us=T0 + 1)
    with CaptureQueriesContext(connection) as queries:
        found = calibrations_of(small.lab)[Basis.CATALOGUE]["time"]
    assert len(queries) == 1
    assert (found.number, found.above, found.inside_ppm) == (200, 100, 500_000)


def test_a_range_that_no_factor_widens_is_not_said_to_be_wider() -> None:
    calibration = {Basis.OWN_RUNS: {"time": Calibration(10, widening_ppm=2 * PPM)}}
    figures = Figures(Basis.OWN_RUNS, Range(7, 7, 7), None, None)
    assert with_calibration(figures, calibration) == figures


def test_repetitions_of_one_work_do_not_hide_the_others() -> None:
    small = small_lab()
    scored(small, 3, 1_000_000)
    scored(small, 900, 1_000_000, f2=7, created_us=T0 + 1)
    scored(small, 1, 1_000_000, basis=Basis.PROBE)
    numbers = {basis: each["time"].number for basis, each in calibrations_of(small.lab).items()}
    assert numbers == {Basis.CATALOGUE: 4, Basis.PROBE: 1}


def test_the_largest_widening_refuses_no_ordinary_plan() -> None:
    """A small net by the catalogue has the widest range: ×÷ 26 in time."""
    small = small_lab()
    report_gpus(small.node, [A100])
    energy = {"node_energy_low_mj": 1, "node_energy_likely_mj": 2, "node_energy_high_mj": 3}
    scored(small, 20, 10**18, **energy, actual_node_energy_mj=0)
    plan = replace(
        job(small), model=presets()["resnet18"], work=Work(samples=10**6, epochs=90, batch=10)
    )
    assert plan.model is not None
    plan = replace(plan, model=replace(plan.model, macs=10**8))
    figures = compute_estimate(lab=small.lab, job=plan, now=NOW).figures
    assert figures is not None
    assert figures.facts["widening_time_ppm"] == 10 * PPM
    assert figures.time_us.high == 1000 * figures.time_us.likely
