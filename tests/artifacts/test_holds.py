"""Holds: placed with a reason and an end, lifted, over; plans have nothing of what is held."""

import pytest
from django.db import IntegrityError, connection, transaction
from django.test.utils import CaptureQueriesContext

from apps.accounts.audit import with_names
from apps.accounts.models import AuditEntry, Project, User
from apps.artifacts.choices import ArtifactState, ItemOutcome
from apps.artifacts.cleanup.outcomes import Outcome, record_outcomes
from apps.artifacts.cleanup.plan_check import check_plan
from apps.artifacts.cleanup.plans import approve, notify_owners, select_items
from apps.artifacts.holds import active_holds, effective_holds, holds_on_artifact
from apps.artifacts.models import Artifact, CleanupPlan, Hold
from apps.artifacts.services.holds import Holdable, lift_hold, place_hold
from apps.core.errors import Conflict, Forbidden, InvalidInput
from apps.core.units import US_PER_HOUR, hour_of
from apps.runs.models import Run
from tests.artifacts.sample_plans import LATER, approved_plan, checkpoint, proposed_plan
from tests.artifacts.support import create_run, edge, register_artifact, register_rows, row
from tests.builders import T0, SmallLab

HOUR = hour_of(LATER)
UNTIL = HOUR + 100


def hold(
    lab: SmallLab,
    on: Holdable,
    until: int | None = UNTIL,
    *,
    now: int = LATER,
    reason: str = "paper",
) -> Hold:
    return place_hold(
        on=on, reason=reason, until_hour=until, by=lab.owner, is_manager=True, now=now
    )


def test_it_keeps_until_its_hour_and_is_history_then(lab: SmallLab) -> None:
    it = register_artifact(lab, "m")
    made = hold(lab, it, HOUR + 2)
    assert (made.from_hour, made.until_hour) == (HOUR, HOUR + 2)
    end = (HOUR + 2) * US_PER_HOUR
    assert list(effective_holds(lab.lab, {it.pk: it}, end - 1)) == [it.pk]
    assert effective_holds(lab.lab, {it.pk: it}, end) == {}
    assert not active_holds(lab.lab, end).exists()
    assert Hold.objects.filter(pk=made.pk).exists()
    with pytest.raises(Conflict, match="not active any more"):
        lift_hold(hold=made, by=lab.owner, is_manager=True, now=end)


def test_what_it_says_names_end_and_reason(lab: SmallLab, run: Run) -> None:
    demo = Project.objects.get(lab=lab.lab, slug="demo")
    assert (
        hold(lab, register_artifact(lab, "m"), 500_000, now=T0).description
        == "held until 2027-01-15 08:00 UTC: paper"
    )
    assert (
        hold(lab, demo, None, now=T0).description
        == f"project {demo.name} is held until it is lifted: paper"
    )
    assert (
        hold(lab, run, 500_000, now=T0).description
        == f"run {run.name} is held until 2027-01-15 08:00 UTC: paper"
    )


def test_of_several_the_one_that_ends_last_counts(lab: SmallLab, run: Run) -> None:
    it = checkpoint(lab, run, 1)
    demo = Project.objects.get(lab=lab.lab, slug="demo")
    Artifact.objects.filter(pk=it.pk).update(project=demo)
    it.refresh_from_db()
    short, long, longer = hold(lab, it, HOUR + 1), hold(lab, run, HOUR + 9), hold(lab, demo, None)
    assert effective_holds(lab.lab, {it.pk: it}, LATER) == {it.pk: longer}
    assert holds_on_artifact(it, LATER) == [longer, long, short]
    lift_hold(hold=longer, by=lab.owner, is_manager=False, now=LATER)
    assert effective_holds(lab.lab, {it.pk: it}, LATER) == {it.pk: long}


def test_a_run_holds_what_it_made_and_read(lab: SmallLab, run: Run) -> None:
    read, other = (
        register_artifact(lab, "d", kind="dataset", runs=[edge(run, "used")]),
        register_artifact(lab, "x"),
    )
    made = {each.pk: each for each in Artifact.objects.filter(name__startswith="step")}
    hold(lab, run)
    assert set(effective_holds(lab.lab, {**made, read.pk: read, other.pk: other}, LATER)) == {
        *made,
        read.pk,
    }


def test_what_is_held_is_in_no_plan(lab: SmallLab, run: Run) -> None:
    first = Artifact.objects.get(name__startswith="step1")
    hold(lab, first)
    plan = proposed_plan(lab)
    assert not plan.items.filter(artifact=first).exists()
    assert plan.items.count() == 2
    hold(lab, run)
    plan.delete()
    with pytest.raises(InvalidInput, match="No artifact on this node is due"):
        proposed_plan(lab)
    assert proposed_plan(lab, UNTIL * US_PER_HOUR).items.count() == 3, "what is over holds nothing"


@pytest.mark.parametrize("what", ["artifact", "project", "run"])
@pytest.mark.parametrize("stage", ["draft", "told", "approved"])
def test_a_hold_takes_its_lines_out_of_open_plans(
    lab: SmallLab, run: Run, what: str, stage: str
) -> None:
    Artifact.objects.filter(name__startswith="step1").update(
        project=Project.objects.create(lab=lab.lab, slug="p", created_us=T0)
    )
    plan = approved_plan(lab) if stage == "approved" else proposed_plan(lab)
    if stage == "told":
        notify_owners(plan=plan, grace_days=7, trash_days=14, by=lab.owner, now=LATER)
    line = plan.items.select_related("artifact__project").get(artifact__name__startswith="step1")
    on: Holdable = {"artifact": line.artifact, "project": line.artifact.project, "run": run}[what]
    made = hold(lab, on)
    line.refresh_from_db()
    assert (line.selected, line.objection, line.objected_by) == (False, made.description, lab.owner)
    assert Artifact.objects.get(pk=line.artifact_id).state == "stored"
    assert plan.items.filter(selected=True).count() == (0 if what == "run" else 1)
    entry = AuditEntry.objects.filter(action="hold.placed").latest("sequence")
    assert entry.details["lines"] == (2 if what == "run" else 1)
    stays = {
        each.item.pk: each.blocked_reason
        for each in check_plan(CleanupPlan.objects.get(pk=plan.pk), LATER)
    }
    assert stays[line.pk] == (
        made.description
        if stage == "approved"
        else f"the plan is {CleanupPlan.objects.get().get_state_display().lower()}"
    )


def test_it_cannot_be_ticked_again_while_it_is_held(lab: SmallLab, run: Run) -> None:
    plan = proposed_plan(lab)
    line = plan.items.get(artifact__name__startswith="step1")
    made = hold(lab, line.artifact)
    assert (
        select_items(plan=plan, selected=[line.pk], listed=[line.pk], by=lab.owner, now=LATER) == 0
    )
    line.refresh_from_db()
    assert (line.selected, line.objection) == (False, made.description)
    lift_hold(hold=made, by=lab.owner, is_manager=True, now=LATER)
    line.refresh_from_db()
    assert not line.selected, "plans stay as they are"
    assert (
        select_items(plan=plan, selected=[line.pk], listed=[line.pk], by=lab.owner, now=LATER) == 1
    )
    line.refresh_from_db()
    assert (line.selected, line.objection) == (True, "")


def test_what_comes_to_a_held_project_later_stays(lab: SmallLab, run: Run) -> None:
    """Nobody's act on the plan: the artifact was described anew."""
    project = Project.objects.create(lab=lab.lab, slug="p", name="P", created_us=T0)
    made = hold(lab, project)
    plan = proposed_plan(lab)
    notify_owners(plan=plan, grace_days=1, trash_days=14, by=lab.owner, now=LATER)
    line = plan.items.get(artifact__name__startswith="step1")
    Artifact.objects.filter(pk=line.artifact_id).update(project=project)
    approve(plan=plan, by=lab.owner, now=LATER + 24 * US_PER_HOUR)
    line.refresh_from_db()
    assert (line.selected, line.objection, line.objected_by) == (False, made.description, None)


def test_what_lies_in_the_trash_is_not_deleted_while_it_is_held(lab: SmallLab, run: Run) -> None:
    plan = approved_plan(lab)
    line = plan.items.filter(selected=True).select_related("artifact").order_by("pk")[0]
    record_outcomes(plan=plan, outcomes=[Outcome(line.pk, ItemOutcome.TRASHED)], by=None, now=LATER)
    made = hold(lab, line.artifact)
    stays = {
        each.item.pk: each.blocked_reason
        for each in check_plan(CleanupPlan.objects.get(pk=plan.pk), LATER)
    }
    assert stays[line.pk] == made.description
    stays = {
        each.item.pk: each.blocked_reason
        for each in check_plan(CleanupPlan.objects.get(pk=plan.pk), UNTIL * US_PER_HOUR)
    }
    assert stays[line.pk] == ""


def test_who_places_and_lifts(lab: SmallLab, run: Run) -> None:
    demo = Project.objects.get(lab=lab.lab, slug="demo")
    member = User.objects.create_user(username="ana")
    with pytest.raises(Forbidden, match="PIs and admins"):
        place_hold(on=demo, reason="x", until_hour=UNTIL, by=member, is_manager=False, now=LATER)
    made = place_hold(
        on=run, reason=" x ", until_hour=UNTIL, by=member, is_manager=False, now=LATER
    )
    assert made.reason == "x"
    other = User.objects.create_user(username="bob")
    with pytest.raises(Forbidden, match="Another person"):
        lift_hold(hold=made, by=other, is_manager=False, now=LATER)
    assert lift_hold(hold=made, by=member, is_manager=False, now=LATER + 5).lifted_us == LATER + 5
    with pytest.raises(Conflict, match="not active any more"):
        lift_hold(hold=made, by=member, is_manager=False, now=LATER + 6)
    again = hold(lab, run)
    assert lift_hold(hold=again, by=other, is_manager=True, now=LATER).lifted_by == other
    acts = AuditEntry.objects.filter(action__startswith="hold.").order_by("sequence")
    assert [(row.action, with_names(row).actor) for row in acts] == [
        ("hold.placed", "ana"),
        ("hold.lifted", "ana"),
        ("hold.placed", lab.owner.username),
        ("hold.lifted", "bob"),
    ]


@pytest.mark.parametrize(
    ("reason", "until", "field"),
    [
    ("", UNTIL, "reason"), ("x" * 301, UNTIL, "reason"), ("a\x00", UNTIL, "reason"),
    ("x", HOUR, "until_day"), ("x", HOUR - 1, "until_day"), ("x", 10**9, "until_day"),
],
)  # fmt: skip
def test_what_is_no_hold(lab: SmallLab, reason: str, until: int, field: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        hold(lab, register_artifact(lab, "m"), until, reason=reason)
    assert refused.value.field == field
    assert not Hold.objects.exists()


def test_what_is_gone_is_not_held(lab: SmallLab) -> None:
    it = register_artifact(lab, "m")
    Artifact.objects.update(state=ArtifactState.TOMBSTONE)
    with pytest.raises(Conflict, match="copies of this artifact were deleted"):
        hold(lab, it)


@pytest.mark.parametrize(
    "wrong", [{}, {"artifact": 1, "run": 1}, {"artifact": 1, "until_hour": 5, "from_hour": 5}]
)
def test_the_database_forbids_what_is_no_hold(
    lab: SmallLab, run: Run, wrong: dict[str, int]
) -> None:
    things = {"artifact": Artifact.objects.all()[0], "run": run}
    facts = {name: things.get(name, value) for name, value in {"from_hour": 1, **wrong}.items()}
    with pytest.raises(IntegrityError), transaction.atomic():
        Hold.objects.create(lab=lab.lab, reason="x", placed_us=T0, **facts)


def test_another_labs_holds_hold_nothing_here(lab: SmallLab) -> None:
    from tests.builders import small_lab

    theirs = small_lab(name="Theirs")
    it = register_artifact(lab, "m")
    place_hold(
        on=register_artifact(theirs, "m"),
        reason="x",
        until_hour=None,
        by=theirs.owner,
        is_manager=True,
        now=LATER,
    )
    assert effective_holds(lab.lab, {it.pk: it}, LATER) == {}
    assert holds_on_artifact(it, LATER) == []


def test_the_number_of_queries_does_not_grow(lab: SmallLab) -> None:
    def queries() -> int:
        every = {each.pk: each for each in Artifact.objects.all()}
        with CaptureQueriesContext(connection) as captured:
            assert len(effective_holds(lab.lab, every, LATER)) == len(every)
        return len(captured)

    def some(first: int) -> None:
        for i in range(first, first + 5):
            run = create_run(lab)
            register_rows(lab, row(f"a{i}", runs=[edge(run)]), row(f"b{i}"))
            hold(lab, run)
            hold(lab, Artifact.objects.get(name=f"b{i}"))

    some(0)
    before = queries()
    some(5)
    assert queries() == before
