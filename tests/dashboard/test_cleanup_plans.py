"""/artifacts/cleanup/: plans are created, owners notified, items excluded, plans approved;
retention periods.
"""

import re
from typing import Any
from uuid import uuid4

import pytest
import time_machine
from django.core import mail
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from apps.accounts.models import AuditEntry, Project, User
from apps.artifacts.cleanup.plans import approve, create_plan, notify_owners
from apps.artifacts.cleanup.proposals import effective_periods
from apps.artifacts.cleanup.retention import DAY_US, DEFAULT_DAYS
from apps.artifacts.models import Artifact, CleanupPlan, Copy, Notification, RetentionPeriod
from apps.core.clock import now_us, utc
from apps.core.jobs import run_until_idle
from apps.dashboard.artifacts import cleanup_pages as shown_plans
from apps.runs.models import Run
from tests.artifacts.support import create_run, edge, register_rows, row
from tests.builders import T0, SmallLab, W, push
from tests.dashboard.support import assert_needs_sign_in, assert_only, text_of

PAGE = "/artifacts/cleanup/"


@pytest.fixture
def kept(lab: SmallLab) -> SmallLab:
    """A finished run that left three checkpoints a year ago; the first two are due, the last for
    review.
    """
    run = create_run(lab)
    Run.objects.filter(pk=run.pk).update(state="finished", ended_us=T0)
    rows = [
        row(
            f"step{i}.pt",
            kind="checkpoint",
            facts={"step": i},
            bytes=10**9 * (i + 1),
            runs=[edge(run)],
            copies=[{"path": f"/ckpt/step{i}.pt", "medium": "hdd"}],
        )
        for i in range(3)
    ]
    register_rows(lab, *rows, now=now_us() - 365 * DAY_US)
    return lab


@pytest.fixture
def plan(kept: SmallLab) -> CleanupPlan:
    return create_plan(lab=kept.lab, node=kept.node, project=None, by=kept.owner, now=now_us())


def _address(plan: CleanupPlan, more: str = "") -> str:
    return f"{PAGE}{plan.uuid}/{more}"


def _post(client: Client, path: str, status: int = 302, **data: Any) -> str:
    reply = client.post(path, data)
    assert reply.status_code == status, text_of(reply)[:2000]
    return text_of(reply) if status != 302 else text_of(client.get(reply["Location"]))


def _ticked(page: str) -> set[int]:
    return {int(pk) for pk in re.findall(r'name="item" value="(\d+)" checked', page)}


def _period_inputs(page: str) -> dict[str, dict[str, str]]:
    """Return the attributes of each field of a retention period by class."""
    tags = re.findall(r'<input [^>]*name="days:(\w+)"[^>]*>', page)
    inputs = re.findall(r'<input [^>]*name="days:\w+"[^>]*>', page)
    return {
        name: dict(re.findall(r'([\w-]+)="([^"]*)"', tag))
        for name, tag in zip(tags, inputs, strict=True)
    }


def _day_fields(page: str) -> dict[str, str]:
    return {
        f"days:{name}": attributes.get("value", "")
        for name, attributes in _period_inputs(page).items()
    }


def _inherited(page: str, name: str) -> tuple[str, ...]:
    """Return the period that holds for a class without an own one, and whose it is."""
    return re.findall(
        rf'id="inherited-{name}" data-inherited="(\w+)" data-inherited-from="(\w+)"', page
    )[0]


def test_from_what_is_due_to_the_command(kept: SmallLab, owner: Client) -> None:
    assert "No open cleanup plans" in text_of(owner.get(PAGE))
    page = _post(owner, PAGE, action="create", node=str(kept.node.uuid), project="")
    plan = CleanupPlan.objects.get()
    assert "3.00\xa0GB can be deleted from ws-1" in page
    assert 'data-selected="2" data-items="3"' in page
    assert "An intermediate state of a run" in page
    assert "not measured" in page
    lines = list(plan.items.order_by("pk"))
    page = _post(
        owner,
        _address(plan),
        action="select",
        listed=[line.pk for line in lines],
        item=[lines[0].pk, lines[2].pk],
    )
    assert "2 items changed" in page or "1 item changed" in page
    with time_machine.travel(now_us() / 1e6, tick=False):
        page = _post(owner, _address(plan), action="notify", grace_days="7", trash_days="10")
        assert "Owners can object until" in page
        assert "grace period is not over" in _post(owner, _address(plan), 409, action="approve")
    first = plan.items.filter(selected=True).order_by("pk")[0]
    page = _post(owner, _address(plan), action="object", item=[first.pk], reason="my thesis")
    assert "my thesis" in page
    with time_machine.travel((now_us() + 7 * DAY_US) / 1e6, tick=True):
        page = _post(owner, _address(plan), action="approve")
    assert f"labcarbon-collect apply-plan http://127.0.0.1:8000{_address(plan)}" in page
    acts = (
        AuditEntry.objects.filter(lab=kept.lab, action__startswith="plan.")
        .order_by("pk")
        .values_list("action", flat=True)
    )
    assert list(acts) == [
        "plan.made",
        "plan.changed",
        "plan.told",
        "plan.objection",
        "plan.approved",
    ]
    head, *rows = text_of(owner.get(_address(plan).rstrip("/") + ".csv")).strip().splitlines()
    assert head.startswith("artifact,digest,path,bytes,why")
    assert len(rows) == 3
    assert "1 open cleanup plan" in text_of(owner.get(PAGE))


def test_a_plan_is_withdrawn_after_asking(plan: CleanupPlan, owner: Client) -> None:
    assert "data-confirm-withdrawal" in text_of(owner.get(_address(plan, "?withdraw=1")))
    assert "ws-1: withdrawn" in _post(owner, _address(plan), action="withdraw")
    assert "This plan is withdrawn" in _post(owner, _address(plan), 409, action="withdraw")


def test_owners_object_to_their_own_alone(
    plan: CleanupPlan, owner: Client, member: Client, lab: SmallLab
) -> None:
    notify_owners(plan=plan, grace_days=7, trash_days=14, by=lab.owner, now=now_us())
    lines = list(plan.items.filter(selected=True).select_related("artifact").order_by("pk"))
    mine = User.objects.get(pk=member.session["_auth_user_id"])
    Artifact.objects.filter(pk=lines[0].artifact_id).update(owner=mine)
    page = text_of(member.get(_address(plan)))
    assert 'data-mine="1"' in page
    assert text_of(member.get(_address(plan, "?mine=1"))).count('name="item"') == 1
    told_ = {"action": "object", "item": [lines[1].pk], "reason": "no"}
    assert "do not own all selected items" in _post(member, _address(plan), 400, **told_)
    assert 'data-field-error="reason"' in _post(
        member, _address(plan), 400, action="object", item=[lines[0].pk], reason=""
    )
    assert "1 item excluded" in _post(
        member, _address(plan), action="object", item=[lines[0].pk], reason="a paper"
    )
    assert member.post(_address(plan), {"action": "approve"}).status_code == 403


def test_what_was_refused_can_be_objected_to_and_what_was_moved_cannot(
    plan: CleanupPlan, owner: Client, lab: SmallLab
) -> None:
    notify_owners(plan=plan, grace_days=1, trash_days=14, by=lab.owner, now=now_us() - 2 * DAY_US)
    approve(plan=plan, by=lab.owner, now=now_us())
    first, second = plan.items.filter(selected=True).order_by("pk")
    for outcome, shown in (("refused", 2), ("trashed", 1), ("restored", 1), ("deleted", 1)):
        plan.items.filter(pk=first.pk).update(outcome=outcome)
        assert text_of(owner.get(_address(plan))).count('name="item"') == shown, outcome
    told_ = {"action": "object", "item": [first.pk], "reason": "my thesis"}
    plan.items.filter(pk=first.pk).update(outcome="trashed")
    assert f"--restore {first.pk}" in _post(owner, _address(plan), 409, **told_)
    plan.items.filter(pk=first.pk).update(outcome="refused", message="it changed")
    page = _post(owner, _address(plan), **told_)
    assert "1 item excluded" in page
    assert "my thesis" in page
    assert "it changed" not in page
    plan.items.filter(pk=first.pk).update(outcome="trashed")
    page = _post(owner, _address(plan), action="object", item=[first.pk, second.pk], reason="mine")
    assert "1 item excluded. 1 was moved or excluded before." in page


def test_ticks_come_back_where_an_objection_lacks_its_reason(
    plan: CleanupPlan, owner: Client, lab: SmallLab
) -> None:
    notify_owners(plan=plan, grace_days=7, trash_days=14, by=lab.owner, now=now_us())
    line = plan.items.filter(selected=True).order_by("pk")[0]
    page = _post(owner, _address(plan), 400, action="object", item=[line.pk], reason="")
    assert _ticked(page) == {line.pk}


def test_ticks_count_when_owners_are_told(plan: CleanupPlan, owner: Client) -> None:
    """As a browser posts them: the button is one of their form."""
    page = text_of(owner.get(_address(plan)))
    form = page.split('aria-label="Items"')[1].split("</form>")[0]
    assert form.count('name="listed"') == 3
    assert ('name="grace_days"' in form, 'name="trash_days"' in form) == (True, True)
    assert form.index('value="select"') < form.index('value="notify"'), "what Enter in a field does"
    first, second, third = plan.items.order_by("pk")
    shown = {
        "action": "notify",
        "listed": [first.pk, second.pk, third.pk],
        "item": [first.pk, third.pk],
    }
    page = _post(owner, _address(plan), 400, **shown, grace_days="soon", trash_days="30")
    assert _ticked(page) == {first.pk, third.pk}
    assert 'value="soon"' in page
    assert 'value="30"' in page
    assert set(plan.items.filter(selected=True)) == {second, third}, "the largest is for review"
    page = _post(owner, _address(plan), **shown, grace_days="7", trash_days="10")
    assert "Owners of 2 items notified" in page
    assert set(plan.items.filter(selected=True)) == {first, third}


def test_no_tick_at_all_tells_nobody(plan: CleanupPlan, owner: Client) -> None:
    listed = list(plan.items.values_list("pk", flat=True))
    told_ = {"action": "notify", "listed": listed, "grace_days": "7", "trash_days": "10"}
    page = _post(owner, _address(plan), 400, **told_)
    assert "No eligible item is selected" in page
    assert _ticked(page) == set()
    assert plan.items.filter(selected=True).count() == 2, "nothing was kept of it"


def test_ticks_of_other_pages_count_as_they_were_kept(
    plan: CleanupPlan, owner: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "data-other-pages" not in text_of(owner.get(_address(plan)))
    monkeypatch.setattr(shown_plans, "PAGE_ROWS", 2)
    page = text_of(owner.get(_address(plan, "?page=2")))
    assert "data-other-pages" in page
    (last,) = (int(pk) for pk in re.findall(r'name="listed" value="(\d+)"', page))
    _post(
        owner,
        _address(plan, "?page=2"),
        action="notify",
        listed=[last],
        grace_days="7",
        trash_days="10",
    )
    assert plan.items.filter(selected=True).count() == 1
    assert not plan.items.get(pk=last).selected


def test_days_typed_stay_where_only_the_ticks_are_kept(plan: CleanupPlan, owner: Client) -> None:
    """Enter in their fields keeps the ticks: telling owners is for the button alone."""
    page = _post(owner, _address(plan), action="select", grace_days="30", trash_days="14")
    assert re.search(r'name="grace_days" value="30"', page)
    assert re.search(r'name="trash_days" value="14"', page)


def test_owners_see_it_on_every_page_they_open(
    plan: CleanupPlan, owner: Client, member: Client, viewer: Client, lab: SmallLab
) -> None:
    mine = User.objects.get(pk=member.session["_auth_user_id"])
    Artifact.objects.filter(cleanup_items__plan=plan, cleanup_items__selected=True).update(
        owner=mine
    )
    page = text_of(owner.get(_address(plan)))
    assert 'data-recipients="planned"' in page
    assert 'data-mails="off"' in page
    assert "of your artifacts" not in text_of(member.get("/runs/"))
    page = _post(owner, _address(plan), action="notify", grace_days="7", trash_days="10")
    assert 'data-mails="off"' in page
    assert 'data-recipients="notified"' in page
    assert "on every page" in page
    for path in ("/", "/runs/", PAGE, "/settings/"):
        page = text_of(member.get(path))
        assert "2 of your artifacts can be deleted from ws-1 after" in page, path
        assert f'href="{_address(plan, "?mine=1")}"' in page
        assert "of your artifacts" not in text_of(owner.get(path))
    _post(
        member,
        _address(plan),
        action="object",
        item=[plan.items.filter(selected=True)[0].pk],
        reason="mine",
    )
    assert "1 of your artifacts can be deleted from ws-1 after" in text_of(member.get("/runs/"))


def test_pis_stand_in_for_who_is_not_here(plan: CleanupPlan, owner: Client, lab: SmallLab) -> None:
    gone = User.objects.create_user(username="gone-bob")
    lines = list(plan.items.filter(selected=True).order_by("pk"))
    for line, whose in zip(lines, (gone, None), strict=True):
        Artifact.objects.filter(pk=line.artifact_id).update(owner=whose)
    page = text_of(owner.get(_address(plan)))
    assert 'data-absent="2" data-unknown="1"' in page
    assert "Former members: gone-bob." in page
    assert "instead" in page
    _post(owner, _address(plan), action="notify", grace_days="7", trash_days="10")
    page = text_of(owner.get("/runs/"))
    assert "2 artifacts without an owner in the lab can be deleted from ws-1 after" in page
    page = text_of(owner.get(_address(plan, "?mine=1")))
    assert page.count('name="item"') == 2


def test_who_was_never_told_is_told_before_it_is_approved(
    plan: CleanupPlan, owner: Client, member: Client, lab: SmallLab
) -> None:
    notify_owners(plan=plan, grace_days=1, trash_days=14, by=lab.owner, now=now_us() - 2 * DAY_US)
    mine = User.objects.get(pk=member.session["_auth_user_id"])
    Artifact.objects.filter(cleanup_items__plan=plan).update(owner=mine)
    page = text_of(owner.get(_address(plan)))
    assert "data-missing" in page
    assert 'data-approval="recipients"' in page
    assert "Not notified yet: member" in _post(owner, _address(plan), 409, action="approve")
    assert (
        member.post(_address(plan), {"action": "notify_remaining", "grace_days": "3"}).status_code
        == 403
    )
    page = _post(owner, _address(plan), action="notify_remaining", grace_days="3")
    assert "1 more person notified" in page
    assert "grace period is not over" in _post(owner, _address(plan), 409, action="approve")


def test_what_became_of_mails_is_told(
    plan: CleanupPlan, owner: Client, lab: SmallLab, settings: Any
) -> None:
    settings.MAIL_ON = True
    assert 'data-mails="on"' in text_of(owner.get(_address(plan)))
    User.objects.filter(pk=lab.owner.pk).update(email="pi@example.org")
    page = _post(owner, _address(plan), action="notify", grace_days="7", trash_days="10")
    assert "Mail queued" in page
    Notification.objects.update(message="the mail server responded with 451")
    assert "the mail server responded with 451" in text_of(owner.get(_address(plan)))
    run_until_idle(worker="test")
    page = text_of(owner.get(_address(plan)))
    assert 'data-mailed="1"' in page
    assert [sent.to for sent in mail.outbox] == [["pi@example.org"]]


def test_emissions_of_storage_and_retraining(kept: SmallLab, owner: Client) -> None:
    run = Run.objects.get()
    push(kept.node, [W("gpu:GPU-1111", 3_600_000, shares=((f"run:{run.uuid}", 3_600_000),))])
    plan = create_plan(lab=kept.lab, node=kept.node, project=None, by=kept.owner, now=now_us())
    page = text_of(owner.get(_address(plan)))
    assert "(1 run, each counted once)" in page
    assert page.count("CO₂e") >= 2 + 2 * 3, "in the sums, and in each line"
    plan.items.update(storage_ug=None, retrain_ug=None)
    page = text_of(owner.get(_address(plan)))
    assert ">Place ws-1 at a site with a grid zone</a>" in page
    assert ">Choose a grid zone for their sites</a>" in page
    assert "CO₂e" not in page.split("</h1>")[1]
    plan.items.update(storage_mj=None)
    assert "Scan again with <code>--medium</code>" in text_of(owner.get(_address(plan)))


def test_days_of_the_lab_and_of_a_project(lab: SmallLab, owner: Client, viewer: Client) -> None:
    _post(
        owner,
        PAGE,
        **{
            "action": "retention",
            "days:intermediate": "30",
            "days:final": "never",
            "days:sweep": "",
        },
    )
    assert dict(RetentionPeriod.objects.values_list("retention_class", "days")) == {
        "intermediate": 30,
        "final": None,
    }
    page = _post(
        owner, PAGE, **{"action": "retention", "project": "demo", "days:intermediate": "3"}
    )
    assert _day_fields(page)["days:intermediate"] == "3"
    assert (_day_fields(page)["days:final"], _day_fields(page)["days:sweep"]) == ("", "")
    assert _inherited(page, "intermediate") == ("30", "lab")
    assert _inherited(page, "final") == ("never", "lab")
    assert _inherited(page, "sweep") == ("7", "default")
    seen = text_of(viewer.get(f"{PAGE}?project=demo"))
    assert re.findall(r"<td>(\d+|never)</td>", seen)[-5:] == ["never", "30", "3", "7", "never"]
    _post(owner, PAGE, **{"action": "retention", "project": "demo", "days:intermediate": ""})
    page = text_of(owner.get(f"{PAGE}?project=demo"))
    assert (_day_fields(page)["days:intermediate"], _inherited(page, "intermediate")) == (
        "",
        ("30", "lab"),
    )
    page = text_of(owner.get(PAGE))
    assert (_day_fields(page)["days:intermediate"], _inherited(page, "intermediate")) == (
        "30",
        ("14", "default"),
    )
    assert AuditEntry.objects.filter(action="retention.set").count() == 3


def test_what_is_archived_is_proposed_where_days_are_set(lab: SmallLab, owner: Client) -> None:
    page = text_of(owner.get(PAGE))
    assert (_day_fields(page)["days:archived"], _inherited(page, "archived")) == (
        "",
        ("never", "default"),
    )
    page = _post(owner, PAGE, **{"action": "retention", "days:archived": "365"})
    assert (_day_fields(page)["days:archived"], _inherited(page, "archived")) == (
        "365",
        ("never", "default"),
    )
    assert effective_periods(lab.lab, None)["archived"] == 365


def test_a_project_goes_on_with_the_labs_days_where_it_has_none_of_its_own(
    lab: SmallLab, owner: Client
) -> None:
    """A browser posts all four fields, as they were filled."""
    project = Project.objects.get(lab=lab.lab, slug="demo")
    RetentionPeriod.objects.create(lab=lab.lab, retention_class="final", days=None)
    fields = _day_fields(text_of(owner.get(f"{PAGE}?project=demo")))
    assert set(fields) == {f"days:{kept.value}" for kept in DEFAULT_DAYS}
    _post(
        owner,
        f"{PAGE}?project=demo",
        **{**fields, "action": "retention", "project": "demo", "days:sweep": "3"},
    )
    assert dict(
        RetentionPeriod.objects.filter(project=project).values_list("retention_class", "days")
    ) == {"sweep": 3}
    RetentionPeriod.objects.filter(project=None).update(days=400)
    assert effective_periods(lab.lab, project) == {**DEFAULT_DAYS, "final": 400, "sweep": 3}
    fields = _day_fields(text_of(owner.get(f"{PAGE}?project=demo")))
    _post(owner, f"{PAGE}?project=demo", **{**fields, "action": "retention", "project": "demo"})
    assert dict(
        RetentionPeriod.objects.filter(project=project).values_list("retention_class", "days")
    ) == {"sweep": 3}


def test_what_was_typed_of_days_comes_back_after_a_mistake(lab: SmallLab, owner: Client) -> None:
    typed = {f"days:{kept.value}": "" for kept in DEFAULT_DAYS}
    typed.update({"days:final": "soon", "days:intermediate": "3", "days:sweep": "never"})
    RetentionPeriod.objects.create(lab=lab.lab, retention_class="crashed", days=90)
    page = _post(owner, PAGE, 400, **{**typed, "action": "retention"})
    assert _day_fields(page) == typed
    assert [
        name for name, attributes in _period_inputs(page).items() if "aria-invalid" in attributes
    ] == ["final"]
    assert 'data-field-error="days:final"' in page
    page = _post(owner, PAGE, 400, **{**typed, "action": "retention", "project": "demo"})
    assert _day_fields(page) == typed
    assert re.search(r'<input type="hidden" name="project" value="demo"', page), (
        "the next try is of the same project"
    )
    assert not re.search(r'<option value="demo" selected>', page.split('id="retention"')[0]), (
        "and a plan of none"
    )


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"action": "create"}, "Choose a node"),
        ({"action": "create", "node": "nope"}, 'href="#create-node"'),
        ({"action": "create", "node": str(uuid4())}, "No such node"),
        ({"action": "create", "project": "nope"}, "No such project"),
        (
            {"action": "retention", "days:intermediate": "soon"},
            'data-field-error="days:intermediate"',
        ),
        (
            {"action": "retention", "days:intermediate": "-1"},
            'data-field-error="days:intermediate"',
        ),
        ({"action": "retention", "days:pinned": "3"}, "not a class"),
        ({"action": "retention", "project": "a\x00"}, "No such project"),
    ],
)
def test_mistakes_are_told(lab: SmallLab, owner: Client, data: dict[str, str], words: str) -> None:
    assert words in _post(owner, PAGE, 400, **data)
    assert not RetentionPeriod.objects.exists()


def test_all_errors_of_retention_periods_are_shown_at_once(lab: SmallLab, owner: Client) -> None:
    page = _post(
        owner,
        PAGE,
        400,
        **{"action": "retention", "days:final": "soon", "days:sweep": "-1", "days:crashed": "30"},
    )
    assert re.findall(r'data-field-error="days:(\w+)"', page) == ["final", "sweep"]
    assert not RetentionPeriod.objects.exists()


def test_all_errors_of_a_notification_are_shown_at_once(plan: CleanupPlan, owner: Client) -> None:
    page = _post(owner, _address(plan), 400, action="notify", grace_days="soon", trash_days="9999")
    assert re.findall(r'data-field-error="(\w+)"', page) == ["grace_days", "trash_days"]
    assert 'value="9999"' in page


def test_nothing_due_and_a_plan_that_is_open(kept: SmallLab, owner: Client) -> None:
    RetentionPeriod.objects.bulk_create(
        RetentionPeriod(lab=kept.lab, retention_class=name) for name in ("intermediate", "final")
    )
    register_rows = _post(owner, PAGE, 400, action="create", node=str(kept.node.uuid))
    assert "No artifact on this node is due" in register_rows
    assert "None of them becomes due" in register_rows
    RetentionPeriod.objects.update(days=3000)
    first = min(
        max(copy.modified_us or 0, copy.first_observed_us)
        for copy in Copy.objects.filter(node=kept.node)
    )
    day = utc(first + 3000 * DAY_US)
    assert f"The first is due on {day.day} {day:%B %Y}" in _post(
        owner, PAGE, 400, action="create", node=str(kept.node.uuid)
    )
    RetentionPeriod.objects.all().delete()
    _post(owner, PAGE, action="create", node=str(kept.node.uuid))
    assert "This node has an open plan" in _post(
        owner, PAGE, 409, action="create", node=str(kept.node.uuid)
    )


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"action": "eat"}, "Unknown action"),
        ({"action": "select", "listed": ["x"]}, "No such item"),
        (
            {"action": "notify", "grace_days": "soon", "trash_days": "3"},
            'data-field-error="grace_days"',
        ),
        (
            {"action": "notify", "grace_days": "0", "trash_days": "3"},
            'data-field-error="grace_days"',
        ),
        ({"action": "object"}, "Select the items to exclude"),
    ],
)
def test_what_cannot_be_done_to_a_plan(
    plan: CleanupPlan, owner: Client, data: dict[str, Any], words: str
) -> None:
    assert words in _post(owner, _address(plan), 400, **data)


def test_a_plan_that_was_carried_out_says_what_lies_in_the_trash(
    plan: CleanupPlan, owner: Client
) -> None:
    CleanupPlan.objects.filter(pk=plan.pk).update(state="applied", trash_days=1)
    plan.items.filter(selected=True).update(outcome="trashed")
    register_rows = text_of(owner.get(_address(plan)))
    assert 'data-trash="1"' in register_rows
    plan.items.filter(selected=True).update(outcome="deleted")
    assert 'data-trash="empty"' in text_of(owner.get(_address(plan)))


def test_who_may(plan: CleanupPlan, viewer: Client, outsider: Client, owner: Client) -> None:
    for path in (PAGE, _address(plan), _address(plan).rstrip("/") + ".csv"):
        assert_needs_sign_in(path)
        assert viewer.get(path).status_code == 200
        assert_only(owner, path, *(["GET"] if path.endswith(".csv") else ["GET", "POST"]))
    assert viewer.post(PAGE, {"action": "create"}).status_code == 403
    assert viewer.post(_address(plan), {"action": "withdraw"}).status_code == 403
    assert outsider.get(_address(plan)).status_code == 404
    assert outsider.post(_address(plan), {"action": "withdraw"}).status_code == 404
    assert "ws-1" not in text_of(outsider.get(PAGE)) or "No open cleanup plans" in text_of(
        outsider.get(PAGE)
    )
    assert owner.get(_address(plan, "?page=x")).status_code == 400


def test_queries_do_not_grow_with_rows(kept: SmallLab, plan: CleanupPlan, owner: Client) -> None:
    def queries(path: str) -> int:
        with CaptureQueriesContext(connection) as captured:
            assert owner.get(path).status_code == 200
        return len(captured)

    before = [queries(path) for path in (PAGE, _address(plan))]
    plan.items.all().delete()
    CleanupPlan.objects.all().delete()
    run = create_run(kept)
    Run.objects.filter(pk=run.pk).update(state="finished", ended_us=T0)
    rows = [
        row(
            f"more{i}",
            kind="checkpoint",
            facts={"step": i},
            runs=[edge(run)],
            copies=[{"path": f"/m/{i}"}],
        )
        for i in range(20)
    ]
    register_rows(kept, *rows, now=now_us() - 365 * DAY_US)
    plan = create_plan(lab=kept.lab, node=kept.node, project=None, by=kept.owner, now=now_us())
    assert [queries(path) for path in (PAGE, _address(plan))] == before
