"""Reads of duplicate findings and of avoided runs."""

from dataclasses import dataclass

from django.db.models import Count, Q, QuerySet

from apps.accounts.models import Lab
from apps.accounts.selectors import require_project
from apps.preflight.choices import FindingState, Verdict
from apps.preflight.differences import Difference, differences
from apps.preflight.finding_families import FAMILY_TIER, require_family
from apps.preflight.models import Avoided, DuplicateFinding
from apps.preflight.selectors import work_of
from apps.preflight.services.preflight import WITHDRAWN_WITHIN_US
from apps.preflight.similarity import Relation, Work, relate
from apps.runs.choices import RunState
from apps.runs.models import Fingerprint, Run
from apps.runs.services.fingerprints import ignored_params_of_run

_RUNS = (
    "run__user",
    "run__charged_project",
    "run__node",
    "original__user",
    "original__charged_project",
    "original__node",
    "decided_by",
)


def list_findings(
    lab: Lab,
    *,
    state: str = "",
    verdict: str = "",
    certainty: str = "",
    project: str = "",
    text: str = "",
    family: str = "",
) -> QuerySet[DuplicateFinding]:
    """Return the lab's findings, newest first, filtered. '~unattributed': findings of runs
    without a charged project. ``text``: in the name of the run or its script. ``family``: the key
    of a family. Raises InvalidInput for an unknown project or family.
    """
    findings = (
        DuplicateFinding.objects.filter(lab=lab)
        .select_related(*_RUNS)
        .order_by("-detected_us", "-pk")
    )
    if state:
        findings = findings.filter(state=state)
    if verdict:
        findings = findings.filter(verdict=verdict)
    if certainty:
        findings = findings.filter(certainty=certainty)
    if project == "~unattributed":
        findings = findings.filter(run__charged_project__isnull=True)
    elif project:
        require_project(lab, project)
        findings = findings.filter(run__charged_project__slug=project)
    if family:
        key = require_family(lab, family)
        findings = findings.filter(
            run__tier_keys__lab=lab, run__tier_keys__tier=FAMILY_TIER, run__tier_keys__key=key
        )
    if text:
        named = Q(run__name__icontains=text) | Q(run__fingerprint__entry_name__icontains=text)
        findings = findings.filter(named)
    return findings


def finding_by_id(lab: Lab, pk: int) -> DuplicateFinding | None:
    """Return the lab's finding, or None."""
    return DuplicateFinding.objects.filter(lab=lab, pk=pk).select_related(*_RUNS).first()


def finding_of_run(run: Run) -> DuplicateFinding | None:
    """Return the finding of a run that is not dismissed, or None. One query."""
    return (
        DuplicateFinding.objects.filter(run=run)
        .exclude(state=FindingState.DISMISSED)
        .select_related("original")
        .first()
    )


def counts(lab: Lab) -> dict[str, int]:
    """Return the number of findings in each state."""
    numbers = dict(
        DuplicateFinding.objects.filter(lab=lab).values_list("state").annotate(Count("pk"))
    )
    return {state: numbers.get(state, 0) for state in FindingState.values}


@dataclass(frozen=True)
class Sides:
    """Both runs of a finding. ``ignored``: parameters that the project of the newer run does not
    compare.
    """

    here: Fingerprint
    there: Fingerprint
    works: tuple[Work, Work]
    relation: Relation
    differs: list[Difference]
    ignored: frozenset[str]


def compare_runs(finding: DuplicateFinding) -> Sides:
    """Return the comparison of the two runs of a finding. Three queries."""
    rows = Fingerprint.objects.in_bulk([finding.run_id, finding.original_id])
    here = rows.get(finding.run_id) or Fingerprint(run=finding.run)
    there = rows.get(finding.original_id) or Fingerprint(run=finding.original)
    ignored = ignored_params_of_run(finding.run)
    works = work_of(here, ignored), work_of(there, ignored)
    return Sides(here, there, works, relate(*works), differences(*works), ignored)


@dataclass(frozen=True)
class AvoidedRow:
    """A stopped run. ``counts``: a week passed without the same work, and the original run ended as
    predicted.

    ``state``: machine-readable form of ``reason``.
    """

    row: Avoided
    counts: bool
    state: str
    reason: str
    until_us: int | None


_EXPECTED_STATES = {Verdict.WILL_FAIL: RunState.FAILED}


def list_avoided(lab: Lab, now: int, limit: int) -> list[AvoidedRow]:
    """Return stopped runs, newest first."""
    rows = (
        Avoided.objects.filter(lab=lab)
        .select_related("preflight__user", "run__user", "by_run")
        .order_by("-at_us", "-pk")
    )
    return [_avoided(row, now) for row in rows[:limit]]


def _avoided(row: Avoided, now: int) -> AvoidedRow:
    if row.withdrawn_us is not None:
        if row.by_run:
            return AvoidedRow(row, False, "rerun", "no: the same work was run later", None)
        return AvoidedRow(row, False, "proceeded", "no: the run was started anyway", None)
    expected = _EXPECTED_STATES.get(Verdict(row.preflight.verdict), RunState.FINISHED)
    if row.run.state == RunState.RUNNING:
        return AvoidedRow(row, False, "running", "not yet: the original is running", None)
    if row.run.state != expected:
        state_label = row.run.get_state_display().lower()
        return AvoidedRow(
            row, False, "unexpected", f"no: the original ended as {state_label}", None
        )
    until = row.at_us + WITHDRAWN_WITHIN_US
    if now < until:
        return AvoidedRow(row, False, "waiting", "unless run again before", until)
    return AvoidedRow(row, True, "counted", "yes", None)
