"""Which lines of a plan may go now: what was approved, less what was pinned, promoted, held, used or lost other copies
since, and less folders in which anything lies that does not go."""

from collections.abc import Iterator
from dataclasses import dataclass

from apps.artifacts.choices import CopyState, Form, PlanState
from apps.artifacts.models import Copy, Plan, PlanLine
from apps.artifacts.others import elsewhere
from apps.artifacts.proposing import why_kept


@dataclass(frozen=True)
class Going:
    """A line, and why it stays ('': it may go)."""

    line: PlanLine
    stays: str


def going(plan: Plan, now: int) -> list[Going]:
    """Return all lines of a plan that is approved, or was carried out, with why each stays at ``now``."""
    lines = list(plan.lines.select_related("artifact", "copy").order_by("pk"))
    kept = why_kept(plan.lab, {line.artifact_id: line.artifact for line in lines}, now)
    there = elsewhere(line.artifact_id for line in lines)
    found = []
    for line in lines:
        if plan.state not in (PlanState.APPROVED, PlanState.APPLIED):
            why = f"the plan is {plan.get_state_display().lower()}"
        elif not line.chosen:
            why = line.objection or "it is not ticked"
        elif line.artifact_id in kept:
            why = kept[line.artifact_id]
        elif not line.is_last_copy and there.is_last(line.copy):
            why = "it was to go as one of several copies, and no other is sure to be there by now"
        else:
            why = ""
        found.append(Going(line, why))
    return _less_what_holds_others(plan, found)


def _less_what_holds_others(plan: Plan, found: list[Going]) -> list[Going]:
    """A folder does not go while a known copy lies in it that does not go by the same plan: it would take that with it. One
    that lies in the trash already is not deleted while anything stays that went there in it."""
    folders = {each.line.copy.path for each in found if not each.stays and each.line.artifact.form == Form.FOLDER}
    if not folders:
        return found
    go = {each.line.copy_id for each in found if not each.stays}
    held: dict[str, str] = {}
    for each in found:
        if each.stays and each.line.went_with_id is not None:
            held.update(dict.fromkeys(folders.intersection(_above(each.line.copy.path)), each.line.copy.path))
    others = Copy.objects.filter(node=plan.node, state=CopyState.PRESENT).order_by("pk")
    for pk, path in others.values_list("pk", "path").iterator():
        if pk not in go:
            held.update(dict.fromkeys(folders.intersection(_above(path)), path))
    return [
        Going(each.line, f"{held[each.line.copy.path]} lies in it and does not go")
        if not each.stays and each.line.copy.path in held
        else each
        for each in found
    ]


def _above(path: str) -> Iterator[str]:
    """Yield the folders that a path lies in."""
    end = path.rfind("/")
    while end > 0:
        yield path[:end]
        end = path.rfind("/", 0, end)
