"""Which lines of a plan may go now: what was approved, less what was pinned, promoted, held, used or lost other copies
since, and less folders in which anything lies that does not go."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Any

from django.db.models import Q, QuerySet
from django.db.models.functions import Left

from apps.artifacts.choices import CopyState, Form, PlanState
from apps.artifacts.cleanup.other_copies import all_going, elsewhere
from apps.artifacts.cleanup.proposals import Guarded, guarded_in, why_kept
from apps.artifacts.models import Copy, Plan, PlanLine

_AT_ONCE = 500


@dataclass(frozen=True)
class Going:
    """A line, and why it stays ('': it may go)."""

    line: PlanLine
    stays: str


def going(plan: Plan, now: int) -> list[Going]:
    """Return all lines of a plan that is approved, or was carried out, with why each stays at ``now``."""
    return going_of(plan, plan.lines.select_related("artifact", "copy").order_by("pk"), now)


def going_of(plan: Plan, lines: Iterable[PlanLine], now: int) -> list[Going]:
    """Return the same of some lines of a plan, which have artifact and copy: of the others only those are looked at that
    lie in a folder among them."""
    guarded = guarded_in(plan.lab)
    found = _by_themselves(plan, lines, guarded, now)
    held = _holding(plan, found, guarded, now)
    return [
        Going(each.line, f"{held[each.line.copy.path]} lies in it and does not go")
        if not each.stays and each.line.copy.path in held
        else each
        for each in found
    ]


def _by_themselves(plan: Plan, lines: Iterable[PlanLine], guarded: Guarded, now: int) -> list[Going]:
    """Return lines with why each stays, whatever lies in it."""
    listed = list(lines)
    if not listed:
        return []
    kept = why_kept(plan.lab, {line.artifact_id: line.artifact for line in listed}, now, guarded)
    there = elsewhere(line.artifact_id for line in listed)
    alone = [line for line in listed if not line.is_last_copy and there.is_last(line.copy)]
    all_go = all_going(plan, (line.artifact_id for line in alone))
    spared = {line.pk for line in alone if line.artifact_id not in all_go}
    found = []
    for line in listed:
        if plan.state not in (PlanState.APPROVED, PlanState.APPLIED):
            why = f"the plan is {plan.get_state_display().lower()}"
        elif not line.chosen:
            why = line.objection or "it is not ticked"
        elif line.artifact_id in kept:
            why = kept[line.artifact_id]
        elif line.pk in spared:
            why = "it was to go as one of several copies, and no other is sure to be there by now"
        else:
            why = ""
        found.append(Going(line, why))
    return found


def _holding(plan: Plan, found: Collection[Going], guarded: Guarded, now: int) -> dict[str, str]:
    """Return what keeps folders among ``found`` from going, by path of the folder. It would take with it a known copy in it
    that does not go by the same plan: the one that was found last is told. A folder that lies in the trash already is not
    deleted while anything stays that went there in it."""
    folders = {each.line.copy.path for each in found if not each.stays and each.line.artifact.form == Form.FOLDER}
    if not folders:
        return {}
    held: dict[str, str] = {}
    goes = {each.line.copy_id: not each.stays for each in found}
    present = Copy.objects.filter(node=plan.node, state=CopyState.PRESENT)
    inside = list(_within(present, folders, "path").order_by("-pk").values_list("pk", "path"))
    for start in range(0, len(inside), _AT_ONCE):
        part = [(pk, path) for pk, path in inside[start : start + _AT_ONCE] if _open(path, folders, held)]
        goes |= _going_copies(plan, [pk for pk, _ in part if pk not in goes], guarded, now)
        for pk, path in part:
            if not goes.get(pk):
                held.update(dict.fromkeys(_open(path, folders, held), path))
    along = _within(plan.lines.filter(went_with__isnull=False), folders, "copy__path")
    for each in _by_themselves(plan, along.select_related("artifact", "copy").order_by("-pk"), guarded, now):
        if each.stays:
            held.update(dict.fromkeys(_open(each.line.copy.path, folders, held), each.line.copy.path))
    return held


def _going_copies(plan: Plan, copies: Collection[int], guarded: Guarded, now: int) -> dict[int, bool]:
    """Return which of some copies go by themselves; what is no line of the plan is left out."""
    if not copies:
        return {}
    lines = plan.lines.filter(copy__in=copies, chosen=True).select_related("artifact", "copy")
    return {each.line.copy_id: not each.stays for each in _by_themselves(plan, lines, guarded, now)}


def _open(path: str, folders: Collection[str], held: Mapping[str, str]) -> set[str]:
    """Return the folders that a path lies in of which nothing is known yet to hold them."""
    return {each for each in _above(path) if each in folders and each not in held}


def _within(found: QuerySet[Any], folders: Collection[str], path: str) -> QuerySet[Any]:
    """Narrow rows to those whose path lies in one of ``folders``: compared by their first letters, as no index holds paths.
    Many folders narrow nothing: the caller looks at each path anyway."""
    if len(folders) > _AT_ONCE:
        return found
    by_length = defaultdict[int, list[str]](list)
    for folder in folders:
        by_length[len(folder) + 1].append(f"{folder}/")
    begins = {f"first_{length}": Left(path, length) for length in by_length}
    fits = (Q(**{f"first_{length}__in": some}) for length, some in by_length.items())
    least = min(by_length)  # most paths are told by this one comparison
    soon = Q(**{f"first_{least}__in": sorted({each[:least] for some in by_length.values() for each in some})})
    narrowed: QuerySet[Any] = found.alias(**begins).filter(soon).filter(reduce(or_, fits))
    return narrowed


def _above(path: str) -> Iterator[str]:
    """Yield the folders that a path lies in."""
    end = path.rfind("/")
    while end > 0:
        yield path[:end]
        end = path.rfind("/", 0, end)
