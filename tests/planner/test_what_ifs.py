"""Alternatives to a planned training: the same estimates as the page, and what past runs know."""

from dataclasses import replace

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from apps.planner.choices import Basis, Precision, Trainable
from apps.planner.evidence import read_evidence
from apps.planner.formulas.layer_table import read_layer_table
from apps.planner.formulas.memory import FITS, compute_memory
from apps.planner.formulas.training_setup import Training as Setup
from apps.planner.formulas.work import Training, Work
from apps.planner.job_input import JobInput, Place
from apps.planner.models import Estimate
from apps.planner.presets import presets, smaller_preset
from apps.planner.services import compute_estimate, create_estimate, estimate_from
from apps.planner.what_ifs.alternatives import Plan, half_resolution
from apps.planner.what_ifs.failures import PAST_US, past_failures
from apps.planner.what_ifs.selectors import (
    NO_BASIS,
    NO_PAST_CURVE,
    NO_RUNS_AT_PRECISION,
    WhatIf,
    what_ifs,
)
from apps.runs.choices import Failure, RunState
from apps.runs.metric_parsing import Point
from apps.runs.models import Run
from apps.runs.services.metrics import add_points
from tests.artifacts.support import run_jobs, trained_model
from tests.builders import MINUTE, T0, SmallLab, small_lab
from tests.planner.support import A100, finished
from tests.preflight.support import stored
from tests.runs.fingerprints import parsed

NOW = T0 + 3_600_000_000 * 24 * 30
GIB = 2**30
WORK = Work(samples=1_000_000, epochs=90, batch=64)
pytestmark = pytest.mark.django_db


@pytest.fixture
def small() -> SmallLab:
    return small_lab()


def plan(**facts: object) -> Plan:
    """Return a training of ResNet-50 on an A100."""
    job = JobInput(
        model=presets()["resnet50"],
        training=Training(gpus=1),
        work=WORK,
        place=Place(card=A100),
    )
    return replace(Plan(job, Setup(64, "adamw"), 40 * GIB), **facts)  # type: ignore[arg-type]


def rows(small: SmallLab, planned: Plan) -> dict[str, WhatIf]:
    evidence = read_evidence(small.lab, planned.job, NOW)
    computed = estimate_from(evidence, planned.job)
    return {row.key: row for row in what_ifs(evidence, planned, computed).rows}


def test_all_alternatives_of_a_preset(small: SmallLab) -> None:
    found = rows(small, plan())
    assert list(found) == [
        "head", "unfreezing", "early_stop", "half_epochs", "mixed_precision", "momentum",
        "checkpointing", "smaller_model", "distillation",
    ]  # fmt: skip
    assert found["smaller_model"].facts["model"] == "resnet18"
    assert all(row.fit == FITS for row in found.values())


@pytest.mark.parametrize(
    ("key", "change", "model"),
    [
        ("head", {"training": Training(Trainable.HEAD, gpus=1)}, {}),
        ("half_epochs", {"work": replace(WORK, epochs=45)}, {}),
        ("checkpointing", {"training": Training(checkpointing=True, gpus=1)}, {}),
        ("smaller_model", {"model": presets()["resnet18"]}, {}),
    ],
)
def test_a_difference_is_that_of_two_pages(
    small: SmallLab, key: str, change: dict[str, object], model: dict[str, object]
) -> None:
    planned = plan()
    row = rows(small, planned)[key]
    before = compute_estimate(lab=small.lab, job=planned.job, now=NOW)
    after = compute_estimate(lab=small.lab, job=replace(planned.job, **change), now=NOW)  # type: ignore[arg-type]
    assert before.figures is not None
    assert after.figures is not None
    assert before.figures.node_energy_mj is not None
    assert after.figures.node_energy_mj is not None
    assert row.time_us is not None
    assert row.energy_mj is not None
    assert row.time_us.likely == after.figures.time_us.likely - before.figures.time_us.likely
    assert row.energy_mj.likely == (
        after.figures.node_energy_mj.likely - before.figures.node_energy_mj.likely
    )


def test_operations_by_hand(small: SmallLab) -> None:
    found = rows(small, plan())
    figures = compute_estimate(lab=small.lab, job=plan().job, now=NOW).figures
    assert figures is not None
    whole = figures.time_us.likely
    likely = {key: row.time_us.likely / whole for key, row in found.items() if row.time_us}
    teacher, student = presets()["resnet50"].macs, presets()["resnet18"].macs
    assert likely == pytest.approx(
        {
            "head": -2 / 3,  # a forward pass instead of three
            "unfreezing": -1 / 3,  # for 45 of 90 epochs
            "half_epochs": -1 / 2,
            "checkpointing": 1 / 3,
            "smaller_model": student / teacher - 1,
            "distillation": (3 * student + teacher) / (3 * teacher) - 1,
        },
        abs=1e-6,
    )


def test_memory_is_that_of_the_changed_training(small: SmallLab) -> None:
    found = rows(small, plan())
    model, setup = presets()["resnet50"], Setup(64, "adamw")
    for key, changed in (
        ("head", replace(setup, part="head")),
        ("unfreezing", setup),
        ("half_epochs", setup),
        ("mixed_precision", replace(setup, precision="mixed")),
        ("momentum", replace(setup, optimiser="momentum")),
        ("checkpointing", replace(setup, has_checkpointing=True)),
    ):
        assert found[key].memory == compute_memory(model, changed).total
    student = compute_memory(presets()["resnet18"], setup).total
    assert found["smaller_model"].memory == student
    both = found["distillation"].memory
    assert both is not None
    assert both.likely > student.likely + presets()["resnet50"].parameters * 4


def test_what_does_not_apply_is_left_out(small: SmallLab) -> None:
    planned = plan(
        setup=Setup(64, "sgd", "mixed", "head", has_checkpointing=False),
        job=replace(
            plan().job,
            training=Training(Trainable.HEAD, Precision.MIXED, gpus=1),
            work=replace(WORK, epochs=1),
            model=presets()["resnet18"],
        ),
    )
    assert list(rows(small, planned)) == ["early_stop"]
    early = replace(planned, job=replace(planned.job, work=replace(WORK, stops_early=True)))
    assert "early_stop" not in rows(small, early)


def test_without_a_basis_only_memory_is_known(small: SmallLab) -> None:
    found = rows(small, plan(job=replace(plan().job, place=Place(card="")), card_bytes=None))
    assert {row.missing for key, row in found.items() if key != "momentum"} == {NO_BASIS}
    assert all(row.time_us is None for row in found.values())
    assert all(row.memory is not None and row.fit == "" for row in found.values())


def test_rated_peaks_say_nothing_about_mixed_precision(small: SmallLab) -> None:
    row = rows(small, plan())["mixed_precision"]
    assert row.missing == NO_RUNS_AT_PRECISION
    assert row.energy_mj is None


def test_own_runs_at_both_precisions_give_a_difference(small: SmallLab) -> None:
    for minute, precision in ((0, Precision.FP32), (40, Precision.MIXED)):
        job = replace(plan().job, training=Training(precision=precision, gpus=1))
        estimate, _ = create_estimate(lab=small.lab, job=job, person=small.owner, now=NOW)
        minutes = 30 if precision == Precision.FP32 else 10
        run = finished(small, minute=minute, gpu_mj=minutes * 10**6, cpu_mj=1, minutes=minutes)
        Estimate.objects.filter(pk=estimate.pk).update(run=run)
    planned = plan()
    assert compute_estimate(lab=small.lab, job=planned.job, now=NOW).basis == Basis.OPERATIONS
    row = rows(small, planned)["mixed_precision"]
    assert row.missing == ""
    assert row.time_us is not None
    assert row.time_us.likely == pytest.approx(-20 * MINUTE, rel=1e-6)
    assert row.time_us.low < row.time_us.likely < row.time_us.high


def test_own_runs_scale_by_operations(small: SmallLab) -> None:
    for minute in (0, 10, 20):
        finished(small, minute=minute, gpu_mj=60_000_000, minutes=6, params={"epochs": 10})
    job = replace(plan().job, fingerprint=parsed(), work=Work(epochs=10))
    planned = plan(job=job)
    assert compute_estimate(lab=small.lab, job=job, now=NOW).basis == Basis.OWN_RUNS
    found = rows(small, planned)
    assert found["half_epochs"].time_us is not None
    assert found["half_epochs"].time_us.likely == -3 * MINUTE
    head = found["head"].time_us
    assert head is not None
    assert head.likely == -4 * MINUTE
    # A third of the operations may need a fifth (power of 1.5) to 58 % (root) of the time.
    assert -5.5 * MINUTE < head.low < -4.8 * MINUTE
    assert -2.6 * MINUTE < head.high < -2 * MINUTE
    assert found["unfreezing"].time_us is not None
    assert found["unfreezing"].time_us.likely == -2 * MINUTE


def curve(run: Run, values: list[float], name: str = "val_loss") -> None:
    points = {name: [Point(step, T0, value) for step, value in enumerate(values, start=1)]}
    add_points(lab=run.lab, uuid=run.uuid, points=points, bound_node=None, now=None)


def test_an_early_stop_follows_from_past_curves(small: SmallLab) -> None:
    job = replace(plan().job, fingerprint=parsed(), work=Work(epochs=50))
    planned = plan(job=job)
    first = finished(small, minute=0, gpu_mj=60_000_000, params={"epochs": 50})
    assert rows(small, planned)["early_stop"].missing == NO_PAST_CURVE
    # 50 evaluations: as good as at the best from the 20th on, and a wait of five.
    curve(first, [2 - step / 20 for step in range(20)] + [1.051] * 30)
    row = rows(small, planned)["early_stop"]
    assert row.facts == {"epochs": 25, "of": 50, "curves": 1}
    assert row.time_us is not None
    assert row.time_us.likely == -MINUTE // 2
    assert row.time_us.high <= 0
    second = finished(small, minute=10, gpu_mj=60_000_000, params={"epochs": 50})
    curve(second, [float(step) for step in range(50)], "val_acc")  # improved to its end
    row = rows(small, planned)["early_stop"]
    assert row.facts == {"epochs": 35, "of": 50, "curves": 2}, "√(½ × 1)"
    assert row.time_us is not None
    assert row.time_us.high == 0


def test_curves_without_finite_values_are_left_out(small: SmallLab) -> None:
    planned = plan(job=replace(plan().job, fingerprint=parsed(), work=Work(epochs=50)))
    run = finished(small, minute=0, gpu_mj=60_000_000, params={"epochs": 50})
    curve(run, [float("nan")] * 10)
    assert rows(small, planned)["early_stop"].missing == NO_PAST_CURVE


def test_half_of_the_resolution() -> None:
    table = "conv 8 3x3\nadaptive pool 1x1\nlinear 10"
    model = read_layer_table(table, input_shape="3x32x32")
    half = half_resolution(table, model.input)
    assert half is not None
    assert half.input == "3x16x16"
    assert half.parameters == model.parameters
    assert half.macs == 3 * 9 * 8 * 14 * 14 + 80
    assert half_resolution(table, "3x33x32") is None, "an odd size"
    assert half_resolution(table, "3x4x4") is None, "too small for the kernel"
    assert half_resolution("embedding 100 8", "8 tokens") is not None
    assert half_resolution("linear 3", "784") is None


def test_a_layer_table_can_be_halved(small: SmallLab) -> None:
    table = "conv 64 3x3 pad 1\nadaptive pool 1x1\nlinear 10"
    model = read_layer_table(table, input_shape="3x224x224")
    found = rows(small, plan(job=replace(plan().job, model=model), layer_table=table))
    row = found["half_resolution"]
    assert row.facts["input"] == "3x112x112"
    assert row.time_us is not None
    assert row.time_us.likely < 0
    assert row.time_us.high < 0
    assert "smaller_model" not in found


def test_smaller_presets() -> None:
    assert smaller_preset("resnet18") is None
    assert smaller_preset("alexnet") is None
    names = {name: found.name for name in presets() if (found := smaller_preset(name))}
    assert names == {
        "resnet50": "resnet18", "resnet34": "resnet18", "vit_l_16": "vit_b_16",
        "bert_large_512": "bert_base_512", "gpt2_medium": "gpt2_small", "llama2_70b": "llama2_7b",
    }  # fmt: skip


def test_a_model_of_the_registry(small: SmallLab) -> None:
    assert "adapt" not in rows(small, plan())
    trained_model(small, "resnet.pt", tags={"architecture": "resnet34"})
    run_jobs()
    row = rows(small, plan())["adapt"]
    assert row.facts == {"models": 1, "runs": 0}
    assert row.energy_mj is None
    assert row.missing


def test_the_number_of_queries_is_constant(small: SmallLab) -> None:
    def count(planned: Plan) -> int:
        with CaptureQueriesContext(connection) as queries:
            rows(small, planned)
        return len(queries)

    job = replace(plan().job, fingerprint=parsed())
    finished(small, minute=0, gpu_mj=60_000_000, params={"epochs": 50})
    few = count(plan(job=job))
    for minute in (10, 20, 30):
        run = finished(small, minute=minute, gpu_mj=60_000_000, params={"epochs": 50})
        curve(run, [1.0] * 10)
    assert few <= count(plan(job=job)) <= few + 1 <= 30, "one more: the first curves"


def test_failures_of_a_kind_of_node(small: SmallLab) -> None:
    other = small_lab(name="Other")
    facts = (
        (RunState.FINISHED, ""), (RunState.FAILED, Failure.USER_ERROR),
        (RunState.FAILED, Failure.NODE), (RunState.KILLED, Failure.PREEMPTED),
        (RunState.LOST, ""), (RunState.RUNNING, ""),
    )  # fmt: skip
    for minute, (state, failure) in enumerate(facts):
        stored(small, minutes=minute, state=state, failure=failure)
    stored(other, state=RunState.LOST)
    found = past_failures(small.lab, [small.node.pk, other.node.pk], T0 + MINUTE)
    assert (found.runs, found.failures, found.run_us) == (5, 3, 5 * MINUTE)
    assert found.between_us == 5 * MINUTE // 3 + 0
    assert past_failures(small.lab, [], T0).between_us is None
    assert past_failures(small.lab, [small.node.pk], T0 + 2 * PAST_US).runs == 0
