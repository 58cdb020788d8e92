"""Which lines of an approved plan may go: what came after the approval counts, and what lies in
which folder; of some lines it is what it is of all."""

from collections.abc import Sequence
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.artifacts.choices import CopyState, Form, ItemOutcome
from apps.artifacts.cleanup import plan_check as module
from apps.artifacts.cleanup.other_copies import load_other_copies
from apps.artifacts.cleanup.outcomes import Outcome, record_outcomes
from apps.artifacts.cleanup.plan_check import check_items, check_plan
from apps.artifacts.cleanup.plans import object_to_items
from apps.artifacts.cleanup.proposals import propose_copies, protection_reasons
from apps.artifacts.models import Artifact, CleanupItem, CleanupPlan, Copy, Pin
from apps.dashboard.artifacts.cleanup_pages import PAGE_ROWS, plan_page
from apps.fleet.services import register_node
from apps.runs.models import Run
from tests.artifacts.sample_plans import LATER, approved_plan, checkpoint
from tests.artifacts.support import create_run, edge, register_artifact, register_rows, row
from tests.builders import T0, SmallLab
from tests.examples import examples

PATHS = ("/a", "/a/b", "/a/b/c", "/a/b/d", "/a/e", "/ab", "/ab/c", "/f", "/f/g", "/äé/f", "/äé")
_line = st.fixed_dictionaries(
    {
        "in_plan": st.integers(0, 4).map(bool),
        "folder": st.booleans(),
        "selected": st.integers(0, 5).map(bool),
        "pinned": st.integers(0, 5).map(lambda i: i == 0),
        "state": st.sampled_from(["present"] * 4 + ["trashed", "missing"]),
        "outcome": st.sampled_from(["", "", "trashed", "restored", "refused"]),
        "along": st.integers(0, 3).map(lambda i: i == 0),
    }
)


def _oracle(plan: CleanupPlan, lines: Sequence[CleanupItem]) -> dict[int, str]:
    """All lines and all copies of the machine, one after the other, as the words of the page say
    it.
    """
    kept = protection_reasons(plan.lab, {line.artifact_id: line.artifact for line in lines}, LATER)
    there = load_other_copies(line.artifact_id for line in lines)
    stays = {}
    for line in lines:
        if not line.selected:
            stays[line.pk] = line.objection or "it is not ticked"
        elif line.artifact_id in kept:
            stays[line.pk] = kept[line.artifact_id]
        elif not line.is_last_copy and there.is_last(line.copy):
            stays[line.pk] = "another copy was expected to remain, but none is reliable by now"
        else:
            stays[line.pk] = ""
    go = {line.copy_id for line in lines if not stays[line.pk]}
    found = dict(stays)
    for folder in lines:
        if stays[folder.pk] or folder.artifact.form != Form.FOLDER:
            continue
        inside = [line for line in lines if line.copy.path.startswith(f"{folder.copy.path}/")]
        holding = [
            line.copy.path for line in inside if stays[line.pk] and line.parent_item_id is not None
        ]
        present = Copy.objects.filter(node=plan.node, state=CopyState.PRESENT).order_by("pk")
        holding += [
            copy.path
            for copy in present
            if copy.path.startswith(f"{folder.copy.path}/") and copy.pk not in go
        ]
        if holding:
            found[folder.pk] = f"it contains {holding[-1]}, which is not deleted"
    return found


@pytest.mark.parametrize("at_once", [500, 1], ids=["by their first letters", "path by path"])
def test_some_lines_stay_as_they_do_among_all(
    lab: SmallLab, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr(module, "_BATCH_SIZE", at_once)
    run = create_run(lab)
    Run.objects.filter(pk=run.pk).update(state="finished", ended_us=T0)
    rows = [
        row(
            f"c{i}", kind="checkpoint", facts={"step": i}, copies=[{"path": path}], runs=[edge(run)]
        )
        for i, path in enumerate(PATHS)
    ]
    register_rows(
        lab, *rows, row("last", kind="checkpoint", facts={"step": 99}, runs=[edge(run)]), now=T0
    )
    copies = {copy.path: copy for copy in Copy.objects.select_related("artifact")}
    plan = CleanupPlan.objects.create(lab=lab.lab, node=lab.node, created_us=T0, state="approved")

    @settings(max_examples=examples(80))
    @given(
        st.lists(_line, min_size=len(PATHS), max_size=len(PATHS)),
        st.permutations(PATHS),
        st.sets(st.sampled_from(PATHS)),
    )
    def check(each: list[dict[str, Any]], order: list[str], wanted: set[str]) -> None:
        with transaction.atomic():
            for path, it in zip(order, each, strict=True):
                copy = copies[path]
                Copy.objects.filter(pk=copy.pk).update(state=it["state"])
                Artifact.objects.filter(pk=copy.artifact_id).update(
                    form="folder" if it["folder"] else "file"
                )
                if it["pinned"]:
                    Pin.objects.create(artifact=copy.artifact, reason="x", from_us=T0)
                if it["in_plan"]:
                    CleanupItem.objects.create(
                        plan=plan,
                        copy=copy,
                        artifact=copy.artifact,
                        retention_class="intermediate",
                        is_last_copy=True,
                        due_us=T0,
                        selected=it["selected"],
                        outcome=it["outcome"],
                        parent_item=plan.items.first() if it["along"] else None,
                    )
            lines = list(plan.items.select_related("artifact", "copy").order_by("pk"))
            said = _oracle(plan, lines)
            assert {each.item.pk: each.blocked_reason for each in check_plan(plan, LATER)} == said
            some = [line for line in lines if line.copy.path in wanted]
            assert {
                each.item.pk: each.blocked_reason for each in check_items(plan, some, LATER)
            } == {line.pk: said[line.pk] for line in some}
            transaction.set_rollback(True)

    check()


def test_a_page_looks_at_its_own_lines_and_what_lies_in_its_folders(
    lab: SmallLab, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    for step in range(4, PAGE_ROWS + 30):
        checkpoint(lab, run, step)
    inner = checkpoint(lab, run, 0, "/ckpt/hf/sub/best.pt")
    register_rows(
        lab,
        row(
            "whole",
            form="folder",
            bytes=10**12,
            kind="checkpoint",
            copies=[{"path": "/ckpt/hf"}],
            runs=[edge(run)],
            facts={"step": 0},
        ),
        now=T0,
    )
    plan = approved_plan(lab)
    Pin.objects.create(artifact=inner, reason="thesis", from_us=LATER)
    looked_at: list[int] = []

    def count(*told_: Any) -> dict[int, str]:
        looked_at.append(len(told_[1]))
        return protection_reasons(*told_)

    monkeypatch.setattr(module, "protection_reasons", count)

    def queries() -> int:
        with CaptureQueriesContext(connection) as captured:
            page = plan_page(plan=plan, params={}, user=lab.owner, now=LATER, ticks={})
        assert len(page.rows) == PAGE_ROWS
        assert page.number == PAGE_ROWS + 31
        stays = {row.item.copy.path: row.blocked_reason for row in page.rows if row.blocked_reason}
        assert stays == {"/ckpt/hf": "it contains /ckpt/hf/sub/best.pt, which is not deleted"}
        return len(captured)

    before = queries()
    assert looked_at == [PAGE_ROWS - 1, 1], "one of them is for review and not ticked"
    for i in range(30):
        copy = {
            "lab": lab.lab,
            "artifact": inner,
            "node": lab.node,
            "first_observed_us": T0,
            "last_observed_us": T0,
            "hashed_us": T0,
        }
        Copy.objects.create(path=f"/elsewhere/{i}", location_key=f"{i:064}", **copy)
    assert queries() == before


@pytest.mark.parametrize("since", ["pinned", "promoted", "referenced", "ancestor"])
def test_what_came_after_the_approval_counts(lab: SmallLab, run: Run, since: str) -> None:
    plan = approved_plan(lab)
    line = plan.items.filter(selected=True).order_by("pk")[0]
    if since == "pinned":
        Pin.objects.create(artifact=line.artifact, reason="thesis", from_us=LATER)
    elif since == "promoted":
        Artifact.objects.filter(pk=line.artifact_id).update(state="promoted")
    elif since == "referenced":
        register_rows(
            lab,
            row(
                line.artifact.name,
                bytes=line.artifact.bytes,
                runs=[edge(create_run(lab), "initialised_from")],
            ),
        )
    else:
        tuned = create_run(lab)
        register_rows(
            lab, row(line.artifact.name, bytes=line.artifact.bytes, runs=[edge(tuned, "used")])
        )
        made = register_artifact(lab, "tuned", runs=[edge(tuned)])
        Artifact.objects.filter(pk=made.pk).update(state="promoted")
    stays = {
        each.item.pk: each.blocked_reason
        for each in check_plan(CleanupPlan.objects.get(pk=plan.pk), LATER)
        if each.item.selected
    }
    assert stays.pop(line.pk)
    assert set(stays.values()) == {""}


def test_the_last_copy_does_not_go_as_one_of_several(lab: SmallLab, run: Run) -> None:
    """One that was to stay is gone."""
    checkpoint(lab, run, 1, "/ckpt/second", "/ckpt/third")
    plan = approved_plan(lab, unselected="/ckpt/third")
    lines = plan.items.filter(artifact__name__startswith="step1", selected=True).order_by("pk")
    assert [line.is_last_copy for line in lines] == [False, False]
    Copy.objects.filter(path="/ckpt/third").update(state="missing")
    record_outcomes(
        plan=plan, outcomes=[Outcome(lines[0].pk, ItemOutcome.TRASHED)], by=None, now=LATER
    )
    stays = {
        each.item.pk: each.blocked_reason
        for each in check_plan(CleanupPlan.objects.get(pk=plan.pk), LATER)
    }
    assert "none is reliable" in stays[lines[1].pk]


@pytest.mark.parametrize("order", [[0, 1, 2], [2, 1, 0], [1, 2, 0]])
def test_all_copies_that_are_due_go_in_any_order(lab: SmallLab, run: Run, order: list[int]) -> None:
    """The machine takes them by path."""
    made = checkpoint(lab, run, 1, "/ckpt/second", "/ckpt/third")
    plan = approved_plan(lab)
    lines = list(plan.items.filter(artifact=made).order_by("pk"))
    assert [line.is_last_copy for line in lines] == [False, False, True]
    assert Artifact.objects.get(pk=made.pk).state == "scheduled"
    for line in (lines[place] for place in order):
        stays = {
            each.item.pk: each.blocked_reason
            for each in check_plan(CleanupPlan.objects.get(pk=plan.pk), LATER)
        }
        assert stays[line.pk] == ""
        record_outcomes(
            plan=plan, outcomes=[Outcome(line.pk, ItemOutcome.TRASHED)], by=None, now=LATER
        )


def test_where_somebody_objects_to_the_last_copy_one_stays(lab: SmallLab, run: Run) -> None:
    made = checkpoint(lab, run, 1, "/ckpt/second", "/ckpt/third")
    plan = approved_plan(lab)
    first, second, last = plan.items.filter(artifact=made).order_by("pk")
    object_to_items(plan=plan, items=[last.pk], reason="a paper", by=lab.owner, now=LATER)
    Copy.objects.filter(pk=last.copy_id).update(state="missing")
    record_outcomes(
        plan=plan, outcomes=[Outcome(first.pk, ItemOutcome.TRASHED)], by=None, now=LATER
    )
    stays = {
        each.item.pk: each.blocked_reason
        for each in check_plan(CleanupPlan.objects.get(pk=plan.pk), LATER)
    }
    assert "none is reliable" in stays[second.pk]


@pytest.mark.parametrize("place", [0, 2])
def test_which_copy_is_the_last_is_looked_at_again_when_owners_are_told(
    lab: SmallLab, run: Run, place: int
) -> None:
    """A line that is not ticked, be it the last of its artifact's: that copy stays."""
    made = checkpoint(lab, run, 1, "/ckpt/second", "/ckpt/third")
    paths = list(Copy.objects.filter(artifact=made).order_by("pk").values_list("path", flat=True))
    plan = approved_plan(lab, unselected=paths[place])
    assert not plan.items.filter(artifact=made, selected=True, is_last_copy=True).exists()
    assert Artifact.objects.get(pk=made.pk).state == "stored"


def test_a_copy_that_was_refused_is_not_counted_on_until_it_is_read_again(
    lab: SmallLab, run: Run
) -> None:
    """It changed, or nothing lies there any more: the machine said so."""
    made = checkpoint(lab, run, 1, "/ckpt/second", "/ckpt/third")
    plan = approved_plan(lab, unselected="/ckpt/third")
    Copy.objects.filter(path="/ckpt/third").update(state="missing")
    first, second = plan.items.filter(artifact=made, selected=True).order_by("pk")
    record_outcomes(
        plan=plan,
        outcomes=[Outcome(first.pk, ItemOutcome.REFUSED, "it changed")],
        by=None,
        now=LATER,
    )

    def stay() -> list[bool]:
        found = {
            each.item.pk: each.blocked_reason
            for each in check_plan(CleanupPlan.objects.get(pk=plan.pk), LATER)
        }
        return ["none is reliable" in found[line.pk] for line in (first, second)]

    assert stay() == [False, True]
    (again,) = (
        each
        for each in propose_copies(lab.lab, lab.node, now=LATER)
        if each.copy.pk == second.copy_id
    )
    assert again.is_last_copy
    record_outcomes(
        plan=plan,
        outcomes=[Outcome(second.pk, ItemOutcome.REFUSED, "it changed")],
        by=None,
        now=LATER,
    )
    assert stay() == [True, True]
    Copy.objects.filter(artifact=made).update(hashed_us=LATER + 1)
    assert stay() == [False, False]


def test_the_same_path_on_another_machine_may_be_the_same_file(lab: SmallLab, run: Run) -> None:
    """A share that two machines mount."""
    made = checkpoint(lab, run, 1)
    copy = Copy.objects.get(artifact=made)
    other = register_node(
        lab=lab.lab, uuid=uuid4(), hostname="ws-2", facts={}, site=lab.site, now=T0
    )
    load_other_copies = Copy.objects.create(
        lab=lab.lab,
        artifact=made,
        node=other,
        path=copy.path,
        location_key="0" * 64,
        first_observed_us=T0,
        last_observed_us=T0,
        hashed_us=T0,
    )

    def is_last() -> bool:
        return next(
            each.is_last_copy
            for each in propose_copies(lab.lab, lab.node, now=LATER)
            if each.copy.pk == copy.pk
        )

    assert is_last()
    Copy.objects.filter(pk=load_other_copies.pk).update(path="/mnt/other")
    assert not is_last()


def test_a_folder_does_not_take_with_it_what_stays(lab: SmallLab, run: Run) -> None:
    """A known copy in a folder may be pinned, promoted or in no plan at all."""
    inner = checkpoint(lab, run, 0, "/ckpt/hf/sub/best.pt")
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
    checkpoint(lab, run, 5, "/ckpt/hf2")  # the last: it stays, beside the folder and not in it
    plan = approved_plan(lab)
    assert {
        each.blocked_reason
        for each in check_plan(CleanupPlan.objects.get(pk=plan.pk), LATER)
        if each.item.selected
    } == {""}
    Pin.objects.create(artifact=inner, reason="thesis", from_us=LATER)
    stays = {
        each.item.copy.path: each.blocked_reason
        for each in check_plan(CleanupPlan.objects.get(pk=plan.pk), LATER)
        if each.item.selected
    }
    assert stays.pop("/ckpt/hf/sub/best.pt") == "pinned"
    assert stays.pop("/ckpt/hf") == "it contains /ckpt/hf/sub/best.pt, which is not deleted"
    assert set(stays.values()) == {""}
