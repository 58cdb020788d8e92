"""An approved plan comes to its end: nothing of it is left to go, or it is withdrawn as nothing
of it went.
"""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from apps.accounts.models import AuditEntry
from apps.artifacts.choices import ItemOutcome
from apps.artifacts.cleanup.notifications import pending_deletions
from apps.artifacts.cleanup.outcomes import Outcome, record_outcomes
from apps.artifacts.cleanup.plans import object_to_items, withdraw
from apps.artifacts.models import Artifact, CleanupItem, CleanupPlan, Copy
from apps.artifacts.services.curation import pin
from apps.core.errors import Conflict, InvalidInput
from apps.runs.models import Run
from tests.artifacts.sample_plans import LATER, approved_plan, checkpoint, proposed_plan
from tests.artifacts.support import create_run, edge, register_artifact, register_rows, row
from tests.builders import T0, SmallLab


def _tell(lab: SmallLab, plan: CleanupPlan, outcome: ItemOutcome, *lines: CleanupItem) -> int:
    said = [Outcome(line.pk, outcome) for line in lines]
    return record_outcomes(plan=plan, outcomes=said, by=lab.owner, now=LATER)


def _state(plan: CleanupPlan) -> str:
    return str(CleanupPlan.objects.get(pk=plan.pk).state)


def _began_from(lab: SmallLab, line: CleanupItem) -> None:
    """Another run begins from what a line is of."""
    register_rows(
        lab,
        row(
            line.artifact.name,
            bytes=line.artifact.bytes,
            runs=[edge(create_run(lab), "initialised_from")],
        ),
    )


def _lines(plan: CleanupPlan) -> list[CleanupItem]:
    return list(plan.items.filter(selected=True).select_related("artifact", "copy").order_by("pk"))


def test_the_last_of_two_copies_that_stays_does_not_keep_a_plan_open(
    lab: SmallLab, run: Run
) -> None:
    checkpoint(lab, run, 1, "/ckpt/second", "/ckpt/third")
    plan = approved_plan(lab, unselected="/ckpt/third")
    Copy.objects.filter(path="/ckpt/third").update(state="missing")
    *others, second = sorted(_lines(plan), key=lambda line: line.copy.path == "/ckpt/second")
    assert _tell(lab, plan, ItemOutcome.TRASHED, *others) == 2
    assert _state(plan) == "applied"
    second.refresh_from_db()
    assert (second.selected, second.outcome, second.objected_by) == (False, "", None)
    assert second.objection == "another copy was expected to remain, but none is reliable by now"
    assert AuditEntry.objects.filter(action="plan.carried_out").get().details == {
        "plan": str(plan.uuid),
        "trashed": 2,
        "stay": 1,
    }
    with pytest.raises(InvalidInput, match="not selected in this plan"):
        _tell(lab, plan, ItemOutcome.TRASHED, second)
    assert proposed_plan(lab).items.filter(copy=second.copy).exists(), "by the next plan it may"


@pytest.mark.parametrize("since", ["referenced", "ancestor", "folder"])
def test_what_is_kept_since_it_was_approved_does_not_keep_a_plan_open(
    lab: SmallLab, run: Run, since: str
) -> None:
    register_rows(
        lab,
        row(
            "whole",
            form="folder",
            bytes=10,
            kind="checkpoint",
            copies=[{"path": "/ckpt/hf"}],
            runs=[edge(run)],
            facts={"step": 0},
        ),
        now=T0,
    )
    plan = approved_plan(lab)
    whole, *others = sorted(_lines(plan), key=lambda line: line.copy.path != "/ckpt/hf")
    kept, gone = (whole, others) if since == "folder" else (others[0], [whole, *others[1:]])
    if since == "referenced":
        _began_from(lab, kept)
    elif since == "ancestor":
        tuned = create_run(lab)
        register_rows(
            lab, row(kept.artifact.name, bytes=kept.artifact.bytes, runs=[edge(tuned, "used")])
        )
        Artifact.objects.filter(pk=register_artifact(lab, "tuned", runs=[edge(tuned)]).pk).update(
            state="promoted"
        )
    else:
        register_artifact(lab, "found since", copies=[{"path": "/ckpt/hf/new.pt"}])
    _tell(lab, plan, ItemOutcome.TRASHED, *gone)
    assert _state(plan) == "applied"
    kept.refresh_from_db()
    assert not kept.selected
    assert kept.objection
    assert kept.artifact.state == "stored", "it is not scheduled any more"
    assert {
        each.artifact.state
        for each in CleanupItem.objects.filter(pk__in=[line.pk for line in gone])
    } == {"scheduled"}


def test_what_may_go_still_keeps_a_plan_open(lab: SmallLab, run: Run) -> None:
    plan = approved_plan(lab)
    first, second = _lines(plan)
    _tell(lab, plan, ItemOutcome.TRASHED, first)
    assert _tell(lab, plan, ItemOutcome.TRASHED) == 0
    assert _state(plan) == "approved"
    second.refresh_from_db()
    assert second.selected
    with pytest.raises(Conflict, match="This node has an open plan"):
        proposed_plan(lab)
    assert _state(plan) == "approved"


def test_a_plan_all_of_which_is_kept_ends_when_the_machine_says_that_nothing_is_left(
    lab: SmallLab, run: Run
) -> None:
    plan = approved_plan(lab)
    for line in _lines(plan):
        _began_from(lab, line)
    assert [soon.plan for soon in pending_deletions(lab.lab, lab.owner)] == [plan]
    assert _tell(lab, plan, ItemOutcome.TRASHED) == 0
    assert _state(plan) == "applied"
    assert pending_deletions(lab.lab, lab.owner) == []
    assert set(Artifact.objects.values_list("state", flat=True)) == {"stored"}
    (entry,) = AuditEntry.objects.filter(action="plan.carried_out")
    assert (entry.user, entry.details) == (lab.owner, {"plan": str(plan.uuid), "stay": 2})
    assert _tell(lab, plan, ItemOutcome.TRASHED) == 0
    assert AuditEntry.objects.filter(action="plan.carried_out").count() == 1, (
        "saying it again changes nothing"
    )


def test_a_plan_of_which_nothing_is_left_to_go_is_in_no_ones_way(lab: SmallLab, run: Run) -> None:
    plan = approved_plan(lab)
    first, second = _lines(plan)
    _tell(lab, plan, ItemOutcome.TRASHED, first)
    _began_from(lab, second)
    assert proposed_plan(lab).pk != plan.pk
    assert _state(plan) == "applied"


def test_it_ends_also_where_nothing_new_is_due(lab: SmallLab, run: Run) -> None:
    plan = approved_plan(lab)
    for line in plan.items.select_related("artifact"):
        _began_from(lab, line)
    with pytest.raises(InvalidInput, match="No artifact on this node is due"):
        proposed_plan(lab)
    assert _state(plan) == "applied"


@pytest.mark.parametrize("how", ["objection", "pin"])
def test_an_objection_to_the_last_line_ends_it(lab: SmallLab, run: Run, how: str) -> None:
    plan = approved_plan(lab)
    first, second = _lines(plan)
    _tell(lab, plan, ItemOutcome.TRASHED, first)
    if how == "pin":
        pin(artifact=second.artifact, reason="my thesis", by=lab.owner, now=LATER)
    else:
        object_to_items(plan=plan, items=[second.pk], reason="my thesis", by=lab.owner, now=LATER)
    assert _state(plan) == "applied"
    acts = (
        AuditEntry.objects.filter(action__startswith="plan.")
        .order_by("pk")
        .values_list("action", flat=True)
    )
    assert list(acts)[-3:] == ["plan.carried_out", "plan.objection", "plan.carried_out"]


def test_an_objection_while_the_grace_goes_on_ends_nothing(lab: SmallLab, run: Run) -> None:
    plan = proposed_plan(lab)
    lines = [line.pk for line in _lines(plan)]
    CleanupPlan.objects.update(state="told")
    assert object_to_items(plan=plan, items=lines, reason="my thesis", by=lab.owner, now=LATER) == 2
    assert _state(plan) == "told"


def test_what_was_refused_or_brought_back_does_not_keep_a_plan_from_being_withdrawn(
    lab: SmallLab, run: Run
) -> None:
    checkpoint(lab, run, 0)
    plan = approved_plan(lab)
    first, second, third = _lines(plan)
    _tell(lab, plan, ItemOutcome.REFUSED, first)
    _tell(lab, plan, ItemOutcome.TRASHED, second)
    with pytest.raises(Conflict, match="were moved already"):
        withdraw(plan=plan, by=lab.owner, now=LATER)
    _tell(lab, plan, ItemOutcome.RESTORED, second)
    assert third.outcome == ""
    assert withdraw(plan=plan, by=lab.owner, now=LATER).state == "withdrawn"
    assert set(Artifact.objects.values_list("state", flat=True)) == {"stored"}
    assert set(Copy.objects.values_list("state", flat=True)) == {"present"}


def test_what_was_deleted_keeps_a_plan_from_being_withdrawn(lab: SmallLab, run: Run) -> None:
    plan = approved_plan(lab)
    _tell(lab, plan, ItemOutcome.DELETED, _lines(plan)[0])
    with pytest.raises(Conflict, match="were moved already"):
        withdraw(plan=plan, by=lab.owner, now=LATER)


def test_the_number_of_queries_does_not_grow_with_what_is_told(lab: SmallLab, run: Run) -> None:
    for step in range(4, 44):
        checkpoint(lab, run, step)
    plan = approved_plan(lab)
    lines = _lines(plan)
    _tell(lab, plan, ItemOutcome.TRASHED, *lines[:33])

    def queries(*some: CleanupItem, outcome: ItemOutcome) -> int:
        with CaptureQueriesContext(connection) as captured:
            assert _tell(lab, plan, outcome, *some) == len(some)
        return len(captured)

    assert queries(*lines[:3], outcome=ItemOutcome.DELETED) == queries(
        *lines[3:33], outcome=ItemOutcome.DELETED
    )
    assert queries(*lines[33:34], outcome=ItemOutcome.REFUSED) == queries(
        *lines[34:40], outcome=ItemOutcome.REFUSED
    )
    assert Artifact.objects.filter(state="tombstone").count() == 33
    assert _state(plan) == "approved"
