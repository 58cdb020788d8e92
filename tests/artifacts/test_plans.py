"""Plans: told, objected to, approved, carried out, withdrawn; what people do with an artifact
takes it out of open ones.
"""

from typing import Any

import pytest

from apps.accounts.models import AuditEntry
from apps.artifacts.choices import ItemOutcome
from apps.artifacts.cleanup.outcomes import Outcome, record_outcomes
from apps.artifacts.cleanup.plan_check import check_plan
from apps.artifacts.cleanup.plans import (
    approve,
    notify_owners,
    object_to_items,
    select_items,
    withdraw,
)
from apps.artifacts.cleanup.retention import DAY_US
from apps.artifacts.models import Artifact, CleanupPlan, Copy
from apps.artifacts.services.curation import archive, mark_candidate, pin, promote
from apps.core.errors import Conflict, InvalidInput
from apps.runs.models import Run
from tests.artifacts.sample_plans import LATER, approved_plan, checkpoint, proposed_plan
from tests.artifacts.support import create_run, edge, register_rows, row
from tests.builders import SmallLab


def test_from_a_draft_to_tombstones(lab: SmallLab, run: Run) -> None:
    plan = proposed_plan(lab)
    with pytest.raises(Conflict, match="This node has an open plan"):
        proposed_plan(lab)
    with pytest.raises(Conflict, match="This plan is draft"):
        approve(plan=plan, by=lab.owner, now=LATER)
    lines = list(plan.items.order_by("pk"))
    shown = [line.pk for line in lines]
    assert select_items(plan=plan, selected=shown, listed=shown, by=lab.owner, now=LATER) == 1
    assert select_items(plan=plan, selected=shown, listed=shown, by=lab.owner, now=LATER) == 0
    with pytest.raises(InvalidInput, match="not 0"):
        notify_owners(plan=plan, grace_days=0, trash_days=14, by=lab.owner, now=LATER)
    notify_owners(plan=plan, grace_days=7, trash_days=14, by=lab.owner, now=LATER)
    assert set(Artifact.objects.values_list("state", flat=True)) == {"scheduled"}
    with pytest.raises(Conflict, match="grace period is not over"):
        approve(plan=plan, by=lab.owner, now=LATER + 7 * DAY_US - 1)
    with pytest.raises(InvalidInput, match="Enter a reason"):
        object_to_items(plan=plan, items=shown[:1], reason=" ", by=lab.owner, now=LATER)
    assert (
        object_to_items(plan=plan, items=shown[:1], reason="my thesis", by=lab.owner, now=LATER)
        == 1
    )
    approve(plan=plan, by=lab.owner, now=LATER + 7 * DAY_US)
    assert [
        (each.blocked_reason, each.item.pk)
        for each in check_plan(CleanupPlan.objects.get(pk=plan.pk), LATER)
        if each.blocked_reason
    ] == [("my thesis", shown[0])]
    with pytest.raises(InvalidInput, match="not selected in this plan"):
        record_outcomes(
            plan=plan, outcomes=[Outcome(shown[0], ItemOutcome.TRASHED)], by=None, now=LATER
        )
    for outcome, copies, artifacts in (
        (ItemOutcome.TRASHED, "trashed", "scheduled"),
        (ItemOutcome.DELETED, "deleted", "tombstone"),
    ):
        told_ = [Outcome(pk, outcome) for pk in shown[1:]]
        assert record_outcomes(plan=plan, outcomes=told_, by=lab.owner, now=LATER) == 2
        assert record_outcomes(plan=plan, outcomes=told_, by=lab.owner, now=LATER) == 0
        assert sorted(Copy.objects.values_list("state", flat=True)) == sorted(
            [copies, copies, "present"]
        )
        assert sorted(Artifact.objects.values_list("state", flat=True)) == sorted(
            [artifacts, artifacts, "stored"]
        )
    assert CleanupPlan.objects.get().state == "applied"
    acts = list(
        AuditEntry.objects.filter(lab=lab.lab, action__startswith="plan.").values_list(
            "action", flat=True
        )
    )
    assert acts == [
        "plan.made",
        "plan.changed",
        "plan.told",
        "plan.objection",
        "plan.approved",
        "plan.carried_out",
        "plan.carried_out",
    ]
    assert proposed_plan(lab).items.count() == 1, "the next plan may be made, of what is there"


def test_what_was_restored_or_refused_is_as_before(lab: SmallLab, run: Run) -> None:
    plan = approved_plan(lab)
    first, second = plan.items.filter(selected=True).order_by("pk")
    record_outcomes(
        plan=plan, outcomes=[Outcome(first.pk, ItemOutcome.TRASHED)], by=None, now=LATER
    )
    with pytest.raises(Conflict, match="were moved already"):
        withdraw(plan=plan, by=lab.owner, now=LATER)
    told_ = [
        Outcome(first.pk, ItemOutcome.RESTORED),
        Outcome(second.pk, ItemOutcome.REFUSED, "it changed"),
    ]
    record_outcomes(plan=plan, outcomes=told_, by=None, now=LATER)
    assert set(Artifact.objects.values_list("state", flat=True)) == {"stored"}
    assert set(Copy.objects.values_list("state", flat=True)) == {"present"}


def test_what_was_refused_can_be_objected_to_as_it_is_tried_again(lab: SmallLab, run: Run) -> None:
    plan = approved_plan(lab)
    first, second = plan.items.filter(selected=True).order_by("pk")
    record_outcomes(
        plan=plan,
        outcomes=[Outcome(first.pk, ItemOutcome.REFUSED, "it changed")],
        by=None,
        now=LATER,
    )
    assert [
        each.blocked_reason
        for each in check_plan(CleanupPlan.objects.get(pk=plan.pk), LATER)
        if each.item.pk == first.pk
    ] == [""]
    assert (
        object_to_items(plan=plan, items=[first.pk], reason="my thesis", by=lab.owner, now=LATER)
        == 1
    )
    stays = {
        each.item.pk: each.blocked_reason
        for each in check_plan(CleanupPlan.objects.get(pk=plan.pk), LATER)
    }
    assert (stays[first.pk], stays[second.pk]) == ("my thesis", "")
    first.refresh_from_db()
    assert (first.selected, first.outcome, first.artifact.state) == (False, "refused", "stored")


def test_who_objects_too_late_is_told_what_brings_it_back(lab: SmallLab, run: Run) -> None:
    checkpoint(lab, run, 0)
    plan = approved_plan(lab)
    first, second, _ = plan.items.filter(selected=True).order_by("pk")
    record_outcomes(
        plan=plan, outcomes=[Outcome(first.pk, ItemOutcome.TRASHED)], by=None, now=LATER
    )
    with pytest.raises(Conflict, match="in the trash") as told_:
        object_to_items(plan=plan, items=[first.pk], reason="my thesis", by=lab.owner, now=LATER)
    assert f"labcarbon-collect apply-plan {plan.uuid} --restore {first.pk}" in told_.value.hint
    assert (
        object_to_items(
            plan=plan, items=[first.pk, second.pk], reason="my thesis", by=lab.owner, now=LATER
        )
        == 1
    )
    with pytest.raises(Conflict, match="None of these items can be excluded"):
        object_to_items(plan=plan, items=[second.pk], reason="my thesis", by=lab.owner, now=LATER)
    assert AuditEntry.objects.filter(action="plan.objection").count() == 1


def test_what_went_with_its_folder_comes_back_with_it(lab: SmallLab, run: Run) -> None:
    plan = approved_plan(lab)
    folder, inner = plan.items.filter(selected=True).order_by("pk")
    plan.items.filter(selected=True).update(outcome="trashed")
    plan.items.filter(pk=inner.pk).update(parent_item=folder)
    with pytest.raises(Conflict, match="in the trash") as told_:
        object_to_items(
            plan=plan, items=[folder.pk, inner.pk], reason="my thesis", by=lab.owner, now=LATER
        )
    assert told_.value.hint.endswith(f"--restore {folder.pk}")


def test_ticks_count_before_owners_are_told(lab: SmallLab, run: Run) -> None:
    plan = proposed_plan(lab)
    first, second, third = plan.items.order_by("pk")
    ticks = {"selected": [first.pk], "listed": [first.pk, third.pk]}
    with pytest.raises(InvalidInput, match="not 0"):
        notify_owners(plan=plan, grace_days=0, trash_days=14, by=lab.owner, now=LATER, **ticks)
    assert list(plan.items.order_by("pk").values_list("selected", flat=True)) == [
        False,
        True,
        True,
    ], "all of it or nothing"
    notify_owners(plan=plan, grace_days=7, trash_days=14, by=lab.owner, now=LATER, **ticks)
    assert list(plan.items.order_by("pk").values_list("selected", flat=True)) == [True, True, False]
    states = [Artifact.objects.get(pk=line.artifact_id).state for line in (first, second, third)]
    assert states == ["scheduled", "scheduled", "stored"]
    acts = (
        AuditEntry.objects.filter(action__startswith="plan.")
        .order_by("pk")
        .values_list("action", flat=True)
    )
    assert list(acts) == ["plan.made", "plan.changed", "plan.told"]


def test_a_plan_that_is_withdrawn_leaves_nothing(lab: SmallLab, run: Run) -> None:
    plan = proposed_plan(lab)
    notify_owners(plan=plan, grace_days=7, trash_days=14, by=lab.owner, now=LATER)
    withdraw(plan=plan, by=lab.owner, now=LATER)
    assert set(Artifact.objects.values_list("state", flat=True)) == {"stored"}
    with pytest.raises(Conflict, match="This plan is withdrawn"):
        withdraw(plan=plan, by=lab.owner, now=LATER)
    assert proposed_plan(lab).pk != plan.pk


@pytest.mark.parametrize("act", [mark_candidate, archive])
def test_a_draft_loses_what_is_a_candidate_or_laid_aside(lab: SmallLab, run: Run, act: Any) -> None:
    checkpoint(lab, run, 1, "/ckpt/second")
    plan = proposed_plan(lab)
    first = Artifact.objects.get(name__startswith="step1")
    act(artifact=first, by=lab.owner, now=LATER)
    reason = "candidate" if act is mark_candidate else "archived"
    assert (
        list(plan.items.filter(artifact=first).values_list("selected", "objection"))
        == [(False, reason)] * 2
    )
    assert plan.items.filter(selected=True).count() == 1


@pytest.mark.parametrize("act", ["pin", "promote"])
def test_who_pins_or_promotes_objects(lab: SmallLab, run: Run, act: str) -> None:
    plan = proposed_plan(lab)
    notify_owners(plan=plan, grace_days=7, trash_days=14, by=lab.owner, now=LATER)
    line = plan.items.filter(selected=True).order_by("pk")[0]
    if act == "pin":
        pin(artifact=line.artifact, reason="my thesis", by=lab.owner, now=LATER)
    else:
        promote(artifact=line.artifact, by=lab.owner, now=LATER)
    line.refresh_from_db()
    assert (line.selected, line.objection) == (
        False,
        "pinned: my thesis" if act == "pin" else "promoted",
    )
    assert line.artifact.state == ("stored" if act == "pin" else "promoted")
    assert plan.items.filter(selected=True).count() == 1


def test_a_draft_too_loses_what_is_pinned(lab: SmallLab, run: Run) -> None:
    plan = proposed_plan(lab)
    line = plan.items.filter(selected=True).order_by("pk")[0]
    pin(artifact=line.artifact, reason="my thesis", by=lab.owner, now=LATER)
    line.refresh_from_db()
    assert (line.selected, line.objection) == (False, "pinned: my thesis")
    assert (
        select_items(plan=plan, selected=[line.pk], listed=[line.pk], by=lab.owner, now=LATER) == 0
    )
    line.refresh_from_db()
    assert (line.selected, line.objection) == (False, "pinned")


def test_what_nobody_said_but_came_before_owners_are_told_counts(lab: SmallLab, run: Run) -> None:
    """A run that began from it meanwhile is nobody's act on the plan."""
    plan = proposed_plan(lab)
    line = plan.items.filter(selected=True).order_by("pk")[0]
    register_rows(
        lab,
        row(
            line.artifact.name,
            bytes=line.artifact.bytes,
            runs=[edge(create_run(lab), "initialised_from")],
        ),
    )
    notify_owners(plan=plan, grace_days=7, trash_days=14, by=lab.owner, now=LATER)
    line.refresh_from_db()
    assert (line.selected, line.objection, line.objected_by) == (
        False,
        "input of another run",
        None,
    )
    assert line.artifact.state == "stored"
    assert plan.items.filter(selected=True).count() == 1
