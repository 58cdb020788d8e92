"""What became of a plan's lines on the machine: also of what lies in folders that went."""

import pytest

from apps.accounts.models import AuditEntry
from apps.artifacts.choices import LineOutcome
from apps.artifacts.going import going
from apps.artifacts.models import Pin, Plan, PlanLine
from apps.artifacts.services.outcomes import Outcome, note_outcomes
from apps.runs.models import Run
from tests.artifacts.planned import LATER, approved, checkpoint
from tests.artifacts.support import edge, row, told
from tests.builders import T0, SmallLab


def _folder_with(lab: SmallLab, run: Run) -> tuple[Plan, PlanLine, PlanLine]:
    """An approved plan with a folder and what lies in it."""
    checkpoint(lab, run, 0, "/ckpt/hf/sub/best.pt")
    told(lab, row("whole", form="folder", bytes=10, kind="checkpoint", copies=[{"path": "/ckpt/hf"}], runs=[edge(run)],
                  facts={"step": 0}), now=T0)  # fmt: skip
    plan = approved(lab)
    return plan, plan.lines.get(copy__path="/ckpt/hf"), plan.lines.get(copy__path="/ckpt/hf/sub/best.pt")


def _states(line: PlanLine) -> tuple[str, str, str]:
    line = PlanLine.objects.select_related("copy", "artifact").get(pk=line.pk)
    return str(line.outcome), str(line.copy.state), str(line.artifact.state)


@pytest.mark.parametrize("also", [[], [LineOutcome.REFUSED]], ids=["the folder alone", "what lies in it as refused"])
def test_what_lies_in_a_folder_goes_comes_back_and_is_deleted_with_it(
    lab: SmallLab, run: Run, also: list[LineOutcome]
) -> None:
    plan, folder, inner = _folder_with(lab, run)

    def becomes(outcome: LineOutcome) -> None:
        rows = [Outcome(folder.pk, outcome), *(Outcome(inner.pk, each, "there is no folder") for each in also)]
        note_outcomes(plan=plan, outcomes=rows, by=lab.owner, now=LATER)

    becomes(LineOutcome.TRASHED)
    assert _states(inner) == ("trashed", "trashed", "scheduled")
    inner.refresh_from_db()
    assert (inner.went_with, inner.word) == (folder, "with its folder /ckpt/hf")
    becomes(LineOutcome.DELETED)
    assert _states(folder) == _states(inner) == ("deleted", "deleted", "tombstone")
    details = AuditEntry.objects.filter(action="plan.carried_out").order_by("pk")[0].details
    assert (details["trashed"], details["with_folder"]) == (2, 1)


def test_what_came_back_with_its_folder_is_as_before(lab: SmallLab, run: Run) -> None:
    plan, folder, inner = _folder_with(lab, run)
    for outcome in (LineOutcome.TRASHED, LineOutcome.RESTORED):
        note_outcomes(plan=plan, outcomes=[Outcome(folder.pk, outcome)], by=lab.owner, now=LATER)
    assert _states(folder) == _states(inner) == ("restored", "present", "stored")


def test_what_was_refused_before_went_with_its_folder(lab: SmallLab, run: Run) -> None:
    plan, folder, inner = _folder_with(lab, run)
    note_outcomes(plan=plan, outcomes=[Outcome(inner.pk, LineOutcome.REFUSED, "it changed")], by=None, now=LATER)
    note_outcomes(plan=plan, outcomes=[Outcome(folder.pk, LineOutcome.TRASHED)], by=None, now=LATER)
    assert _states(inner)[:2] == ("trashed", "trashed")
    assert note_outcomes(plan=plan, outcomes=[Outcome(inner.pk, LineOutcome.REFUSED)], by=None, now=LATER) == 0


def test_a_folder_in_the_trash_is_not_deleted_with_what_is_kept_by_now(lab: SmallLab, run: Run) -> None:
    plan, folder, inner = _folder_with(lab, run)
    note_outcomes(plan=plan, outcomes=[Outcome(folder.pk, LineOutcome.TRASHED)], by=None, now=LATER)
    stays = {each.line.pk: each.stays for each in going(Plan.objects.get(pk=plan.pk), LATER)}
    assert stays[folder.pk] == stays[inner.pk] == ""
    Pin.objects.create(artifact=inner.artifact, reason="thesis", from_us=LATER)
    stays = {each.line.pk: each.stays for each in going(Plan.objects.get(pk=plan.pk), LATER)}
    assert stays[folder.pk] == "/ckpt/hf/sub/best.pt lies in it and does not go"
    assert stays[inner.pk] == "pinned"
