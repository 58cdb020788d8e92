"""Parameters that a project ignores when runs are compared, and the recomputation that follows."""

from collections import defaultdict
from collections.abc import Collection, Sequence

from django.db import transaction
from django.db.models import Q

from apps.accounts.models import Lab, Project, User
from apps.core.errors import NotFound
from apps.core.jobs import enqueue
from apps.runs.models import Fingerprint, IgnoredParameter, Run, TierKey
from apps.runs.services.fingerprints import (
    compared_name,
    ignored_params_of_project,
    recipe_of,
    write_keys,
)

RECOMPUTE_RECIPES = "runs.recount"
CHUNK = 25  # small: a transaction on SQLite blocks all writers; about 50 keys per run


@transaction.atomic
def ignore_parameter(*, project: Project, name: str, by: User | None, now: int) -> IgnoredParameter:
    """Ignore a parameter in a project and enqueue the recomputation. Idempotent.

    Raises InvalidInput for a name that is never compared.
    """
    row, created = IgnoredParameter.objects.get_or_create(
        project=project, name=compared_name(name), defaults={"by": by, "since_us": now}
    )
    if created:
        enqueue(kind=RECOMPUTE_RECIPES, key=str(project.pk))
    return row


@transaction.atomic
def count_parameter(*, project: Project, name: str) -> None:
    """Compare a parameter of a project again. Raises NotFound if it was not ignored."""
    deleted, _ = IgnoredParameter.objects.filter(project=project, name=name).delete()
    if not deleted:
        raise NotFound(f"{name!r} is not ignored in this project.")
    enqueue(kind=RECOMPUTE_RECIPES, key=str(project.pk))


def recompute_project(*, project: Project) -> int:
    """Recompute recipes and keys of a project's runs in chunks; return the number of changed runs.

    Can be restarted.
    """
    runs = Run.objects.filter(
        Q(charged_project=project) | Q(charged_project=None, project=project), lab=project.lab_id
    )
    with_params = runs.filter(fingerprint__params__isnull=False).order_by("pk")
    changed = last = 0
    while batch := list(with_params.filter(pk__gt=last)[:CHUNK]):
        changed += recompute_runs(batch)
        last = batch[-1].pk
    return changed


def recompute_charged_runs(runs: Sequence[Run]) -> None:
    """Recompute recipes of runs whose charged project changed, if the lab ignores any
    parameters.
    """
    if not runs or not IgnoredParameter.objects.filter(project__lab_id=runs[0].lab_id).exists():
        return
    for start in range(0, len(runs), CHUNK):
        recompute_runs(runs[start : start + CHUNK])


@transaction.atomic
def recompute_runs(runs: Sequence[Run], *, rebuild_all: bool = False) -> int:
    """Recompute the recipes of ``runs``, and the keys of changed runs; return the number of these.

    ``rebuild_all``: treat all runs as changed.
    """
    rows = {row.pk: row for row in Fingerprint.objects.select_for_update().filter(run__in=runs)}
    by_project: dict[int | None, list[tuple[Run, Fingerprint]]] = defaultdict(list)
    for run in runs:
        if run.pk in rows:
            by_project[run.charged_project_id or run.project_id].append((run, rows[run.pk]))
    changed = 0
    for project_id, pairs in by_project.items():
        ignored = ignored_params_of_project(project_id)
        stale = [
            pair
            for pair in pairs
            if rebuild_all or pair[1].recipe != recipe_of(pair[1].params, ignored)
        ]
        for _, row in stale:
            row.recipe = recipe_of(row.params, ignored)
        Fingerprint.objects.bulk_update([row for _, row in stale], ["recipe"])
        if stale:
            write_keys(stale, ignored=ignored)
        changed += len(stale)
    return changed


REBUILD_KEYS = "runs.rekey"
MOST = 1000  # runs per job, so that other jobs can run
_OLD_TIERS = (50, 51)  # docs/adr/0012-store-leave-one-out-keys-contiguously.md


def rebuild_old_keys(*, lab: Lab) -> bool:
    """Rebuild the old keys of some runs of a lab; return whether there were any. Can be
    restarted.
    """
    waiting = _waiting(lab)
    for start in range(0, len(waiting), CHUNK):
        _rebuild_keys(waiting[start : start + CHUNK])
    return bool(waiting)


def _waiting(lab: Lab) -> list[int]:
    """Return some runs with old keys, tier by tier in index order."""
    for tier in _OLD_TIERS:
        rows = (
            TierKey.objects.filter(lab=lab, tier=tier)
            .order_by("key", "run")
            .values_list("run_id", flat=True)
        )
        if run_ids := list(dict.fromkeys(rows[:MOST])):
            return run_ids
    return []


@transaction.atomic
def _rebuild_keys(run_ids: Collection[int]) -> None:
    runs = list(Run.objects.select_for_update().filter(pk__in=run_ids).order_by("pk"))
    TierKey.objects.filter(
        run__in=runs, tier__in=_OLD_TIERS
    ).delete()  # includes runs without a fingerprint
    recompute_runs(runs, rebuild_all=True)
