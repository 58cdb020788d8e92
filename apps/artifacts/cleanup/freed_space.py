"""Bytes that a cleanup plan frees, where its copies share files with other copies.

A file is freed when all copies that use it are deleted. A plan counts it at the last of its
selected items that use it. Copies with files that have other names (hard links, links) are not
deleted.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

from django.db.models import Exists, OuterRef, QuerySet

from apps.artifacts.choices import CopyState, ItemOutcome
from apps.artifacts.models import CleanupItem, CleanupPlan, Copy, SharedBytes

T = TypeVar("T", int, str)
_GONE_STATES = (CopyState.MISSING, CopyState.DELETED)
_REMAINING = (ItemOutcome.REFUSED, ItemOutcome.RESTORED)
_BATCH_SIZE = 500
OTHER_NAMES = "its files have other names: hard links, or links from other folders"


@dataclass(frozen=True)
class FreedSpace:
    """An item whose copy shares files. ``bytes``: freed by deleting it with the selected items of
    its plan. ``size``: of its artifact. ``storage_mj`` and ``storage_ug``: of the freed bytes, None
    if unknown.
    """

    plan_id: int
    artifact_id: int
    is_selected: bool
    size: int
    bytes: int
    storage_mj: int | None
    storage_ug: int | None
    size_mj: int | None
    size_ug: int | None


def without_other_names(copies: QuerySet[Copy]) -> QuerySet[Copy]:
    """Leave out the copies with files that have other names."""
    return copies.exclude(Exists(SharedBytes.objects.filter(copy=OuterRef("pk"), copies=None)))


def with_other_names(copies: Collection[int]) -> set[int]:
    """Return those of ``copies`` (primary keys) with files that have other names."""
    return {
        copy_id
        for batch in _batches(copies)
        for copy_id in SharedBytes.objects.filter(copy__in=batch, copies=None).values_list(
            "copy_id", flat=True
        )
    }


def freed_space(plans: Collection[CleanupPlan]) -> dict[int, FreedSpace]:
    """Return the freed space of the items of plans whose copies share files, by primary key. All
    other items free the size of their artifact. One query without any, else three per batch.
    """
    items = list(
        CleanupItem.objects.filter(plan__in=plans, copy__own_bytes__isnull=False)
        .select_related("artifact", "copy")
        .defer("artifact__facts", "artifact__tags")
        .order_by("pk")
    )
    if not items:
        return {}
    groups = _groups({item.copy_id for item in items})
    users_gone = _users_gone({key for rows in groups.values() for key in rows})
    items_by_plan = defaultdict[int, list[CleanupItem]](list)
    for item in items:
        items_by_plan[item.plan_id].append(item)
    freed: dict[int, FreedSpace] = {}
    for plan_items in items_by_plan.values():
        freed |= _freed_by_plan(plan_items, groups, users_gone)
    return freed


_Groups = Mapping[int, Mapping[str, SharedBytes]]  # by copy and key
_Users = Mapping[tuple[int | None, str], set[int]]  # copies by node and key


def _freed_by_plan(
    items: Collection[CleanupItem], groups: _Groups, users_gone: _Users
) -> dict[int, FreedSpace]:
    deletable = {item.pk: _is_deletable(item, groups) for item in items}
    deleted = defaultdict[str, dict[int, int]](dict)  # selected copies → items, by key
    for item in items:
        if deletable[item.pk] and item.selected and item.outcome not in _REMAINING:
            for key in groups.get(item.copy_id, {}):
                deleted[key][item.copy_id] = item.pk
    freed = {}
    for item in items:
        size = (item.copy.own_bytes or 0) if deletable[item.pk] else 0
        for key, group in groups.get(item.copy_id, {}).items() if deletable[item.pk] else ():
            selected = deleted[key]
            users = {*selected, item.copy_id} | users_gone.get((item.copy.node_id, key), set())
            is_last = item.pk == max(selected.values(), default=0) or item.copy_id not in selected
            if len(users) == group.copies and is_last:
                size += group.bytes
        freed[item.pk] = FreedSpace(
            item.plan_id,
            item.artifact_id,
            item.selected,
            item.artifact.bytes,
            size,
            _part(item.storage_mj, size, item.artifact.bytes),
            _part(item.storage_ug, size, item.artifact.bytes),
            item.storage_mj,
            item.storage_ug,
        )
    return freed


def _is_deletable(item: CleanupItem, groups: _Groups) -> bool:
    """Return whether an item's copy still has its content, and no file with other names."""
    return item.copy.artifact_id == item.artifact_id and all(
        group.copies is not None for group in groups.get(item.copy_id, {}).values()
    )


def _groups(copies: Collection[int]) -> dict[int, dict[str, SharedBytes]]:
    groups = defaultdict[int, dict[str, SharedBytes]](dict)
    for batch in _batches(copies):
        for group in SharedBytes.objects.filter(copy__in=batch):
            groups[group.copy_id][group.key] = group
    return groups


def _users_gone(keys: Collection[str]) -> dict[tuple[int | None, str], set[int]]:
    """Return the copies of groups that no longer exist, by node and key."""
    gone = defaultdict[tuple[int | None, str], set[int]](set)
    for batch in _batches(keys):
        rows = SharedBytes.objects.filter(key__in=batch, copy__state__in=_GONE_STATES)
        for node_id, key, copy_id in rows.values_list("copy__node", "key", "copy_id"):
            gone[node_id, key].add(copy_id)
    return gone


def _part(amount: int | None, part: int, whole: int) -> int | None:
    """Return the part of an amount that is proportional to bytes, half up."""
    if amount is None or part == whole:
        return amount
    return (2 * amount * part + whole) // (2 * whole)


def _batches(values: Iterable[T]) -> Iterator[list[T]]:
    listed = sorted(values)
    return (listed[start : start + _BATCH_SIZE] for start in range(0, len(listed), _BATCH_SIZE))
