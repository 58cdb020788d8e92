"""/artifacts/plans/: what is due, told to owners, objected to, approved; for how long what is kept."""

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
from apps.dashboard.artifacts import cleanup as shown_plans
from apps.runs.models import Run
from tests.artifacts.support import create_run, edge, register_rows, row
from tests.builders import T0, SmallLab, W, push
from tests.dashboard.support import assert_needs_sign_in, assert_only, text_of

PAGE = "/artifacts/plans/"


@pytest.fixture
def kept(lab: SmallLab) -> SmallLab:
    """A finished run that left three checkpoints a year ago; the first two are due, the last for review."""
    run = create_run(lab)
    Run.objects.filter(pk=run.pk).update(state="finished", ended_us=T0)
    rows = [
        row(f"step{i}.pt", kind="checkpoint", facts={"step": i}, bytes=10**9 * (i + 1), runs=[edge(run)],
            copies=[{"path": f"/ckpt/step{i}.pt", "medium": "hdd"}]) for i in range(3)
    ]  # fmt: skip
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
    return {int(pk) for pk in re.findall(r'name="line" value="(\d+)" checked', page)}


def _day_fields(page: str) -> dict[str, str]:
    return dict(re.findall(r'<input [^>]*name="(days:\w+)" value="([^"]*)"', page))


def test_from_what_is_due_to_the_command(kept: SmallLab, owner: Client) -> None:
    assert "No plan is open." in text_of(owner.get(PAGE))
    page = _post(owner, PAGE, do="make", node=str(kept.node.uuid), project="")
    plan = CleanupPlan.objects.get()
    assert "3.00\xa0GB may go from ws-1." in page
    assert "2 of 3 lines ticked" in page
    assert "an intermediate state of a run" in page
    assert "not measured" in page
    lines = list(plan.items.order_by("pk"))
    page = _post(owner, _address(plan), do="choose", shown=[line.pk for line in lines], line=[lines[0].pk, lines[2].pk])
    assert "2 lines changed" in page or "1 line changed" in page
    with time_machine.travel(now_us() / 1e6, tick=False):
        page = _post(owner, _address(plan), do="tell", grace_days="7", trash_days="10")
        assert "Owners may object until" in page
        assert "The grace goes on" in _post(owner, _address(plan), 409, do="approve")
    first = plan.items.filter(selected=True).order_by("pk")[0]
    page = _post(owner, _address(plan), do="object", line=[first.pk], reason="my thesis")
    assert "my thesis" in page
    with time_machine.travel((now_us() + 7 * DAY_US) / 1e6, tick=True):
        page = _post(owner, _address(plan), do="approve")
    assert f"labcarbon-collect apply-plan http://127.0.0.1:8000{_address(plan)}" in page
    acts = (
        AuditEntry.objects.filter(lab=kept.lab, action__startswith="plan.").order_by("pk").values_list("action", flat=True)
    )
    assert list(acts) == ["plan.made", "plan.changed", "plan.told", "plan.objection", "plan.approved"]
    head, *rows = text_of(owner.get(_address(plan).rstrip("/") + ".csv")).strip().splitlines()
    assert head.startswith("artifact,digest,path,bytes,why")
    assert len(rows) == 3
    assert "1 plan is open." in text_of(owner.get(PAGE))


def test_a_plan_is_withdrawn_after_asking(plan: CleanupPlan, owner: Client) -> None:
    assert "Withdraw it?" in text_of(owner.get(_address(plan, "?withdraw=1")))
    assert "was withdrawn: nothing went" in _post(owner, _address(plan), do="withdraw")
    assert "This plan is withdrawn" in _post(owner, _address(plan), 409, do="withdraw")


def test_owners_object_to_their_own_alone(plan: CleanupPlan, owner: Client, member: Client, lab: SmallLab) -> None:
    notify_owners(plan=plan, grace_days=7, trash_days=14, by=lab.owner, now=now_us())
    lines = list(plan.items.filter(selected=True).select_related("artifact").order_by("pk"))
    mine = User.objects.get(pk=member.session["_auth_user_id"])
    Artifact.objects.filter(pk=lines[0].artifact_id).update(owner=mine)
    page = text_of(member.get(_address(plan)))
    assert "1 of these is yours" in page
    assert text_of(member.get(_address(plan, "?mine=1"))).count('name="line"') == 1
    told_ = {"do": "object", "line": [lines[1].pk], "reason": "no"}
    assert "Some of these are not yours" in _post(member, _address(plan), 400, **told_)
    assert "Say why" in _post(member, _address(plan), 400, do="object", line=[lines[0].pk], reason="")
    assert "1 line stays" in _post(member, _address(plan), do="object", line=[lines[0].pk], reason="a paper")
    assert member.post(_address(plan), {"do": "approve"}).status_code == 403


def test_what_was_refused_can_be_objected_to_and_what_was_moved_cannot(
    plan: CleanupPlan, owner: Client, lab: SmallLab
) -> None:
    notify_owners(plan=plan, grace_days=1, trash_days=14, by=lab.owner, now=now_us() - 2 * DAY_US)
    approve(plan=plan, by=lab.owner, now=now_us())
    first, second = plan.items.filter(selected=True).order_by("pk")
    for outcome, shown in (("refused", 2), ("trashed", 1), ("restored", 1), ("deleted", 1)):
        plan.items.filter(pk=first.pk).update(outcome=outcome)
        assert text_of(owner.get(_address(plan))).count('name="line"') == shown, outcome
    told_ = {"do": "object", "line": [first.pk], "reason": "my thesis"}
    plan.items.filter(pk=first.pk).update(outcome="trashed")
    assert f"--restore {first.pk}" in _post(owner, _address(plan), 409, **told_)
    plan.items.filter(pk=first.pk).update(outcome="refused", message="it changed")
    page = _post(owner, _address(plan), **told_)
    assert "1 line stays" in page
    assert "my thesis" in page
    assert "it changed" not in page
    plan.items.filter(pk=first.pk).update(outcome="trashed")
    page = _post(owner, _address(plan), do="object", line=[first.pk, second.pk], reason="mine")
    assert "1 line stays; 1 was moved already, or stays anyway." in page


def test_ticks_come_back_where_an_objection_lacks_its_reason(plan: CleanupPlan, owner: Client, lab: SmallLab) -> None:
    notify_owners(plan=plan, grace_days=7, trash_days=14, by=lab.owner, now=now_us())
    line = plan.items.filter(selected=True).order_by("pk")[0]
    page = _post(owner, _address(plan), 400, do="object", line=[line.pk], reason="")
    assert _ticked(page) == {line.pk}


def test_ticks_count_when_owners_are_told(plan: CleanupPlan, owner: Client) -> None:
    """As a browser posts them: the button is one of their form."""
    page = text_of(owner.get(_address(plan)))
    form = page.split('aria-label="Lines"')[1].split("</form>")[0]
    assert form.count('name="shown"') == 3
    assert ('name="grace_days"' in form, 'name="trash_days"' in form) == (True, True)
    assert form.index('value="choose"') < form.index('value="tell"'), "what Enter in a field does"
    first, second, third = plan.items.order_by("pk")
    shown = {"do": "tell", "shown": [first.pk, second.pk, third.pk], "line": [first.pk, third.pk]}
    page = _post(owner, _address(plan), 400, **shown, grace_days="soon", trash_days="30")
    assert _ticked(page) == {first.pk, third.pk}
    assert 'value="soon"' in page
    assert 'value="30"' in page
    assert set(plan.items.filter(selected=True)) == {second, third}, "the largest is for review"
    page = _post(owner, _address(plan), **shown, grace_days="7", trash_days="10")
    assert "2 lines may go, and the grace begins" in page
    assert set(plan.items.filter(selected=True)) == {first, third}


def test_no_tick_at_all_tells_nobody(plan: CleanupPlan, owner: Client) -> None:
    shown = list(plan.items.values_list("pk", flat=True))
    told_ = {"do": "tell", "shown": shown, "grace_days": "7", "trash_days": "10"}
    page = _post(owner, _address(plan), 400, **told_)
    assert "No line is ticked that may go" in page
    assert _ticked(page) == set()
    assert plan.items.filter(selected=True).count() == 2, "nothing was kept of it"


def test_ticks_of_other_pages_count_as_they_were_kept(
    plan: CleanupPlan, owner: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = "those on other pages as they were kept"
    assert said not in text_of(owner.get(_address(plan)))
    monkeypatch.setattr(shown_plans, "PAGE_ROWS", 2)
    page = text_of(owner.get(_address(plan, "?page=2")))
    assert said in page
    (last,) = (int(pk) for pk in re.findall(r'name="shown" value="(\d+)"', page))
    _post(owner, _address(plan, "?page=2"), do="tell", shown=[last], grace_days="7", trash_days="10")
    assert plan.items.filter(selected=True).count() == 1
    assert not plan.items.get(pk=last).selected


def test_days_typed_stay_where_only_the_ticks_are_kept(plan: CleanupPlan, owner: Client) -> None:
    """Enter in their fields keeps the ticks: telling owners is for the button alone."""
    page = _post(owner, _address(plan), do="choose", grace_days="30", trash_days="14")
    assert re.search(r'name="grace_days"[^>]* value="30"', page)
    assert re.search(r'name="trash_days"[^>]* value="14"', page)


def test_owners_see_it_on_every_page_they_open(
    plan: CleanupPlan, owner: Client, member: Client, viewer: Client, lab: SmallLab
) -> None:
    mine = User.objects.get(pk=member.session["_auth_user_id"])
    Artifact.objects.filter(cleanup_items__plan=plan, cleanup_items__selected=True).update(owner=mine)
    page = text_of(owner.get(_address(plan)))
    assert "Who will be told" in page
    assert "They are not mailed: no mail server is set" in page
    assert "of your artifacts" not in text_of(member.get("/runs/"))
    page = _post(owner, _address(plan), do="tell", grace_days="7", trash_days="10")
    assert "They were not mailed: no mail server is set" in page
    assert "Who was told" in page
    assert "on every page" in page
    for path in ("/", "/runs/", PAGE, "/settings/"):
        page = text_of(member.get(path))
        assert "2 of your artifacts may go from ws-1 after" in page, path
        assert f'href="{_address(plan, "?mine=1")}"' in page
        assert "of your artifacts" not in text_of(owner.get(path))
    _post(member, _address(plan), do="object", line=[plan.items.filter(selected=True)[0].pk], reason="mine")
    assert "1 of your artifacts may go from ws-1 after" in text_of(member.get("/runs/"))


def test_pis_stand_in_for_who_is_not_here(plan: CleanupPlan, owner: Client, lab: SmallLab) -> None:
    gone = User.objects.create_user(username="gone-bob")
    lines = list(plan.items.filter(selected=True).order_by("pk"))
    for line, whose in zip(lines, (gone, None), strict=True):
        Artifact.objects.filter(pk=line.artifact_id).update(owner=whose)
    page = text_of(owner.get(_address(plan)))
    assert "2 lines are of owners who are not in the lab: gone-bob, and 1 of nobody known." in page
    assert "instead" in page
    _post(owner, _address(plan), do="tell", grace_days="7", trash_days="10")
    page = text_of(owner.get("/runs/"))
    assert "2 artifacts whose owner is not in the lab may go from ws-1 after" in page
    page = text_of(owner.get(_address(plan, "?mine=1")))
    assert page.count('name="line"') == 2


def test_who_was_never_told_is_told_before_it_is_approved(
    plan: CleanupPlan, owner: Client, member: Client, lab: SmallLab
) -> None:
    notify_owners(plan=plan, grace_days=1, trash_days=14, by=lab.owner, now=now_us() - 2 * DAY_US)
    mine = User.objects.get(pk=member.session["_auth_user_id"])
    Artifact.objects.filter(cleanup_items__plan=plan).update(owner=mine)
    page = text_of(owner.get(_address(plan)))
    assert "never" in page
    assert "when everybody was told" in page
    assert "Not everybody was told: member" in _post(owner, _address(plan), 409, do="approve")
    assert member.post(_address(plan), {"do": "rest", "grace_days": "3"}).status_code == 403
    page = _post(owner, _address(plan), do="rest", grace_days="3")
    assert "1 more person was told" in page
    assert "The grace goes on" in _post(owner, _address(plan), 409, do="approve")


def test_what_became_of_mails_is_told(plan: CleanupPlan, owner: Client, lab: SmallLab, settings: Any) -> None:
    settings.MAIL_ON = True
    assert "and are mailed" in text_of(owner.get(_address(plan)))
    User.objects.filter(pk=lab.owner.pk).update(email="pi@example.org")
    page = _post(owner, _address(plan), do="tell", grace_days="7", trash_days="10")
    assert "Mail waits to be sent" in page
    Notification.objects.update(message="the mail server answered 451")
    assert "the mail server answered 451" in text_of(owner.get(_address(plan)))
    run_until_idle(worker="test")
    page = text_of(owner.get(_address(plan)))
    assert "1 was mailed" in page
    assert [sent.to for sent in mail.outbox] == [["pi@example.org"]]


def test_what_keeping_and_making_again_emit(kept: SmallLab, owner: Client) -> None:
    run = Run.objects.get()
    push(kept.node, [W("gpu:GPU-1111", 3_600_000, shares=((f"run:{run.uuid}", 3_600_000),))])
    plan = create_plan(lab=kept.lab, node=kept.node, project=None, by=kept.owner, now=now_us())
    page = text_of(owner.get(_address(plan)))
    assert "A year of keeping them:" in page
    assert "(1 run, each once)" in page
    assert page.count("CO₂e") >= 2 + 2 * 3, "in the sums, and in each line"
    plan.items.update(storage_ug=None, retrain_ug=None)
    page = text_of(owner.get(_address(plan)))
    assert "put ws-1 at a site with a grid zone" in page
    assert "choose a zone where they ran" in page
    assert "CO₂e" not in page.split("</h1>")[1]
    plan.items.update(storage_mj=None)
    assert "Scan again with <code>--medium</code>" in text_of(owner.get(_address(plan)))


def test_days_of_the_lab_and_of_a_project(lab: SmallLab, owner: Client, viewer: Client) -> None:
    _post(owner, PAGE, **{"do": "days", "days:intermediate": "30", "days:final": "never", "days:sweep": ""})
    assert dict(RetentionPeriod.objects.values_list("retention_class", "days")) == {"intermediate": 30, "final": None}
    page = _post(owner, PAGE, **{"do": "days", "project": "demo", "days:intermediate": "3"})
    assert 'name="days:intermediate" value="3"' in page
    assert "else&nbsp;30, the&nbsp;lab’s" in page
    assert 'name="days:final" value="" placeholder="never"' in page
    assert "else&nbsp;never, the&nbsp;lab’s" in page
    assert 'name="days:sweep" value="" placeholder="7"' in page
    assert "else&nbsp;7, as&nbsp;usual" in page
    seen = text_of(viewer.get(f"{PAGE}?project=demo"))
    assert re.findall(r"<td>(\d+|never)</td>", seen)[-5:] == ["never", "30", "3", "7", "never"]
    _post(owner, PAGE, **{"do": "days", "project": "demo", "days:intermediate": ""})
    assert 'name="days:intermediate" value="" placeholder="30"' in text_of(owner.get(f"{PAGE}?project=demo"))
    assert 'name="days:intermediate" value="30" placeholder="14"' in text_of(owner.get(PAGE))
    assert AuditEntry.objects.filter(action="retention.set").count() == 3


def test_what_is_archived_is_proposed_where_days_are_set(lab: SmallLab, owner: Client) -> None:
    assert 'name="days:archived" value="" placeholder="never"' in text_of(owner.get(PAGE))
    page = _post(owner, PAGE, **{"do": "days", "days:archived": "365"})
    assert 'name="days:archived" value="365" placeholder="never"' in page
    assert effective_periods(lab.lab, None)["archived"] == 365


def test_a_project_goes_on_with_the_labs_days_where_it_has_none_of_its_own(lab: SmallLab, owner: Client) -> None:
    """A browser posts all four fields, as they were filled."""
    project = Project.objects.get(lab=lab.lab, slug="demo")
    RetentionPeriod.objects.create(lab=lab.lab, retention_class="final", days=None)
    fields = _day_fields(text_of(owner.get(f"{PAGE}?project=demo")))
    assert set(fields) == {f"days:{kept.value}" for kept in DEFAULT_DAYS}
    _post(owner, f"{PAGE}?project=demo", **{**fields, "do": "days", "project": "demo", "days:sweep": "3"})
    assert dict(RetentionPeriod.objects.filter(project=project).values_list("retention_class", "days")) == {"sweep": 3}
    RetentionPeriod.objects.filter(project=None).update(days=400)
    assert effective_periods(lab.lab, project) == {**DEFAULT_DAYS, "final": 400, "sweep": 3}
    fields = _day_fields(text_of(owner.get(f"{PAGE}?project=demo")))
    _post(owner, f"{PAGE}?project=demo", **{**fields, "do": "days", "project": "demo"})
    assert dict(RetentionPeriod.objects.filter(project=project).values_list("retention_class", "days")) == {"sweep": 3}


def test_what_was_typed_of_days_comes_back_after_a_mistake(lab: SmallLab, owner: Client) -> None:
    typed = {f"days:{kept.value}": "" for kept in DEFAULT_DAYS}
    typed.update({"days:final": "soon", "days:intermediate": "3", "days:sweep": "never"})
    RetentionPeriod.objects.create(lab=lab.lab, retention_class="crashed", days=90)
    page = _post(owner, PAGE, 400, **{**typed, "do": "days"})
    assert _day_fields(page) == typed
    assert page.count('aria-invalid="true"') == 1
    assert re.search(r'name="days:final"[^>]* aria-invalid="true"', page)
    page = _post(owner, PAGE, 400, **{**typed, "do": "days", "project": "demo"})
    assert _day_fields(page) == typed
    assert '<input type="hidden" name="project" value="demo">' in page, "the next try is of the same project"
    assert not re.search(r'<option value="demo" selected>', page.split('id="days"')[0]), "and a plan of none"


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"do": "make"}, "Choose the machine"), ({"do": "make", "node": "nope"}, "no such machine"),
        ({"do": "make", "node": str(uuid4())}, "no such machine"), ({"do": "make", "project": "nope"}, "no such project"),
        ({"do": "days", "days:intermediate": "soon"}, "neither a number of days nor never"),
        ({"do": "days", "days:intermediate": "0"}, "neither a number of days nor never"),
        ({"do": "days", "days:pinned": "3"}, "no class"), ({"do": "days", "project": "a\x00"}, "no such project"),
    ],
)  # fmt: skip
def test_mistakes_are_told(lab: SmallLab, owner: Client, data: dict[str, str], words: str) -> None:
    assert words in _post(owner, PAGE, 400, **data)
    assert not RetentionPeriod.objects.exists()


def test_nothing_due_and_a_plan_that_is_open(kept: SmallLab, owner: Client) -> None:
    RetentionPeriod.objects.bulk_create(
        RetentionPeriod(lab=kept.lab, retention_class=name) for name in ("intermediate", "final")
    )
    register_rows = _post(owner, PAGE, 400, do="make", node=str(kept.node.uuid))
    assert "Nothing on this machine is due" in register_rows
    assert "Nothing on it ever is by itself" in register_rows
    RetentionPeriod.objects.update(days=3000)
    first = min(max(copy.modified_us or 0, copy.first_observed_us) for copy in Copy.objects.filter(node=kept.node))
    day = utc(first + 3000 * DAY_US)
    assert f"The first is on {day.day} {day:%B %Y}" in _post(owner, PAGE, 400, do="make", node=str(kept.node.uuid))
    RetentionPeriod.objects.all().delete()
    _post(owner, PAGE, do="make", node=str(kept.node.uuid))
    assert "A plan of this machine is open" in _post(owner, PAGE, 409, do="make", node=str(kept.node.uuid))


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"do": "eat"}, "cannot be done to a plan"), ({"do": "choose", "shown": ["x"]}, "no such line"),
        ({"do": "tell", "grace_days": "soon", "trash_days": "3"}, "number of days"),
        ({"do": "tell", "grace_days": "0", "trash_days": "3"}, "0 days are not between"),
        ({"do": "object"}, "Nothing was ticked"),
    ],
)  # fmt: skip
def test_what_cannot_be_done_to_a_plan(plan: CleanupPlan, owner: Client, data: dict[str, Any], words: str) -> None:
    assert words in _post(owner, _address(plan), 400, **data)


def test_a_plan_that_was_carried_out_says_what_lies_in_the_trash(plan: CleanupPlan, owner: Client) -> None:
    CleanupPlan.objects.filter(pk=plan.pk).update(state="applied", trash_days=1)
    plan.items.filter(selected=True).update(outcome="trashed")
    register_rows = text_of(owner.get(_address(plan)))
    assert "What went lies in a trash folder for 1 day." in register_rows
    plan.items.filter(selected=True).update(outcome="deleted")
    assert "Nothing that went lies in a trash folder any more." in text_of(owner.get(_address(plan)))


def test_who_may(plan: CleanupPlan, viewer: Client, outsider: Client, owner: Client) -> None:
    for path in (PAGE, _address(plan), _address(plan).rstrip("/") + ".csv"):
        assert_needs_sign_in(path)
        assert viewer.get(path).status_code == 200
        assert_only(owner, path, *(["GET"] if path.endswith(".csv") else ["GET", "POST"]))
    assert viewer.post(PAGE, {"do": "make"}).status_code == 403
    assert viewer.post(_address(plan), {"do": "withdraw"}).status_code == 403
    assert outsider.get(_address(plan)).status_code == 404
    assert outsider.post(_address(plan), {"do": "withdraw"}).status_code == 404
    assert "ws-1" not in text_of(outsider.get(PAGE)) or "No plan is open" in text_of(outsider.get(PAGE))
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
        row(f"more{i}", kind="checkpoint", facts={"step": i}, runs=[edge(run)], copies=[{"path": f"/m/{i}"}])
        for i in range(20)
    ]
    register_rows(kept, *rows, now=now_us() - 365 * DAY_US)
    plan = create_plan(lab=kept.lab, node=kept.node, project=None, by=kept.owner, now=now_us())
    assert [queries(path) for path in (PAGE, _address(plan))] == before
