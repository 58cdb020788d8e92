"""Plans: what is proposed, told, objected to, approved, carried out; nothing protected is ever in one."""

from uuid import uuid4

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from apps.accounts.models import AuditEntry
from apps.artifacts.choices import LineOutcome
from apps.artifacts.going import going
from apps.artifacts.models import Artifact, Copy, Pin, Plan, RetentionDays
from apps.artifacts.proposing import proposals
from apps.artifacts.retention import DAY_US
from apps.artifacts.services.acts import pin, promote
from apps.artifacts.services.outcomes import Outcome, note_outcomes
from apps.artifacts.services.plans import (
    approve,
    choose,
    make_plan,
    object_to,
    tell_owners,
    withdraw,
)
from apps.artifacts.services.registering import register
from apps.artifacts.summing import sums_of
from apps.carbon.models import AppliedFactor
from apps.carbon.selectors import figures_of_runs
from apps.core.errors import Conflict, InvalidInput
from apps.core.units import emission_ug, hour_of
from apps.fleet.choices import SiteKind
from apps.fleet.services import create_site, register_node
from apps.runs.models import Run
from tests.artifacts.planned import LATER, approved, checkpoint, planned
from tests.artifacts.support import a_run, artifact, edge, parsed, row, told
from tests.builders import T0, SmallLab


def _names(plan: Plan) -> dict[str, tuple[str, bool]]:
    return {line.artifact.name.split("-")[0]: (line.kept, line.chosen) for line in plan.lines.select_related("artifact")}


def test_what_is_due_is_proposed_with_what_its_going_saves(lab: SmallLab, run: Run) -> None:
    assert proposals(lab.lab, lab.node, now=T0 + 13 * DAY_US) == []
    assert {each.copy.artifact.name.split("-")[0] for each in proposals(lab.lab, lab.node, now=T0 + 14 * DAY_US)} == {
        "step1", "step2",
    }  # fmt: skip
    plan = planned(lab)
    assert _names(plan) == {"step1": ("intermediate", True), "step2": ("intermediate", True), "step3": ("final", False)}
    line = plan.lines.get(artifact__name__startswith="step1")
    assert line.storage_mj == 5_694 * 3_600  # 1 GB on a disk for a year: 5.694 Wh; the byte more is below a millijoule
    assert line.retrain_mj == 300_000
    assert line.retrain_run == run
    assert line.is_last_copy


def test_what_it_emits_is_priced_by_the_factor_of_where_it_stands(lab: SmallLab, run: Run) -> None:
    factor = AppliedFactor.objects.get(node=lab.node, basis=lab.lab.basis, to_hour__gt=hour_of(LATER)).factor
    assert factor is not None
    line = planned(lab).lines.get(artifact__name__startswith="step1")
    assert line.storage_ug == emission_ug(5_694 * 3_600, 1_000_000, factor.ug_per_kwh)
    figure = figures_of_runs(lab.lab, [run.uuid])[run.uuid]
    assert line.retrain_ug == figure.emission_ug
    assert figure.emission_ug > 0
    sums = sums_of(line.plan)
    assert (sums.lines, sums.storage_mj, sums.retrain_mj, sums.runs) == (2, 2 * line.storage_mj, 300_000, 1), "a run once"
    assert sums.storage_ug == 2 * line.storage_ug
    assert sums.retrain_ug == figure.emission_ug


def test_what_is_not_known_of_its_cost_stays_unknown(lab: SmallLab) -> None:
    site = create_site(lab=lab.lab, name="Room 2", kind=SiteKind.WORKSTATION, zone="")
    nowhere = register_node(lab=lab.lab, uuid=uuid4(), hostname="ws-2", facts={}, site=site, now=T0)
    run = a_run(lab)
    Run.objects.filter(pk=run.pk).update(state="finished", ended_us=T0)
    rows = [row(f"s{i}", kind="checkpoint", facts={"step": i}, runs=[edge(run)],
                copies=[{"path": f"/{i}", "medium": "hdd" if i else "unknown"}]) for i in range(3)]  # fmt: skip
    register(lab=lab.lab, rows=parsed(*rows), node_uuid=nowhere.uuid, by=None, bound_node=None, now=T0)
    plan = make_plan(lab=lab.lab, node=nowhere, project=None, by=lab.owner, now=LATER)
    found = {line.artifact.name: (line.storage_mj, line.storage_ug, line.retrain_mj, line.retrain_ug)
             for line in plan.lines.select_related("artifact")}  # fmt: skip
    assert found["s0"] == (None, None, None, None), "an unknown medium"
    assert found["s1"][0] is not None
    assert found["s1"][1] is None, "no zone"
    sums = sums_of(plan)
    assert (sums.unknown_medium, sums.without_factor, sums.unmeasured) == (1, 1, 2)
    assert (sums.storage_ug, sums.retrain_mj, sums.retrain_ug) == (None, None, None)


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
    kept, lost = checkpoint(lab, winner, 1), checkpoint(lab, loser, 1)
    assert {each.kept for each in proposals(lab.lab, lab.node, now=LATER)} == {"final"}
    Artifact.objects.filter(pk=kept.pk).update(state="candidate")
    found = {each.copy.artifact_id: each.kept for each in proposals(lab.lab, lab.node, now=LATER)}
    assert found == {kept.pk: "final", lost.pk: "sweep"}


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


def test_a_plan_that_is_withdrawn_leaves_nothing(lab: SmallLab, run: Run) -> None:
    plan = planned(lab)
    tell_owners(plan=plan, grace_days=7, trash_days=14, by=lab.owner, now=LATER)
    withdraw(plan=plan, by=lab.owner, now=LATER)
    assert set(Artifact.objects.values_list("state", flat=True)) == {"stored"}
    with pytest.raises(Conflict, match="This plan is withdrawn"):
        withdraw(plan=plan, by=lab.owner, now=LATER)
    assert planned(lab).pk != plan.pk


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


@pytest.mark.parametrize("since", ["pinned", "promoted", "referenced", "ancestor"])
def test_what_came_after_the_approval_counts(lab: SmallLab, run: Run, since: str) -> None:
    plan = approved(lab)
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
    stays = {each.line.pk: each.stays for each in going(Plan.objects.get(pk=plan.pk), LATER) if each.line.chosen}
    assert stays.pop(line.pk)
    assert set(stays.values()) == {""}


def test_the_last_copy_does_not_go_as_one_of_several(lab: SmallLab, run: Run) -> None:
    checkpoint(lab, run, 1, "/ckpt/second")
    plan = approved(lab)
    lines = plan.lines.filter(artifact__name__startswith="step1").order_by("pk")
    assert [line.is_last_copy for line in lines] == [False, False]
    note_outcomes(plan=plan, outcomes=[Outcome(lines[0].pk, LineOutcome.TRASHED)], by=None, now=LATER)
    stays = {each.line.pk: each.stays for each in going(Plan.objects.get(pk=plan.pk), LATER)}
    assert "no other is sure" in stays[lines[1].pk]


def test_a_copy_that_was_refused_is_not_counted_on_until_it_is_read_again(lab: SmallLab, run: Run) -> None:
    """It changed, or nothing lies there any more: the machine said so."""
    made = checkpoint(lab, run, 1, "/ckpt/second")
    plan = approved(lab)
    first, second = plan.lines.filter(artifact=made).order_by("pk")
    note_outcomes(plan=plan, outcomes=[Outcome(first.pk, LineOutcome.REFUSED, "it changed")], by=None, now=LATER)

    def stay() -> list[bool]:
        found = {each.line.pk: each.stays for each in going(Plan.objects.get(pk=plan.pk), LATER)}
        return ["no other is sure" in found[line.pk] for line in (first, second)]

    assert stay() == [False, True]
    (again,) = (each for each in proposals(lab.lab, lab.node, now=LATER) if each.copy.pk == second.copy_id)
    assert again.is_last_copy
    note_outcomes(plan=plan, outcomes=[Outcome(second.pk, LineOutcome.REFUSED, "it changed")], by=None, now=LATER)
    assert stay() == [True, True]
    Copy.objects.filter(artifact=made).update(hashed_us=LATER + 1)
    assert stay() == [False, False]


def test_the_same_path_on_another_machine_may_be_the_same_file(lab: SmallLab, run: Run) -> None:
    """A share that two machines mount."""
    made = checkpoint(lab, run, 1)
    copy = Copy.objects.get(artifact=made)
    other = register_node(lab=lab.lab, uuid=uuid4(), hostname="ws-2", facts={}, site=lab.site, now=T0)
    elsewhere = Copy.objects.create(
        lab=lab.lab, artifact=made, node=other, path=copy.path, place="0" * 64, first_us=T0, seen_us=T0, hashed_us=T0
    )

    def is_last() -> bool:
        return next(each.is_last_copy for each in proposals(lab.lab, lab.node, now=LATER) if each.copy.pk == copy.pk)

    assert is_last()
    Copy.objects.filter(pk=elsewhere.pk).update(path="/mnt/other")
    assert not is_last()


def test_a_folder_does_not_take_with_it_what_stays(lab: SmallLab, run: Run) -> None:
    """A known copy in a folder may be pinned, promoted or in no plan at all."""
    inner = checkpoint(lab, run, 0, "/ckpt/hf/sub/best.pt")
    told(lab, row("whole", form="folder", bytes=10, kind="checkpoint", copies=[{"path": "/ckpt/hf"}], runs=[edge(run)],
                  facts={"step": 0}), now=T0)  # fmt: skip
    checkpoint(lab, run, 5, "/ckpt/hf2")  # the last: it stays, beside the folder and not in it
    plan = approved(lab)
    assert {each.stays for each in going(Plan.objects.get(pk=plan.pk), LATER) if each.line.chosen} == {""}
    Pin.objects.create(artifact=inner, reason="thesis", from_us=LATER)
    stays = {each.line.copy.path: each.stays for each in going(Plan.objects.get(pk=plan.pk), LATER) if each.line.chosen}
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
        checkpoint(lab, run, step)
    assert queries() == before
