"""What an MLflow server tells becomes runs, metrics and energy: once, whole, and in whatever
parts it is read.
"""

import pytest

from apps.accounts.models import Project
from apps.energy.models import LedgerEntry
from apps.ingest.models import EnergyWindow
from apps.runs.choices import RunState
from apps.runs.models import ExternalId, Fingerprint, MetricPoint, Run
from apps.trackers.mlflow.models import MlflowRun, MlflowSource
from apps.trackers.mlflow.services import poller
from tests.builders import MINUTE, T0, SmallLab, W, push
from tests.fakes.mlflow_server import FakeMlflow
from tests.trackers.mlflow_support import (
    MS,
    demo,
    ledger_mj,
    poll,
    settle,
    source_at,
    training,
    watts,
)


def test_a_run_with_all_that_is_told_of_it(
    fake: FakeMlflow, source: MlflowSource, lab: SmallLab
) -> None:
    run_ = training(
        fake, "a1", optimizer="None", shuffle="True", layers="[1, 2]", width="0x10", big="1e999"
    )
    run_.tags["team"] = "vision"
    assert poll(source).problem == ""
    run = Run.objects.get()
    assert (run.name, run.state, run.reported_by, run.os_user) == (
        "kind-ant-7",
        "finished",
        "mlflow",
        "ada",
    )
    assert (run.started_us, run.ended_us) == (T0, T0 + MINUTE)
    assert run.charged_project == demo(lab)
    expected = {
        "lr": 0.1,
        "epochs": 3,
        "seed": 7,
        "optimizer": None,
        "shuffle": True,
        "layers": "[1, 2]",
        "width": "0x10",
        "big": "1e999",
    }
    assert run.params == expected
    assert [type(run.params[name]) for name in ("lr", "epochs", "shuffle")] == [float, int, bool]
    assert run.tags == {"team": "vision", "mlflow.experiment": "vision"}
    assert ExternalId.objects.get().value == "a1"
    assert [(row.step, row.value) for row in MetricPoint.objects.order_by("step")][:2] == [
        (0, 1.0),
        (1, 0.5),
    ]
    row = Fingerprint.objects.get()
    assert (row.code, row.data, row.start) == ("", "", "")
    assert all((row.code_weak, row.data_weak, row.start_weak))
    assert row.commit.startswith("c0ffee")
    assert set(row.params) == {"lr", "epochs", "optimizer", "shuffle", "layers", "width", "big"}
    assert set(row.seeds) == {"seed"}


def test_the_recipe_is_that_of_typed_values(fake: FakeMlflow, source: MlflowSource) -> None:
    training(fake, "a1", lr="0.10")
    training(fake, "a2", lr="1e-1", start_ms=MS + 3_600_000)
    poll(source)
    assert len(set(Fingerprint.objects.values_list("recipe", flat=True))) == 1


def test_unknown_stays_unknown(fake: FakeMlflow, source: MlflowSource) -> None:
    fake.add("a1", start_ms=MS)
    training(fake, "a2", init_from="last.ckpt")
    poll(source)
    bare = Fingerprint.objects.get(run__external_ids__value="a1")
    assert (bare.params, bare.seeds, bare.code_weak, bare.data_weak, bare.start_weak) == (
        None,
        None,
        "",
        "",
        "",
    )
    assert Fingerprint.objects.get(run__external_ids__value="a2").start_weak == ""


def test_reading_again_changes_nothing_and_asks_for_no_history(
    fake: FakeMlflow, source: MlflowSource
) -> None:
    run = training(fake, "a1")
    watts(run, 100.0)
    poll(source)

    def all_of_it() -> list[object]:
        return [
            list(model.objects.order_by("pk").values())
            for model in (Run, Fingerprint, MetricPoint, EnergyWindow, LedgerEntry)
        ]

    before = all_of_it()
    fake.requested_paths.clear()
    assert poll(source).runs == 0
    assert all_of_it() == before
    assert "/metrics/get-history" not in fake.requested_paths


def test_watts_become_energy_to_the_millijoule(fake: FakeMlflow, source: MlflowSource) -> None:
    run = training(fake, "a1")
    for gpu, power in ((0, 100.0), (1, 61.3)):
        watts(run, power, gpu=gpu, seconds=90)
    poll(source)
    assert ledger_mj() == 90 * (100_000 + 61_300)
    window = EnergyWindow.objects.order_by("start_us", "pk").first()
    assert window is not None
    assert (window.get_energy_quality_display(), window.get_share_quality_display()) == (
        "SAMPLED",
        "SPLIT",
    )
    assert EnergyWindow.objects.count() == 4  # two minutes of two cards
    settled = Run.objects.get()
    assert set(LedgerEntry.objects.values_list("consumer__run_uuid", flat=True)) == {settled.uuid}


def test_a_history_that_grows_is_extended_and_never_counted_twice(
    fake: FakeMlflow, source: MlflowSource
) -> None:
    fake.page = 4
    run = training(fake, "a1", over=False)
    watts(run, 100.0, seconds=30)
    poll(source)
    assert ledger_mj() == 0  # the minute is not over
    for start in (40, 80, 120):
        watts(run, 100.0, start_ms=MS + start * 1000, seconds=30)
        poll(source)
    assert ledger_mj() == 120 * 100_000
    run.status, run.end_ms = "FINISHED", MS + 151_000
    poll(source)
    assert ledger_mj() == 150 * 100_000
    poll(source)
    assert ledger_mj() == 150 * 100_000
    assert Run.objects.get().state == RunState.FINISHED


def test_a_curve_without_steps_is_numbered_and_late_points_find_their_place(
    fake: FakeMlflow, source: MlflowSource
) -> None:
    fake.page = 2
    run = fake.add(
        "a1", start_ms=MS, metrics={"acc": [(MS + i * 1000, 0, float(i)) for i in (0, 1, 3)]}
    )
    poll(source)
    run.metrics["acc"].append((MS + 2000, 0, 2.0))
    run.status, run.end_ms = "FINISHED", MS + 9000
    poll(source)
    assert list(MetricPoint.objects.order_by("step").values_list("step", "value")) == [
        (i, float(i)) for i in range(4)
    ]


def test_values_that_are_no_numbers(fake: FakeMlflow, source: MlflowSource) -> None:
    fake.add(
        "a1", start_ms=MS, metrics={"loss": [(MS, 1, "NaN"), (MS, 2, "Infinity"), (MS, 3, 0.5)]}
    )
    poll(source)
    assert list(MetricPoint.objects.order_by("step").values_list("special_value", "value")) == [
        ("NaN", None),
        ("Infinity", None),
        ("", 0.5),
    ]


@pytest.mark.parametrize(
    ("told", "ours"),
    [("FINISHED", "finished"), ("FAILED", "failed"), ("KILLED", "killed"), ("RUNNING", "running")],
)
def test_states(fake: FakeMlflow, source: MlflowSource, told: str, ours: str) -> None:
    fake.add("a1", start_ms=MS, status=told, end_ms=None if told == "RUNNING" else MS + 1)
    fake.add("a2", start_ms=MS, status="SCHEDULED")
    poll(source)
    assert Run.objects.get().state == ours


def test_a_run_that_goes_on_after_its_end(fake: FakeMlflow, source: MlflowSource) -> None:
    run = training(fake, "a1")
    watts(run, 100.0, seconds=20)
    poll(source)
    run.status, run.end_ms = "RUNNING", None
    watts(run, 100.0, start_ms=MS + 30_000, seconds=20)
    poll(source)
    stored = Run.objects.get()
    assert (stored.state, stored.ended_us) == ("running", None)
    run.status, run.end_ms = "FINISHED", MS + 55_000
    poll(source)
    assert ledger_mj() == 50 * 100_000


def test_experiments_are_charged_as_their_names_say(fake: FakeMlflow, lab: SmallLab) -> None:
    fake.experiments = {"1": "vision-a", "2": "nlp", "3": "secret"}
    other = Project.objects.create(lab=lab.lab, slug="nlp", name="NLP", created_us=T0)
    for number in "123":
        fake.add(f"r{number}", experiment_id=number, start_ms=MS)
    source = source_at(fake, lab, project=None, patterns=(("vision-*", demo(lab)), ("nlp", other)))
    poll(source)
    charged = {
        run.tags["mlflow.experiment"]: run.charged_project.slug
        for run in Run.objects.all()
        if run.charged_project
    }
    assert charged == {"vision-a": "demo", "nlp": "nlp"}
    source.refresh_from_db()
    assert (source.experiments, source.experiments_imported) == (3, 2)


def test_a_slice_that_ends_early_is_taken_up_again(
    fake: FakeMlflow, source: MlflowSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    for i in range(12):
        watts(training(fake, f"r{i:02}", start_ms=MS + i * 1000), 100.0, start_ms=MS + i * 1000)
    slices = 0
    done = poller.Slice(more=True)
    while done.more:
        slices += 1
        clock = iter([0.0, *[0.0] * 7])  # seven questions, then the time is over
        monkeypatch.setattr(
            "apps.trackers.mlflow.client.time.monotonic", lambda clock=clock: next(clock, 1e9)
        )
        done = poll(source)
        assert slices < 60
    assert slices > 2
    assert Run.objects.count() == 12
    assert MetricPoint.objects.count() == 60
    assert ledger_mj() == 12 * 60 * 100_000
    assert not MlflowRun.objects.filter(is_open=True).exists()


def test_a_run_deleted_there_stays_here_and_is_asked_for_no_more(
    fake: FakeMlflow, source: MlflowSource
) -> None:
    training(fake, "a1", over=False)
    poll(source)
    del fake.runs["a1"]
    poll(source)
    row = MlflowRun.objects.get()
    assert (row.is_open, "deleted there" in row.problem, Run.objects.count()) == (False, True, 1)


def test_no_heartbeat_a_silent_run_is_lost_after_a_day_and_not_revived_by_being_listed(
    fake: FakeMlflow, lab: SmallLab
) -> None:
    import time_machine

    from apps.runs.services.lost_runs import detect_lost_runs

    source = source_at(fake, lab, node=lab.node)
    training(fake, "a1", over=False)
    poll(source)
    push(
        lab.node,
        [W("gpu:GPU-1", 1000, start_us=T0 + 60 * MINUTE, end_us=T0 + 61 * MINUTE)],
        received_us=T0 + 61 * MINUTE,
    )
    detect_lost_runs(lab=lab.lab, now=T0 + 62 * MINUTE)
    assert Run.objects.get().state == "running"  # its machine's collector says nothing of it
    detect_lost_runs(lab=lab.lab, now=T0 + 25 * 60 * MINUTE)
    assert Run.objects.get().state == "lost"
    with time_machine.travel((T0 + 26 * 60 * MINUTE) / 1e6, tick=True):
        poll(source)
        assert Run.objects.get().state == "lost"
        fake.runs["a1"].metrics["loss"].append((MS + 26 * 3_600_000 - 60_000, 9, 0.1))
        poll(source)
    assert Run.objects.get().state == "running"


@pytest.mark.parametrize(
    ("start_ms", "words"),
    [(0, "no start"), (MS + 3 * 86_400_000, "clock of its machine is wrong")],
)
def test_a_run_that_cannot_be_placed_in_time_is_told(
    fake: FakeMlflow, source: MlflowSource, start_ms: int, words: str
) -> None:
    fake.add("a1", start_ms=start_ms)
    training(fake, "a2")
    poll(source)
    assert words in MlflowRun.objects.get(mlflow_id="a1").problem
    assert Run.objects.get().external_ids.get().value == "a2"


def test_questions_to_the_database_do_not_grow_with_runs_that_are_known(
    fake: FakeMlflow, source: MlflowSource
) -> None:
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    def asked() -> int:
        with CaptureQueriesContext(connection) as captured:
            poll(source)
        return len(captured)

    training(fake, "r0")
    poll(source)
    few = asked()
    for i in range(1, 9):
        training(fake, f"r{i}", start_ms=MS + i)
    poll(source)
    settle()
    assert asked() <= few + 8  # one for each run: whether it is unchanged


def test_two_that_read_at_once_count_nothing_twice(fake: FakeMlflow, source: MlflowSource) -> None:
    """One stands still between asking for a page and storing it; the other reads on to the end
    meanwhile.
    """
    from apps.trackers.mlflow.client import Server

    run = training(fake, "a1", over=False)
    watts(run, 100.0, seconds=90)
    asked, history = [], Server.history

    def slow(self: Server, *args: str) -> object:
        found = history(self, *args)
        if not asked:
            asked.append(args)
            run.status, run.end_ms = "FINISHED", MS + 91_000
            poll(source)
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Server, "history", slow)
        poll(source)
    poll(source)
    assert ledger_mj() == 90 * 100_000
    assert MetricPoint.objects.count() == 5
    assert not EnergyWindow.objects.exclude(measurement=8).exists()
