"""Attach estimates to runs: the one that a registration names, else the newest one of the work."""

from collections.abc import Iterable
from uuid import UUID

from django.db.models import Case, Exists, Q, QuerySet, Value, When

from apps.planner.models import Estimate
from apps.planner.past_runs import EXCLUDED_INTENTS
from apps.runs.choices import Tier
from apps.runs.match_keys import Parts, tier_keys
from apps.runs.models import Fingerprint, Run

_MAX_CANDIDATES = 20  # that other runs take at the same moment


def attach_requested(*, run: Run, uuid: UUID, now: int) -> str:
    """Attach the estimate that the registration of a run names. Return a warning, or ''.

    The caller has locked the row of the run, or it is new.
    """
    estimate = Estimate.objects.filter(lab=run.lab_id, uuid=uuid).first()
    if estimate is None:
        return (
            f"There is no estimate {uuid} in this lab. The run goes on without it. "
            "Copy the id from the page of a saved estimate"
        )
    if estimate.run_id == run.pk:
        return ""
    if estimate.attached_us is None and estimate.expires_us <= run.started_us:
        return (
            f"The estimate {uuid} had expired. The run goes on without it. Save a new one on the "
            "page Planner"
        )
    if Estimate.objects.filter(run=run).exists():
        return f"This run has another estimate. {uuid} is not attached"
    if not _attach([estimate.pk], run, now):
        return (
            f"The estimate {uuid} belongs to another run. This run goes on without it. Save a new "
            "one on the page Planner"
        )
    return ""


def attach_by_work(*, run: Run, row: Fingerprint, now: int) -> None:
    """Attach the newest open estimate of the work of a run (tier F2). The caller has locked the row
    of the run, or it is new. One query without such an estimate.
    """
    if run.intent in EXCLUDED_INTENTS or run.requested_estimate is not None:
        return
    project_id = run.charged_project_id or run.project_id
    candidates = open_estimates_of_work(
        run.lab_id, work_keys(row), project_id=project_id, at_us=run.started_us
    ).exclude(Exists(Estimate.objects.filter(run=run)))
    _attach(candidates.values_list("pk", flat=True)[:_MAX_CANDIDATES], run, now)


def work_keys(row: Fingerprint) -> dict[Tier, int]:
    """Return the keys of the work of a fingerprint with its stored recipe: F2 and F2_WEAK."""
    parts = Parts(
        entry=row.entry,
        code=row.code,
        code_weak=row.code_weak,
        recipe=row.recipe,
        data=row.data,
        data_weak=row.data_weak,
        start=row.start,
        start_weak=row.start_weak,
    )
    return dict(tier_keys(parts))


def open_estimates_of_work(
    lab_id: int, keys: dict[Tier, int], *, project_id: int | None, at_us: int
) -> QuerySet[Estimate]:
    """Return the estimates that a run of this work, begun at ``at_us``, can have, the best first:
    equal in contents, then equal by names, sizes and times; the newest first.
    """
    f2, f2_weak = keys.get(Tier.F2), keys.get(Tier.F2_WEAK)
    is_equal = Q(f2=f2) if f2 is not None else Q(pk__in=[])
    is_possible = Q(f2_weak=f2_weak) if f2_weak is not None else Q(pk__in=[])
    if f2 is not None:  # contents that are known on both sides decide
        is_possible &= Q(f2__isnull=True)
    estimates = Estimate.objects.filter(
        is_equal | is_possible,
        lab=lab_id,
        run__isnull=True,
        attached_us__isnull=True,
        created_us__lte=at_us,
        expires_us__gt=at_us,
    )
    if project_id is not None:
        estimates = estimates.filter(Q(project__isnull=True) | Q(project=project_id))
    order = Case(When(is_equal, then=Value(0)), default=Value(1))
    return estimates.order_by(order, "-created_us", "-pk")


def _attach(pks: Iterable[int], run: Run, now: int) -> bool:
    """Attach the first estimate that no other run took meanwhile. Return whether there was one."""
    return any(
        Estimate.objects.filter(pk=pk, run__isnull=True, attached_us__isnull=True).update(
            run=run, attached_us=now
        )
        for pk in pks
    )
