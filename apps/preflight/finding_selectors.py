"""Reads of findings and of what was avoided, for the inbox."""

from dataclasses import dataclass

from django.db.models import Count, QuerySet

from apps.accounts.models import Lab
from apps.preflight.choices import RepeatState, Verdict
from apps.preflight.differences import Difference, differences
from apps.preflight.models import Avoided, Repeat
from apps.preflight.selectors import work_of
from apps.preflight.services.preflight import WITHDRAWN_WITHIN_US
from apps.preflight.similarity import Relation, Work, relate
from apps.runs.choices import RunState
from apps.runs.models import Fingerprint, Run
from apps.runs.services.fingerprints import ignored_of

_RUNS = ("run__user", "run__charged_project", "run__node", "of__user", "of__charged_project", "of__node", "by")


def repeats_of(
    lab: Lab, *, state: str = "", verdict: str = "", certainty: str = "", project: str = "", text: str = ""
) -> QuerySet[Repeat]:
    """Return the lab's findings, newest first, filtered; '~unattributed' is of runs that nobody is charged for."""
    found = Repeat.objects.filter(lab=lab).select_related(*_RUNS).order_by("-found_us", "-pk")
    if state:
        found = found.filter(state=state)
    if verdict:
        found = found.filter(verdict=verdict)
    if certainty:
        found = found.filter(certainty=certainty)
    if project == "~unattributed":
        found = found.filter(run__charged_project__isnull=True)
    elif project:
        found = found.filter(run__charged_project__slug=project)
    return found.filter(run__name__icontains=text) if text else found


def repeat_of(lab: Lab, pk: int) -> Repeat | None:
    """Return the lab's finding, or None."""
    return Repeat.objects.filter(lab=lab, pk=pk).select_related(*_RUNS).first()


def finding_of(run: Run) -> Repeat | None:
    """Return what was found of a run, unless somebody said that it is no repeat. One query."""
    return Repeat.objects.filter(run=run).exclude(state=RepeatState.DISMISSED).select_related("of").first()


def counts(lab: Lab) -> dict[str, int]:
    """Return how many findings are in each state; states without any are 0."""
    found = dict(Repeat.objects.filter(lab=lab).values_list("state").annotate(Count("pk")))
    return {state: found.get(state, 0) for state in RepeatState.values}


@dataclass(frozen=True)
class Sides:
    """Two runs side by side: 'here' is the repeat. ``ignored``: parameters that the project of the repeat does not count."""

    here: Fingerprint
    there: Fingerprint
    works: tuple[Work, Work]
    relation: Relation
    differs: list[Difference]
    ignored: frozenset[str]


def sides_of(repeat: Repeat) -> Sides:
    """Return what is known of both runs of a finding. Three queries."""
    rows = Fingerprint.objects.in_bulk([repeat.run_id, repeat.of_id])
    here = rows.get(repeat.run_id) or Fingerprint(run=repeat.run)
    there = rows.get(repeat.of_id) or Fingerprint(run=repeat.of)
    ignored = ignored_of(repeat.run)
    works = work_of(here, ignored), work_of(there, ignored)
    return Sides(here, there, works, relate(*works), differences(*works), ignored)


@dataclass(frozen=True)
class AvoidedRow:
    """A stop, and whether it counts: only after a week in which nobody ran the same work, and only if the run it rests on
    went as was said."""

    row: Avoided
    counts: bool
    why: str
    until_us: int | None


_WENT = {Verdict.WILL_FAIL: RunState.FAILED}


def avoided_of(lab: Lab, now: int, limit: int) -> list[AvoidedRow]:
    """Return what was avoided, newest first."""
    found = (
        Avoided.objects.filter(lab=lab).select_related("preflight__user", "run__user", "by_run").order_by("-at_us", "-pk")
    )
    return [_avoided(row, now) for row in found[:limit]]


def _avoided(row: Avoided, now: int) -> AvoidedRow:
    if row.withdrawn_us is not None:
        return AvoidedRow(row, False, "run after all" if row.by_run else "the asker went on", None)
    expected = _WENT.get(Verdict(row.preflight.verdict), RunState.FINISHED)
    if row.run.state == RunState.RUNNING:
        return AvoidedRow(row, False, "the other run still runs", None)
    if row.run.state != expected:
        return AvoidedRow(row, False, f"the other run did not go so: {row.run.get_state_display().lower()}", None)
    until = row.at_us + WITHDRAWN_WITHIN_US
    if now < until:
        return AvoidedRow(row, False, "counted if nobody runs it until", until)
    return AvoidedRow(row, True, "counted", None)
