"""Notifications of cleanup plans: recipients, mails and pending deletions of a person."""

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
from django.urls import reverse

from apps.accounts.choices import Role
from apps.accounts.models import Lab, Membership, User
from apps.artifacts.choices import MailState, PlanState
from apps.artifacts.cleanup.freed_space import freed_space
from apps.artifacts.models import CleanupItem, CleanupPlan, Notification
from apps.artifacts.storage_model import format_bytes
from apps.core.clock import utc
from apps.core.jobs import enqueue


@dataclass(frozen=True)
class Recipient:
    """A person to notify. ``own_items``: selected items of this person. ``other_items``: selected
    items without an owner in the lab.
    """

    user: User
    own_items: int
    other_items: int


@dataclass(frozen=True)
class FormerOwners:
    """Selected items without an owner in the lab: names of former members, items, and items of
    unknown owner.
    """

    names: list[str]
    lines: int
    unknown: int


@dataclass(frozen=True)
class PendingDeletion:
    """Pending items of a person in a plan: ``own_items``, and ``other_items`` of owners who are not
    in the lab.
    """

    plan: CleanupPlan
    own_items: int
    other_items: int


def items_by_owner(plan: CleanupPlan) -> dict[int | None, int]:
    """Return {primary key of the owner, None if unknown: selected items that were not moved}."""
    rows = (
        plan.items.filter(selected=True, outcome="")
        .values("artifact__owner")
        .annotate(many=Count("pk"))
    )
    return {row["artifact__owner"]: row["many"] for row in rows.order_by("artifact__owner")}


def find_recipients(plan: CleanupPlan, counts: Mapping[int | None, int]) -> list[Recipient]:
    """Return the recipients of a plan by name: owners of selected items (``counts``, from
    :func:`items_by_owner`) in the lab.

    Items of other owners are assigned to the lab's PIs, or to its admins if it has none.
    """
    members = _active_memberships(plan.lab)
    former_owner_items = sum(count for owner, count in counts.items() if owner not in members)
    deputies = _deputies(members.values()) if former_owner_items else set()
    recipients = [
        Recipient(
            recipient.user, counts.get(user, 0), former_owner_items if user in deputies else 0
        )
        for user, recipient in members.items()
        if user in counts or user in deputies
    ]
    return sorted(
        recipients,
        key=lambda recipient: (recipient.user.get_username().casefold(), recipient.user.pk),
    )


def not_notified(
    plan: CleanupPlan, counts: Mapping[int | None, int] | None = None
) -> list[Recipient]:
    """Return the recipients of a plan who were not notified: new ones, or stand-ins for former
    ones.

    ``counts``: from :func:`items_by_owner`, if loaded already.
    """
    notified = {notification.user_id: notification for notification in plan.notifications.all()}
    recipients = find_recipients(plan, items_by_owner(plan) if counts is None else counts)
    is_covered = any(
        recipient.other_items
        and recipient.user.pk in notified
        and notified[recipient.user.pk].other_items
        for recipient in recipients
    )
    return [
        recipient
        for recipient in recipients
        if (recipient.own_items and recipient.user.pk not in notified)
        or (recipient.other_items and not is_covered)
    ]


def former_owners(plan: CleanupPlan, counts: Mapping[int | None, int]) -> FormerOwners:
    """Return the selected items of a plan (``counts``, from :func:`items_by_owner`) without an
    owner in the lab.
    """
    members = _active_memberships(plan.lab)
    former = {owner: count for owner, count in counts.items() if owner not in members}
    names = User.objects.filter(pk__in=[owner for owner in former if owner is not None]).order_by(
        "username"
    )
    return FormerOwners(
        list(names.values_list("username", flat=True)), sum(former.values()), former.get(None, 0)
    )


def notified_items(notification: Notification) -> Q:
    """Return the condition for the items of a notification: the person's own, and those without an
    owner in the lab.
    """
    own = Q(artifact__owner=notification.user_id)
    return own | ownerless_items(notification.plan.lab) if notification.other_items else own


def ownerless_items(lab: Lab) -> Q:
    """Return the condition for items whose artifact has no owner in the lab."""
    members = Membership.objects.filter(lab=lab, user__is_active=True).values("user")
    return Q(artifact__owner=None) | ~Q(artifact__owner__in=members)


def pending_deletions(lab: Lab, user: User) -> list[PendingDeletion]:
    """Return the open plans with pending items of which a person was notified.

    Called on every page: one small query without notifications, else two and one for each.
    """
    states = (PlanState.NOTIFIED, PlanState.APPROVED)
    notifications = Notification.objects.filter(user=user, plan__lab=lab, plan__state__in=states)
    pending = list[PendingDeletion]()
    if not notifications.exists():
        return pending
    for notification in notifications.select_related("plan__node", "plan__lab").order_by(
        "plan__grace_until_us", "pk"
    ):
        items = CleanupItem.objects.filter(
            notified_items(notification), plan=notification.plan, selected=True, outcome=""
        )
        counts = items.aggregate(
            all=Count("pk"), own_items=Count("pk", filter=Q(artifact__owner=user))
        )
        if counts["all"]:
            pending.append(
                PendingDeletion(
                    notification.plan, counts["own_items"], counts["all"] - counts["own_items"]
                )
            )
    return pending


def _active_memberships(lab: Lab) -> dict[int, Membership]:
    memberships = (
        Membership.objects.filter(lab=lab, user__is_active=True)
        .select_related("user")
        .order_by("pk")
    )
    return {membership.user_id: membership for membership in memberships}


def _deputies(members: Iterable[Membership]) -> set[int]:
    memberships = list(members)
    return {membership.user_id for membership in memberships if membership.role == Role.PI} or {
        membership.user_id for membership in memberships if membership.role == Role.ADMIN
    }


MAIL_JOB = "artifacts.notice"


def notify(*, plan: CleanupPlan, recipients: Sequence[Recipient], now: int) -> int:
    """Record the notification of ``recipients`` and enqueue a mail to each, within the caller's
    transaction.

    Return the number of recipients. A person receives one mail per plan.
    """
    for recipient in recipients:
        values = {
            "own_items": recipient.own_items,
            "other_items": recipient.other_items,
            "notified_us": now,
            "name": recipient.user.get_username(),
        }
        notification, is_new = Notification.objects.update_or_create(
            plan=plan,
            user=recipient.user,
            defaults=values,
            create_defaults={**values, "mail": _initial_mail_state(recipient.user)},
        )
        if is_new and notification.mail == MailState.WAITING:
            enqueue(kind=MAIL_JOB, key=str(notification.pk), due_us=now)
    return len(recipients)


def _initial_mail_state(user: User) -> MailState:
    if not settings.MAIL_ON:
        return MailState.OFF
    return MailState.WAITING if is_address(user.email) else MailState.NO_ADDRESS


def is_address(text: str) -> bool:
    """Return whether a text is a single mail address."""
    try:
        validate_email(text)
    except ValidationError:
        return False
    return True


MAX_NAMED = 20
_MAX_NAME_LENGTH = 100
# Characters that move the cursor, end a line or change the writing direction.
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]+")
_INTERRUPTED = "it was interrupted while it was sent: it may have arrived"


def send_mail(*, pk: int, now: int) -> None:
    """Send the mail of a notification once.

    A temporary refusal of the mail server is raised again, so that the job is retried. Permanent
    refusals and obsolete mails are recorded.
    """
    notification = (
        Notification.objects.select_related("user", "plan__node", "plan__lab").filter(pk=pk).first()
    )
    if notification is None or notification.mail not in (MailState.WAITING, MailState.SENDING):
        return
    if notification.mail == MailState.SENDING:
        _set_mail_state(notification, MailState.FAILED, _INTERRUPTED)
        return
    if reason := _obsolete_reason(notification, now):
        _set_mail_state(notification, MailState.FAILED, reason)
        return
    if not Notification.objects.filter(pk=pk, mail=MailState.WAITING).update(
        mail=MailState.SENDING
    ):
        return
    try:
        compose_mail(notification).send()
    except (OSError, ValueError) as error:  # smtplib raises OSError, an invalid header ValueError
        _record_refusal(notification, error)
        return
    Notification.objects.filter(pk=pk).update(mail=MailState.SENT, mailed_us=now, message="")


def compose_mail(notification: Notification) -> EmailMessage:
    """Return the mail with the selected items of a notification, the largest first, MAX_NAMED by
    name.
    """
    assert notification.user is not None
    plan, items = notification.plan, _remaining_items(notification)
    number, bytes_ = items.count(), items.aggregate(sum=Sum("artifact__bytes"))["sum"] or 0
    freed = freed_space([plan])
    for pk in items.filter(pk__in=freed).values_list("pk", flat=True):
        bytes_ -= freed[pk].size - freed[pk].bytes
    host, deadline = one_line(plan.node.name), _format_deadline(notification)
    count_text = f"{number} artifact{'s' if number != 1 else ''}"
    plural = "" if plan.trash_days == 1 else "s"
    listed = [
        f"- {one_line(item.artifact.name)} ({format_bytes(item.artifact.bytes)})"
        for item in items.select_related("artifact").order_by("-artifact__bytes", "pk")[:MAX_NAMED]
    ]
    remainder = [f"- and {number - MAX_NAMED} more"] if number > MAX_NAMED else []
    without_owner = " Some of them have no owner in the lab." if notification.other_items else ""
    text = "\n".join(
        [
            (
                f"A cleanup plan lists {count_text} to delete from {host} ({format_bytes(bytes_)} "
                "in total):"
            ),
            "",
            *listed,
            *remainder,
            "",
            f"You were notified because you own them or stand in for their owners.{without_owner}",
            (
                f"You can object until {deadline}. The remaining files can then be approved for "
                "deletion."
            ),
            (
                f"They are moved to a trash folder first and deleted {plan.trash_days} "
                f"day{plural} later at the earliest."
            ),
            "",
            "Review them and object:",
            f"{settings.SITE_URL}{reverse('cleanup-plan', args=[plan.uuid])}?mine=1",
            "",
            f"LabCarbon, lab {one_line(plan.lab.name)}. You receive one mail per plan.",
        ]
    )
    subject = f"LabCarbon: {count_text} can be deleted from {host} after {deadline}"
    host_of_id = urlsplit(settings.SITE_URL).hostname or "localhost"
    return EmailMessage(
        subject,
        text,
        settings.DEFAULT_FROM_EMAIL,
        [notification.user.email],
        headers={
            "Message-ID": f"<plan-{plan.uuid}-{notification.pk}@{host_of_id}>",
            "Auto-Submitted": "auto-generated",
            "Date": formatdate(),
        },
    )


def one_line(text: str) -> str:
    """Return a name as one line of printable text, shortened."""
    clean = _UNPRINTABLE.sub(" ", text).strip()
    return clean if len(clean) <= _MAX_NAME_LENGTH else f"{clean[: _MAX_NAME_LENGTH - 1]}…"


def _remaining_items(notification: Notification) -> QuerySet[CleanupItem]:
    return CleanupItem.objects.filter(
        notified_items(notification), plan=notification.plan, selected=True, outcome=""
    )


def _obsolete_reason(notification: Notification, now: int) -> str:
    """Return why a mail is obsolete by now, '' if it is not."""
    plan, user = notification.plan, notification.user
    if plan.state not in (PlanState.NOTIFIED, PlanState.APPROVED):
        return f"the plan was {plan.get_state_display().lower()} before the mail was sent"
    if plan.grace_until_us is None or now >= plan.grace_until_us:
        return "; ".join(
            filter(None, ["the grace period ended before the mail was sent", notification.message])
        )[:300]
    if (
        user is None
        or not Membership.objects.filter(lab=plan.lab, user=user, user__is_active=True).exists()
    ):
        return "the person left the lab before the mail was sent"
    if not is_address(user.email):
        return "the address was removed before the mail was sent"
    return (
        ""
        if _remaining_items(notification).exists()
        else "no item of this person is left in the plan"
    )


def _record_refusal(notification: Notification, error: Exception) -> None:
    """Record why the mail server refused a mail; raise ``error`` if a retry can succeed."""
    code = error.smtp_code if isinstance(error, smtplib.SMTPResponseException) else 0
    if isinstance(error, smtplib.SMTPRecipientsRefused):
        code = min((int(response[0]) for response in error.recipients.values()), default=0)
    message = (
        f"the mail server responded with {code}"
        if code
        else f"mail server error: {type(error).__name__}"
    )
    if isinstance(error, smtplib.SMTPRecipientsRefused) and code >= 500:
        _set_mail_state(notification, MailState.FAILED, f"{message} and rejected this address")
        return
    _set_mail_state(notification, MailState.WAITING, message)
    raise error


def _set_mail_state(notification: Notification, state: MailState, message: str) -> None:
    Notification.objects.filter(pk=notification.pk).update(mail=state, message=message[:300])


def _format_deadline(notification: Notification) -> str:
    zone = ZoneInfo(notification.plan.lab.time_zone)
    local_time = utc(notification.plan.grace_until_us or 0).astimezone(zone)
    return f"{local_time.day} {local_time:%B %Y, %H:%M} ({notification.plan.lab.time_zone})"
