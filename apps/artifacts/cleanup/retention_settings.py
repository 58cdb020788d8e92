"""Retention periods of a lab or a project."""

from collections.abc import Mapping

from django.db import transaction

from apps.accounts import audit
from apps.accounts.models import Lab, Project, User
from apps.artifacts.choices import AuditAction
from apps.artifacts.cleanup.retention import DEFAULT_DAYS, RetentionClass
from apps.artifacts.models import RetentionPeriod
from apps.core.errors import InvalidInput
from apps.core.text import parse_record_number

MAX_DAYS = 36_500
NEVER = "never"


@transaction.atomic
def set_retention_periods(
    *, lab: Lab, project: Project | None, days: Mapping[str, str], by: User, now: int
) -> None:
    """Set periods by class: a number of days, ``never``, or '' for the inherited period. Raises
    InvalidInput.
    """
    periods = {_parse_class(name): parse_period(text) for name, text in days.items()}
    before = dict(
        RetentionPeriod.objects.filter(lab=lab, project=project).values_list(
            "retention_class", "days"
        )
    )
    RetentionPeriod.objects.filter(lab=lab, project=project, retention_class__in=periods).delete()
    new_rows = [
        RetentionPeriod(lab=lab, project=project, retention_class=retention_class, days=value[0])
        for retention_class, value in periods.items()
        if value
    ]
    RetentionPeriod.objects.bulk_create(new_rows)
    after = {
        **{
            retention_class: value
            for retention_class, value in before.items()
            if retention_class not in periods
        },
        **{row.retention_class: row.days for row in new_rows},
    }
    if before != after:
        details = {
            str(retention_class): NEVER if value is None else value
            for retention_class, value in sorted(after.items())
        }
        subject = project.slug if project else lab.name
        audit.record(
            lab=lab,
            by=by,
            action=AuditAction.RETENTION_SET,
            subject=subject,
            details=details,
            now=now,
        )


def _parse_class(name: str) -> RetentionClass:
    if name not in {retention_class.value for retention_class in DEFAULT_DAYS}:
        raise InvalidInput(f"{name[:40]!r} is not a class with a retention period.", field="days")
    return RetentionClass(name)


def parse_period(text: str) -> tuple[int | None] | None:
    """Return (days,), (None,) for ``never``, None for '' (the inherited period). Raises
    InvalidInput.
    """
    text = text.strip().lower()
    if not text:
        return None
    if text == NEVER:
        return (None,)
    days = parse_record_number(text)
    if days is None or not 0 <= days <= MAX_DAYS:
        hint = (
            f"Enter 0 to {MAX_DAYS} days or “{NEVER}”, or leave it empty for the inherited period."
        )
        raise InvalidInput(f"{text[:40]!r} is not a retention period.", hint=hint)
    return (days,)


def format_period(days: int | None) -> str:
    """Return a period as :func:`parse_period` reads it."""
    return NEVER if days is None else str(days)
