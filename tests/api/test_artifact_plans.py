"""/api/v1/artifacts/plans/<uuid>/: what apply-plan asks, and what it tells."""

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest

from apps.artifacts.cleanup.plans import approve, create_plan, notify_owners
from apps.artifacts.cleanup.retention import DAY_US
from apps.artifacts.models import CleanupPlan
from apps.artifacts.services.holds import place_hold
from apps.core.clock import now_us
from apps.runs.models import Run
from tests.api.conftest import Labs
from tests.artifacts.support import create_run, edge, register_rows, row
from tests.builders import T0

Refused = Callable[..., dict[str, Any]]
LATER = T0 + 365 * DAY_US


@pytest.fixture
def plan(labs: Labs) -> CleanupPlan:
    """An approved plan of two checkpoints on our node."""
    lab, run = labs.ours, create_run(labs.ours)
    Run.objects.filter(pk=run.pk).update(state="finished", ended_us=T0)
    rows = [
        row(
            f"step{i}",
            kind="checkpoint",
            facts={"step": i},
            copies=[{"path": f"/ckpt/{i}"}],
            runs=[edge(run)],
        )
        for i in range(3)
    ]
    register_rows(lab, *rows, now=T0)
    made = create_plan(lab=lab.lab, node=lab.node, project=None, by=lab.owner, now=LATER)
    notify_owners(plan=made, grace_days=7, trash_days=14, by=lab.owner, now=LATER)
    return approve(plan=made, by=lab.owner, now=LATER + 7 * DAY_US)


def path(plan: CleanupPlan, more: str = "") -> str:
    return f"artifacts/plans/{plan.uuid}/{more}"


def test_what_may_go_and_why_the_rest_stays(labs: Labs, plan: CleanupPlan) -> None:
    reply = labs.member("GET", path(plan))
    assert reply.status_code == 200, reply.content
    found = reply.json()  # type: ignore[attr-defined]
    assert (found["state"], found["trash_days"], found["node"]) == (
        "approved",
        14,
        str(labs.ours.node.uuid),
    )
    assert found["approved_by"] == labs.ours.owner.username
    assert {line["path"]: (line["goes"], line["stays"]) for line in found["lines"]} == {
        "/ckpt/0": (True, ""),
        "/ckpt/1": (True, ""),
        "/ckpt/2": (False, "it is not ticked"),
    }


def test_who_was_told_what_is_held_and_what_it_costs(labs: Labs, plan: CleanupPlan) -> None:
    line = plan.items.filter(selected=True).select_related("artifact").order_by("pk")[0]
    place_hold(
        on=line.artifact,
        reason="paper",
        until_hour=2_000_000,
        by=labs.ours.owner,
        is_manager=True,
        now=now_us(),
    )
    found = labs.member("GET", path(plan)).json()  # type: ignore[attr-defined]
    (told_,) = found["told"]
    assert (told_["person"], told_["own"], told_["others"], told_["mail"]) == (
        labs.ours.owner.username,
        2,
        0,
        "off",
    )
    assert found["untold"] == []
    lines = {each["line"]: each for each in found["lines"]}
    assert lines[line.pk]["stays"] == "held until 2198-02-27 08:00 UTC: paper"
    assert lines[line.pk]["held"] == {
        "on": "artifact",
        "reason": "paper",
        "until": "2198-02-27T08:00:00+00:00",
        "by": labs.ours.owner.username,
    }
    other = next(each for number, each in lines.items() if number != line.pk)
    assert other["held"] is None
    assert [
        other[name]
        for name in ("storage_mj_a_year", "storage_ug_a_year", "retrain_mj", "retrain_ug")
    ] == [None] * 4
    assert (
        found["sums"]["lines"],
        found["sums"]["unknown_medium"],
        found["sums"]["storage_mj"],
    ) == (1, 1, None)
    one = labs.member("GET", f"artifacts/{line.artifact.digest}/").json()  # type: ignore[attr-defined]
    assert [each["reason"] for each in one["holds"]] == ["paper"]


def test_what_became_of_it(labs: Labs, plan: CleanupPlan) -> None:
    goes = [line.pk for line in plan.items.filter(selected=True).order_by("pk")]
    body = {
        "lines": [
            {"line": goes[0], "outcome": "trashed"},
            {"line": goes[1], "outcome": "refused", "word": "it\x00 changed"},
        ]
    }
    assert labs.member("POST", path(plan, "outcomes/"), body).json() == {"changed": 2}  # type: ignore[attr-defined]
    assert labs.member("POST", path(plan, "outcomes/"), body).json() == {"changed": 0}  # type: ignore[attr-defined]
    plan.refresh_from_db()
    assert plan.state == "applied"
    found = labs.member("GET", path(plan)).json()["lines"]  # type: ignore[attr-defined]
    assert [line["outcome"] for line in found if line["line"] in goes] == ["trashed", "refused"]


@pytest.mark.parametrize(
    ("body", "words"),
    [
    (b"{", "must be JSON"), ({}, "missing required"),
    ({"lines": [{"line": 0, "outcome": "trashed"}]}, ">= 1"),
    ({"lines": [{"line": 1, "outcome": "eaten"}]}, "Invalid enum"),
    ({"lines": [{"line": 2**62, "outcome": "trashed"}]}, "not selected in this plan"),
    ({"lines": [{"line": 1, "outcome": "trashed"}] * 1001}, "length"),
],
)  # fmt: skip
def test_what_is_no_outcome(
    labs: Labs, plan: CleanupPlan, refused: Refused, body: Any, words: str
) -> None:
    assert words in refused(labs.member("POST", path(plan, "outcomes/"), body), 400)["message"]


def test_a_plan_that_is_not_approved(labs: Labs, plan: CleanupPlan, refused: Refused) -> None:
    CleanupPlan.objects.update(state="told")
    lines = labs.member("GET", path(plan)).json()["lines"]  # type: ignore[attr-defined]
    assert {line["stays"] for line in lines} == {"the plan is owners notified"}
    body = {"lines": [{"line": plan.items.all()[0].pk, "outcome": "trashed"}]}
    assert (
        "is owners notified"
        in refused(labs.member("POST", path(plan, "outcomes/"), body), 409)["message"]
    )


def test_another_labs_plan_is_not_there(labs: Labs, plan: CleanupPlan, refused: Refused) -> None:
    assert "no such plan" in refused(labs.outsider("GET", path(plan)), 404)["message"]
    refused(labs.outsider("POST", path(plan, "outcomes/"), {"lines": []}), 404)
    assert labs.member("GET", f"artifacts/plans/{uuid4()}/").status_code == 404


def test_rights(labs: Labs, plan: CleanupPlan, refused: Refused) -> None:
    for more, method in (("", "GET"), ("outcomes/", "POST")):
        for who in (labs.viewer, labs.node):
            refused(who(method, path(plan, more)), 403)
        refused(labs.nobody(method, path(plan, more)), 401)
    assert labs.member("POST", path(plan)).status_code == 405
    assert labs.member("GET", path(plan, "outcomes/")).status_code == 405
