"""Keys that were made by an older rule are made anew, a few runs at a time; what is still to do is what has old keys."""

from collections.abc import Collection

from django.db import transaction

from apps.accounts.models import Lab
from apps.runs.models import Run, TierKey
from apps.runs.services.ignored_params import CHUNK, recount_runs

REKEY = "runs.rekey"
MOST = 1000  # runs a job: others have their turn
_OLD = (50, 51)  # docs/adr/0012-left-out-keys-lie-side-by-side.md


def rekey(*, lab: Lab) -> bool:
    """Make the old keys of some runs of a lab anew; return whether there were any. Can be begun again at any time."""
    waiting = _waiting(lab)
    for start in range(0, len(waiting), CHUNK):
        _rekey(waiting[start : start + CHUNK])
    return bool(waiting)


def _waiting(lab: Lab) -> list[int]:
    """Return some runs that have old keys. Each tier for itself, in its order: the first of it are the index's next."""
    for tier in _OLD:
        rows = TierKey.objects.filter(lab=lab, tier=tier).order_by("key", "run").values_list("run_id", flat=True)
        if found := list(dict.fromkeys(rows[:MOST])):
            return found
    return []


@transaction.atomic
def _rekey(run_ids: Collection[int]) -> None:
    runs = list(Run.objects.select_for_update().filter(pk__in=run_ids).order_by("pk"))
    TierKey.objects.filter(run__in=runs, tier__in=_OLD).delete()  # also of a run that has no fingerprint any more
    recount_runs(runs, anew=True)
