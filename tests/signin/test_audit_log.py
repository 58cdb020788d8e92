"""Sign-ins and failed ones are in the audit log of the person's labs, without what was typed."""

import json
from typing import Any

import pytest
from django.test import Client, RequestFactory

from apps.accounts import audit
from apps.accounts.choices import CodePurpose, Role, SignInMethod
from apps.accounts.models import AuditEntry, Lab, Membership, PersonName
from apps.accounts.oidc.adapter import Identities
from apps.accounts.services.labs import issue_code
from apps.accounts.services.sign_ins import MAX_FAILED_PER_MINUTE, record_failed_sign_in
from apps.core.clock import now_us
from tests.builders import T0, SmallLab, small_lab

PASSWORD = "correct horse battery"


@pytest.fixture
def labs(db: None) -> tuple[SmallLab, SmallLab]:
    ours, theirs = small_lab(name="Ours"), small_lab(name="Theirs", zone="FR")
    ours.owner.set_password(PASSWORD)
    ours.owner.save()
    return ours, theirs


def entries(lab: Lab) -> list[tuple[str, str, str, str]]:
    """Return (action, subject, actor, method) of the sign-ins of a lab, and check the chain."""
    assert audit.verify(lab) is None
    rows = AuditEntry.objects.filter(lab=lab, action__startswith="signin.").order_by("sequence")
    named = [(row.action, audit.with_names(row)) for row in rows]
    return [(act, row.subject, row.actor, row.details["method"]) for act, row in named]


def _try(name: str, password: str) -> Any:
    return Client().post("/accounts/login/", {"login": name, "password": password})


def test_a_password_is_recorded_in_the_labs_of_the_person(
    labs: tuple[SmallLab, SmallLab],
) -> None:
    ours, theirs = labs
    owner = ours.owner.username
    assert _try(owner, PASSWORD).status_code == 302
    _try(owner.upper(), "wrong")
    assert entries(ours.lab) == [
        ("signin.made", owner, owner, "password"),
        ("signin.failed", owner, owner, "password"),
    ]
    assert entries(theirs.lab) == []
    Membership.objects.create(lab=theirs.lab, user=ours.owner, role=Role.VIEWER)
    _try(owner, "wrong")
    assert entries(theirs.lab) == [("signin.failed", owner, owner, "password")]


def test_an_unknown_name_is_recorded_everywhere_but_not_written(
    labs: tuple[SmallLab, SmallLab],
) -> None:
    _try("my-secret-typed-as-a-name", "my-secret-password")
    for small in labs:
        unknown = "unknown person"
        assert entries(small.lab) == [("signin.failed", unknown, unknown, "password")]
    told = json.dumps(list(AuditEntry.objects.values("subject", "actor", "details")))
    told += json.dumps(list(PersonName.objects.values("text")))
    assert "my-secret" not in told


def test_links_and_terminal_codes(labs: tuple[SmallLab, SmallLab]) -> None:
    ours, _ = labs
    code = issue_code(purpose=CodePurpose.SIGN_IN, now=now_us(), lab=ours.lab, user=ours.owner)
    assert Client().post("/signin/", {"code": "ABCD-EFGH-JKLM"}).status_code == 400
    assert Client().post("/signin/", {"code": code}).status_code == 302
    body = {"code": "ABCD-EFGH-JKLM"}
    Client().post("/api/v1/login/", json.dumps(body), content_type="application/json")
    owner, unknown = ours.owner.username, "unknown person"
    assert entries(ours.lab) == [
        ("signin.failed", unknown, unknown, "one-time link"),
        ("signin.made", owner, owner, "one-time link"),
        ("signin.failed", unknown, unknown, "terminal code"),
    ]


def test_attempts_cannot_fill_the_log(labs: tuple[SmallLab, SmallLab]) -> None:
    ours, _ = labs
    for user in (None, ours.owner):
        for _attempt in range(3 * MAX_FAILED_PER_MINUTE):
            record_failed_sign_in(user=user, method=SignInMethod.PASSWORD, now=T0)
    rows = AuditEntry.objects.filter(lab=ours.lab, action="signin.failed").order_by("sequence")
    assert len(rows) == 2 * MAX_FAILED_PER_MINUTE
    last = [row.details.get("more_in_this_minute_not_recorded", False) for row in rows]
    assert [number for number, said in enumerate(last, 1) if said] == [
        MAX_FAILED_PER_MINUTE,
        2 * MAX_FAILED_PER_MINUTE,
    ]
    record_failed_sign_in(user=None, method=SignInMethod.PASSWORD, now=T0 + 60_000_000)
    assert rows.all().count() == 2 * MAX_FAILED_PER_MINUTE + 1


def test_a_refused_identity_is_recorded(labs: tuple[SmallLab, SmallLab]) -> None:
    request = RequestFactory().get("/accounts/oidc/callback/")
    Identities(request).on_authentication_error(request, None, error="unknown")
    assert entries(labs[0].lab)[0][0::3] == ("signin.failed", "identity provider")
