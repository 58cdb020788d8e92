"""Eligibility of cleanup items: which of the approved items can be deleted now.

Items are blocked if they were pinned, promoted, held or used since, if they became the last copy,
or if a folder contains anything that is not deleted.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Any

from django.db.models import Q, QuerySet
from django.db.models.functions import Left

from apps.artifacts.choices import CopyState, Form, PlanState
from apps.artifacts.cleanup.freed_space import OTHER_NAMES, with_other_names
from apps.artifacts.cleanup.other_copies import fully_selected, load_other_copies
from apps.artifacts.cleanup.proposals import ProtectedIds, protected_ids, protection_reasons
from apps.artifacts.models import CleanupItem, CleanupPlan, Copy

_BATCH_SIZE = 500


@dataclass(frozen=True)
class Eligibility:
    """An item, and the reason that blocks it ('': eligible)."""

    item: CleanupItem
    blocked_reason: str


def check_plan(plan: CleanupPlan, now: int) -> list[Eligibility]:
    """Return the eligibility of all items of a plan at ``now``."""
    return check_items(plan, plan.items.select_related("artifact", "copy").order_by("pk"), now)


def check_items(plan: CleanupPlan, items: Iterable[CleanupItem], now: int) -> list[Eligibility]:
    """Return the eligibility of some items of a plan, loaded with artifact and copy.

    Other items are only read if they are inside one of these folders.
    """
    protected = protected_ids(plan.lab)
    results = _check_individually(plan, items, protected, now)
    blocked = _blocking_paths(plan, results, protected, now)
    return [
        Eligibility(
            result.item, f"it contains {blocked[result.item.copy.path]}, which is not deleted"
        )
        if not result.blocked_reason and result.item.copy.path in blocked
        else result
        for result in results
    ]


def _check_individually(
    plan: CleanupPlan, items: Iterable[CleanupItem], protected: ProtectedIds, now: int
) -> list[Eligibility]:
    """Return the eligibility of items without regard to the contents of folders."""
    listed_items = list(items)
    if not listed_items:
        return []
    reasons = protection_reasons(
        plan.lab, {item.artifact_id: item.artifact for item in listed_items}, now, protected
    )
    copies = load_other_copies(item.artifact_id for item in listed_items)
    unsafe_candidates = [
        item for item in listed_items if not item.is_last_copy and copies.is_last(item.copy)
    ]
    fully_selected_ids = fully_selected(plan, (item.artifact_id for item in unsafe_candidates))
    unsafe = {item.pk for item in unsafe_candidates if item.artifact_id not in fully_selected_ids}
    named = with_other_names({item.copy_id for item in listed_items})
    results = []
    for item in listed_items:
        if plan.state not in (PlanState.APPROVED, PlanState.APPLIED):
            reason = f"the plan is {plan.get_state_display().lower()}"
        elif not item.selected:
            reason = item.objection or "it is not ticked"
        elif item.artifact_id in reasons:
            reason = reasons[item.artifact_id]
        elif item.pk in unsafe:
            reason = "another copy was expected to remain, but none is reliable by now"
        elif item.copy_id in named:
            reason = OTHER_NAMES
        else:
            reason = ""
        results.append(Eligibility(item, reason))
    return results


def _blocking_paths(
    plan: CleanupPlan, results: Collection[Eligibility], protected: ProtectedIds, now: int
) -> dict[str, str]:
    """Return the path that blocks each folder among ``results``, by path of the folder.

    A known copy in a folder that is not deleted by the same plan blocks it. Of several such copies
    the newest is returned. A trashed folder is not purged while an item that was trashed with it is
    blocked.
    """
    folders = {
        result.item.copy.path
        for result in results
        if not result.blocked_reason and result.item.artifact.form == Form.FOLDER
    }
    if not folders:
        return {}
    blocked: dict[str, str] = {}
    is_eligible = {result.item.copy_id: not result.blocked_reason for result in results}
    present = Copy.objects.filter(node=plan.node, state=CopyState.PRESENT)
    inside = list(
        _filter_inside(present, folders, "path").order_by("-pk").values_list("pk", "path")
    )
    for start in range(0, len(inside), _BATCH_SIZE):
        batch = [
            (pk, path)
            for pk, path in inside[start : start + _BATCH_SIZE]
            if _unblocked_folders(path, folders, blocked)
        ]
        is_eligible |= _eligible_copies(
            plan, [pk for pk, _ in batch if pk not in is_eligible], protected, now
        )
        for pk, path in batch:
            if not is_eligible.get(pk):
                blocked.update(dict.fromkeys(_unblocked_folders(path, folders, blocked), path))
    contents = _filter_inside(plan.items.filter(parent_item__isnull=False), folders, "copy__path")
    for result in _check_individually(
        plan, contents.select_related("artifact", "copy").order_by("-pk"), protected, now
    ):
        if result.blocked_reason:
            blocked.update(
                dict.fromkeys(
                    _unblocked_folders(result.item.copy.path, folders, blocked),
                    result.item.copy.path,
                )
            )
    return blocked


def _eligible_copies(
    plan: CleanupPlan, copies: Collection[int], protected: ProtectedIds, now: int
) -> dict[int, bool]:
    """Return which copies are eligible individually. Copies without an item in the plan are left
    out.
    """
    if not copies:
        return {}
    items = plan.items.filter(copy__in=copies, selected=True).select_related("artifact", "copy")
    return {
        result.item.copy_id: not result.blocked_reason
        for result in _check_individually(plan, items, protected, now)
    }


def _unblocked_folders(path: str, folders: Collection[str], blocked: Mapping[str, str]) -> set[str]:
    """Return the folders that contain a path and are not blocked yet."""
    return {
        folder for folder in _parent_folders(path) if folder in folders and folder not in blocked
    }


def _filter_inside(rows: QuerySet[Any], folders: Collection[str], path: str) -> QuerySet[Any]:
    """Filter rows by paths inside ``folders``, comparing prefixes because paths have no index.

    Many folders are not filtered: the caller checks each path anyway.
    """
    if len(folders) > _BATCH_SIZE:
        return rows
    by_length = defaultdict[int, list[str]](list)
    for folder in folders:
        by_length[len(folder) + 1].append(f"{folder}/")
    prefixes_by_length = {f"first_{length}": Left(path, length) for length in by_length}
    conditions = (Q(**{f"first_{length}__in": prefixes}) for length, prefixes in by_length.items())
    shortest = min(by_length)  # this one comparison decides for most paths
    coarse = Q(
        **{
            f"first_{shortest}__in": sorted(
                {prefix[:shortest] for prefixes in by_length.values() for prefix in prefixes}
            )
        }
    )
    narrowed: QuerySet[Any] = (
        rows.alias(**prefixes_by_length).filter(coarse).filter(reduce(or_, conditions))
    )
    return narrowed


def _parent_folders(path: str) -> Iterator[str]:
    """Yield the folders that contain a path."""
    end = path.rfind("/")
    while end > 0:
        yield path[:end]
        end = path.rfind("/", 0, end)
