"""One mail a person and plan: what it says, that it is sent once, what becomes of it where it
cannot be sent.
"""

import smtplib
from typing import Any

import pytest
import time_machine
from django.core import mail
from django.core.mail.backends.locmem import EmailBackend

from apps.accounts.models import Membership, User
from apps.artifacts.cleanup.notifications import MAX_NAMED, compose_mail, send_mail
from apps.artifacts.cleanup.plans import notify_owners, object_to_items, withdraw
from apps.artifacts.cleanup.retention import DAY_US
from apps.artifacts.models import Artifact, CleanupPlan, Notification
from apps.core.jobs import run_until_idle
from apps.core.models import Job
from apps.fleet.models import Node
from apps.runs.models import Run
from tests.artifacts.sample_plans import LATER, checkpoint, proposed_plan
from tests.builders import SmallLab


@pytest.fixture(autouse=True)
def _mails(settings: Any) -> None:
    settings.MAIL_ON, settings.DEFAULT_FROM_EMAIL = True, "LabCarbon <labcarbon@example.org>"


@pytest.fixture
def ana(lab: SmallLab) -> User:
    user = User.objects.create_user(username="ana", email="ana@example.org")
    Membership.objects.create(lab=lab.lab, user=user, role="member")
    return user


@pytest.fixture
def plan(lab: SmallLab, run: Run, ana: User) -> CleanupPlan:
    """A plan of which ana was told; nobody sent the mail yet."""
    Artifact.objects.update(owner=ana)
    return notify_owners(
        plan=proposed_plan(lab), grace_days=7, trash_days=14, by=lab.owner, now=LATER
    )


def send(now: int = LATER + 5) -> Notification:
    notice = Notification.objects.get()
    send_mail(pk=notice.pk, now=now)
    notice.refresh_from_db()
    return notice


def test_it_says_what_goes_when_and_where_to_object(plan: CleanupPlan) -> None:
    notice = send()
    assert (notice.mail, notice.mailed_us, notice.message) == ("sent", LATER + 5, "")
    (sent,) = mail.outbox
    assert sent.to == ["ana@example.org"]
    assert sent.from_email == "LabCarbon <labcarbon@example.org>"
    assert (
        sent.subject
        == "LabCarbon: 2 artifacts can be deleted from ws-1 after 9 November 2027, 09:00 "
        "(Europe/Berlin)"
    )
    assert f"http://127.0.0.1:8000/artifacts/cleanup/{plan.uuid}/?mine=1" in sent.body
    assert "- step2-" in sent.body
    assert "(1 GB)" in sent.body
    assert "step3" not in sent.body, "it is not ticked"
    assert "deleted 14 days later at the earliest" in sent.body
    assert sent.content_subtype == "plain"
    assert sent.extra_headers["Message-ID"] == f"<plan-{plan.uuid}-{notice.pk}@127.0.0.1>"


def test_the_job_sends_it_once(plan: CleanupPlan) -> None:
    with time_machine.travel((LATER + 5) / 1e6, tick=False):
        for _ in range(3):
            run_until_idle(worker="test")
            assert Notification.objects.get().mail == "sent"
            assert len(mail.outbox) == 1
            assert Job.objects.filter(kind="artifacts.notice").update(done=0) == 1


def test_it_names_a_few_and_only_ones_own(lab: SmallLab, run: Run, ana: User) -> None:
    other = User.objects.create_user(username="bob", email="bob@example.org")
    Membership.objects.create(lab=lab.lab, user=other, role="member")
    for step in range(4, 4 + MAX_NAMED + 3):
        checkpoint(lab, run, step)
    Artifact.objects.update(owner=ana)
    Artifact.objects.filter(name__startswith="step1-").update(owner=other)
    notify_owners(plan=proposed_plan(lab), grace_days=7, trash_days=14, by=lab.owner, now=LATER)
    body = compose_mail(Notification.objects.get(user=ana)).body
    assert body.count("\n- step") == MAX_NAMED
    assert "- and 4 more" in body
    assert "step1-" not in body
    assert compose_mail(Notification.objects.get(user=other)).body.count("\n- ") == 1


def test_names_are_nothing_but_words(plan: CleanupPlan) -> None:
    Artifact.objects.update(name="a\r\nBcc: eve@example.org\u202e\x1b[31m" + "x" * 200)
    Node.objects.update(hostname="ws\r\nBcc: eve@example.org")
    send()
    (sent,) = mail.outbox
    assert sent.recipients() == ["ana@example.org"]
    assert "\nBcc" not in sent.message().as_string()
    assert not {"\r", "\x1b", "\u202e"} & set(sent.body)
    assert max(map(len, sent.body.splitlines())) < 260


@pytest.mark.parametrize(
    ("change", "words"),
    [
    ("withdrawn", "withdrawn before"), ("objected", "no item of this person"),
    ("left", "left the lab"), ("over", "the grace period ended"),
    ("address", "address was removed"),
],
)  # fmt: skip
def test_what_came_too_late_is_not_sent(
    lab: SmallLab, plan: CleanupPlan, ana: User, change: str, words: str
) -> None:
    now = LATER + 5
    if change == "withdrawn":
        withdraw(plan=plan, by=lab.owner, now=LATER)
    elif change == "objected":
        lines = plan.items.values_list("pk", flat=True)
        object_to_items(plan=plan, items=list(lines), reason="no", by=ana, now=LATER)
    elif change == "left":
        Membership.objects.filter(user=ana).delete()
    elif change == "over":
        now = LATER + 7 * DAY_US
    else:
        User.objects.filter(pk=ana.pk).update(email="")
    notice = send(now)
    assert notice.mail == "failed"
    assert words in notice.message
    assert mail.outbox == []


@pytest.mark.parametrize(
    "address", ["", "nobody", "a@example.org, b@example.org", "a@example.org\nBcc: b@example.org"]
)
def test_who_has_no_address_is_not_mailed(lab: SmallLab, run: Run, ana: User, address: str) -> None:
    User.objects.filter(pk=ana.pk).update(email=address)
    Artifact.objects.update(owner=ana)
    notify_owners(plan=proposed_plan(lab), grace_days=7, trash_days=14, by=lab.owner, now=LATER)
    assert Notification.objects.get().mail == "no_address"
    assert not Job.objects.filter(kind="artifacts.notice").exists()


def test_without_a_mail_server_nothing_pretends_to_be_sent(
    lab: SmallLab, run: Run, ana: User, settings: Any
) -> None:
    settings.MAIL_ON = False
    Artifact.objects.update(owner=ana)
    notify_owners(plan=proposed_plan(lab), grace_days=7, trash_days=14, by=lab.owner, now=LATER)
    assert Notification.objects.get().mail == "off"
    assert not Job.objects.filter(kind="artifacts.notice").exists()


def _fails(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def send_messages(self: EmailBackend, messages: Any) -> int:
        raise error

    monkeypatch.setattr(EmailBackend, "send_messages", send_messages)


@pytest.mark.parametrize(
    ("error", "message"),
    [
    (OSError("no route"), "mail server error: OSError"),
    (smtplib.SMTPServerDisconnected("x"), "SMTPServerDisconnected"),
    (smtplib.SMTPDataError(451, b"later"), "responded with 451"),
    (smtplib.SMTPAuthenticationError(535, b"secret"), "responded with 535"),
    (smtplib.SMTPRecipientsRefused({"ana@example.org": (450, b"later")}), "responded with 450"),
],
)  # fmt: skip
def test_what_the_mail_server_does_not_take_now_waits(
    plan: CleanupPlan, monkeypatch: pytest.MonkeyPatch, error: Exception, message: str
) -> None:
    with monkeypatch.context() as patched:
        _fails(patched, error)
        with pytest.raises(type(error)):
            send()
    notice = Notification.objects.get()
    assert notice.mail == "waiting"
    assert message in notice.message
    assert "secret" not in notice.message
    assert send().mail == "sent"
    assert len(mail.outbox) == 1


def test_why_it_waited_is_told_when_it_is_too_late(
    plan: CleanupPlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    _fails(monkeypatch, OSError("no route"))
    with pytest.raises(OSError, match="no route"):
        send()
    assert (
        send(LATER + 7 * DAY_US).message
        == "the grace period ended before the mail was sent; mail server error: OSError"
    )


def test_an_address_that_is_refused_for_good_is_not_tried_again(
    plan: CleanupPlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    _fails(monkeypatch, smtplib.SMTPRecipientsRefused({"ana@example.org": (550, b"unknown")}))
    notice = send()
    assert (notice.mail, notice.message) == (
        "failed",
        "the mail server responded with 550 and rejected this address",
    )


def test_one_that_was_interrupted_is_not_sent_twice(plan: CleanupPlan) -> None:
    Notification.objects.update(mail="sending")
    notice = send()
    assert notice.mail == "failed"
    assert "may have arrived" in notice.message
    assert mail.outbox == []
