"""For how long classes of artifacts are kept, in a lab or one of its projects."""

from collections.abc import Mapping

from django.db import transaction

from apps.accounts import audit
from apps.accounts.models import Lab, Project, User
from apps.artifacts.choices import Act
from apps.artifacts.cleanup.retention import DEFAULT_DAYS, Retention
from apps.artifacts.models import RetentionDays
from apps.core.errors import InvalidInput
from apps.core.text import parse_record_number

MOST_DAYS = 36_500
NEVER = "never"


@transaction.atomic
def set_days(*, lab: Lab, project: Project | None, days: Mapping[str, str], by: User, now: int) -> None:
    """Record days by class: a number, ``never``, or '' for what holds without a word here. Raises InvalidInput."""
    told = {_class(name): _days(name, text.strip().lower()) for name, text in days.items()}
    before = dict(RetentionDays.objects.filter(lab=lab, project=project).values_list("kept", "days"))
    RetentionDays.objects.filter(lab=lab, project=project, kept__in=told).delete()
    fresh = [RetentionDays(lab=lab, project=project, kept=kept, days=value[0]) for kept, value in told.items() if value]
    RetentionDays.objects.bulk_create(fresh)
    after = {**{kept: value for kept, value in before.items() if kept not in told}, **{row.kept: row.days for row in fresh}}
    if before != after:
        details = {str(kept): NEVER if value is None else value for kept, value in sorted(after.items())}
        subject = project.slug if project else lab.name
        audit.record(lab=lab, by=by, action=Act.RETENTION_SET, subject=subject, details=details, now=now)


def _class(name: str) -> Retention:
    if name not in {kept.value for kept in DEFAULT_DAYS}:
        raise InvalidInput(f"{name[:40]!r} is no class that days can be set for.", field="days")
    return Retention(name)


def _days(name: str, text: str) -> tuple[int | None] | None:
    """Return (days,), (None,) for never, None where nothing is said."""
    if not text:
        return None
    if text == NEVER:
        return (None,)
    days = parse_record_number(text)
    if days is None or not 1 <= days <= MOST_DAYS:
        hint = "Leave it empty for what holds else."
        raise InvalidInput(f"{text[:40]!r} is neither a number of days nor never.", field=f"days:{name}", hint=hint)
    return (days,)
