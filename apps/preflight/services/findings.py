"""Repeats found afterwards: a run is judged as if it were asked about at its start, and persons decide what it is."""

from collections.abc import Iterable
from dataclasses import replace

from django.db import transaction

from apps.accounts import audit
from apps.accounts.models import Lab, Project, User
from apps.carbon.figures.visibility import Sight
from apps.core.errors import Conflict, InvalidInput, NotFound
from apps.core.jobs import enqueue
from apps.core.text import is_unstorable
from apps.core.units import US_PER_S
from apps.preflight.choices import KEPT, Act, Certainty, Level, RepeatState, Verdict
from apps.preflight.models import Repeat
from apps.preflight.presenters import Asker, sentence, told
from apps.preflight.selectors import candidates, job_of, keys_asked, past_of, pasts, series_of, work_of
from apps.preflight.services.preflight import withdraw_avoided
from apps.preflight.similarity import Past, Question
from apps.preflight.verdicts import SERIES_US, Found, judge
from apps.runs.choices import RunState
from apps.runs.models import Fingerprint, Run
from apps.runs.services.fingerprints import ignored_of, parts_of
from apps.runs.services.ignored_params import count_parameter, ignore_parameter
from apps.trackers.mlflow.services.verdict_tags import tells_of, want_verdict

_NOBODY = Asker(None, Sight(False, None, frozenset()), reads=False)
# What a person decided is said instead of what was found.
_DECIDED = {RepeatState.INTENTIONAL: "on purpose", RepeatState.DISMISSED: "no repeat"}


def tell_trackers(*, run: Run, question: Question, found: Found, repeat: Repeat | None) -> None:
    """Have trackers say what was found of a run, where they tell of it and it is worth saying."""
    if tells_of(run):
        want_verdict(run=run, text=_text(run.lab, question, found, repeat))


def _text(lab: Lab, question: Question, found: Found, repeat: Repeat | None) -> str:
    if repeat is not None and repeat.state in _DECIDED:
        return _DECIDED[RepeatState(repeat.state)]
    if found.level == Level.SILENT:
        return ""
    listed, _ = told(lab, question, found, _NOBODY)
    sure = "" if found.certainty == Certainty.VERIFIED else "possible "
    return f"{sure}{found.verdict.value}: {sentence(found, listed, lab.time_zone)}"


MAX_REASON = 400
_AFTER_RECOUNT_US = 5 * US_PER_S  # keys are written anew first
DECISIONS = (RepeatState.CONFIRMED, RepeatState.INTENTIONAL, RepeatState.DISMISSED)


@transaction.atomic
def judge_run(*, run: Run, now: int) -> Repeat | None:
    """Judge a stored run by those that began before it, and renew its finding. What a person decided stays as it is."""
    row = Fingerprint.objects.filter(run=run).first()
    if row is None:
        return None
    ignored = ignored_of(run)
    parts, work = parts_of(row, ignored=ignored), work_of(row, ignored)
    keys = keys_asked(parts, work)
    withdraw_avoided(run=run, keys=keys, now=now)
    there = candidates(run.lab, keys) - {run.pk}
    before = [past for past in pasts(run.lab, there, ignored) if (past.started_us, past.uuid) < (run.started_us, run.uuid)]
    itself = past_of(run, work)
    question = Question(
        work=work, now=run.started_us, run=run.uuid, parent=itself.parent, job=job_of(run), intent=run.intent,
        sweep=run.sweep,
    )  # fmt: skip
    question, before = _with_curves(run, question, before)
    found = judge(question, before)
    repeat = _renewed(run, found, itself, now)
    tell_trackers(run=run, question=question, found=found, repeat=repeat)
    return repeat


def _with_curves(run: Run, question: Question, before: list[Past]) -> tuple[Question, list[Past]]:
    """Give those runs their curves that began when this one did: only they can be the same run told twice."""
    close = [past.uuid for past in before if abs(past.started_us - run.started_us) <= SERIES_US]
    if not close:
        return question, before
    numbers = dict(Run.objects.filter(lab=run.lab, uuid__in=close).values_list("uuid", "pk"))
    series = series_of([run.pk, *numbers.values()])
    told = [replace(past, series=series.get(numbers[past.uuid], "")) if past.uuid in numbers else past for past in before]
    return replace(question, series=series.get(run.pk, "")), told


def _renewed(run: Run, found: Found, itself: Past, now: int) -> Repeat | None:
    """Write what is found; an open finding that no longer holds is taken away."""
    there = Repeat.objects.select_for_update().filter(run=run).first()
    if there is not None and there.state != RepeatState.OPEN:
        return there
    if found.verdict not in KEPT or _went_otherwise(found, itself):
        if there is not None:
            there.delete()
        return None
    first = found.matches[0]
    told = {
        "of": Run.objects.get(lab=run.lab, uuid=first.past.uuid),
        "verdict": found.verdict,
        "certainty": found.certainty,
        "weak": list(first.relation.weak),
    }
    if there is None:
        return Repeat.objects.create(lab=run.lab, run=run, found_us=now, **told)
    for name, value in told.items():
        setattr(there, name, value)
    there.save(update_fields=list(told))
    return there


def _went_otherwise(found: Found, itself: Past) -> bool:
    """Return whether a run did not fail where it was expected to."""
    if found.verdict != Verdict.WILL_FAIL or itself.state == RunState.RUNNING:
        return False
    points = {match.past.failure_point for match in found.matches}
    return itself.state != RunState.FAILED or (itself.failure_point not in points and "" not in points)


@transaction.atomic
def decide(
    *, lab: Lab, repeats: Iterable[int], state: RepeatState, reason: str, by: User, keeper: bool, now: int
) -> list[Repeat]:
    """Record what findings are, and why. ``keeper``: may decide about other people's runs.

    Raises InvalidInput, NotFound for one of another lab, Conflict where one is decided otherwise already or is not theirs.
    """
    if state not in DECISIONS:
        raise InvalidInput("Nothing was chosen to do.", field="do", hint="Use one of the buttons.")
    if len(reason) > MAX_REASON or is_unstorable(reason):
        raise InvalidInput(f"A reason is text of at most {MAX_REASON} characters.", field="reason")
    if state == RepeatState.DISMISSED and not reason:
        raise InvalidInput("Say why it is no repeat.", field="reason", hint="One sentence helps who reads it later.")
    found = _locked(lab, repeats, by, keeper)
    for repeat in found:
        if repeat.state not in (RepeatState.OPEN, state):
            raise Conflict(f"{repeat.run.name} was decided already.", field="line", hint="Undo that decision first.")
    for repeat in found:
        repeat.state, repeat.reason, repeat.by, repeat.decided_us = state, reason, by, now
        repeat.save(update_fields=["state", "reason", "by", "decided_us"])
        enqueue(kind="preflight.judge", key=str(repeat.run_id))  # trackers say what was decided
    details = {"state": state.value, "reason": reason, "runs": [str(repeat.run.uuid) for repeat in found]}
    audit.record(lab=lab, by=by, action=Act.DECIDED, subject=_subject(found), details=details, now=now)
    return found


@transaction.atomic
def reopen(*, lab: Lab, repeats: Iterable[int], by: User, keeper: bool, now: int) -> list[Repeat]:
    """Undo decisions: the findings are open again, and judged anew."""
    found = _locked(lab, repeats, by, keeper)
    before = {str(repeat.run.uuid): repeat.state for repeat in found}
    for repeat in found:
        repeat.state, repeat.reason, repeat.by, repeat.decided_us = RepeatState.OPEN, "", None, None
        repeat.save(update_fields=["state", "reason", "by", "decided_us"])
    audit.record(lab=lab, by=by, action=Act.REOPENED, subject=_subject(found), details={"were": before}, now=now)
    return found


@transaction.atomic
def ignore(*, repeat: Repeat, name: str, by: User, now: int) -> Project:
    """Stop counting a parameter of a finding's run in the run's project; runs are compared anew. Returns the project."""
    project = _project_of(repeat, name)
    ignore_parameter(project=project, name=name, by=by, now=now)
    _recorded(repeat, Act.IGNORED, project, name, by, now)
    return project


@transaction.atomic
def count_again(*, repeat: Repeat, name: str, by: User, now: int) -> Project:
    """Undo :func:`ignore`. Raises NotFound if the project counts the parameter."""
    project = _project_of(repeat, name)
    count_parameter(project=project, name=name)
    _recorded(repeat, Act.COUNTED, project, name, by, now)
    return project


def _project_of(repeat: Repeat, name: str) -> Project:
    project = repeat.run.charged_project or repeat.run.project
    if project is None:
        raise InvalidInput(
            "Nobody is charged for this run, so no project can ignore its parameters.", field="name",
            hint="Claim the run for a project first.",
        )  # fmt: skip
    row = Fingerprint.objects.filter(run=repeat.run).first()
    if row is None or name not in (row.params or {}):
        raise InvalidInput("The run has no such parameter.", field="name", hint="Choose one of the list.")
    return project


def _recorded(repeat: Repeat, act: Act, project: Project, name: str, by: User, now: int) -> None:
    audit.record(lab=repeat.lab, by=by, action=act, subject=project.slug, details={"parameter": name}, now=now)
    enqueue(kind="preflight.judge", key=str(repeat.run_id), due_us=now + _AFTER_RECOUNT_US)


def _locked(lab: Lab, repeats: Iterable[int], by: User, keeper: bool) -> list[Repeat]:
    wanted = sorted(set(repeats))
    if not wanted:
        raise InvalidInput("No line was chosen.", field="line", hint="Tick the findings first.")
    audit.hold(lab)
    rows = Repeat.objects.select_for_update(of=("self",)).select_related("run", "of").order_by("pk")
    found = list(rows.filter(lab=lab, pk__in=wanted))
    if len(found) < len(wanted):
        raise NotFound("There is no such finding in your lab.", hint="See /duplicates/ for those there are.")
    if not keeper and any(by.pk not in (repeat.run.user_id, repeat.of.user_id) for repeat in found):
        raise Conflict(
            "One of these is between other people's runs.", field="line",
            hint="They decide, and PIs and admins of the lab. Choose your own.",
        )  # fmt: skip
    return found


def _subject(found: list[Repeat]) -> str:
    return found[0].run.name if len(found) == 1 else f"{len(found)} findings"
