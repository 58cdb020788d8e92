"""Rules: the form, what a rule would move before it is written, ending, withdrawing, restoring."""

import re

import pytest
from django.test import Client

from apps.accounts.audit import with_names
from apps.accounts.choices import PersonView
from apps.accounts.models import AuditEntry, Lab
from apps.accounts.services.labs import create_project
from apps.attribution.models import AttributionRule
from apps.core.jobs import run_until_idle
from tests.builders import MINUTE, T0, SmallLab, W, push
from tests.dashboard.support import (
    HOUR,
    assert_needs_sign_in,
    assert_only,
    gpu,
    queries,
    text_of,
    without_secrets,
)
from tests.dashboard.test_unattributed import by_charge, used

FORM = {"os_user": "ada", "project": "demo", "from_day": "2026-11-01"}


def test_the_preview_tells_what_moves_and_writes_nothing(lab: SmallLab, owner: Client) -> None:
    used(lab, ["proc:ada/python3", "proc:ada/x", "proc:ben/x"])
    before = by_charge(lab)
    page = text_of(owner.post("/rules/", FORM))
    assert 'title="6000000 mJ"' in page
    assert 'data-before="unattributed" data-after="Demo"' in page
    assert "User ada" in page
    assert not AttributionRule.objects.exists()
    assert by_charge(lab) == before


def test_making_it_moves_just_that(lab: SmallLab, owner: Client) -> None:
    used(lab, ["proc:ada/python3", "proc:ada/x", "proc:ben/x"])
    assert owner.post("/rules/", {**FORM, "action": "create"}).status_code == 302
    run_until_idle(worker="test")
    assert by_charge(lab)["demo", HOUR].energy_mj == 6_000_000
    assert by_charge(lab)["~unattributed", HOUR].energy_mj == 3_000_000
    assert "user ada" in text_of(owner.get("/rules/"))
    push(lab.node, [W(gpu(), 500, T0 + 9 * MINUTE, T0 + 10 * MINUTE, 9, (("proc:ada/new", 500),))])
    assert by_charge(lab)["demo", HOUR].energy_mj == 6_000_500


def test_withdrawing_goes_back_exactly_and_restoring_forth(lab: SmallLab, owner: Client) -> None:
    used(lab, ["proc:ada/python3"])
    before = by_charge(lab)
    owner.post("/rules/", {**FORM, "action": "create"})
    run_until_idle(worker="test")
    after = by_charge(lab)
    rule = AttributionRule.objects.get()
    page = text_of(owner.get(f"/rules/{rule.pk}/"))
    assert 'data-preview="withdraw"' in page
    assert 'data-before="Demo" data-after="unattributed"' in page
    owner.post(f"/rules/{rule.pk}/", {"action": "withdraw"})
    run_until_idle(worker="test")
    assert by_charge(lab) == before
    assert 'data-preview="restore"' in text_of(owner.get(f"/rules/{rule.pk}/"))
    owner.post(f"/rules/{rule.pk}/", {"action": "restore"})
    run_until_idle(worker="test")
    assert by_charge(lab) == after


def test_ending_changes_no_past(lab: SmallLab, owner: Client) -> None:
    used(lab, ["proc:ada/python3"])
    owner.post("/rules/", {**FORM, "action": "create"})
    run_until_idle(worker="test")
    after = by_charge(lab)
    rule = AttributionRule.objects.get()
    owner.post(f"/rules/{rule.pk}/", {"action": "end"})
    run_until_idle(worker="test")
    rule.refresh_from_db()
    assert rule.to_hour is not None
    assert by_charge(lab) == after
    assert "already ended" in text_of(owner.post(f"/rules/{rule.pk}/", {"action": "end"}))


def test_a_person_who_goes_to_another_project_takes_no_past_along(
    lab: SmallLab, owner: Client
) -> None:
    create_project(lab=lab.lab, slug="other", name="Other", now=T0)
    used(lab, ["proc:ada/python3"])
    owner.post("/rules/", {**FORM, "action": "create"})
    owner.post(
        "/rules/", {**FORM, "project": "other", "from_day": "2026-11-03", "action": "create"}
    )
    later = T0 + 30 * 60 * MINUTE
    push(lab.node, [W(gpu(), 777, later, later + MINUTE, 50, (("proc:ada/python3", 777),))])
    assert by_charge(lab)["demo", HOUR].energy_mj == 3_000_000
    assert by_charge(lab)["other", HOUR + 30].energy_mj == 777


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"os_user": ""}, 'data-field-error="os_user"'),
        ({"project": ""}, 'data-field-error="project"'),
        ({"project": "nosuch"}, 'data-field-error="project"'),
        ({"node": "x"}, 'data-field-error="node"'),
        ({"node": "00000000-0000-4000-8000-000000000000"}, 'data-field-error="node"'),
        ({"site": "99999"}, 'data-field-error="site"'),
        ({"person": "99999"}, 'data-field-error="person"'),
        ({"os_user": "", "cluster": "hpc", "path_prefix": "/x"}, 'data-field-error="cluster"'),
        ({"from_day": "tomorrow"}, 'data-field-error="from_day"'),
        ({"from_day": "2026-11-02", "to_day": "2026-11-02"}, 'data-field-error="to_day"'),
        ({"os_user": "x" * 101}, 'data-field-error="os_user"'),
        ({"os_user": "a\x00b"}, 'data-field-error="os_user"'),
    ],
)
def test_mistakes_are_told_and_make_nothing(
    lab: SmallLab, owner: Client, wrong: dict[str, str], words: str
) -> None:
    answer = owner.post("/rules/", {**FORM, **wrong, "action": "create"})
    assert answer.status_code == 400
    assert words in text_of(answer)
    assert not AttributionRule.objects.exists()


def test_the_same_rule_twice_is_a_conflict(lab: SmallLab, owner: Client) -> None:
    owner.post("/rules/", {**FORM, "action": "create"})
    assert owner.post("/rules/", {**FORM, "action": "create"}).status_code == 409
    assert AttributionRule.objects.count() == 1


def test_viewers_read_outsiders_see_nothing(
    lab: SmallLab, owner: Client, viewer: Client, outsider: Client
) -> None:
    used(lab, ["proc:ada/python3"])
    owner.post("/rules/", {**FORM, "action": "create"})
    run_until_idle(worker="test")
    rule = AttributionRule.objects.get()
    assert "user ada" in text_of(viewer.get("/rules/"))
    assert viewer.post("/rules/", FORM).status_code == 403
    assert viewer.post(f"/rules/{rule.pk}/", {"action": "withdraw"}).status_code == 403
    told = text_of(viewer.get(f"/rules/{rule.pk}/"))
    assert "data-hidden-person" in told
    assert " mJ" not in told
    assert outsider.get(f"/rules/{rule.pk}/").status_code == 404
    assert outsider.post(f"/rules/{rule.pk}/", {"action": "withdraw"}).status_code == 404
    assert "ada" not in without_secrets(text_of(outsider.get("/rules/")))
    answer = outsider.post(
        "/rules/",
        {"os_user": "x", "node": str(lab.node.uuid), "project": "demo", "action": "create"},
    )
    assert answer.status_code == 400
    rule.refresh_from_db()
    assert rule.withdrawn_us is None


def test_where_only_their_own_is_shown_a_preview_tells_no_amounts_of_one_user(
    lab: SmallLab, owner: Client
) -> None:
    Lab.objects.filter(pk=lab.lab.pk).update(person_view=PersonView.OWN)
    used(lab, ["proc:ada/python3"])
    lines = {"lines": "os_user,project,from_day\nada,demo,2026-11-01\n"}
    for address, form in (("/rules/", FORM), ("/rules/import/", lines)):
        told = text_of(owner.post(address, form))
        assert "data-hidden-person" in told, address
        assert not re.search(r"\d mJ", told), address
    assert owner.post("/rules/", {**FORM, "action": "create"}).status_code == 302


def test_methods_sign_in_and_queries(lab: SmallLab, owner: Client) -> None:
    assert_needs_sign_in("/rules/")
    assert_only(owner, "/rules/", "GET", "POST")
    owner.post("/rules/", {**FORM, "action": "create"})
    few = queries(owner, "/rules/")
    for i in range(20):
        owner.post("/rules/", {**FORM, "os_user": f"u{i}", "action": "create"})
    assert queries(owner, "/rules/") == few


def test_each_act_is_in_the_audit_log(lab: SmallLab, owner: Client) -> None:
    used(lab, ["proc:ada/python3"])
    owner.post("/rules/", {**FORM, "action": "create"})
    rule = AttributionRule.objects.get()
    for action in ("withdraw", "restore", "end"):
        owner.post(f"/rules/{rule.pk}/", {"action": action})
    run_until_idle(worker="test")
    acts = list(
        AuditEntry.objects.filter(lab=lab.lab, action__startswith="rule.").values_list(
            "action", "user"
        )
    )
    assert acts == [
        (act, lab.owner.pk)
        for act in ("rule.made", "rule.withdrawn", "rule.restored", "rule.ended")
    ]
    entry = AuditEntry.objects.get(action="rule.made")
    assert with_names(entry).details["os_user"] == "ada"
