"""Plans: what is proposed, told, objected to, approved, carried out; nothing protected is ever in one."""

from dataclasses import dataclass
from typing import Any

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.accounts.models import AuditEntry
from apps.artifacts.choices import LineOutcome, Role
from apps.artifacts.going import going
from apps.artifacts.models import Artifact, Copy, LineageEdge, Pin, Plan, RetentionDays
from apps.artifacts.proposing import proposals
from apps.artifacts.retention import DAY_US
from apps.artifacts.selectors import ancestors_of
from apps.artifacts.services.acts import pin, promote
from apps.artifacts.services.plans import (
    Outcome,
    approve,
    choose,
    make_plan,
    note_outcomes,
    object_to,
    tell_owners,
    withdraw,
)
from apps.core.errors import Conflict, InvalidInput
from apps.runs.models import Run
from tests.artifacts.support import a_run, artifact, digest, edge, row, told
from tests.builders import MINUTE, T0, SmallLab, W, push

LATER = T0 + 365 * DAY_US


def _checkpoint(lab: SmallLab, run: Run, step: int, *paths: str, **facts: Any) -> Artifact:
    name = f"step{step}-{run.pk}"
    copies = [{"path": path, "medium": "hdd"} for path in paths or (f"/ckpt/{name}",)]
    told_so = {"kind": "checkpoint", "facts": {"step": step, **facts}, "copies": copies, "runs": [edge(run)]}
    told(lab, row(name, **{**told_so, "bytes": 10**9 + step}), now=T0)
    return Artifact.objects.get(digest=digest(name))


@pytest.fixture
def run(lab: SmallLab) -> Run:
    """A finished run that took 300 J, with three checkpoints; two of them are due after a year, the last for review."""
    run = a_run(lab)
    assert push(lab.node, [W("gpu:GPU-1111", 300_000, shares=((f"run:{run.uuid}", 300_000),))]) == [["accepted"]]
    Run.objects.filter(pk=run.pk).update(state="finished", ended_us=T0 + MINUTE)
    for step in (1, 2, 3):
        _checkpoint(lab, run, step)
    return run


def _plan(lab: SmallLab, now: int = LATER) -> Plan:
    return make_plan(lab=lab.lab, node=lab.node, project=None, by=lab.owner, now=now)


def _approved(lab: SmallLab) -> Plan:
    plan = _plan(lab)
    tell_owners(plan=plan, grace_days=7, trash_days=14, by=lab.owner, now=LATER)
    return approve(plan=plan, by=lab.owner, now=LATER + 7 * DAY_US)


def _names(plan: Plan) -> dict[str, tuple[str, bool]]:
    return {line.artifact.name.split("-")[0]: (line.kept, line.chosen) for line in plan.lines.select_related("artifact")}


def test_what_is_due_is_proposed_with_what_its_going_saves(lab: SmallLab, run: Run) -> None:
    assert proposals(lab.lab, lab.node, now=T0 + 13 * DAY_US) == []
    assert {each.copy.artifact.name.split("-")[0] for each in proposals(lab.lab, lab.node, now=T0 + 14 * DAY_US)} == {
        "step1", "step2",
    }  # fmt: skip
    plan = _plan(lab)
    assert _names(plan) == {"step1": ("intermediate", True), "step2": ("intermediate", True), "step3": ("final", False)}
    line = plan.lines.get(artifact__name__startswith="step1")
    assert line.storage_mj == 5_694 * 3_600  # 1 GB on a disk for a year: 5.694 Wh; the byte more is below a millijoule
    assert line.retrain_mj == 300_000
    assert line.is_last_copy


def test_days_of_the_project_come_before_the_labs(lab: SmallLab, run: Run) -> None:
    RetentionDays.objects.create(lab=lab.lab, kept="intermediate", days=400)
    assert {each.kept for each in proposals(lab.lab, lab.node, now=LATER)} == {"final"}
    project = Artifact.objects.filter(project__isnull=False)[0].project
    RetentionDays.objects.create(lab=lab.lab, project=project, kept="intermediate", days=5)
    RetentionDays.objects.create(lab=lab.lab, project=project, kept="final", days=None)
    assert {each.kept for each in proposals(lab.lab, lab.node, now=LATER)} == {"intermediate"}


def test_a_run_that_lost_its_sweep(lab: SmallLab) -> None:
    winner, loser = a_run(lab), a_run(lab)
    Run.objects.update(state="finished", ended_us=T0, sweep="lr")
    kept, lost = _checkpoint(lab, winner, 1), _checkpoint(lab, loser, 1)
    assert {each.kept for each in proposals(lab.lab, lab.node, now=LATER)} == {"final"}
    Artifact.objects.filter(pk=kept.pk).update(state="candidate")
    found = {each.copy.artifact_id: each.kept for each in proposals(lab.lab, lab.node, now=LATER)}
    assert found == {kept.pk: "final", lost.pk: "sweep"}


def test_from_a_draft_to_tombstones(lab: SmallLab, run: Run) -> None:
    plan = _plan(lab)
    with pytest.raises(Conflict, match="A plan of this machine is open"):
        _plan(lab)
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
    assert [(each.stays, each.line.pk) for each in going(Plan.objects.get(pk=plan.pk)) if each.stays] == [
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
    assert _plan(lab).lines.count() == 1, "the next plan may be made, of what is there"


def test_what_was_restored_or_refused_is_as_before(lab: SmallLab, run: Run) -> None:
    plan = _approved(lab)
    first, second = plan.lines.filter(chosen=True).order_by("pk")
    note_outcomes(plan=plan, outcomes=[Outcome(first.pk, LineOutcome.TRASHED)], by=None, now=LATER)
    with pytest.raises(Conflict, match="being carried out"):
        withdraw(plan=plan, by=lab.owner, now=LATER)
    told_ = [Outcome(first.pk, LineOutcome.RESTORED), Outcome(second.pk, LineOutcome.REFUSED, "it changed")]
    note_outcomes(plan=plan, outcomes=told_, by=None, now=LATER)
    assert set(Artifact.objects.values_list("state", flat=True)) == {"stored"}
    assert set(Copy.objects.values_list("state", flat=True)) == {"present"}


def test_a_plan_that_is_withdrawn_leaves_nothing(lab: SmallLab, run: Run) -> None:
    plan = _plan(lab)
    tell_owners(plan=plan, grace_days=7, trash_days=14, by=lab.owner, now=LATER)
    withdraw(plan=plan, by=lab.owner, now=LATER)
    assert set(Artifact.objects.values_list("state", flat=True)) == {"stored"}
    with pytest.raises(Conflict, match="This plan is withdrawn"):
        withdraw(plan=plan, by=lab.owner, now=LATER)
    assert _plan(lab).pk != plan.pk


@pytest.mark.parametrize("act", ["pin", "promote"])
def test_who_pins_or_promotes_objects(lab: SmallLab, run: Run, act: str) -> None:
    plan = _plan(lab)
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


@pytest.mark.parametrize("since", ["pinned", "promoted", "referenced", "ancestor"])
def test_what_came_after_the_approval_counts(lab: SmallLab, run: Run, since: str) -> None:
    plan = _approved(lab)
    line = plan.lines.filter(chosen=True).order_by("pk")[0]
    if since == "pinned":
        Pin.objects.create(artifact=line.artifact, reason="thesis", from_us=LATER)
    elif since == "promoted":
        Artifact.objects.filter(pk=line.artifact_id).update(state="promoted")
    elif since == "referenced":
        told(lab, row(line.artifact.name, bytes=line.artifact.bytes, runs=[edge(a_run(lab), "initialised_from")]))
    else:
        tuned = a_run(lab)
        told(lab, row(line.artifact.name, bytes=line.artifact.bytes, runs=[edge(tuned, "used")]))
        made = artifact(lab, "tuned", runs=[edge(tuned)])
        Artifact.objects.filter(pk=made.pk).update(state="promoted")
    stays = {each.line.pk: each.stays for each in going(Plan.objects.get(pk=plan.pk)) if each.line.chosen}
    assert stays.pop(line.pk)
    assert set(stays.values()) == {""}


def test_the_last_copy_does_not_go_as_one_of_several(lab: SmallLab, run: Run) -> None:
    _checkpoint(lab, run, 1, "/ckpt/second")
    plan = _approved(lab)
    lines = plan.lines.filter(artifact__name__startswith="step1").order_by("pk")
    assert [line.is_last_copy for line in lines] == [False, False]
    note_outcomes(plan=plan, outcomes=[Outcome(lines[0].pk, LineOutcome.TRASHED)], by=None, now=LATER)
    stays = {each.line.pk: each.stays for each in going(Plan.objects.get(pk=plan.pk))}
    assert "the last by now" in stays[lines[1].pk]


def test_a_folder_does_not_take_with_it_what_stays(lab: SmallLab, run: Run) -> None:
    """A known copy in a folder may be pinned, promoted or in no plan at all."""
    inner = _checkpoint(lab, run, 0, "/ckpt/hf/sub/best.pt")
    told(lab, row("whole", form="folder", bytes=10, kind="checkpoint", copies=[{"path": "/ckpt/hf"}], runs=[edge(run)],
                  facts={"step": 0}), now=T0)  # fmt: skip
    _checkpoint(lab, run, 5, "/ckpt/hf2")  # the last: it stays, beside the folder and not in it
    plan = _approved(lab)
    assert {each.stays for each in going(Plan.objects.get(pk=plan.pk)) if each.line.chosen} == {""}
    Pin.objects.create(artifact=inner, reason="thesis", from_us=LATER)
    stays = {each.line.copy.path: each.stays for each in going(Plan.objects.get(pk=plan.pk)) if each.line.chosen}
    assert stays.pop("/ckpt/hf/sub/best.pt") == "pinned"
    assert stays.pop("/ckpt/hf") == "/ckpt/hf/sub/best.pt lies in it and does not go"
    assert set(stays.values()) == {""}


def test_the_number_of_queries_does_not_grow(lab: SmallLab, run: Run) -> None:
    def queries() -> int:
        with CaptureQueriesContext(connection) as captured:
            proposals(lab.lab, lab.node, now=LATER)
        return len(captured)

    before = queries()
    for step in range(4, 24):
        _checkpoint(lab, run, step)
    assert queries() == before


_edges = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 6), st.sampled_from(["produced", "used", "initialised_from"])))


def test_ancestors_of_promoted_and_pinned_are_in_no_plan(lab: SmallLab) -> None:
    @dataclass
    class World:
        runs: list[Run]
        artifacts: list[Artifact]

    runs = [a_run(lab) for _ in range(5)]
    Run.objects.update(state="finished", ended_us=T0)
    rows = [row(f"a{i}", kind="checkpoint", copies=[{"path": f"/{i}"}]) for i in range(7)]
    told(lab, *rows, now=T0)
    world = World(runs, list(Artifact.objects.order_by("pk")))

    @settings(max_examples=60)
    @given(_edges, st.sets(st.integers(0, 6), max_size=3), st.sets(st.integers(0, 6), max_size=3))
    def check(edges: list[tuple[int, int, str]], promoted: set[int], pinned: set[int]) -> None:
        with transaction.atomic():
            LineageEdge.objects.bulk_create(
                LineageEdge(lab=lab.lab, run=world.runs[run], artifact=world.artifacts[pk], role=role, told_us=T0)
                for run, pk, role in set(edges)
            )
            Artifact.objects.filter(pk__in=[world.artifacts[i].pk for i in promoted]).update(state="promoted")
            Pin.objects.bulk_create(Pin(artifact=world.artifacts[i], reason="x", from_us=T0) for i in pinned)
            proposed = {each.copy.artifact_id for each in proposals(lab.lab, lab.node, now=LATER)}
            protected = _reached(set(edges), promoted | pinned)
            assert not proposed & {world.artifacts[i].pk for i in protected}
            started = {world.artifacts[i].pk for i in promoted | pinned}
            assert ancestors_of(started) | started == {world.artifacts[i].pk for i in protected}
            transaction.set_rollback(True)

    check()


def _reached(edges: set[tuple[int, int, str]], wanted: set[int]) -> set[int]:
    """The oracle: what is wanted and all it came of, one step at a time."""
    found = set(wanted)
    while True:
        makers = {run for run, pk, role in edges if pk in found and role == Role.PRODUCED}
        more = {pk for run, pk, role in edges if run in makers and role != Role.PRODUCED}
        if more <= found:
            return found
        found |= more
