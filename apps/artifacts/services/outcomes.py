"""What ``apply-plan`` tells of an approved plan's lines: what lies in the trash, came back, is deleted or was left."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from django.db import transaction

from apps.accounts.models import User
from apps.artifacts.choices import Act, ArtifactState, CopyState, Form, LineOutcome, PlanState
from apps.artifacts.models import Artifact, Copy, Plan, PlanLine
from apps.artifacts.services.sparing import give_back, held_plan, record
from apps.core.errors import InvalidInput

_COPY_AFTER = {
    LineOutcome.TRASHED: CopyState.TRASHED, LineOutcome.RESTORED: CopyState.PRESENT, LineOutcome.DELETED: CopyState.DELETED,
}  # fmt: skip


@dataclass(frozen=True)
class Outcome:
    """What became of a line on the machine."""

    line: int
    outcome: LineOutcome
    word: str = ""


@transaction.atomic
def note_outcomes(*, plan: Plan, outcomes: Sequence[Outcome], by: User | None, now: int) -> int:
    """Record what ``apply-plan`` did; return of how many of these lines that is news. Saying it again changes nothing. Where
    a folder went, what lies in it went with it, and comes back and is deleted with it.

    Raises Conflict for a plan that was not approved, InvalidInput for lines that are not ticked in it.
    """
    plan = held_plan(plan, PlanState.APPROVED, PlanState.APPLIED)
    told = {each.line: each for each in outcomes}
    rows = list(
        plan.lines.select_for_update(of=("self",)).select_related("copy", "artifact").filter(pk__in=told).order_by("pk")
    )
    if len(rows) != len(told) or any(not line.chosen and line.outcome == "" for line in rows):
        raise InvalidInput("A line is not of this plan, or is not to go.", field="lines", hint="Ask for the plan again.")
    fresh = [line for line in rows if _is_news(line, told[line.pk])]
    for line in fresh:
        _become(line, told[line.pk], now)
    along = _took_along(plan, fresh, now)
    _store([*fresh, *along])
    if not plan.lines.filter(chosen=True, outcome="").exists() and plan.state != PlanState.APPLIED:
        plan.state, plan.ended_us = PlanState.APPLIED, now
        plan.save()
    if fresh:
        record(plan, Act.PLAN_CARRIED_OUT, by, now, _counts([*fresh, *along]))
    return len(fresh)


def _is_news(line: PlanLine, told: Outcome) -> bool:
    """A line that went with its folder does what that does: the machine does not find it by itself any more."""
    if line.went_with_id is not None and line.outcome != LineOutcome.RESTORED:
        return told.outcome != LineOutcome.REFUSED and line.outcome != told.outcome
    return line.outcome != told.outcome


def _become(line: PlanLine, told: Outcome, now: int) -> None:
    line.outcome, line.word, line.outcome_us = told.outcome, told.word[:300], now
    line.copy.state = _COPY_AFTER.get(told.outcome, line.copy.state)


def _took_along(plan: Plan, fresh: Sequence[PlanLine], now: int) -> list[PlanLine]:
    """Have the lines in folders that went, came back or were deleted do the same."""
    folders = {
        line.copy.path: line for line in fresh if line.artifact.form == Form.FOLDER and line.outcome in _COPY_AFTER
    }  # fmt: skip
    if not folders:
        return []
    mine = {line.pk: line for line in fresh}
    found = []
    rows = plan.lines.select_for_update(of=("self",)).select_related("copy", "artifact")
    for line in (mine.get(row.pk, row) for row in rows.filter(chosen=True).order_by("pk")):
        folder = _around(line.copy.path, folders)
        if folder is None or not _goes_along(line, folder):
            continue
        _become(line, Outcome(line.pk, LineOutcome(folder.outcome), f"with its folder {folder.copy.path}"), now)
        line.went_with = folder
        found += [] if line.pk in mine else [line]
    return found


def _goes_along(line: PlanLine, folder: PlanLine) -> bool:
    """What lies in the trash on its own, or was brought back or deleted on its own, is not in the folder."""
    if folder.outcome == LineOutcome.TRASHED:
        return line.outcome in ("", LineOutcome.REFUSED) or line.went_with_id == folder.pk
    return line.went_with_id == folder.pk


def _around(path: str, folders: Mapping[str, PlanLine]) -> PlanLine | None:
    """Return the outermost of ``folders`` that a path lies in: it took the others along."""
    parts = path.split("/")
    above = ("/".join(parts[:end]) for end in range(1, len(parts)))
    return next((folders[each] for each in above if each in folders), None)


def _store(lines: Sequence[PlanLine]) -> None:
    PlanLine.objects.bulk_update(lines, ["outcome", "word", "outcome_us", "went_with"], batch_size=500)
    Copy.objects.bulk_update([line.copy for line in lines], ["state"], batch_size=500)
    _after(lines)


def _after(lines: Sequence[PlanLine]) -> None:
    """What became of copies shows on their artifacts: without any left an artifact is a tombstone, else it is as before."""
    for line in lines:
        left = Copy.objects.filter(artifact=line.artifact_id, state__in=(CopyState.PRESENT, CopyState.TRASHED)).exists()
        if line.outcome == LineOutcome.DELETED and not left:
            Artifact.objects.filter(pk=line.artifact_id).update(state=ArtifactState.TOMBSTONE)
    give_back([line for line in lines if line.outcome in (LineOutcome.REFUSED, LineOutcome.RESTORED)])


def _counts(lines: Sequence[PlanLine]) -> dict[str, int | str]:
    names = sorted({str(line.outcome) for line in lines})
    counts: dict[str, int | str] = {name: sum(line.outcome == name for line in lines) for name in names}
    along = sum(line.went_with_id is not None for line in lines)
    return {**counts, **({"with_folder": along} if along else {})}
