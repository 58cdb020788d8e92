"""What became of a plan's lines on the machine: also of what lies in folders that went, and of
places that hold something else by now."""

import pytest

from apps.accounts.models import AuditEntry
from apps.artifacts.choices import ItemOutcome
from apps.artifacts.cleanup.outcomes import Outcome, record_outcomes
from apps.artifacts.cleanup.plan_check import check_plan
from apps.artifacts.models import Artifact, CleanupItem, CleanupPlan, Copy, Pin
from apps.runs.models import Run
from tests.artifacts.sample_plans import LATER, approved_plan, checkpoint
from tests.artifacts.support import digest, edge, register_rows, row
from tests.builders import T0, SmallLab


def _folder_with(lab: SmallLab, run: Run) -> tuple[CleanupPlan, CleanupItem, CleanupItem]:
    """An approved plan with a folder and what lies in it."""
    checkpoint(lab, run, 0, "/ckpt/hf/sub/best.pt")
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
    return (
        plan,
        plan.items.get(copy__path="/ckpt/hf"),
        plan.items.get(copy__path="/ckpt/hf/sub/best.pt"),
    )


def _states(line: CleanupItem) -> tuple[str, str, str]:
    line = CleanupItem.objects.select_related("copy", "artifact").get(pk=line.pk)
    return str(line.outcome), str(line.copy.state), str(line.artifact.state)


@pytest.mark.parametrize(
    "also", [[], [ItemOutcome.REFUSED]], ids=["the folder alone", "what lies in it as refused"]
)
def test_what_lies_in_a_folder_goes_comes_back_and_is_deleted_with_it(
    lab: SmallLab, run: Run, also: list[ItemOutcome]
) -> None:
    plan, folder, inner = _folder_with(lab, run)

    def becomes(outcome: ItemOutcome) -> None:
        rows = [
            Outcome(folder.pk, outcome),
            *(Outcome(inner.pk, each, "there is no folder") for each in also),
        ]
        record_outcomes(plan=plan, outcomes=rows, by=lab.owner, now=LATER)

    becomes(ItemOutcome.TRASHED)
    assert _states(inner) == ("trashed", "trashed", "scheduled")
    inner.refresh_from_db()
    assert (inner.parent_item, inner.message) == (folder, "with its folder /ckpt/hf")
    becomes(ItemOutcome.DELETED)
    assert _states(folder) == _states(inner) == ("deleted", "deleted", "tombstone")
    details = AuditEntry.objects.filter(action="plan.carried_out").order_by("pk")[0].details
    assert (details["trashed"], details["with_folder"]) == (2, 1)


def test_what_came_back_with_its_folder_is_as_before(lab: SmallLab, run: Run) -> None:
    plan, folder, inner = _folder_with(lab, run)
    for outcome in (ItemOutcome.TRASHED, ItemOutcome.RESTORED):
        record_outcomes(plan=plan, outcomes=[Outcome(folder.pk, outcome)], by=lab.owner, now=LATER)
    assert _states(folder) == _states(inner) == ("restored", "present", "stored")


def test_what_was_refused_before_went_with_its_folder(lab: SmallLab, run: Run) -> None:
    plan, folder, inner = _folder_with(lab, run)
    record_outcomes(
        plan=plan,
        outcomes=[Outcome(inner.pk, ItemOutcome.REFUSED, "it changed")],
        by=None,
        now=LATER,
    )
    record_outcomes(
        plan=plan, outcomes=[Outcome(folder.pk, ItemOutcome.TRASHED)], by=None, now=LATER
    )
    assert _states(inner)[:2] == ("trashed", "trashed")
    assert (
        record_outcomes(
            plan=plan, outcomes=[Outcome(inner.pk, ItemOutcome.REFUSED)], by=None, now=LATER
        )
        == 0
    )


def test_a_folder_in_the_trash_is_not_deleted_with_what_is_kept_by_now(
    lab: SmallLab, run: Run
) -> None:
    plan, folder, inner = _folder_with(lab, run)
    record_outcomes(
        plan=plan, outcomes=[Outcome(folder.pk, ItemOutcome.TRASHED)], by=None, now=LATER
    )
    stays = {
        each.item.pk: each.blocked_reason
        for each in check_plan(CleanupPlan.objects.get(pk=plan.pk), LATER)
    }
    assert stays[folder.pk] == stays[inner.pk] == ""
    Pin.objects.create(artifact=inner.artifact, reason="thesis", from_us=LATER)
    stays = {
        each.item.pk: each.blocked_reason
        for each in check_plan(CleanupPlan.objects.get(pk=plan.pk), LATER)
    }
    assert stays[folder.pk] == "it contains /ckpt/hf/sub/best.pt, which is not deleted"
    assert stays[inner.pk] == "pinned"


def _trashed(lab: SmallLab) -> tuple[CleanupPlan, CleanupItem]:
    """A plan of which one line lies in the trash."""
    plan = approved_plan(lab)
    line = plan.items.filter(selected=True).select_related("copy", "artifact").order_by("pk")[0]
    record_outcomes(plan=plan, outcomes=[Outcome(line.pk, ItemOutcome.TRASHED)], by=None, now=LATER)
    return plan, line


def _written_anew(lab: SmallLab, line: CleanupItem, name: str) -> Artifact:
    """A scan finds something in the place of what lies in the trash."""
    size = line.artifact.bytes if name == line.artifact.name else 7
    register_rows(
        lab,
        row(
            name, bytes=size, kind="checkpoint", copies=[{"path": line.copy.path, "medium": "hdd"}]
        ),
        now=LATER,
    )
    return Artifact.objects.get(digest=digest(name))


@pytest.mark.parametrize("outcome", [ItemOutcome.DELETED, ItemOutcome.RESTORED])
def test_other_content_in_its_place_is_not_what_was_deleted_or_came_back(
    lab: SmallLab, run: Run, outcome: ItemOutcome
) -> None:
    plan, line = _trashed(lab)
    fresh = _written_anew(lab, line, "last.pt")
    Copy.objects.filter(pk=line.copy_id).update(
        state="corrupt" if outcome == ItemOutcome.RESTORED else "present"
    )
    before = Copy.objects.filter(pk=line.copy_id).values().get()
    assert record_outcomes(plan=plan, outcomes=[Outcome(line.pk, outcome)], by=None, now=LATER) == 1
    assert Copy.objects.filter(pk=line.copy_id).values().get() == before
    fresh.refresh_from_db()
    assert fresh.state == "stored"
    line.refresh_from_db()
    assert (line.outcome, line.artifact.state) == (
        ("deleted", "tombstone") if outcome == ItemOutcome.DELETED else ("restored", "stored")
    )


def test_what_is_moved_when_other_content_is_known_there_leaves_that_there(
    lab: SmallLab, run: Run
) -> None:
    """It was written right after the move, and a scan was faster to tell than who moved it."""
    plan = approved_plan(lab)
    line = plan.items.filter(selected=True).select_related("copy", "artifact").order_by("pk")[0]
    _written_anew(lab, line, "last.pt")
    record_outcomes(plan=plan, outcomes=[Outcome(line.pk, ItemOutcome.TRASHED)], by=None, now=LATER)
    assert _states(line)[:2] == ("trashed", "present")


def test_the_same_content_again_in_its_place_stays_when_the_trash_is_emptied(
    lab: SmallLab, run: Run
) -> None:
    plan, line = _trashed(lab)
    _written_anew(lab, line, line.artifact.name)
    assert _states(line) == ("trashed", "present", "scheduled")
    record_outcomes(plan=plan, outcomes=[Outcome(line.pk, ItemOutcome.DELETED)], by=None, now=LATER)
    assert _states(line) == ("deleted", "present", "stored")


@pytest.mark.parametrize("also", [False, True], ids=["the folder alone", "what lies in it too"])
def test_what_lies_in_a_folder_that_was_made_anew_stays_when_the_trash_is_emptied(
    lab: SmallLab, run: Run, also: bool
) -> None:
    plan, folder, inner = _folder_with(lab, run)
    record_outcomes(
        plan=plan, outcomes=[Outcome(folder.pk, ItemOutcome.TRASHED)], by=None, now=LATER
    )
    _written_anew(lab, inner, inner.artifact.name)
    rows = [
        Outcome(line.pk, ItemOutcome.DELETED) for line in ((folder, inner) if also else (folder,))
    ]
    record_outcomes(plan=plan, outcomes=rows, by=None, now=LATER)
    assert _states(folder) == ("deleted", "deleted", "tombstone")
    assert _states(inner) == ("deleted", "present", "stored")


def test_what_the_server_heard_of_only_when_it_was_deleted_is_deleted(
    lab: SmallLab, run: Run
) -> None:
    plan = approved_plan(lab)
    line = plan.items.filter(selected=True).order_by("pk")[0]
    record_outcomes(plan=plan, outcomes=[Outcome(line.pk, ItemOutcome.DELETED)], by=None, now=LATER)
    assert _states(line) == ("deleted", "deleted", "tombstone")


def test_of_what_is_copied_elsewhere_by_then_nothing_stays_scheduled(
    lab: SmallLab, run: Run
) -> None:
    plan, line = _trashed(lab)
    register_rows(
        lab,
        row(
            line.artifact.name,
            bytes=line.artifact.bytes,
            copies=[{"path": "/backup/1", "medium": "hdd"}],
        ),
        now=LATER,
    )
    assert _states(line) == ("trashed", "trashed", "scheduled")
    record_outcomes(plan=plan, outcomes=[Outcome(line.pk, ItemOutcome.DELETED)], by=None, now=LATER)
    assert _states(line) == ("deleted", "deleted", "stored")
