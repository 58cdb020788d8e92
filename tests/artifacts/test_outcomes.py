"""What became of a plan's lines on the machine: also of what lies in folders that went, and of places that hold something
else by now."""

import pytest

from apps.accounts.models import AuditEntry
from apps.artifacts.choices import LineOutcome
from apps.artifacts.cleanup.eligibility import going
from apps.artifacts.cleanup.outcomes import Outcome, note_outcomes
from apps.artifacts.models import Artifact, Copy, Pin, Plan, PlanLine
from apps.runs.models import Run
from tests.artifacts.planned import LATER, approved, checkpoint
from tests.artifacts.support import digest, edge, row, told
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


def _trashed(lab: SmallLab) -> tuple[Plan, PlanLine]:
    """A plan of which one line lies in the trash."""
    plan = approved(lab)
    line = plan.lines.filter(chosen=True).select_related("copy", "artifact").order_by("pk")[0]
    note_outcomes(plan=plan, outcomes=[Outcome(line.pk, LineOutcome.TRASHED)], by=None, now=LATER)
    return plan, line


def _written_anew(lab: SmallLab, line: PlanLine, name: str) -> Artifact:
    """A scan finds something in the place of what lies in the trash."""
    size = line.artifact.bytes if name == line.artifact.name else 7
    told(lab, row(name, bytes=size, kind="checkpoint", copies=[{"path": line.copy.path, "medium": "hdd"}]), now=LATER)
    return Artifact.objects.get(digest=digest(name))


@pytest.mark.parametrize("outcome", [LineOutcome.DELETED, LineOutcome.RESTORED])
def test_other_content_in_its_place_is_not_what_was_deleted_or_came_back(
    lab: SmallLab, run: Run, outcome: LineOutcome
) -> None:
    plan, line = _trashed(lab)
    fresh = _written_anew(lab, line, "last.pt")
    Copy.objects.filter(pk=line.copy_id).update(state="corrupt" if outcome == LineOutcome.RESTORED else "present")
    before = Copy.objects.filter(pk=line.copy_id).values().get()
    assert note_outcomes(plan=plan, outcomes=[Outcome(line.pk, outcome)], by=None, now=LATER) == 1
    assert Copy.objects.filter(pk=line.copy_id).values().get() == before
    fresh.refresh_from_db()
    assert fresh.state == "stored"
    line.refresh_from_db()
    assert (line.outcome, line.artifact.state) == (
        ("deleted", "tombstone") if outcome == LineOutcome.DELETED else ("restored", "stored")
    )


def test_what_is_moved_when_other_content_is_known_there_leaves_that_there(lab: SmallLab, run: Run) -> None:
    """It was written right after the move, and a scan was faster to tell than who moved it."""
    plan = approved(lab)
    line = plan.lines.filter(chosen=True).select_related("copy", "artifact").order_by("pk")[0]
    _written_anew(lab, line, "last.pt")
    note_outcomes(plan=plan, outcomes=[Outcome(line.pk, LineOutcome.TRASHED)], by=None, now=LATER)
    assert _states(line)[:2] == ("trashed", "present")


def test_the_same_content_again_in_its_place_stays_when_the_trash_is_emptied(lab: SmallLab, run: Run) -> None:
    plan, line = _trashed(lab)
    _written_anew(lab, line, line.artifact.name)
    assert _states(line) == ("trashed", "present", "scheduled")
    note_outcomes(plan=plan, outcomes=[Outcome(line.pk, LineOutcome.DELETED)], by=None, now=LATER)
    assert _states(line) == ("deleted", "present", "stored")


@pytest.mark.parametrize("also", [False, True], ids=["the folder alone", "what lies in it too"])
def test_what_lies_in_a_folder_that_was_made_anew_stays_when_the_trash_is_emptied(
    lab: SmallLab, run: Run, also: bool
) -> None:
    plan, folder, inner = _folder_with(lab, run)
    note_outcomes(plan=plan, outcomes=[Outcome(folder.pk, LineOutcome.TRASHED)], by=None, now=LATER)
    _written_anew(lab, inner, inner.artifact.name)
    rows = [Outcome(line.pk, LineOutcome.DELETED) for line in ((folder, inner) if also else (folder,))]
    note_outcomes(plan=plan, outcomes=rows, by=None, now=LATER)
    assert _states(folder) == ("deleted", "deleted", "tombstone")
    assert _states(inner) == ("deleted", "present", "stored")


def test_what_the_server_heard_of_only_when_it_was_deleted_is_deleted(lab: SmallLab, run: Run) -> None:
    plan = approved(lab)
    line = plan.lines.filter(chosen=True).order_by("pk")[0]
    note_outcomes(plan=plan, outcomes=[Outcome(line.pk, LineOutcome.DELETED)], by=None, now=LATER)
    assert _states(line) == ("deleted", "deleted", "tombstone")


def test_of_what_is_copied_elsewhere_by_then_nothing_stays_scheduled(lab: SmallLab, run: Run) -> None:
    plan, line = _trashed(lab)
    told(lab, row(line.artifact.name, bytes=line.artifact.bytes, copies=[{"path": "/backup/1", "medium": "hdd"}]), now=LATER)
    assert _states(line) == ("trashed", "trashed", "scheduled")
    note_outcomes(plan=plan, outcomes=[Outcome(line.pk, LineOutcome.DELETED)], by=None, now=LATER)
    assert _states(line) == ("deleted", "deleted", "stored")
