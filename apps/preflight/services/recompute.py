"""Recomputation of keys and verdicts after a change of the rule: in jobs, which can be interrupted.

First the keys of all runs of a lab, then the verdicts of open findings. A decided finding does not
change.
"""

from collections import Counter
from collections.abc import Callable

from apps.accounts.models import Lab
from apps.core.jobs import enqueue
from apps.preflight.choices import FindingState
from apps.preflight.models import Avoided, DuplicateFinding
from apps.preflight.services.findings import judge_by_stored_keys, judge_run
from apps.runs.choices import Tier
from apps.runs.models import Fingerprint, Run, TierKey
from apps.runs.services.ignored_params import CHUNK, recompute_runs

RECOMPUTE = "preflight.recompute"
KEYS, VERDICTS = "keys", "verdicts"
RUNS_PER_JOB, FINDINGS_PER_JOB = 1000, 100  # so that other jobs can run
NO_FINDING = "no finding"


def preview(*, lab: Lab, on_finding: Callable[[], None]) -> tuple[Counter[tuple[str, str]], int]:
    """Return how many open findings the present rule changes, by (verdict before, verdict after),
    and the number of decided ones, which stay. Writes nothing. ``on_finding``: called for each.
    """
    findings = DuplicateFinding.objects.filter(lab=lab)
    changes: Counter[tuple[str, str]] = Counter()
    rows = findings.filter(state=FindingState.OPEN).order_by("pk").select_related("run__parent")
    for finding in rows.iterator(chunk_size=500):
        after = judge_by_stored_keys(finding.run)
        changes[_name(finding), NO_FINDING if after is None else _name(after)] += 1
        on_finding()
    return changes, findings.exclude(state=FindingState.OPEN).count()


def _name(finding: DuplicateFinding) -> str:
    return f"{finding.certainty} {finding.verdict}"


def request_recompute(*, lab: Lab) -> None:
    """Enqueue the recomputation of a lab."""
    enqueue(kind=RECOMPUTE, key=_key(lab, KEYS, 0))


def recompute(key: str) -> None:
    """Do one job and enqueue the next one. ``key``: lab, step, and the last run that is done."""
    lab_id, step, after = key.split(" ")
    lab = Lab.objects.get(pk=int(lab_id))
    if step == KEYS:
        last = _recompute_keys(lab, int(after))
        enqueue(kind=RECOMPUTE, key=_key(lab, KEYS, last) if last else _key(lab, VERDICTS, 0))
    elif last := _recompute_verdicts(lab, int(after)):
        enqueue(kind=RECOMPUTE, key=_key(lab, VERDICTS, last))


def _key(lab: Lab, step: str, after: int) -> str:
    return f"{lab.pk} {step} {after}"


def _recompute_keys(lab: Lab, after: int) -> int:
    """Recompute the keys of the next runs; return the last one, 0 if none is left."""
    run_ids = list(
        Fingerprint.objects.filter(run__lab=lab, pk__gt=after)
        .order_by("pk")
        .values_list("pk", flat=True)[:RUNS_PER_JOB]
    )
    for start in range(0, len(run_ids), CHUNK):
        chunk = run_ids[start : start + CHUNK]
        recompute_runs(list(Run.objects.filter(pk__in=chunk).order_by("pk")), rebuild_all=True)
        _renew_avoided(chunk)
    return run_ids[-1] if run_ids else 0


def _renew_avoided(run_ids: list[int]) -> None:
    """Give stopped runs the new keys of their originals, so that a later run of the same work
    still withdraws them.
    """
    avoided = list(Avoided.objects.filter(run__in=run_ids, withdrawn_us__isnull=True))
    if not avoided:
        return
    tiers = {Tier.F1: "f1", Tier.F1_WEAK: "f1_weak"}
    keys = TierKey.objects.filter(run__in=[row.run_id for row in avoided], tier__in=tiers)
    by_run = {(key.run_id, key.tier): key.key for key in keys}
    for row in avoided:
        for tier, name in tiers.items():
            setattr(row, name, by_run.get((row.run_id, tier), getattr(row, name)))
    Avoided.objects.bulk_update(avoided, list(tiers.values()))


def _recompute_verdicts(lab: Lab, after: int) -> int:
    """Judge the next runs with an open finding; return the last one, 0 if none is left."""
    findings = (
        DuplicateFinding.objects.filter(lab=lab, state=FindingState.OPEN, run_id__gt=after)
        .order_by("run_id")
        .select_related("run__lab", "run__parent")[:FINDINGS_PER_JOB]
    )
    last = 0
    for finding in findings:
        judge_run(run=finding.run, now=finding.detected_us)
        last = finding.run_id
    return last
