"""A repeat is told in MLflow as a tag: when it is found, when it changes, and again later where
that failed.
"""

from uuid import uuid4

import pytest

from apps.core.clock import now_us
from apps.preflight.choices import FindingState
from apps.preflight.models import DuplicateFinding
from apps.preflight.services.findings import decide
from apps.runs.choices import RunState
from apps.runs.models import Run
from apps.runs.services.runs import RunFacts, put_run
from apps.runs.services.updates import RunUpdate
from apps.trackers.mlflow.models import MlflowRun, MlflowSource
from tests.builders import SmallLab
from tests.fakes.mlflow_server import FakeMlflow
from tests.runs.fingerprints import parsed
from tests.trackers.mlflow_support import MS, poll, settle, source_at, training, watts

HOUR_MS = 3_600_000


def _two(fake: FakeMlflow, source: MlflowSource, *, over: bool = True, **params: str) -> None:
    watts(training(fake, "a1", start_ms=MS - 2 * HOUR_MS), 100.0, start_ms=MS - 2 * HOUR_MS)
    training(fake, "a2", over=over, **params)
    poll(source)


def test_a_repeat_is_told_with_a_link_and_no_name(fake: FakeMlflow, source: MlflowSource) -> None:
    _two(fake, source)
    tags = fake.runs["a2"].tags
    run = Run.objects.get(external_ids__value="a2")
    assert tags["labcarbon.verdict"].startswith(
        "possible duplicate: This may have been done already: someone in your lab, "
    )
    assert "1.67 Wh" in tags["labcarbon.verdict"]
    assert "ada" not in tags["labcarbon.verdict"]
    assert tags["labcarbon.link"] == f"http://127.0.0.1:8000/runs/{run.uuid}/"
    assert DuplicateFinding.objects.get().run == run
    assert "labcarbon.verdict" not in fake.runs["a1"].tags


def _asked_before_its_start(lab: SmallLab, started_us: int) -> Run:
    """Store a run as MLflow's client with the collector tells it: all is known but the
    parameters that it will log.
    """
    known = RunUpdate(fingerprint=parsed(params=None, told=None, dropped=None))
    facts = RunFacts(
        name="train.py", started_us=started_us, project="demo", node_uuid=lab.node.uuid, known=known
    )
    run, _ = put_run(
        lab=lab.lab, uuid=uuid4(), facts=facts, by=lab.owner, bound_node=None, now=now_us()
    )
    return run


@pytest.mark.parametrize(
    ("lr", "told"), [("0.10", "duplicate: This was done already: "), ("0.2", None)]
)
def test_with_the_collector_beside_the_client_it_is_certain(
    fake: FakeMlflow, source: MlflowSource, lab: SmallLab, lr: str, told: str | None
) -> None:
    """Its parameters are known with the first that were logged, and complete what its client
    told at the start.
    """
    for name, at_ms, rate in (("a1", MS - 2 * HOUR_MS, "1e-1"), ("a2", MS, lr)):
        run = _asked_before_its_start(lab, at_ms * 1000)
        fake.add(
            name,
            start_ms=at_ms,
            status="FINISHED" if name == "a1" else "RUNNING",
            params={"lr": rate, "epochs": "3"},
            end_ms=at_ms + 60_000 if name == "a1" else None,
            tags={"labcarbon.run_uuid": str(run.uuid)},
        )
    poll(source)
    assert Run.objects.count() == 2
    said = fake.runs["a2"].tags.get("labcarbon.verdict")
    assert said is None if told is None else (said or "").startswith(told)
    assert [repeat.certainty for repeat in DuplicateFinding.objects.all()] == (
        ["verified"] if told else []
    )


def test_what_is_new_is_not_told(fake: FakeMlflow, source: MlflowSource) -> None:
    _two(fake, source, lr="0.2")
    assert "/runs/set-tag" not in fake.requested_paths
    poll(source)
    assert "/runs/set-tag" not in fake.requested_paths


def test_it_is_told_while_the_run_goes_on_and_once(fake: FakeMlflow, source: MlflowSource) -> None:
    _two(fake, source, over=False)
    assert fake.runs["a2"].tags["labcarbon.verdict"].startswith("possible duplicate")
    fake.requested_paths.clear()
    fake.runs["a2"].metrics["loss"].append((MS + 30_000, 9, 0.01))
    poll(source)
    assert "/runs/set-tag" not in fake.requested_paths


def test_parameters_that_come_later_change_it(fake: FakeMlflow, source: MlflowSource) -> None:
    _two(fake, source, over=False)
    fake.runs["a2"].params["dropout"] = "0.5"
    poll(source)
    assert fake.runs["a2"].tags["labcarbon.verdict"] == "none"
    assert not DuplicateFinding.objects.exists()


def test_what_a_person_decided_is_told(
    fake: FakeMlflow, source: MlflowSource, lab: SmallLab
) -> None:
    _two(fake, source)
    told = {
        "lab": lab.lab,
        "finding_ids": [DuplicateFinding.objects.get().pk],
        "by": lab.owner,
        "is_manager": True,
        "now": now_us(),
    }
    decide(state=FindingState.INTENTIONAL, reason="", **told)
    settle()
    assert fake.runs["a2"].tags["labcarbon.verdict"] == "on purpose"


def test_nested_runs_and_parts_are_quiet(fake: FakeMlflow, source: MlflowSource) -> None:
    training(fake, "a1", start_ms=MS - HOUR_MS)
    for i, (name, tag, value) in enumerate(
        (
            ("n1", "mlflow.parentRunId", "zz"),
            ("n2", "labcarbon.part_of", "7f1d3b52-2222-4333-8444-555566667777"),
        )
    ):
        training(fake, name, start_ms=MS + i * 120_000).tags[tag] = value
    poll(source)
    assert "/runs/set-tag" not in fake.requested_paths


def test_not_told_where_it_is_not_wanted(fake: FakeMlflow, lab: SmallLab) -> None:
    source = source_at(fake, lab, writes_verdicts=False)
    _two(fake, source)
    assert "/runs/set-tag" not in fake.requested_paths
    assert DuplicateFinding.objects.count() == 1


def test_a_server_that_lets_nobody_write_is_read_all_the_same_and_asked_again(
    fake: FakeMlflow, source: MlflowSource
) -> None:
    fake.faults["/runs/set-tag"] = (403, {}, b'{"message": "read only"}')
    _two(fake, source)
    assert poll(source).problem == ""
    row = MlflowRun.objects.get(mlflow_id="a2")
    assert "read only" in row.verdict_problem
    assert (row.tries, row.written_verdict) == (1, "")
    assert row.due_us > now_us()
    asked = fake.requested_paths.count("/runs/set-tag")
    poll(source)
    assert fake.requested_paths.count("/runs/set-tag") == asked  # not before its time
    fake.faults.clear()
    MlflowRun.objects.update(due_us=0)
    poll(source)
    row.refresh_from_db()
    assert (row.verdict_problem, row.tries, row.written_verdict) == ("", 0, row.verdict)
    assert fake.runs["a2"].tags["labcarbon.verdict"] == row.verdict


def test_a_lost_verdict_waits_for_a_server_that_is_away(
    fake: FakeMlflow, source: MlflowSource
) -> None:
    _two(fake, source)
    MlflowRun.objects.update(written_verdict="")
    fake.runs["a2"].tags.pop("labcarbon.verdict")
    fake.faults["*"] = "half"
    assert poll(source).problem
    fake.faults.clear()
    MlflowRun.objects.update(due_us=0)
    poll(source)
    assert fake.runs["a2"].tags["labcarbon.verdict"].startswith("possible duplicate")


def test_our_own_tags_are_no_news(fake: FakeMlflow, source: MlflowSource) -> None:
    _two(fake, source)
    assert poll(source).runs == 0
    assert Run.objects.filter(state=RunState.FINISHED).count() == 2
