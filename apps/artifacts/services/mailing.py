"""One mail a person and plan: what goes of theirs, when, and where they object. Plain text."""

import re
import smtplib
from email.utils import formatdate
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

from django.conf import settings
from django.core.mail import EmailMessage
from django.db.models import QuerySet, Sum

from apps.accounts.models import Membership
from apps.artifacts.choices import MailState, PlanState
from apps.artifacts.cleanup.notifications import lines_told
from apps.artifacts.models import Notice, PlanLine
from apps.artifacts.services.telling import is_address
from apps.artifacts.storage_model import amount
from apps.core.clock import utc

MOST_NAMED = 20
_LONGEST_NAME = 100
# What moves the cursor, ends a line or turns the direction of writing is no part of a name.
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]+")
_INTERRUPTED = "it was interrupted while it was sent: it may have arrived"


def mail_notice(*, pk: int, now: int) -> None:
    """Send the mail of a notice, once. Raises what the mail server's refusal for now raises, so that it is tried again;
    what it refuses for good, and what came too late, is noted and stays so."""
    notice = Notice.objects.select_related("user", "plan__node", "plan__lab").filter(pk=pk).first()
    if notice is None or notice.mail not in (MailState.WAITING, MailState.SENDING):
        return
    if notice.mail == MailState.SENDING:
        _note(notice, MailState.FAILED, _INTERRUPTED)
        return
    if why := _why_not(notice, now):
        _note(notice, MailState.FAILED, why)
        return
    if not Notice.objects.filter(pk=pk, mail=MailState.WAITING).update(mail=MailState.SENDING):
        return
    try:
        message_of(notice).send()
    except (OSError, ValueError) as error:  # smtplib's errors are OSErrors, a header that cannot be written a ValueError
        _refused(notice, error)
        return
    Notice.objects.filter(pk=pk).update(mail=MailState.SENT, mailed_us=now, word="")


def message_of(notice: Notice) -> EmailMessage:
    """Return the mail: what the person was told of and is ticked still, the largest first, MOST_NAMED by name."""
    assert notice.user is not None
    plan, lines = notice.plan, _lines(notice)
    number, bytes_ = lines.count(), lines.aggregate(sum=Sum("artifact__bytes"))["sum"] or 0
    host, day = one_line(plan.node.hostname), _when(notice)
    what = f"{number} artifact{'s' if number != 1 else ''}"
    ending = "" if plan.trash_days == 1 else "s"
    named = [
        f"- {one_line(line.artifact.name)} ({amount(line.artifact.bytes)})"
        for line in lines.select_related("artifact").order_by("-artifact__bytes", "pk")[:MOST_NAMED]
    ]
    more = [f"- and {number - MOST_NAMED} more"] if number > MOST_NAMED else []
    whose = "of yours" if not notice.others else "of yours, or of people who are not in the lab any more,"
    text = "\n".join([
        f"{what} {whose} may go from {host}, {amount(bytes_)} in all:", "", *named, *more, "",
        f"You may object until {day}. What nobody objects to can then be approved.",
        f"It is moved to a trash folder, and deleted {plan.trash_days} day{ending} later at the earliest.",
        "", "Look at them, and say what is to stay:", f"{settings.SITE_URL}/artifacts/plans/{plan.uuid}/?mine=1",
        "", f"LabCarbon, lab {one_line(plan.lab.name)}. This is the only mail about this plan.",
    ])  # fmt: skip
    subject = f"LabCarbon: {what} may go from {host} after {day}"
    host_of_id = urlsplit(settings.SITE_URL).hostname or "localhost"
    return EmailMessage(
        subject, text, settings.DEFAULT_FROM_EMAIL, [notice.user.email],
        headers={"Message-ID": f"<plan-{plan.uuid}-{notice.pk}@{host_of_id}>", "Auto-Submitted": "auto-generated",
                 "Date": formatdate()},
    )  # fmt: skip


def one_line(text: str) -> str:
    """Return a name as one line of printable text, shortened."""
    clean = _UNPRINTABLE.sub(" ", text).strip()
    return clean if len(clean) <= _LONGEST_NAME else f"{clean[: _LONGEST_NAME - 1]}…"


def _lines(notice: Notice) -> QuerySet[PlanLine]:
    return PlanLine.objects.filter(lines_told(notice), plan=notice.plan, chosen=True, outcome="")


def _why_not(notice: Notice, now: int) -> str:
    """Return why a mail would be wrong by now, '' where it would not."""
    plan, user = notice.plan, notice.user
    if plan.state not in (PlanState.TOLD, PlanState.APPROVED):
        return f"the plan was {plan.get_state_display().lower()} before it could be sent"
    if plan.grace_until_us is None or now >= plan.grace_until_us:
        return "; ".join(filter(None, ["the grace ended before it could be sent", notice.word]))[:300]
    if user is None or not Membership.objects.filter(lab=plan.lab, user=user, user__is_active=True).exists():
        return "they left the lab before it could be sent"
    if not is_address(user.email):
        return "their address was taken away before it could be sent"
    return "" if _lines(notice).exists() else "nothing of theirs is to go any more"


def _refused(notice: Notice, error: Exception) -> None:
    """Note why a mail was not taken; raise ``error`` where it may be taken later."""
    code = error.smtp_code if isinstance(error, smtplib.SMTPResponseException) else 0
    if isinstance(error, smtplib.SMTPRecipientsRefused):
        code = min((int(answer[0]) for answer in error.recipients.values()), default=0)
    word = f"the mail server answered {code}" if code else f"the mail server cannot be used: {type(error).__name__}"
    if isinstance(error, smtplib.SMTPRecipientsRefused) and code >= 500:
        _note(notice, MailState.FAILED, f"{word}: it does not take this address")
        return
    _note(notice, MailState.WAITING, word)
    raise error


def _note(notice: Notice, state: MailState, word: str) -> None:
    Notice.objects.filter(pk=notice.pk).update(mail=state, word=word[:300])


def _when(notice: Notice) -> str:
    zone = ZoneInfo(notice.plan.lab.time_zone)
    there = utc(notice.plan.grace_until_us or 0).astimezone(zone)
    return f"{there.day} {there:%B %Y, %H:%M} ({notice.plan.lab.time_zone})"
