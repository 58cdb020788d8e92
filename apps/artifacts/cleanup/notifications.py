"""Reads of who is to be told of a plan, who was, and what goes soon of a person."""

import re
import smtplib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from email.utils import formatdate
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.mail import EmailMessage
from django.core.validators import validate_email
from django.db.models import Count, Q, QuerySet, Sum

from apps.accounts.choices import Role
from apps.accounts.models import Lab, Membership, User
from apps.artifacts.choices import MailState, PlanState
from apps.artifacts.models import Notice, Plan, PlanLine
from apps.artifacts.storage_model import amount
from apps.core.clock import utc
from apps.core.jobs import enqueue


@dataclass(frozen=True)
class ToTell:
    """A person to be told. ``own``: ticked lines of theirs; ``others``: ticked lines whose owner is not in the lab, of which
    they are told in the owner's place."""

    user: User
    own: int
    others: int


@dataclass(frozen=True)
class Absent:
    """Ticked lines whose owner is not in the lab: by the names of those who left, and of nobody known."""

    names: list[str]
    lines: int
    unknown: int


@dataclass(frozen=True)
class Soon:
    """What goes of a person by one plan: ``own`` lines of theirs, ``others`` in the place of owners who are not here."""

    plan: Plan
    own: int
    others: int


def by_owner(plan: Plan) -> dict[int | None, int]:
    """Return {owner's number, None where nobody is known: ticked lines that were not moved}."""
    rows = plan.lines.filter(chosen=True, outcome="").values("artifact__owner").annotate(many=Count("pk"))
    return {row["artifact__owner"]: row["many"] for row in rows.order_by("artifact__owner")}


def to_tell(plan: Plan, own: Mapping[int | None, int]) -> list[ToTell]:
    """Return who is to be told of a plan: the owners of its ticked lines (``own``, from :func:`by_owner`) who are in the
    lab; for lines of others its PIs, or its admins where it has none. By name."""
    here = _here(plan.lab)
    others = sum(many for owner, many in own.items() if owner not in here)
    instead = _stand_ins(here.values()) if others else set()
    found = [
        ToTell(each.user, own.get(user, 0), others if user in instead else 0)
        for user, each in here.items()
        if user in own or user in instead
    ]
    return sorted(found, key=lambda each: (each.user.get_username().casefold(), each.user.pk))


def untold(plan: Plan, own: Mapping[int | None, int] | None = None) -> list[ToTell]:
    """Return who is to be told of a plan and was not: who came since, or stands in where nobody does any more. ``own``: what
    :func:`by_owner` said, where that was asked already."""
    told = {notice.user_id: notice for notice in plan.notices.all()}
    wanted = to_tell(plan, by_owner(plan) if own is None else own)
    is_covered = any(each.others and each.user.pk in told and told[each.user.pk].others for each in wanted)
    return [
        each for each in wanted if (each.own and each.user.pk not in told) or (each.others and not is_covered)
    ]  # fmt: skip


def absent(plan: Plan, own: Mapping[int | None, int]) -> Absent:
    """Return the ticked lines of a plan (``own``, from :func:`by_owner`) whose owner is not in the lab."""
    here = _here(plan.lab)
    gone = {owner: many for owner, many in own.items() if owner not in here}
    names = User.objects.filter(pk__in=[owner for owner in gone if owner is not None]).order_by("username")
    return Absent(list(names.values_list("username", flat=True)), sum(gone.values()), gone.get(None, 0))


def lines_told(notice: Notice) -> Q:
    """Return which lines of its plan a notice is about: the person's own, and those of owners who are not in the lab."""
    own = Q(artifact__owner=notice.user_id)
    return own | lines_of_nobody_here(notice.plan.lab) if notice.others else own


def lines_of_nobody_here(lab: Lab) -> Q:
    """Return which lines are of an artifact whose owner is not known, or not in the lab."""
    here = Membership.objects.filter(lab=lab, user__is_active=True).values("user")
    return Q(artifact__owner=None) | ~Q(artifact__owner__in=here)


def going_soon(lab: Lab, user: User) -> list[Soon]:
    """Return the open plans that a person was told of in which something they were told of is ticked still and was not
    moved. One query where they were told of none, and that a small one: every page asks; else two, and one for each."""
    states = (PlanState.TOLD, PlanState.APPROVED)
    notices = Notice.objects.filter(user=user, plan__lab=lab, plan__state__in=states)
    found = list[Soon]()
    if not notices.exists():
        return found
    for notice in notices.select_related("plan__node", "plan__lab").order_by("plan__grace_until_us", "pk"):
        lines = PlanLine.objects.filter(lines_told(notice), plan=notice.plan, chosen=True, outcome="")
        count = lines.aggregate(all=Count("pk"), own=Count("pk", filter=Q(artifact__owner=user)))
        if count["all"]:
            found.append(Soon(notice.plan, count["own"], count["all"] - count["own"]))
    return found


def _here(lab: Lab) -> dict[int, Membership]:
    found = Membership.objects.filter(lab=lab, user__is_active=True).select_related("user").order_by("pk")
    return {each.user_id: each for each in found}


def _stand_ins(here: Iterable[Membership]) -> set[int]:
    listed = list(here)
    return {each.user_id for each in listed if each.role == Role.PI} or {
        each.user_id for each in listed if each.role == Role.ADMIN
    }


MAIL = "artifacts.notice"


def tell(*, plan: Plan, people: Sequence[ToTell], now: int) -> int:
    """Record that ``people`` are told of a plan from ``now`` on, and ask for a mail to each, in the caller's transaction.
    Return how many they are. Who was mailed of the plan is not mailed again."""
    for each in people:
        told = {"own": each.own, "others": each.others, "told_us": now, "name": each.user.get_username()}
        notice, is_new = Notice.objects.update_or_create(
            plan=plan, user=each.user, defaults=told, create_defaults={**told, "mail": _mail(each.user)}
        )
        if is_new and notice.mail == MailState.WAITING:
            enqueue(kind=MAIL, key=str(notice.pk), due_us=now)
    return len(people)


def _mail(user: User) -> MailState:
    if not settings.MAIL_ON:
        return MailState.OFF
    return MailState.WAITING if is_address(user.email) else MailState.NO_ADDRESS


def is_address(text: str) -> bool:
    """Return whether a text is one mail address."""
    try:
        validate_email(text)
    except ValidationError:
        return False
    return True


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
