"""Duplicate findings: runs are judged as of their start, and people decide about the findings."""

from collections.abc import Collection, Iterable
from dataclasses import replace

from django.db import transaction
from django.urls import reverse

from apps.accounts import audit
from apps.accounts.models import Lab, Project, User
from apps.carbon.figures.visibility import Visibility
from apps.core.errors import Conflict, InvalidInput, NotFound
from apps.core.jobs import enqueue, enqueue_batch
from apps.core.text import is_unstorable
from apps.core.units import US_PER_S
from apps.preflight.choices import RECORDED_VERDICTS, Act, Certainty, FindingState, Level, Verdict
from apps.preflight.models import DuplicateFinding
from apps.preflight.presenters import Requester, present_matches, sentence
from apps.preflight.selectors import (
    candidates,
    job_of,
    lookup_keys,
    past_run_of,
    past_runs,
    runs_with_keys_of,
    series_of,
    work_of,
)
from apps.preflight.services.preflight import withdraw_avoided
from apps.preflight.similarity import PastRun, Question, Work
from apps.preflight.verdicts import SERIES_US, Finding, judge
from apps.runs.choices import Intent, RunState
from apps.runs.models import Fingerprint, Run
from apps.runs.services.fingerprints import ignored_params_of_run, parts_of
from apps.runs.services.ignored_params import count_parameter, ignore_parameter
from apps.trackers.registry import accepts_verdict, queue_verdict

_ANONYMOUS = Requester(None, Visibility(False, None, frozenset()), reads=False)
# A decision replaces the verdict.
_DECISION_TEXTS = {FindingState.INTENTIONAL: "on purpose", FindingState.DISMISSED: "no repeat"}


def publish_verdict(
    *, run: Run, question: Question, judgement: Finding, recorded: DuplicateFinding | None
) -> None:
    """Queue the verdict of a run for its trackers, where they accept verdicts."""
    if accepts_verdict(run):
        queue_verdict(run, _text(run.lab, question, judgement, recorded))


def _text(
    lab: Lab, question: Question, judgement: Finding, recorded: DuplicateFinding | None
) -> str:
    if recorded is not None and recorded.state in _DECISION_TEXTS:
        return _DECISION_TEXTS[FindingState(recorded.state)]
    if judgement.level == Level.SILENT:
        return ""
    presented, _ = present_matches(lab, question, judgement, _ANONYMOUS)
    sure = "" if judgement.certainty == Certainty.VERIFIED else "possible "
    return f"{sure}{judgement.verdict.value}: {sentence(judgement, presented, lab.time_zone)}"


MAX_REASON = 400
MAX_DECIDED = 1000  # findings of one decision
_AFTER_RECOUNT_US = 5 * US_PER_S  # the keys are rewritten first
DECISIONS = (FindingState.CONFIRMED, FindingState.INTENTIONAL, FindingState.DISMISSED)


@transaction.atomic
def judge_run(*, run: Run, now: int) -> DuplicateFinding | None:
    """Judge a stored run by earlier runs, and update its finding. A decision is never
    overwritten.
    """
    row = Fingerprint.objects.filter(run=run).first()
    if row is None:
        return None
    ignored = ignored_params_of_run(run)
    parts, work = parts_of(row, ignored=ignored), work_of(row, ignored)
    keys = lookup_keys(parts, work)
    if run.intent != Intent.PROBE:
        withdraw_avoided(run=run, keys=keys, now=now)
    question, judgement = _judge(run, work, candidates(run.lab, keys), ignored)
    finding = _save_finding(run, judgement, past_run_of(run, work), now)
    publish_verdict(run=run, question=question, judgement=judgement, recorded=finding)
    return finding


def judge_by_stored_keys(run: Run) -> DuplicateFinding | None:
    """Return the finding that the present rule gives for a stored run, unsaved. Earlier runs are
    found by the stored keys, which a former rule may have computed. None: no finding.
    """
    row = Fingerprint.objects.filter(run=run).first()
    if row is None:
        return None
    ignored = ignored_params_of_run(run)
    work = work_of(row, ignored)
    _, judgement = _judge(run, work, runs_with_keys_of(run), ignored)
    if not _is_recorded(judgement, past_run_of(run, work)):
        return None
    return DuplicateFinding(run=run, verdict=judgement.verdict, certainty=judgement.certainty)


def _judge(
    run: Run, work: Work, candidate_ids: Collection[int], ignored: Collection[str]
) -> tuple[Question, Finding]:
    before = [
        past
        for past in past_runs(run.lab, set(candidate_ids) - {run.pk}, ignored)
        if (past.started_us, past.uuid) < (run.started_us, run.uuid)
    ]
    question = Question(
        work=work,
        now=run.started_us,
        run=run.uuid,
        parent=past_run_of(run, work).parent,
        job=job_of(run),
        intent=run.intent,
        sweep=run.sweep,
    )
    question, before = _with_curves(run, question, before)
    return question, judge(question, before)


def _with_curves(
    run: Run, question: Question, before: list[PastRun]
) -> tuple[Question, list[PastRun]]:
    """Give those runs their curves that began when this one did: only they can be the same run,
    reported twice.
    """
    close = [past.uuid for past in before if abs(past.started_us - run.started_us) <= SERIES_US]
    if not close:
        return question, before
    numbers = dict(Run.objects.filter(lab=run.lab, uuid__in=close).values_list("uuid", "pk"))
    series = series_of([run.pk, *numbers.values()])
    with_series = [
        replace(past, series=series.get(numbers[past.uuid], "")) if past.uuid in numbers else past
        for past in before
    ]
    return replace(question, series=series.get(run.pk, "")), with_series


def _save_finding(
    run: Run, judgement: Finding, itself: PastRun, now: int
) -> DuplicateFinding | None:
    """Write what is judgement; an open finding that no longer holds is taken away."""
    existing = DuplicateFinding.objects.select_for_update().filter(run=run).first()
    if existing is not None and existing.state != FindingState.OPEN:
        return existing
    if not _is_recorded(judgement, itself):
        if existing is not None:
            existing.delete()
        return None
    first = judgement.matches[0]
    values = {
        "original": Run.objects.get(lab=run.lab, uuid=first.past.uuid),
        "verdict": judgement.verdict,
        "certainty": judgement.certainty,
        "unverified_parts": list(first.relation.weak),
        "labels": sorted(first.relation.labels),
        "not_compared": list(first.relation.not_compared),
    }
    if existing is None:
        return DuplicateFinding.objects.create(lab=run.lab, run=run, detected_us=now, **values)
    for name, value in values.items():
        setattr(existing, name, value)
    existing.save(update_fields=list(values))
    return existing


def _is_recorded(judgement: Finding, itself: PastRun) -> bool:
    """Return whether a verdict is a finding. One about runs whose data nobody compared, or which
    failed by an unknown cause, is none.
    """
    if judgement.verdict not in RECORDED_VERDICTS:
        return False
    first = judgement.matches[0]
    is_explained = judgement.verdict != Verdict.WILL_FAIL or first.past.failure != ""
    return (
        is_explained and not first.relation.unknown and not _contradicts_outcome(judgement, itself)
    )


def _contradicts_outcome(judgement: Finding, itself: PastRun) -> bool:
    """Return whether a run did not fail where a failure was predicted."""
    if judgement.verdict != Verdict.WILL_FAIL or itself.state == RunState.RUNNING:
        return False
    points = {match.past.failure_point for match in judgement.matches}
    return itself.state != RunState.FAILED or (
        itself.failure_point not in points and "" not in points
    )


@transaction.atomic
def decide(
    *,
    lab: Lab,
    finding_ids: Iterable[int],
    state: FindingState,
    reason: str,
    by: User,
    is_manager: bool,
    now: int,
) -> list[DuplicateFinding]:
    """Record a decision about up to MAX_DECIDED findings, all or none, with one audit entry. A
    fixed number of queries. ``is_manager``: may decide about runs of other people.

    Raises InvalidInput, NotFound for a finding of another lab, Conflict for a decided one or one of
    other people.
    """
    if state not in DECISIONS:
        raise InvalidInput("Unknown decision.", field="action", hint="Use one of the buttons.")
    if len(reason) > MAX_REASON or is_unstorable(reason):
        raise InvalidInput(f"Enter a reason of at most {MAX_REASON} characters.", field="reason")
    if state == FindingState.DISMISSED and not reason:
        raise InvalidInput(
            "Give a reason why it is no duplicate.", field="reason", hint="One sentence is enough."
        )
    findings = _lock_findings(lab, finding_ids, by, is_manager)
    for finding in findings:
        if finding.state not in (FindingState.OPEN, state):
            raise Conflict(
                f"{finding.run.name} is already decided.", field="item", hint="Reopen it first."
            )
    _save_decision(findings, state=state, reason=reason, by=by, now=now)
    with enqueue_batch():
        for finding in findings:
            enqueue(kind="preflight.judge", key=str(finding.run_id))  # for the trackers
    details = {
        "state": state.value,
        "reason": reason,
        "runs": [str(finding.run.uuid) for finding in findings],
    }
    audit.record(
        lab=lab, by=by, action=Act.DECIDED, subject=_subject(findings), details=details, now=now
    )
    return findings


@transaction.atomic
def reopen(
    *, lab: Lab, finding_ids: Iterable[int], by: User, is_manager: bool, now: int
) -> list[DuplicateFinding]:
    """Undo decisions: the findings are open again."""
    findings = _lock_findings(lab, finding_ids, by, is_manager)
    before = {str(finding.run.uuid): finding.state for finding in findings}
    _save_decision(findings, state=FindingState.OPEN, reason="", by=None, now=None)
    audit.record(
        lab=lab,
        by=by,
        action=Act.REOPENED,
        subject=_subject(findings),
        details={"were": before},
        now=now,
    )
    return findings


def _save_decision(
    findings: list[DuplicateFinding],
    *,
    state: FindingState,
    reason: str,
    by: User | None,
    now: int | None,
) -> None:
    """Write a decision into locked findings, and into the given objects."""
    values = {"state": state, "reason": reason, "decided_by": by, "decided_us": now}
    DuplicateFinding.objects.filter(pk__in=[finding.pk for finding in findings]).update(**values)
    for finding in findings:
        for name, value in values.items():
            setattr(finding, name, value)


@transaction.atomic
def ignore_finding_parameter(
    *, finding: DuplicateFinding, name: str, by: User, now: int
) -> Project:
    """Ignore a parameter of a finding's run in the run's project. Returns the project."""
    project = _project_of(finding, name)
    ignore_parameter(project=project, name=name, by=by, now=now)
    _record(finding, Act.IGNORED, project, name, by, now)
    return project


@transaction.atomic
def count_parameter_again(*, finding: DuplicateFinding, name: str, by: User, now: int) -> Project:
    """Undo :func:`ignore`. Raises NotFound if the project counts the parameter."""
    project = _project_of(finding, name)
    count_parameter(project=project, name=name)
    _record(finding, Act.COUNTED, project, name, by, now)
    return project


def _project_of(finding: DuplicateFinding, name: str) -> Project:
    project = finding.run.charged_project or finding.run.project
    if project is None:
        raise InvalidInput(
            "This run is unattributed, so no project can ignore its parameters.",
            field="name",
            hint="Claim the run for a project first.",
        )
    row = Fingerprint.objects.filter(run=finding.run).first()
    if row is None or name not in (row.params or {}):
        raise InvalidInput(
            "The run has no such parameter.", field="name", hint="Choose one of the list."
        )
    return project


def _record(
    finding: DuplicateFinding, act: Act, project: Project, name: str, by: User, now: int
) -> None:
    audit.record(
        lab=finding.lab,
        by=by,
        action=act,
        subject=project.slug,
        details={"parameter": name},
        now=now,
    )
    enqueue(kind="preflight.judge", key=str(finding.run_id), due_us=now + _AFTER_RECOUNT_US)


def _lock_findings(
    lab: Lab, ids_param: Iterable[int], by: User, is_manager: bool
) -> list[DuplicateFinding]:
    ids = sorted(set(ids_param))
    if not ids:
        raise InvalidInput(
            "No findings selected.", field="item", hint="Select at least one finding."
        )
    if len(ids) > MAX_DECIDED:
        raise InvalidInput(
            f"{len(ids)} findings are too many for one decision.",
            field="item",
            hint=f"Select at most {MAX_DECIDED}: filter the list first.",
        )
    audit.hold(lab)
    rows = (
        DuplicateFinding.objects.select_for_update(of=("self",))
        .select_related("run", "original")
        .order_by("pk")
    )
    findings = list(rows.filter(lab=lab, pk__in=ids))
    if len(findings) < len(ids):
        raise NotFound(
            "No such finding in your lab.",
            hint=f"See {reverse('duplicates')} for the findings of the lab.",
        )
    if not is_manager and any(
        by.pk not in (finding.run.user_id, finding.original.user_id) for finding in findings
    ):
        raise Conflict(
            "One of these findings is about runs of other people.",
            field="item",
            hint="Select findings of your own runs, or ask a PI or an admin of the lab.",
        )
    return findings


def _subject(findings: list[DuplicateFinding]) -> str:
    return findings[0].run.name if len(findings) == 1 else f"{len(findings)} findings"
