"""Plans: told, objected to, approved, carried out, withdrawn; what people do with an artifact takes it out of open ones."""

from typing import Any

import pytest

from apps.accounts.models import AuditEntry
from apps.artifacts.choices import LineOutcome
from apps.artifacts.cleanup.eligibility import going
from apps.artifacts.cleanup.outcomes import Outcome, note_outcomes
from apps.artifacts.cleanup.plans import approve, choose, object_to, tell_owners, withdraw
from apps.artifacts.cleanup.retention import DAY_US
from apps.artifacts.models import Artifact, Copy, Plan
from apps.artifacts.services.curation import lay_aside, make_candidate, pin, promote
from apps.core.errors import Conflict, InvalidInput
from apps.runs.models import Run
from tests.artifacts.planned import LATER, approved, checkpoint, planned
from tests.artifacts.support import a_run, edge, row, told
from tests.builders import SmallLab


def test_from_a_draft_to_tombstones(lab: SmallLab, run: Run) -> None:
    plan = planned(lab)
    with pytest.raises(Conflict, match="A plan of this machine is open"):
        planned(lab)
    with pytest.raises(Conflict, match="This plan is draft"):
        approve(plan=plan, by=lab.owner, now=LATER)
    lines = list(plan.lines.order_by("pk"))
    shown = [line.pk for line in lines]
    assert choose(plan=plan, chosen=shown, shown=shown, by=lab.owner, now=LATER) == 1
    assert choose(plan=plan, chosen=shown, shown=shown, by=lab.owner, now=LATER) == 0
    with pytest.raises(InvalidInput, match="0 days"):
        tell_owners(plan=plan, grace_days=0, trash_days=14, by=lab.owner, now=LATER)
    tell_owners(plan=plan, grace_days=7, trash_days=14, by=lab.owner, now=LATER)
    assert set(Artifact.objects.values_list("state", flat=True)) == {"scheduled"}
    with pytest.raises(Conflict, match="The grace goes on"):
        approve(plan=plan, by=lab.owner, now=LATER + 7 * DAY_US - 1)
    with pytest.raises(InvalidInput, match="Say why"):
        object_to(plan=plan, lines=shown[:1], reason=" ", by=lab.owner, now=LATER)
    assert object_to(plan=plan, lines=shown[:1], reason="my thesis", by=lab.owner, now=LATER) == 1
    approve(plan=plan, by=lab.owner, now=LATER + 7 * DAY_US)
    assert [(each.stays, each.line.pk) for each in going(Plan.objects.get(pk=plan.pk), LATER) if each.stays] == [
        ("my thesis", shown[0])
    ]
    with pytest.raises(InvalidInput, match="not to go"):
        note_outcomes(plan=plan, outcomes=[Outcome(shown[0], LineOutcome.TRASHED)], by=None, now=LATER)
    for outcome, copies, artifacts in (
        (LineOutcome.TRASHED, "trashed", "scheduled"), (LineOutcome.DELETED, "deleted", "tombstone"),
    ):  # fmt: skip
        told_ = [Outcome(pk, outcome) for pk in shown[1:]]
        assert note_outcomes(plan=plan, outcomes=told_, by=lab.owner, now=LATER) == 2
        assert note_outcomes(plan=plan, outcomes=told_, by=lab.owner, now=LATER) == 0
        assert sorted(Copy.objects.values_list("state", flat=True)) == sorted([copies, copies, "present"])
        assert sorted(Artifact.objects.values_list("state", flat=True)) == sorted([artifacts, artifacts, "stored"])
    assert Plan.objects.get().state == "applied"
    acts = list(AuditEntry.objects.filter(lab=lab.lab, action__startswith="plan.").values_list("action", flat=True))
    assert acts == ["plan.made", "plan.changed", "plan.told", "plan.objection", "plan.approved", "plan.carried_out",
                    "plan.carried_out"]  # fmt: skip
    assert planned(lab).lines.count() == 1, "the next plan may be made, of what is there"


def test_what_was_restored_or_refused_is_as_before(lab: SmallLab, run: Run) -> None:
    plan = approved(lab)
    first, second = plan.lines.filter(chosen=True).order_by("pk")
    note_outcomes(plan=plan, outcomes=[Outcome(first.pk, LineOutcome.TRASHED)], by=None, now=LATER)
    with pytest.raises(Conflict, match="being carried out"):
        withdraw(plan=plan, by=lab.owner, now=LATER)
    told_ = [Outcome(first.pk, LineOutcome.RESTORED), Outcome(second.pk, LineOutcome.REFUSED, "it changed")]
    note_outcomes(plan=plan, outcomes=told_, by=None, now=LATER)
    assert set(Artifact.objects.values_list("state", flat=True)) == {"stored"}
    assert set(Copy.objects.values_list("state", flat=True)) == {"present"}


def test_what_was_refused_can_be_objected_to_as_it_is_tried_again(lab: SmallLab, run: Run) -> None:
    plan = approved(lab)
    first, second = plan.lines.filter(chosen=True).order_by("pk")
    note_outcomes(plan=plan, outcomes=[Outcome(first.pk, LineOutcome.REFUSED, "it changed")], by=None, now=LATER)
    assert [each.stays for each in going(Plan.objects.get(pk=plan.pk), LATER) if each.line.pk == first.pk] == [""]
    assert object_to(plan=plan, lines=[first.pk], reason="my thesis", by=lab.owner, now=LATER) == 1
    stays = {each.line.pk: each.stays for each in going(Plan.objects.get(pk=plan.pk), LATER)}
    assert (stays[first.pk], stays[second.pk]) == ("my thesis", "")
    first.refresh_from_db()
    assert (first.chosen, first.outcome, first.artifact.state) == (False, "refused", "stored")


def test_who_objects_too_late_is_told_what_brings_it_back(lab: SmallLab, run: Run) -> None:
    checkpoint(lab, run, 0)
    plan = approved(lab)
    first, second, _ = plan.lines.filter(chosen=True).order_by("pk")
    note_outcomes(plan=plan, outcomes=[Outcome(first.pk, LineOutcome.TRASHED)], by=None, now=LATER)
    with pytest.raises(Conflict, match="in the trash") as told_:
        object_to(plan=plan, lines=[first.pk], reason="my thesis", by=lab.owner, now=LATER)
    assert f"labcarbon-collect apply-plan {plan.uuid} --restore {first.pk}" in told_.value.hint
    assert object_to(plan=plan, lines=[first.pk, second.pk], reason="my thesis", by=lab.owner, now=LATER) == 1
    with pytest.raises(Conflict, match="None of these lines is to go"):
        object_to(plan=plan, lines=[second.pk], reason="my thesis", by=lab.owner, now=LATER)
    assert AuditEntry.objects.filter(action="plan.objection").count() == 1


def test_what_went_with_its_folder_comes_back_with_it(lab: SmallLab, run: Run) -> None:
    plan = approved(lab)
    folder, inner = plan.lines.filter(chosen=True).order_by("pk")
    plan.lines.filter(chosen=True).update(outcome="trashed")
    plan.lines.filter(pk=inner.pk).update(went_with=folder)
    with pytest.raises(Conflict, match="in the trash") as told_:
        object_to(plan=plan, lines=[folder.pk, inner.pk], reason="my thesis", by=lab.owner, now=LATER)
    assert told_.value.hint.endswith(f"--restore {folder.pk}")


def test_ticks_count_before_owners_are_told(lab: SmallLab, run: Run) -> None:
    plan = planned(lab)
    first, second, third = plan.lines.order_by("pk")
    ticks = {"chosen": [first.pk], "shown": [first.pk, third.pk]}
    with pytest.raises(InvalidInput, match="0 days"):
        tell_owners(plan=plan, grace_days=0, trash_days=14, by=lab.owner, now=LATER, **ticks)
    assert list(plan.lines.order_by("pk").values_list("chosen", flat=True)) == [False, True, True], "all of it or nothing"
    tell_owners(plan=plan, grace_days=7, trash_days=14, by=lab.owner, now=LATER, **ticks)
    assert list(plan.lines.order_by("pk").values_list("chosen", flat=True)) == [True, True, False]
    states = [Artifact.objects.get(pk=line.artifact_id).state for line in (first, second, third)]
    assert states == ["scheduled", "scheduled", "stored"]
    acts = AuditEntry.objects.filter(action__startswith="plan.").order_by("pk").values_list("action", flat=True)
    assert list(acts) == ["plan.made", "plan.changed", "plan.told"]


def test_a_plan_that_is_withdrawn_leaves_nothing(lab: SmallLab, run: Run) -> None:
    plan = planned(lab)
    tell_owners(plan=plan, grace_days=7, trash_days=14, by=lab.owner, now=LATER)
    withdraw(plan=plan, by=lab.owner, now=LATER)
    assert set(Artifact.objects.values_list("state", flat=True)) == {"stored"}
    with pytest.raises(Conflict, match="This plan is withdrawn"):
        withdraw(plan=plan, by=lab.owner, now=LATER)
    assert planned(lab).pk != plan.pk


@pytest.mark.parametrize("act", [make_candidate, lay_aside])
def test_a_draft_loses_what_is_a_candidate_or_laid_aside(lab: SmallLab, run: Run, act: Any) -> None:
    checkpoint(lab, run, 1, "/ckpt/second")
    plan = planned(lab)
    first = Artifact.objects.get(name__startswith="step1")
    act(artifact=first, by=lab.owner, now=LATER)
    told_ = "a candidate" if act is make_candidate else "laid aside"
    assert list(plan.lines.filter(artifact=first).values_list("chosen", "objection")) == [(False, told_)] * 2
    assert plan.lines.filter(chosen=True).count() == 1


@pytest.mark.parametrize("act", ["pin", "promote"])
def test_who_pins_or_promotes_objects(lab: SmallLab, run: Run, act: str) -> None:
    plan = planned(lab)
    tell_owners(plan=plan, grace_days=7, trash_days=14, by=lab.owner, now=LATER)
    line = plan.lines.filter(chosen=True).order_by("pk")[0]
    if act == "pin":
        pin(artifact=line.artifact, reason="my thesis", by=lab.owner, now=LATER)
    else:
        promote(artifact=line.artifact, by=lab.owner, now=LATER)
    line.refresh_from_db()
    assert (line.chosen, line.objection) == (False, "pinned: my thesis" if act == "pin" else "promoted")
    assert line.artifact.state == ("stored" if act == "pin" else "promoted")
    assert plan.lines.filter(chosen=True).count() == 1


def test_a_draft_too_loses_what_is_pinned(lab: SmallLab, run: Run) -> None:
    plan = planned(lab)
    line = plan.lines.filter(chosen=True).order_by("pk")[0]
    pin(artifact=line.artifact, reason="my thesis", by=lab.owner, now=LATER)
    line.refresh_from_db()
    assert (line.chosen, line.objection) == (False, "pinned: my thesis")
    assert choose(plan=plan, chosen=[line.pk], shown=[line.pk], by=lab.owner, now=LATER) == 0
    line.refresh_from_db()
    assert (line.chosen, line.objection) == (False, "pinned")


def test_what_nobody_said_but_came_before_owners_are_told_counts(lab: SmallLab, run: Run) -> None:
    """A run that began from it meanwhile is nobody's act on the plan."""
    plan = planned(lab)
    line = plan.lines.filter(chosen=True).order_by("pk")[0]
    told(lab, row(line.artifact.name, bytes=line.artifact.bytes, runs=[edge(a_run(lab), "initialised_from")]))
    tell_owners(plan=plan, grace_days=7, trash_days=14, by=lab.owner, now=LATER)
    line.refresh_from_db()
    assert (line.chosen, line.objection, line.objected_by) == (False, "another run began from it or read it", None)
    assert line.artifact.state == "stored"
    assert plan.lines.filter(chosen=True).count() == 1
