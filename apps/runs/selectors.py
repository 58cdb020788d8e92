"""Reads of runs."""

from collections.abc import Iterable
from uuid import UUID

from django.db.models import QuerySet

from apps.accounts.models import Lab
from apps.runs.models import Fingerprint, Run

SORTS = {"started": "started_us", "ended": "ended_us", "name": "name"}


def runs_of(lab: Lab, *, project: str = "", state: str = "", text: str = "") -> QuerySet[Run]:
    """Return the lab's runs, newest first, filtered by the slug of the project charged ('~unattributed': none), by state,
    and by words in the name."""
    found = Run.objects.filter(lab=lab).select_related("project", "charged_project", "node", "user")
    found = found.order_by("-started_us", "-id")
    if project == "~unattributed":
        found = found.filter(charged_project__isnull=True)
    elif project:
        found = found.filter(charged_project__slug=project)
    if state:
        found = found.filter(state=state)
    return found.filter(name__icontains=text) if text else found


def run_of(lab: Lab, uuid: UUID) -> Run | None:
    """Return the lab's run, or None."""
    named = Run.objects.select_related("project", "charged_project", "node", "user", "parent")
    return named.filter(lab=lab, uuid=uuid).first()


def fingerprints_of(runs: Iterable[Run]) -> dict[int, Fingerprint]:
    """Return the fingerprints of runs by the run's key; a run that told none is left out. One query."""
    return {row.run_id: row for row in Fingerprint.objects.filter(run__in=[run.pk for run in runs])}
