"""Reads of activities."""

from dataclasses import dataclass
from uuid import UUID

from django.db.models import F, QuerySet

from apps.accounts.models import Lab
from apps.accounts.selectors import require_project
from apps.activity.kinds import kind_of
from apps.activity.models import Activity, RecurringActivity
from apps.activity.periods import external_id, period, recurring_uuid


@dataclass(frozen=True)
class Filters:
    """Filters of a list. '' and None: all. The period selects activities that overlap it.

    ``is_billed``: recorded from a cloud bill, or by the lab itself.
    """

    project: str = ""
    kind: str = ""
    from_us: int | None = None
    to_us: int | None = None
    is_billed: bool | None = None

    @property
    def number(self) -> int:
        """Number of active filters."""
        return sum(
            bool(each)
            for each in (
                self.project,
                self.kind,
                self.from_us is not None,
                self.to_us is not None,
                self.is_billed is not None,
            )
        )


def activities_of(lab: Lab, filters: Filters | None = None) -> QuerySet[Activity]:
    """Return the activities of a lab, the latest period first. Raises InvalidInput for an unknown
    project or kind.
    """
    filters = filters or Filters()
    rows = Activity.objects.filter(lab=lab).select_related("project")
    if filters.project:
        require_project(lab, filters.project)
        rows = rows.filter(project__slug=filters.project)
    if filters.kind:
        kind_of(filters.kind)
        rows = rows.filter(kind=filters.kind)
    if filters.from_us is not None:
        rows = rows.filter(end_us__gt=filters.from_us)
    if filters.to_us is not None:
        rows = rows.filter(start_us__lt=filters.to_us)
    if filters.is_billed is not None:
        rows = rows.filter(billed_use__isnull=not filters.is_billed)
    return rows.order_by("-start_us", "-pk")


def activity_of(lab: Lab, uuid: UUID) -> Activity | None:
    """Return an activity of the lab with its people, or None."""
    rows = Activity.objects.select_related(
        "lab", "project", "device__node", "created_by", "withdrawn_by"
    )
    return rows.filter(lab=lab, uuid=uuid).first()


def recurring_activities_of(lab: Lab) -> QuerySet[RecurringActivity]:
    """Return the recurring activities of a lab, those that a person ended last."""
    rows = RecurringActivity.objects.filter(lab=lab).select_related("project")
    return rows.order_by(F("ended_us").asc(nulls_first=True), "-created_us", "-pk")


def recurring_activity_of(lab: Lab, uuid: UUID) -> RecurringActivity | None:
    """Return a recurring activity of the lab with its people, or None."""
    rows = RecurringActivity.objects.select_related("lab", "project", "created_by", "ended_by")
    return rows.filter(lab=lab, uuid=uuid).first()


def recurring_of_period(lab: Lab, identity: str) -> RecurringActivity | None:
    """Return the recurring activity of which the activity with an external id is a period."""
    uuid = recurring_uuid(identity)
    return recurring_activity_of(lab, uuid) if uuid else None


def latest_periods(recurring: RecurringActivity, number: int) -> list[Activity]:
    """Return the activities of the latest recorded periods, latest first."""
    end = recurring.recorded_periods
    days = [
        period(recurring.period, recurring.first_day, each).first_day
        for each in range(max(0, end - number), end)
    ]
    identities = [external_id(recurring.uuid, day) for day in days]
    rows = Activity.objects.filter(lab=recurring.lab, external_id__in=identities)
    return list(rows.order_by("-start_us"))
