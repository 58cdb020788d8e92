"""What could be adapted instead of an artifact, or beside it."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from apps.artifacts.models import Artifact
from apps.artifacts.reuse.candidates import ORDERS, find_candidates
from apps.runs.services.fingerprints import put_fingerprint
from tests.artifacts.support import (
    create_run,
    data_fingerprint,
    digest,
    edge,
    register_artifact,
    register_rows,
    row,
    run_jobs,
    trained_model,
)
from tests.builders import T0, SmallLab, W, push, small_lab


def names(it: Artifact, **asked: str) -> list[str]:
    return [each.model.artifact.name for each in find_candidates(it, **asked).candidates]  # type: ignore[arg-type]


def test_models_of_like_data_without_itself_and_its_own_run(lab: SmallLab) -> None:
    mine = trained_model(lab, "mine.pt", data="cats")
    register_artifact(
        lab,
        "epoch1.pt",
        kind="checkpoint",
        copies=[{"path": "/e"}],
        runs=[edge(mine.run_edges.get().run)],
    )
    trained_model(lab, "cats.pt", data="cats-2025")
    trained_model(lab, "dogs.pt", data="dogs")
    run_jobs()
    found = find_candidates(mine)
    assert [each.model.artifact.name for each in found.candidates] == ["cats.pt"]
    assert found.candidates[0].why == "the same architecture, data of a like name (cat)"
    assert found.is_known
    assert names(Artifact.objects.get(name="dogs.pt")) == []


def test_a_data_set_has_models_that_know_it(lab: SmallLab) -> None:
    cats = register_artifact(lab, "cat-photos", kind="dataset")
    trained_model(lab, "cats.pt", data="cats-2025")
    run_jobs()
    assert names(cats) == ["cats.pt"]
    assert names(register_artifact(lab, "cat.log", kind="log")) == []


def test_what_nobody_can_share_is_not_known(lab: SmallLab) -> None:
    assert not find_candidates(trained_model(lab, "alone.pt")).is_known
    assert not find_candidates(register_artifact(lab, "log", kind="log")).is_known


def test_the_same_start_is_told_and_what_was_adapted_from_it(lab: SmallLab) -> None:
    base = register_artifact(lab, "bert", kind="model", copies=[{"path": "/b"}])
    mine = trained_model(lab, "mine.pt", data="cats")
    beside = trained_model(lab, "beside.pt", data="cats-2")
    child = trained_model(lab, "child.pt", data="cats-3")
    called = trained_model(lab, "called.pt", data="cats-4")
    runs = {
        each.name: each.run_edges.get(role="produced").run for each in (mine, beside, child, called)
    }
    register_rows(
        lab,
        row(
            "bert",
            kind="model",
            runs=[edge(runs[name], "initialised_from") for name in ("mine.pt", "beside.pt")],
        ),
    )
    register_rows(
        lab, row("mine.pt", kind="model", runs=[edge(runs["child.pt"], "initialised_from")])
    )
    for name in ("mine.pt", "called.pt"):
        start = {"verified": digest("start"), "weak": digest("w"), "name": "bert"}
        put_fingerprint(run=runs[name], payload=data_fingerprint("cats", start=start))
    run_jobs()
    found = {each.model.artifact.name: each for each in find_candidates(mine).candidates}
    assert {name for name, each in found.items() if each.has_same_start} == {
        "beside.pt",
        "called.pt",
    }
    assert {name for name, each in found.items() if each.is_derived} == {"child.pt"}
    assert found["beside.pt"].why.endswith(", the same start")
    assert found["child.pt"].why.endswith(", adapted from this one")
    assert base.name not in found


def test_two_trainings_from_scratch_have_no_start_in_common(lab: SmallLab) -> None:
    mine = trained_model(lab, "mine.pt", data="cats")  # its fingerprint calls its start 'scratch'
    trained_model(lab, "other.pt", data="cats")
    run_jobs()
    (other,) = find_candidates(mine).candidates
    assert not other.has_same_start
    assert other.why.startswith("the same data")


def test_ranked_by_likeness_metric_size_energy_or_licence(lab: SmallLab) -> None:
    mine = trained_model(lab, "mine.pt", data="cats", metrics={"val_acc": 0.9})
    near = trained_model(
        lab, "near.pt", data="cats", bytes=30, metrics={"val_acc": 0.7, "val_f1": 1.0}
    )
    good = trained_model(
        lab, "good.pt", data="cats-2", bytes=20, metrics={"val_acc": 0.95}, licence="MIT"
    )
    trained_model(
        lab, "other.pt", data="cats-3", bytes=10, metrics={"loss": 9.0}, licence="Apache-2.0"
    )
    run_jobs()
    runs = {each.name: each.run_edges.get().run.uuid for each in (near, good)}
    windows = [
        W("gpu:GPU-1", mj, T0 + i * 60_000_000, T0 + (i + 1) * 60_000_000, i, ((f"run:{run}", mj),))
        for i, (run, mj) in enumerate(((runs["near.pt"], 5_000_000), (runs["good.pt"], 4_000_000)))
    ]
    push(lab.node, windows)
    assert names(mine) == ["near.pt", "other.pt", "good.pt"]  # the same data first, then the latest
    assert names(mine, by="metric") == ["good.pt", "near.pt", "other.pt"]
    assert names(mine, by="bytes") == ["other.pt", "good.pt", "near.pt"]
    assert names(mine, by="energy") == ["near.pt", "good.pt", "other.pt"]
    assert names(mine, by="licence") == ["other.pt", "good.pt", "near.pt"]
    found = {each.model.artifact.name: each for each in find_candidates(mine).candidates}
    assert (
        found["near.pt"].energy_mj,
        found["good.pt"].energy_mj,
        found["other.pt"].energy_mj,
    ) == (
        5_000_000,
        4_000_000,
        None,
    )
    assert found["other.pt"].metric == ("loss", 9.0)  # it has none of this name: its own
    assert found["near.pt"].metric == ("val_acc", 0.7)


def test_a_metric_may_be_named_and_losses_are_best_when_least(lab: SmallLab) -> None:
    mine = trained_model(lab, "mine.pt", data="cats")
    trained_model(lab, "a.pt", data="cats", metrics={"val_loss": 0.5, "val_acc": 0.9})
    trained_model(lab, "b.pt", data="cats", metrics={"val_loss": 0.4, "val_acc": 0.8})
    run_jobs()
    assert find_candidates(mine).metric == "val_acc"
    assert names(mine, by="metric") == ["a.pt", "b.pt"]
    assert names(mine, by="metric", metric="val_loss") == ["b.pt", "a.pt"]


def test_labs_are_apart_and_queries_do_not_grow(lab: SmallLab) -> None:
    mine = trained_model(lab, "mine.pt", data="cats", metrics={"acc": 0.1})
    theirs = small_lab(name="Other")
    trained_model(theirs, "theirs.pt", data="cats")
    trained_model(lab, "one.pt", data="cats", metrics={"acc": 0.2})
    run_jobs()
    assert names(mine) == ["one.pt"]

    def queries() -> int:
        with CaptureQueriesContext(connection) as captured:
            find_candidates(mine)
        return len(captured)

    before = queries()
    assert before <= 14
    for i in range(6):
        trained_model(lab, f"more{i}.pt", data="cats", metrics={"acc": 0.3})
    run_jobs()
    assert queries() == before


@pytest.mark.parametrize("by", ORDERS)
def test_no_order_needs_anything_to_be_known(lab: SmallLab, by: str) -> None:
    mine = trained_model(lab, "mine.pt", tags={"task": "cats"})
    register_artifact(
        lab, "bare.pt", kind="model", tags={"task": "cats"}, copies=[{"path": "/bare"}]
    )
    create_run(lab)
    run_jobs()
    assert names(mine, by=by) == ["bare.pt"]
