"""Who is told of a plan: owners who are here, PIs or admins for the rest; grace begins when
everybody was told.
"""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from apps.accounts.models import Membership, User
from apps.artifacts.choices import ItemOutcome
from apps.artifacts.cleanup.notifications import (
    find_recipients,
    former_owners,
    items_by_owner,
    not_notified,
    pending_deletions,
)
from apps.artifacts.cleanup.outcomes import Outcome, record_outcomes
from apps.artifacts.cleanup.plans import (
    approve,
    notify_owners,
    notify_remaining,
    object_to_items,
    withdraw,
)
from apps.artifacts.cleanup.retention import DAY_US
from apps.artifacts.models import Artifact, CleanupPlan, Notification
from apps.core.errors import Conflict, InvalidInput
from apps.runs.models import Run
from tests.artifacts.sample_plans import LATER, proposed_plan
from tests.builders import SmallLab, small_lab


def person(lab: SmallLab, name: str, role: str = "member", email: str = "") -> User:
    user = User.objects.create_user(username=name, email=email)
    Membership.objects.create(lab=lab.lab, user=user, role=role)
    return user


def owns(name: str, owner: User | None) -> None:
    Artifact.objects.filter(name__startswith=name).update(owner=owner)


def tell(lab: SmallLab, plan: CleanupPlan) -> CleanupPlan:
    return notify_owners(plan=plan, grace_days=7, trash_days=14, by=lab.owner, now=LATER)


def people(plan: CleanupPlan) -> list[tuple[str, int, int]]:
    return [
        (each.user.username, each.own_items, each.other_items)
        for each in find_recipients(plan, items_by_owner(plan))
    ]


@pytest.fixture
def plan(lab: SmallLab, run: Run) -> CleanupPlan:
    """Two lines are ticked: step1 and step2."""
    return proposed_plan(lab)


def test_owners_are_told(lab: SmallLab, plan: CleanupPlan) -> None:
    ana = person(lab, "ana")
    owns("step1", ana)
    owns("step2", ana)
    assert people(plan) == [("ana", 2, 0)]
    tell(lab, plan)
    notice = Notification.objects.get()
    assert (notice.user, notice.name, notice.notified_us, notice.own_items, notice.other_items) == (
        ana,
        "ana",
        LATER,
        2,
        0,
    )
    assert notice.mail == "off"
    assert [
        (each.plan, each.own_items, each.other_items) for each in pending_deletions(lab.lab, ana)
    ] == [(plan, 2, 0)]
    assert pending_deletions(lab.lab, lab.owner) == []


@pytest.mark.parametrize("why", ["not known", "left", "not active", "of another lab"])
def test_the_pi_is_told_in_the_place_of_who_is_not_here(
    lab: SmallLab, plan: CleanupPlan, why: str
) -> None:
    ana, pi = person(lab, "ana"), person(lab, "pi", "pi")
    gone = None if why == "not known" else small_lab(name="Theirs").owner
    if why == "not active":
        gone = person(lab, "bob")
        User.objects.filter(pk=gone.pk).update(is_active=False)
    owns("step1", ana)
    owns("step2", gone)
    assert people(plan) == [("ana", 1, 0), ("pi", 0, 1)]
    found = former_owners(plan, items_by_owner(plan))
    assert (found.lines, found.unknown) == (1, 1 if gone is None else 0)
    assert found.names == ([gone.username] if gone else [])
    tell(lab, plan)
    assert [(each.own_items, each.other_items) for each in pending_deletions(lab.lab, pi)] == [
        (0, 1)
    ]
    assert [(each.own_items, each.other_items) for each in pending_deletions(lab.lab, ana)] == [
        (1, 0)
    ]


def test_without_a_pi_admins_are_told(lab: SmallLab, plan: CleanupPlan) -> None:
    owns("step", None)
    assert people(plan) == [(lab.owner.username, 0, 2)]


def test_who_comes_or_leaves_after_it_is_told_before_it_is_approved(
    lab: SmallLab, plan: CleanupPlan
) -> None:
    ana, pi = person(lab, "ana"), person(lab, "pi", "pi")
    owns("step", ana)
    tell(lab, plan)
    plan.refresh_from_db()
    assert not_notified(plan) == []
    end = LATER + 7 * DAY_US
    with pytest.raises(Conflict, match="All people are notified"):
        notify_remaining(plan=plan, grace_days=7, by=lab.owner, now=end)
    Membership.objects.filter(user=ana).delete()
    assert [each.user for each in not_notified(plan)] == [pi]
    with pytest.raises(Conflict, match="Not notified yet: pi"):
        approve(plan=plan, by=lab.owner, now=end)
    with pytest.raises(InvalidInput, match="not 0"):
        notify_remaining(plan=plan, grace_days=0, by=lab.owner, now=end)
    assert notify_remaining(plan=plan, grace_days=3, by=lab.owner, now=end) == 1
    plan.refresh_from_db()
    assert plan.grace_until_us == end + 3 * DAY_US, "a grace of their own"
    with pytest.raises(Conflict, match="grace period is not over"):
        approve(plan=plan, by=lab.owner, now=end)
    assert approve(plan=plan, by=lab.owner, now=end + 3 * DAY_US).state == "approved"


def test_a_shorter_grace_for_the_rest_shortens_nobodys(lab: SmallLab, plan: CleanupPlan) -> None:
    owns("step", person(lab, "ana"))
    tell(lab, plan)
    owns("step2", person(lab, "bob"))
    assert notify_remaining(plan=plan, grace_days=1, by=lab.owner, now=LATER) == 1
    plan.refresh_from_db()
    assert plan.grace_until_us == LATER + 7 * DAY_US


def test_nothing_is_said_of_what_does_not_go_any_more(lab: SmallLab, plan: CleanupPlan) -> None:
    ana = person(lab, "ana")
    owns("step", ana)
    tell(lab, plan)
    first, second = plan.items.filter(selected=True).order_by("pk")
    object_to_items(plan=plan, items=[first.pk], reason="mine", by=ana, now=LATER)
    assert [each.own_items for each in pending_deletions(lab.lab, ana)] == [1]
    approve(plan=plan, by=lab.owner, now=LATER + 7 * DAY_US)
    assert [each.own_items for each in pending_deletions(lab.lab, ana)] == [1], (
        "it may go any time now"
    )
    record_outcomes(
        plan=plan, outcomes=[Outcome(second.pk, ItemOutcome.TRASHED)], by=None, now=LATER
    )
    assert pending_deletions(lab.lab, ana) == []


def test_a_plan_that_is_withdrawn_is_silent(lab: SmallLab, plan: CleanupPlan) -> None:
    ana = person(lab, "ana")
    owns("step", ana)
    tell(lab, plan)
    withdraw(plan=plan, by=lab.owner, now=LATER)
    assert pending_deletions(lab.lab, ana) == []


def test_who_was_told_of_nothing_costs_one_query(lab: SmallLab, plan: CleanupPlan) -> None:
    owns("step", person(lab, "ana"))
    tell(lab, plan)
    with CaptureQueriesContext(connection) as captured:
        assert pending_deletions(lab.lab, lab.owner) == []
    assert len(captured) == 1
