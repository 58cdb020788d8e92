"""What ``apply-plan`` tells of an approved plan's lines: what lies in the trash, came back, is deleted or was left."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from django.db import transaction

from apps.accounts.models import User
from apps.artifacts.choices import Act, ArtifactState, CopyState, Form, LineOutcome, PlanState
from apps.artifacts.cleanup.plans import ended, give_back, held_plan, record
from apps.artifacts.models import Artifact, Copy, Plan, PlanLine
from apps.core.errors import InvalidInput

_AT_ONCE = 500
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
    a folder went, what lies in it went with it, and comes back and is deleted with it. The plan ends once nothing of it is
    left to go, which is looked at also where nothing is told.

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
    stay = ended(plan, now)
    if fresh or stay is not None:
        record(plan, Act.PLAN_CARRIED_OUT, by, now, {**_counts([*fresh, *along]), **({"stay": stay} if stay else {})})
    return len(fresh)


def _is_news(line: PlanLine, told: Outcome) -> bool:
    """A line that went with its folder does what that does: the machine does not find it by itself any more."""
    if line.went_with_id is not None and line.outcome != LineOutcome.RESTORED:
        return told.outcome != LineOutcome.REFUSED and line.outcome != told.outcome
    return line.outcome != told.outcome


def _become(line: PlanLine, told: Outcome, now: int) -> None:
    line.outcome, line.word, line.outcome_us = told.outcome, told.word[:300], now


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
    for some in _parts(lines):
        _move_copies(some)
        PlanLine.objects.bulk_update(some, ["outcome", "word", "outcome_us", "went_with"])
    for some in _parts(lines):
        _after(some)


def _parts(lines: Sequence[PlanLine]) -> Iterator[Sequence[PlanLine]]:
    yield from (lines[start : start + _AT_ONCE] for start in range(0, len(lines), _AT_ONCE))


def _move_copies(lines: Sequence[PlanLine]) -> None:
    """A copy is a place: where that holds something else by now, or the same again since it went to the trash, it is not
    what the line is about. ``lines`` as they become; the database has them as they were."""
    became = {line.pk: LineOutcome(line.outcome) for line in lines}
    rows = PlanLine.objects.select_for_update(of=("copy",)).select_related("copy").filter(pk__in=became)
    changed = []
    for row in rows.order_by("copy_id"):
        after = _COPY_AFTER.get(became[row.pk])
        is_anew = row.outcome == LineOutcome.TRASHED and row.copy.state != CopyState.TRASHED
        if after is not None and row.copy.artifact_id == row.artifact_id and not (is_anew and after == CopyState.DELETED):
            row.copy.state = after
            changed.append(row.copy)
    Copy.objects.bulk_update(changed, ["state"])


def _after(lines: Sequence[PlanLine]) -> None:
    """What became of copies shows on their artifacts: without any left an artifact is a tombstone, else it is as before."""
    deleted = {line.artifact_id for line in lines if line.outcome == LineOutcome.DELETED}
    there = Copy.objects.filter(artifact__in=deleted, state__in=(CopyState.PRESENT, CopyState.TRASHED))
    left = set(there.values_list("artifact", flat=True))
    Artifact.objects.filter(pk__in=deleted - left).update(state=ArtifactState.TOMBSTONE)
    back = (LineOutcome.REFUSED, LineOutcome.RESTORED)
    give_back([line for line in lines if line.outcome in back or line.artifact_id in left])


def _counts(lines: Sequence[PlanLine]) -> dict[str, int | str]:
    names = sorted({str(line.outcome) for line in lines})
    counts: dict[str, int | str] = {name: sum(line.outcome == name for line in lines) for name in names}
    along = sum(line.went_with_id is not None for line in lines)
    return {**counts, **({"with_folder": along} if along else {})}
