"""What the ticked lines of a plan come to: bytes, a year of keeping, making all of it again; and from which chance of reuse
on keeping pays, of all of it and of each artifact."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from fractions import Fraction

from django.db.models import Count, Q, Sum

from apps.artifacts.models import Plan, PlanLine
from apps.artifacts.storage_model import break_even


@dataclass(frozen=True)
class PlanSums:
    """``storage_mj`` and ``storage_ug``: a year of keeping, None where nothing of it is known; ``unknown_medium`` lines are
    in neither, ``without_factor`` lines not in the second. ``retrain_mj`` and ``retrain_ug``: each run that made something
    of it once; ``unmeasured`` lines are in neither, ``runs_without_factor`` runs not in the second. Of ``one_of_several``
    lines another copy stays."""

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
        """Return from which chance of reuse on keeping all of it pays; None where a part of it is not known."""
        return None if self.unknown_medium or self.unmeasured else break_even(self.storage_mj, self.retrain_mj)


def sums_of(plan: Plan) -> PlanSums:
    """Return what the ticked lines come to. Three queries at most."""
    ticked = plan.lines.filter(chosen=True)
    told = ticked.aggregate(
        lines=Count("pk"), bytes=Sum("artifact__bytes"), mj=Sum("storage_mj"), ug=Sum("storage_ug"),
        unknown=Count("pk", filter=Q(storage_mj=None)),
        unpriced=Count("pk", filter=Q(storage_mj__isnull=False, storage_ug=None)),
        unmeasured=Count("pk", filter=Q(retrain_mj=None)),
        several=Count("pk", filter=Q(is_last_copy=False)),
    )  # fmt: skip
    # Several artifacts of one run are made again by one run.
    runs = ticked.filter(retrain_mj__isnull=False).order_by().values("retrain_run", "retrain_mj", "retrain_ug").distinct()
    made = runs.aggregate(
        runs=Count("retrain_mj"), mj=Sum("retrain_mj"), ug=Sum("retrain_ug"), priced=Count("retrain_ug")
    )  # fmt: skip
    if told["several"]:  # but for those that go with all other copies
        going = ticked.filter(is_last_copy=True).values("artifact")
        told["several"] = ticked.filter(is_last_copy=False).exclude(artifact__in=going).count()
    return PlanSums(
        told["lines"], int(told["bytes"] or 0), _known(told["mj"]), _known(told["ug"]), told["unknown"], told["unpriced"],
        _known(made["mj"]), _known(made["ug"]), made["runs"], told["unmeasured"], made["runs"] - made["priced"],
        told["several"],
    )  # fmt: skip


def kept_with(plan: Plan, artifacts: Collection[int] | None = None) -> dict[int, int | None]:
    """Return what a year of keeping each artifact of a plan (or some) takes, mJ: all its copies in the plan, ticked or not,
    None where the medium of one is unknown. One query."""
    lines = plan.lines.all() if artifacts is None else plan.lines.filter(artifact__in=artifacts)
    unknown = Count("pk", filter=Q(storage_mj=None))
    rows = lines.order_by().values_list("artifact").annotate(mj=Sum("storage_mj"), many=unknown)
    return {artifact: None if many else _known(mj) for artifact, mj, many in rows}


def break_even_of(line: PlanLine, kept: Mapping[int, int | None]) -> Fraction | None:
    """Return from which chance of reuse on keeping the artifact of a line pays, by what a year of its copies in the plan
    takes (:func:`kept_with`): its page says the same of all copies. None where that, or what making it took, is unknown."""
    return break_even(kept[line.artifact_id], line.retrain_mj)


def _known(value: int | None) -> int | None:
    return None if value is None else int(value)
