"""People told of a plan: on every page they open at once, and by mail where the installation sends any."""

from collections.abc import Sequence

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.validators import validate_email

from apps.accounts.models import User
from apps.artifacts.choices import MailState
from apps.artifacts.cleanup.notifications import ToTell
from apps.artifacts.models import Notice, Plan
from apps.core.jobs import request_job

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
            request_job(kind=MAIL, key=str(notice.pk), due_us=now)
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
