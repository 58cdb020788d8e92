"""Keys that were made by an older rule are made anew, a few runs at a time; what is still to do is what has old keys."""

from collections import defaultdict
from collections.abc import Collection

from django.db import transaction

from apps.accounts.models import Lab
from apps.runs.fingerprints import ignored_in, write_keys
from apps.runs.ignored import CHUNK
from apps.runs.models import Fingerprint, Run, TierKey

REKEY = "runs.rekey"
MOST = 1000  # runs a job: others have their turn
_OLD = (50, 51)  # docs/adr/0012-left-out-keys-lie-side-by-side.md


def rekey(*, lab: Lab) -> bool:
    """Make the old keys of some runs of a lab anew; return whether more wait. Can be begun again at any time."""
    old = TierKey.objects.filter(lab=lab, tier__in=_OLD).order_by("lab", "tier", "key", "run")
    for _ in range(MOST // CHUNK):
        run_ids = set(old.values_list("run_id", flat=True)[:CHUNK])
        if not run_ids:
            return False
        _rekey(run_ids)
    return True


@transaction.atomic
def _rekey(run_ids: Collection[int]) -> None:
    runs = {run.pk: run for run in Run.objects.select_for_update().filter(pk__in=run_ids).order_by("pk")}
    by_project: dict[int | None, list[tuple[Run, Fingerprint]]] = defaultdict(list)
    for row in Fingerprint.objects.filter(run__in=runs):
        run = runs[row.run_id]
        by_project[run.charged_project_id or run.project_id].append((run, row))
    TierKey.objects.filter(run__in=runs, tier__in=_OLD).delete()
    for project_id, pairs in by_project.items():
        write_keys(pairs, ignored=ignored_in(project_id))
