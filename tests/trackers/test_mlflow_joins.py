"""Runs of MLflow that belong to others: nested, parts, told by their machine as well; energy
that must not count twice.
"""

from uuid import uuid4

import pytest
from django.test import Client

from apps.accounts.models import Project
from apps.core.clock import now_us
from apps.runs.models import ExternalId, Fingerprint, Run
from apps.runs.services.fingerprints import put_fingerprint
from apps.runs.services.runs import RunFacts, put_run
from apps.trackers.mlflow.models import MlflowRun, MlflowSource
from tests.builders import MINUTE, T0, SmallLab, W, push
from tests.dashboard.support import text_of
from tests.fakes.mlflow_server import FakeMlflow
from tests.runs.fingerprints import parsed
from tests.trackers.mlflow_support import MS, ledger_mj, poll, source_at, training, watts


def _known(lab: SmallLab, *, project: str | None = "demo") -> Run:
    facts = RunFacts(
        name="train.py", started_us=T0, project=project, params={"lr": 0.5}, node_uuid=lab.node.uuid
    )
    run, _ = put_run(
        lab=lab.lab,
        uuid=uuid4(),
        facts=facts,
        by=lab.owner,
        bound_node=None,
        now=now_us(),
        reported_by="collector",
    )
    return run


def test_a_nested_run_is_part_of_its_parent_whichever_is_seen_first(
    fake: FakeMlflow, source: MlflowSource
) -> None:
    child = fake.add("child", start_ms=MS, tags={"mlflow.parentRunId": "parent"})
    poll(source)
    parent = fake.add(
        "parent", start_ms=MS - 5000, tags={"mlflow.parentRunId": "child"}
    )  # and no circle
    watts(parent, 100.0, seconds=60)
    watts(child, 100.0, seconds=60)
    parent.status, parent.end_ms = child.status, child.end_ms = "FINISHED", MS + 70_000
    poll(source)
    runs = {row.mlflow_id: row.run for row in MlflowRun.objects.select_related("run__parent")}
    assert sum(run is not None and run.parent is not None for run in runs.values()) == 1
    assert ledger_mj() in (0, 60 * 100_000)


def test_the_watts_of_a_nested_run_are_its_parents(fake: FakeMlflow, source: MlflowSource) -> None:
    parent = training(fake, "parent")
    child = training(fake, "child", start_ms=MS + 1)
    child.tags["mlflow.parentRunId"] = "parent"
    watts(parent, 100.0)
    watts(child, 100.0)
    poll(source)
    assert ledger_mj() == 60 * 100_000
    assert Run.objects.get(external_ids__value="child").parent == Run.objects.get(
        external_ids__value="parent"
    )


def test_two_runs_on_one_machine_count_a_card_once(fake: FakeMlflow, lab: SmallLab) -> None:
    source = source_at(fake, lab, node=lab.node)
    for name in ("a1", "a2"):
        watts(training(fake, name), 100.0)
    poll(source)
    assert ledger_mj() == 60 * 100_000
    assert (
        "already reported by another run on ws-1" in MlflowRun.objects.get(mlflow_id="a2").problem
    )


def test_what_a_collector_measured_comes_first(fake: FakeMlflow, lab: SmallLab) -> None:
    source = source_at(fake, lab, node=lab.node)
    push(lab.node, [W("gpu:GPU-1", 7_000_000, start_us=T0, end_us=T0 + MINUTE)])
    watts(training(fake, "a1"), 100.0, seconds=120)
    poll(source)
    assert ledger_mj() == 7_000_000 + 60 * 100_000


def test_a_run_that_its_collector_told_of_is_added_to(
    fake: FakeMlflow, source: MlflowSource, lab: SmallLab
) -> None:
    run = _known(lab)
    told = training(fake, "a1")
    told.tags |= {"labcarbon.run_uuid": str(run.uuid), "labcarbon.node": str(lab.node.uuid)}
    watts(told, 100.0, seconds=120)
    push(
        lab.node,
        [
            W(
                "gpu:GPU-1",
                7_000_000,
                start_us=T0,
                end_us=T0 + MINUTE,
                shares=((f"run:{run.uuid}", 7_000_000),),
            )
        ],
    )
    poll(source)
    stored = Run.objects.get()
    assert (stored.pk, stored.name, stored.reported_by, stored.state) == (
        run.pk,
        "train.py",
        "collector",
        "finished",
    )
    assert stored.params == {"lr": 0.5, "epochs": 3, "seed": 7}
    assert stored.external_ids.get().value == "a1"
    assert stored.metrics.get().count == 5
    assert ledger_mj() == 7_000_000 + 60 * 100_000  # the second minute nobody else measured


def test_parameters_of_a_command_line_are_not_mixed_with_logged_ones(
    fake: FakeMlflow, source: MlflowSource, lab: SmallLab
) -> None:
    run = _known(lab)
    before = Fingerprint.objects.get(run=run)
    training(fake, "a1").tags["labcarbon.run_uuid"] = str(run.uuid)
    poll(source)
    after = Fingerprint.objects.get(run=run)
    assert (after.params, after.recipe) == (before.params, before.recipe)
    assert all((after.code_weak, after.data_weak))


def test_a_run_told_before_its_collector_is_the_same_run(
    fake: FakeMlflow, source: MlflowSource, lab: SmallLab
) -> None:
    uuid = uuid4()
    training(fake, "a1").tags["labcarbon.run_uuid"] = str(uuid)
    poll(source)
    facts = RunFacts(
        name="train.py",
        started_us=T0,
        project="demo",
        node_uuid=lab.node.uuid,
        command=["train.py"],
    )
    run, _ = put_run(
        lab=lab.lab, uuid=uuid, facts=facts, by=None, bound_node=lab.node.uuid, now=now_us()
    )
    fake.runs["a1"].params["late"] = "1"
    poll(source)
    stored = Run.objects.get()
    assert (stored.pk, stored.name, stored.node) == (run.pk, "train.py", lab.node)
    assert stored.params["late"] == 1


def test_a_tag_is_not_believed_for_a_run_of_another_project(
    fake: FakeMlflow, source: MlflowSource, lab: SmallLab
) -> None:
    Project.objects.create(lab=lab.lab, slug="other", name="Other", created_us=T0)
    run = _known(lab, project="other")
    training(fake, "a1").tags["labcarbon.run_uuid"] = str(run.uuid)
    poll(source)
    run.refresh_from_db()
    assert run.params == {"lr": 0.5}
    assert run.metrics.count() == 0
    assert "another project" in MlflowRun.objects.get().problem
    assert Run.objects.count() == 2


def test_of_two_that_say_they_are_one_run_the_first_is_it(
    fake: FakeMlflow, source: MlflowSource, lab: SmallLab
) -> None:
    run = _known(lab)
    for i, name in enumerate(("a1", "a2")):
        training(fake, name, start_ms=MS + i * 60_000).tags["labcarbon.run_uuid"] = str(run.uuid)
    training(fake, "a3", start_ms=MS + 120_000).tags["labcarbon.part_of"] = str(run.uuid)
    poll(source)
    assert MlflowRun.objects.get(mlflow_id="a1").run == run
    assert {row.run.parent_id for row in MlflowRun.objects.exclude(mlflow_id="a1") if row.run} == {
        run.pk
    }


@pytest.mark.parametrize("tag", ["labcarbon.part_of", "mlflow.parentRunId"])
def test_a_part_is_on_the_machine_of_its_whole(
    fake: FakeMlflow, source: MlflowSource, lab: SmallLab, tag: str
) -> None:
    run = _known(lab)
    training(fake, "whole").tags["labcarbon.run_uuid"] = str(run.uuid)
    part = training(fake, "z-part")
    part.tags[tag] = str(run.uuid) if tag == "labcarbon.part_of" else "whole"
    watts(part, 100.0, seconds=120)
    push(lab.node, [W("gpu:GPU-1", 7_000_000, start_us=T0, end_us=T0 + MINUTE)])
    poll(source)
    stored = Run.objects.get(external_ids__value="z-part")
    assert (stored.node, stored.host, stored.parent) == (lab.node, "ws-1", run)
    assert ledger_mj() == 7_000_000 + 60 * 100_000


def test_a_run_names_its_machine(fake: FakeMlflow, source: MlflowSource, lab: SmallLab) -> None:
    training(fake, "a1").tags["labcarbon.node"] = str(lab.node.uuid)
    training(fake, "a2").tags["labcarbon.node"] = str(uuid4())
    poll(source)
    nodes = {row.mlflow_id: row.run.node for row in MlflowRun.objects.all() if row.run}
    assert nodes == {"a1": lab.node, "a2": source.node}


def test_the_same_id_told_over_the_api_is_the_same_run(
    fake: FakeMlflow, source: MlflowSource, lab: SmallLab
) -> None:
    run = _known(lab)
    ExternalId.objects.create(lab=lab.lab, run=run, tool="mlflow", value="a1")
    training(fake, "a1")
    poll(source)
    assert Run.objects.get() == run
    assert MlflowRun.objects.get().is_linked


def test_parameters_that_only_mlflow_logged_are_on_the_page(
    fake: FakeMlflow, source: MlflowSource, lab: SmallLab
) -> None:
    """The command line of a run is compared. Autologging knows more: it is displayed beside it."""
    run = _known(lab)
    put_fingerprint(run=run, payload=parsed())
    before = Fingerprint.objects.values("params", "recipe").get(run=run)
    logged = training(fake, "a1", max_iter="50", solver="lbfgs")
    logged.tags["labcarbon.run_uuid"] = str(run.uuid)
    poll(source)
    assert Fingerprint.objects.values("params", "recipe").get(run=run) == before
    client = Client()
    client.force_login(lab.owner)
    page = text_of(client.get(f"/runs/{run.uuid}/"))
    assert "max_iter (not compared)" in page
    assert "lbfgs" in page


def test_another_labs_server_changes_nothing_here(
    fake: FakeMlflow, source: MlflowSource, lab: SmallLab
) -> None:
    from tests.builders import small_lab

    theirs = small_lab(name="Other Lab")
    run = _known(theirs)
    training(fake, "a1").tags["labcarbon.run_uuid"] = str(run.uuid)
    poll(source)
    run.refresh_from_db()
    assert (run.params, run.metrics.count(), run.external_ids.count()) == ({"lr": 0.5}, 0, 0)
    assert Run.objects.filter(lab=lab.lab).count() == 1
