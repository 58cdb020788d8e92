"""Estimates of planned trainings: basis, place, conditions, and what is stored."""

import uuid

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from apps.carbon.factors import latest_annual
from apps.core.errors import InvalidInput
from apps.core.units import emission_ug
from apps.fleet.services import create_site, set_price
from apps.planner.choices import Basis
from apps.planner.formulas.time_and_energy import Probe
from apps.planner.formulas.work import Training, Work
from apps.planner.job_input import JobInput, Place
from apps.planner.models import Estimate
from apps.planner.presets import presets
from apps.planner.services import OPEN_US, compute_estimate, create_estimate
from apps.runs.choices import Intent, RunState
from apps.runs.models import Run
from tests.builders import T0, SmallLab, small_lab
from tests.planner.support import A100, finished
from tests.runs.fingerprints import hex64, parsed

NOW = T0 + 3_600_000_000 * 24 * 30
pytestmark = pytest.mark.django_db


@pytest.fixture
def small() -> SmallLab:
    return small_lab()


def test_own_runs_of_the_family_come_first(small: SmallLab) -> None:
    for minute, energy_mj in ((0, 60_000_000), (10, 66_000_000), (20, 54_000_000)):
        finished(
            small,
            minute=minute,
            gpu_mj=energy_mj,
            cpu_mj=6_000_000,
            params={"epochs": 10},
            minutes=5,
        )
    computed = compute_estimate(
        lab=small.lab,
        job=JobInput(
            fingerprint=parsed(),
            work=Work(epochs=20),
            place=Place(node=small.node),
            probe=Probe(90_000_000, 100, 10),
        ),
        now=NOW,
    )
    figures = computed.figures
    assert figures is not None
    assert figures.basis == Basis.OWN_RUNS
    assert figures.facts["runs"] == 3
    assert figures.time_us.likely == 10 * 60_000_000
    assert figures.gpu_energy_mj is not None
    assert figures.node_energy_mj is not None
    assert abs(figures.gpu_energy_mj.likely - 119_600_000) < 500_000, "geometric mean"
    assert figures.node_energy_mj.likely > figures.gpu_energy_mj.likely
    assert figures.node_energy_mj.low < 132_000_000 < figures.node_energy_mj.high


@pytest.mark.parametrize(
    "facts",
    [
        {"intent": Intent.PROBE},
        {"intent": Intent.DEBUG},
        {"intent": Intent.SERVICE},
        {"state": RunState.FAILED},
        {"state": RunState.KILLED},
        {"wire": {"data": None}},
        {"wire": {"entry": hex64("other.py")}},
    ],
    ids=str,
)
def test_other_runs_are_no_evidence(small: SmallLab, facts: dict[str, object]) -> None:
    finished(small, minute=0, gpu_mj=1000, **facts)
    computed = compute_estimate(lab=small.lab, job=JobInput(fingerprint=parsed()), now=NOW)
    assert computed.basis == Basis.NONE


def test_runs_of_another_lab_are_no_evidence(small: SmallLab) -> None:
    finished(small_lab(name="Other"), minute=0, gpu_mj=1000)
    computed = compute_estimate(lab=small.lab, job=JobInput(fingerprint=parsed()), now=NOW)
    assert computed.basis == Basis.NONE


def test_only_runs_on_the_planned_card_count(small: SmallLab) -> None:
    finished(small, minute=0, gpu_mj=1000)
    job = JobInput(fingerprint=parsed(), place=Place(card="NVIDIA L4"))
    assert compute_estimate(lab=small.lab, job=job, now=NOW).basis == Basis.NONE
    job = JobInput(fingerprint=parsed(), place=Place(card=A100))
    assert compute_estimate(lab=small.lab, job=job, now=NOW).basis == Basis.OWN_RUNS
    job = JobInput(fingerprint=parsed(), training=Training(gpus=2))
    assert compute_estimate(lab=small.lab, job=job, now=NOW).basis == Basis.NONE


def test_a_past_run_stands_for_its_fingerprint(small: SmallLab) -> None:
    run = finished(small, minute=0, gpu_mj=1000, params={"epochs": 10})
    job = JobInput(like_run=Run.objects.select_related("fingerprint").get(pk=run.pk))
    computed = compute_estimate(lab=small.lab, job=job, now=NOW)
    assert computed.basis == Basis.OWN_RUNS
    assert computed.work.epochs == 10, "the total of its parameters"
    assert computed.figures is not None
    assert computed.figures.time_us.likely == 60_000_000


def test_the_probe_comes_second(small: SmallLab) -> None:
    job = JobInput(
        model=presets()["resnet50"],
        probe=Probe(90_000_000, 100, 500_000, gpu_mw=200_000),
        work=Work(steps=7200, batch=32),
        place=Place(card=A100),
    )
    computed = compute_estimate(lab=small.lab, job=job, now=NOW)
    assert computed.figures is not None
    assert computed.figures.basis == Basis.PROBE
    gpu_mj, node_mj = computed.figures.gpu_energy_mj, computed.figures.node_energy_mj
    assert gpu_mj is not None
    assert node_mj is not None
    # An hour outside of the GPU: 25 % of its 400 W, since the node is unknown.
    assert node_mj.likely == gpu_mj.likely + 3600 * 100_000
    assert computed.figures.facts["rest_mw"] == 100_000
    assert computed.emission_ug is None


def test_operations_come_third_and_the_catalogue_last(small: SmallLab) -> None:
    job = JobInput(
        model=presets()["resnet50"],
        work=Work(samples=1_000_000, epochs=90, batch=256),
        place=Place(card=A100),
    )
    computed = compute_estimate(lab=small.lab, job=job, now=NOW)
    assert computed.basis == Basis.CATALOGUE
    stored, _ = create_estimate(lab=small.lab, job=job, person=small.owner, now=NOW)
    run = finished(small, minute=0, gpu_mj=50_000_000, cpu_mj=9_000_000, minutes=30)
    Estimate.objects.filter(pk=stored.pk).update(run=run)
    other = JobInput(
        model=presets()["vit_b_16"],
        work=Work(samples=1_000_000, epochs=90, batch=256),
        place=Place(card=A100),
    )
    computed = compute_estimate(lab=small.lab, job=other, now=NOW)
    figures = computed.figures
    assert figures is not None
    assert figures.basis == Basis.OPERATIONS
    ratio = presets()["vit_b_16"].macs / presets()["resnet50"].macs
    assert abs(figures.time_us.likely - 1_800_000_000 * ratio) < 10
    assert figures.node_energy_mj is not None
    assert abs(figures.node_energy_mj.likely - 59_000_000 * ratio) < 10
    assert abs(figures.node_energy_mj.high - 59_000_000 * ratio * 2.4) < 100
    text = JobInput(
        model=presets()["bert_base_512"],
        work=Work(samples=1000, epochs=1),
        place=Place(card=A100),
    )
    assert compute_estimate(lab=small.lab, job=text, now=NOW).basis == Basis.CATALOGUE


def test_emissions_and_cost_by_the_site(small: SmallLab) -> None:
    set_price(
        site=small.site, from_us=T0, ucurrency_per_kwh=300_000, currency="EUR", by=small.owner,
        now=T0,
    )  # fmt: skip
    job = JobInput(
        model=presets()["resnet50"],
        work=Work(samples=1_000_000, epochs=90),
        place=Place(node=small.node, card=A100),
    )
    stored, computed = create_estimate(lab=small.lab, job=job, person=small.owner, now=NOW)
    assert computed.figures is not None
    energy = computed.figures.node_energy_mj
    factor = latest_annual(small.lab, "DE")
    assert energy is not None
    assert factor is not None
    assert factor.ug_per_kwh is not None
    assert stored.conditions["factor"]["id"] == factor.pk
    assert stored.conditions["factor"]["edition"] == factor.edition
    assert stored.emission_likely_ug == emission_ug(energy.likely, 1_000_000, factor.ug_per_kwh)
    assert stored.cost_likely_ucurrency == emission_ug(energy.likely, 1_000_000, 300_000)
    assert stored.currency == "EUR"
    assert stored.expires_us == NOW + OPEN_US
    assert stored.person == small.owner
    stored.refresh_from_db()
    assert (stored.time_low_us, stored.time_likely_us, stored.time_high_us) == (
        computed.figures.time_us.low,
        computed.figures.time_us.likely,
        computed.figures.time_us.high,
    )
    assert stored.input["model"]["macs"] == presets()["resnet50"].macs


def test_an_unknown_factor_has_a_reason_and_no_number(small: SmallLab) -> None:
    site = create_site(lab=small.lab, name="Room 2", kind=small.site.kind, zone="")  # type: ignore[arg-type]
    job = JobInput(
        model=presets()["resnet50"],
        work=Work(samples=10, epochs=1),
        place=Place(site=site, card=A100),
    )
    computed = compute_estimate(lab=small.lab, job=job, now=NOW)
    assert computed.figures is not None
    assert computed.emission_ug is None
    assert computed.cost_ucurrency is None
    assert computed.conditions.factor_missing == "The site has no grid zone."
    assert computed.conditions.price_missing == "The site has no electricity price."


def test_work_beyond_all_bounds_is_refused(small: SmallLab) -> None:
    job = JobInput(
        model=presets()["llama2_70b"],
        work=Work(samples=10**15, epochs=10**6),
        place=Place(card=A100),
    )
    with pytest.raises(InvalidInput, match="too large"):
        compute_estimate(lab=small.lab, job=job, now=NOW)


def test_the_number_of_queries_does_not_grow_with_the_runs(small: SmallLab) -> None:
    def count() -> int:
        with CaptureQueriesContext(connection) as queries:
            job = JobInput(fingerprint=parsed(), place=Place(node=small.node))
            assert compute_estimate(lab=small.lab, job=job, now=NOW).basis == Basis.OWN_RUNS
        return len(queries)

    finished(small, minute=0, gpu_mj=1000)
    first = count()
    for minute in range(5, 50, 5):
        finished(small, minute=minute, gpu_mj=1000)
    assert count() == first


MODEL = presets()["resnet50"]
KNOWN = Work(samples=1000, epochs=3, batch=32)
LONG = Probe(90_000_000, 100, 10_000)


@pytest.mark.parametrize(
    "job",
    [
        JobInput(),
        JobInput(model=MODEL),
        JobInput(work=KNOWN),
        JobInput(model=MODEL, work=KNOWN),
        JobInput(model=MODEL, place=Place(card=A100)),
        JobInput(work=KNOWN, place=Place(card=A100)),
        JobInput(model=MODEL, work=Work(samples=1000), place=Place(card=A100)),
        JobInput(model=MODEL, work=Work(epochs=3), place=Place(card=A100)),
        JobInput(model=MODEL, work=Work(steps=3), place=Place(card=A100)),
        JobInput(model=MODEL, work=KNOWN, place=Place(card="")),
        JobInput(model=MODEL, work=KNOWN, place=Place(card="Quantum Card 9000")),
        JobInput(fingerprint=parsed()),
        JobInput(fingerprint=parsed(), work=KNOWN),
        JobInput(fingerprint=parsed(), model=MODEL),
        JobInput(fingerprint=parsed(data=None), work=KNOWN),
        JobInput(probe=LONG),
        JobInput(probe=LONG, work=Work(samples=1000)),
        JobInput(probe=LONG, work=Work(epochs=3)),
        JobInput(probe=LONG, work=Work(samples=1000, epochs=3)),
        JobInput(probe=Probe(30_000_000, 100, 10_000), work=KNOWN),
        JobInput(probe=Probe(0, 1, 10_000), work=KNOWN),
    ],
    ids=range(21),
)
def test_without_a_basis_there_is_no_number(small: SmallLab, job: JobInput) -> None:
    stored, computed = create_estimate(lab=small.lab, job=job, person=None, now=NOW)
    assert computed.basis == Basis.NONE
    assert computed.figures is None
    assert computed.missing
    assert all(text.endswith(".") for text in computed.missing)
    numbers = [
        field.name
        for field in Estimate._meta.fields
        if any(f"_{end}_" in field.name for end in ("low", "likely", "high"))
    ]
    assert len(numbers) == 15
    assert {getattr(stored, name) for name in numbers} == {None}
    assert stored.facts == {"missing": computed.missing}
    assert isinstance(stored.uuid, uuid.UUID)
