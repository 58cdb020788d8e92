"""What a plan proposes, by the classes of artifacts and the days of each, with what its going
saves.
"""

from uuid import uuid4

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from apps.artifacts.choices import ItemOutcome
from apps.artifacts.cleanup.outcomes import Outcome, record_outcomes
from apps.artifacts.cleanup.plans import approve, create_plan, notify_owners, select_items
from apps.artifacts.cleanup.proposals import propose_copies
from apps.artifacts.cleanup.retention import DAY_US
from apps.artifacts.cleanup.retention_settings import set_retention_periods
from apps.artifacts.cleanup.totals import plan_totals
from apps.artifacts.models import Artifact, CleanupPlan, RetentionPeriod
from apps.artifacts.services.curation import archive, mark_candidate, unarchive, unmark_candidate
from apps.artifacts.services.register import register
from apps.carbon.figures.energy import figures_of_runs
from apps.carbon.models import AppliedFactor
from apps.core.units import emission_ug, hour_of
from apps.fleet.choices import SiteKind
from apps.fleet.services import create_site, register_node
from apps.runs.models import Run
from tests.artifacts.sample_plans import LATER, checkpoint, proposed_plan
from tests.artifacts.support import create_run, edge, parsed, row
from tests.builders import T0, SmallLab


def _names(plan: CleanupPlan) -> dict[str, tuple[str, bool]]:
    return {
        line.artifact.name.split("-")[0]: (line.retention_class, line.selected)
        for line in plan.items.select_related("artifact")
    }


def test_what_is_due_is_proposed_with_what_its_going_saves(lab: SmallLab, run: Run) -> None:
    assert propose_copies(lab.lab, lab.node, now=T0 + 13 * DAY_US) == []
    assert {
        each.copy.artifact.name.split("-")[0]
        for each in propose_copies(lab.lab, lab.node, now=T0 + 14 * DAY_US)
    } == {
        "step1",
        "step2",
    }
    plan = proposed_plan(lab)
    assert _names(plan) == {
        "step1": ("intermediate", True),
        "step2": ("intermediate", True),
        "step3": ("final", False),
    }
    line = plan.items.get(artifact__name__startswith="step1")
    assert (
        line.storage_mj == 5_694 * 3_600
    )  # 1 GB on a disk for a year: 5.694 Wh; the byte more is below a millijoule
    assert line.retrain_mj == 300_000
    assert line.retrain_run == run
    assert line.is_last_copy


def test_what_it_emits_is_priced_by_the_factor_of_where_it_stands(lab: SmallLab, run: Run) -> None:
    factor = AppliedFactor.objects.get(
        node=lab.node, basis=lab.lab.basis, to_hour__gt=hour_of(LATER)
    ).factor
    assert factor is not None
    line = proposed_plan(lab).items.get(artifact__name__startswith="step1")
    assert line.storage_ug == emission_ug(5_694 * 3_600, 1_000_000, factor.ug_per_kwh)
    figure = figures_of_runs(lab.lab, [run.uuid])[run.uuid]
    assert line.retrain_ug == figure.emission_ug
    assert figure.emission_ug > 0
    sums = plan_totals(line.plan)
    assert (sums.lines, sums.storage_mj, sums.retrain_mj, sums.runs) == (
        2,
        2 * line.storage_mj,
        300_000,
        1,
    ), "a run once"
    assert sums.storage_ug == 2 * line.storage_ug
    assert sums.retrain_ug == figure.emission_ug


def test_what_is_not_known_of_its_cost_stays_unknown(lab: SmallLab) -> None:
    site = create_site(lab=lab.lab, name="Room 2", kind=SiteKind.WORKSTATION, zone="")
    nowhere = register_node(lab=lab.lab, uuid=uuid4(), hostname="ws-2", facts={}, site=site, now=T0)
    run = create_run(lab)
    Run.objects.filter(pk=run.pk).update(state="finished", ended_us=T0)
    rows = [
        row(
            f"s{i}",
            kind="checkpoint",
            facts={"step": i},
            runs=[edge(run)],
            copies=[{"path": f"/{i}", "medium": "hdd" if i else "unknown"}],
        )
        for i in range(3)
    ]
    register(
        lab=lab.lab, rows=parsed(*rows), node_uuid=nowhere.uuid, by=None, bound_node=None, now=T0
    )
    plan = create_plan(lab=lab.lab, node=nowhere, project=None, by=lab.owner, now=LATER)
    found = {
        line.artifact.name: (line.storage_mj, line.storage_ug, line.retrain_mj, line.retrain_ug)
        for line in plan.items.select_related("artifact")
    }
    assert found["s0"] == (None, None, None, None), "an unknown medium"
    assert found["s1"][0] is not None
    assert found["s1"][1] is None, "no zone"
    sums = plan_totals(plan)
    assert (sums.unknown_medium, sums.without_factor, sums.unmeasured) == (1, 1, 2)
    assert (sums.storage_ug, sums.retrain_mj, sums.retrain_ug) == (None, None, None)


def test_days_of_the_project_come_before_the_labs(lab: SmallLab, run: Run) -> None:
    RetentionPeriod.objects.create(lab=lab.lab, retention_class="intermediate", days=400)
    assert {each.retention_class for each in propose_copies(lab.lab, lab.node, now=LATER)} == {
        "final"
    }
    project = Artifact.objects.filter(project__isnull=False)[0].project
    RetentionPeriod.objects.create(
        lab=lab.lab, project=project, retention_class="intermediate", days=5
    )
    RetentionPeriod.objects.create(lab=lab.lab, project=project, retention_class="final", days=None)
    assert {each.retention_class for each in propose_copies(lab.lab, lab.node, now=LATER)} == {
        "intermediate"
    }


def test_a_run_that_lost_its_sweep(lab: SmallLab) -> None:
    winner, loser = create_run(lab), create_run(lab)
    Run.objects.update(state="finished", ended_us=T0, sweep="lr")
    kept, lost = checkpoint(lab, winner, 1), checkpoint(lab, loser, 1)
    assert {each.retention_class for each in propose_copies(lab.lab, lab.node, now=LATER)} == {
        "final"
    }
    mark_candidate(artifact=kept, by=lab.owner, now=LATER)
    found = {
        each.copy.artifact_id: each.retention_class
        for each in propose_copies(lab.lab, lab.node, now=LATER)
    }
    assert found == {kept.pk: "final", lost.pk: "sweep"}
    unmark_candidate(artifact=kept, by=lab.owner, now=LATER)
    assert {each.retention_class for each in propose_copies(lab.lab, lab.node, now=LATER)} == {
        "final"
    }


def test_a_candidate_is_the_best_of_its_run(lab: SmallLab, run: Run) -> None:
    first = Artifact.objects.get(name__startswith="step1")
    mark_candidate(artifact=first, by=lab.owner, now=LATER)
    assert _names(proposed_plan(lab)) == {
        "step1": ("final", False),
        "step2": ("intermediate", True),
        "step3": ("final", False),
    }


def test_what_is_archived_is_proposed_only_by_days_of_its_own(lab: SmallLab, run: Run) -> None:
    first = Artifact.objects.get(name__startswith="step1")
    archive(artifact=first, by=lab.owner, now=LATER)

    def kept(now: int) -> dict[str, tuple[str, bool]]:
        found = propose_copies(lab.lab, lab.node, now=now)
        return {
            each.copy.artifact.name.split("-")[0]: (str(each.retention_class), each.is_ticked)
            for each in found
        }

    assert set(kept(LATER + 3000 * DAY_US)) == {"step2", "step3"}
    set_retention_periods(
        lab=lab.lab, project=None, days={"archived": "90"}, by=lab.owner, now=LATER
    )
    assert set(kept(LATER + 90 * DAY_US - 1)) == {"step2", "step3"}, "from when it was laid aside"
    assert kept(LATER + 90 * DAY_US)["step1"] == ("archived", False), "for review"
    set_retention_periods(
        lab=lab.lab, project=first.project, days={"archived": "never"}, by=lab.owner, now=LATER
    )
    assert set(kept(LATER + 3000 * DAY_US)) == {"step2", "step3"}
    unarchive(artifact=first, by=lab.owner, now=LATER)
    assert kept(LATER)["step1"] == ("intermediate", True)


@pytest.mark.parametrize("days", ["", "1"])
def test_what_was_laid_aside_is_ticked_again_only_where_days_are_set(
    lab: SmallLab, run: Run, days: str
) -> None:
    plan = proposed_plan(lab)
    line = plan.items.filter(selected=True).order_by("pk")[0]
    archive(artifact=line.artifact, by=lab.owner, now=LATER)
    line.refresh_from_db()
    assert (line.selected, line.objection, line.objected_by) == (False, "archived", lab.owner)
    set_retention_periods(
        lab=lab.lab, project=None, days={"archived": days}, by=lab.owner, now=LATER
    )
    assert select_items(
        plan=plan, selected=[line.pk], listed=[line.pk], by=lab.owner, now=LATER
    ) == bool(days)
    line.refresh_from_db()
    assert (line.selected, line.objection) == ((True, "") if days else (False, "archived"))


def test_what_is_archived_by_days_is_archived_again_when_it_comes_back(
    lab: SmallLab, run: Run
) -> None:
    first = Artifact.objects.get(name__startswith="step1")
    archive(artifact=first, by=lab.owner, now=T0)
    set_retention_periods(lab=lab.lab, project=None, days={"archived": "30"}, by=lab.owner, now=T0)
    plan = proposed_plan(lab)
    shown = list(plan.items.values_list("pk", flat=True))
    select_items(plan=plan, selected=shown, listed=shown, by=lab.owner, now=LATER)
    notify_owners(plan=plan, grace_days=7, trash_days=14, by=lab.owner, now=LATER)
    first.refresh_from_db()
    assert first.state == "scheduled"
    approve(plan=plan, by=lab.owner, now=LATER + 7 * DAY_US)
    line = plan.items.get(artifact=first)
    for outcome, state in ((ItemOutcome.TRASHED, "scheduled"), (ItemOutcome.RESTORED, "archived")):
        record_outcomes(plan=plan, outcomes=[Outcome(line.pk, outcome)], by=lab.owner, now=LATER)
        first.refresh_from_db()
        assert first.state == state
    assert unarchive(artifact=first, by=lab.owner, now=LATER).state == "stored"


def test_the_number_of_queries_does_not_grow(lab: SmallLab, run: Run) -> None:
    def queries() -> int:
        with CaptureQueriesContext(connection) as captured:
            propose_copies(lab.lab, lab.node, now=LATER)
        return len(captured)

    before = queries()
    for step in range(4, 24):
        checkpoint(lab, run, step)
    assert queries() == before
