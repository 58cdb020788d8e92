"""Reads of activities."""

from dataclasses import dataclass
from uuid import UUID

from django.db.models import QuerySet

from apps.accounts.models import Lab
from apps.accounts.selectors import require_project
from apps.activity.kinds import kind_of
from apps.activity.models import Activity


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
