"""Totals of the selected items of a plan: bytes, storage, retraining, break-even."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction

from django.db.models import Count, Q, Sum

from apps.artifacts.cleanup.freed_space import freed_space
from apps.artifacts.models import CleanupItem, CleanupPlan
from apps.artifacts.storage_model import break_even


@dataclass(frozen=True)
class PlanTotals:
    """Totals of selected items. ``bytes``: freed by deleting them all, and stored in no other copy.

    ``storage_mj`` and ``storage_ug``: a year of storage, None if nothing is known.
    ``unknown_medium`` items are in neither, ``without_factor`` items not in the second.
    ``retrain_mj`` and ``retrain_ug``: each producing run once. ``unmeasured`` items are in neither,
    ``runs_without_factor`` runs not in the second. ``one_of_several``: items of which another copy
    remains.
    """

    lines: int
    bytes: int
    storage_mj: int | None
    storage_ug: int | None
    unknown_medium: int
    without_factor: int
    retrain_mj: int | None
    retrain_ug: int | None
    runs: int
    unmeasured: int
    runs_without_factor: int
    one_of_several: int

    @property
    def break_even(self) -> Fraction | None:
        """Return the break-even reuse probability of all items; None if part of it is unknown."""
        return (
            None
            if self.unknown_medium or self.unmeasured
            else break_even(self.storage_mj, self.retrain_mj)
        )


def plan_totals(plan: CleanupPlan) -> PlanTotals:
    """Return the totals of the selected items. Four queries at most, six if copies share files."""
    selected = plan.items.filter(selected=True)
    item_sums = selected.aggregate(
        lines=Count("pk"),
        bytes=Sum("artifact__bytes"),
        mj=Sum("storage_mj"),
        ug=Sum("storage_ug"),
        unknown=Count("pk", filter=Q(storage_mj=None)),
        unpriced=Count("pk", filter=Q(storage_mj__isnull=False, storage_ug=None)),
        unmeasured=Count("pk", filter=Q(retrain_mj=None)),
        several=Count("pk", filter=Q(is_last_copy=False)),
    )
    # Several artifacts of one run are reproduced by one run.
    runs = (
        selected.filter(retrain_mj__isnull=False)
        .order_by()
        .values("retrain_run", "retrain_mj", "retrain_ug")
        .distinct()
    )
    run_sums = runs.aggregate(
        runs=Count("retrain_mj"),
        mj=Sum("retrain_mj"),
        ug=Sum("retrain_ug"),
        priced=Count("retrain_ug"),
    )
    if item_sums["several"]:  # without those whose other copies are all selected
        fully_selected = selected.filter(is_last_copy=True).values("artifact")
        item_sums["several"] = (
            selected.filter(is_last_copy=False).exclude(artifact__in=fully_selected).count()
        )
    sharing = [freed for freed in freed_space([plan]).values() if freed.is_selected]
    return PlanTotals(
        item_sums["lines"],
        int(item_sums["bytes"] or 0) - sum(freed.size - freed.bytes for freed in sharing),
        _reduced(item_sums["mj"], ((freed.size_mj, freed.storage_mj) for freed in sharing)),
        _reduced(item_sums["ug"], ((freed.size_ug, freed.storage_ug) for freed in sharing)),
        item_sums["unknown"],
        item_sums["unpriced"],
        _int_or_none(run_sums["mj"]),
        _int_or_none(run_sums["ug"]),
        run_sums["runs"],
        item_sums["unmeasured"],
        run_sums["runs"] - run_sums["priced"],
        item_sums["several"],
    )


def artifact_storage_mj(
    plan: CleanupPlan, artifacts: Collection[int] | None = None
) -> dict[int, int | None]:
    """Return the yearly storage energy, mJ, of each artifact of a plan (or some): all its copies in
    the plan, where they share files the bytes that deleting them frees.

    None if the medium of a copy is unknown. Two queries, more if copies share files.
    """
    items = plan.items.all() if artifacts is None else plan.items.filter(artifact__in=artifacts)
    unknown = Count("pk", filter=Q(storage_mj=None))
    rows = items.order_by().values_list("artifact").annotate(mj=Sum("storage_mj"), many=unknown)
    sharing = defaultdict[int, list[tuple[int | None, int | None]]](list)
    for freed in freed_space([plan]).values():
        sharing[freed.artifact_id].append((freed.size_mj, freed.storage_mj))
    return {
        artifact: None if unknown_count else _reduced(mj, sharing.get(artifact, ()))
        for artifact, mj, unknown_count in rows
    }


def item_break_even(item: CleanupItem, storage_mj: Mapping[int, int | None]) -> Fraction | None:
    """Return the break-even reuse probability of the artifact of an item, with all its copies in
    the plan.

    ``storage_mj``: from :func:`artifact_storage_mj`. None if that or the retraining energy is
    unknown.
    """
    return break_even(storage_mj[item.artifact_id], item.retrain_mj)


def _reduced(total: int | None, parts: Iterable[tuple[int | None, int | None]]) -> int | None:
    """Return a total after replacing amounts of it: (included amount, new amount)."""
    if total is None:
        return None
    return int(total) - sum((before or 0) - (after or 0) for before, after in parts)


def _int_or_none(value: int | None) -> int | None:
    return None if value is None else int(value)
