"""What the ticked lines of a plan come to: bytes, a year of keeping, and making all of it again."""

from dataclasses import dataclass

from django.db.models import Count, Q, Sum

from apps.artifacts.models import Plan


@dataclass(frozen=True)
class PlanSums:
    """``storage_mj`` and ``storage_ug``: a year of keeping, None where nothing of it is known; ``unknown_medium`` lines are
    in neither, ``without_factor`` lines not in the second. ``retrain_mj`` and ``retrain_ug``: each run that made something
    of it once; ``unmeasured`` lines are in neither, ``runs_without_factor`` runs not in the second."""

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


def sums_of(plan: Plan) -> PlanSums:
    """Return what the ticked lines come to. Two queries."""
    ticked = plan.lines.filter(chosen=True)
    told = ticked.aggregate(
        lines=Count("pk"), bytes=Sum("artifact__bytes"), mj=Sum("storage_mj"), ug=Sum("storage_ug"),
        unknown=Count("pk", filter=Q(storage_mj=None)),
        unpriced=Count("pk", filter=Q(storage_mj__isnull=False, storage_ug=None)),
        unmeasured=Count("pk", filter=Q(retrain_mj=None)),
    )  # fmt: skip
    # Several artifacts of one run are made again by one run.
    made = (
        ticked.filter(retrain_mj__isnull=False).order_by().values_list("retrain_run", "retrain_mj", "retrain_ug").distinct()
    )
    runs = list(made)
    priced = [ug for _, _, ug in runs if ug is not None]
    return PlanSums(
        told["lines"], int(told["bytes"] or 0), _known(told["mj"]), _known(told["ug"]), told["unknown"], told["unpriced"],
        sum(mj or 0 for _, mj, _ in runs) if runs else None, sum(priced) if priced else None, len(runs), told["unmeasured"],
        len(runs) - len(priced),
    )  # fmt: skip


def _known(value: int | None) -> int | None:
    return None if value is None else int(value)
