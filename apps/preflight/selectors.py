"""Reads of preflight: past runs that share match keys with a run."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

from apps.accounts.models import Lab
from apps.core.sql import fetch_rows
from apps.preflight.similarity import Part, PastRun, Work, remove_ignored
from apps.runs.choices import Intent, Tier
from apps.runs.fingerprint_parsing import VERSION
from apps.runs.match_keys import Parts, tier_keys
from apps.runs.models import ExternalId, Fingerprint, Metric, Run

MAX_CANDIDATES = 50
# What a fingerprint of version lc1 does not contain, beside labels.
NOT_IN_FORMER_VERSION = ("environment variables", "files that the code reads")
# Tiers that only inform need few runs.
_MAX_PER_TIER = {
    tier: few
    for few, tiers in (
        (10, (Tier.F3, Tier.F3_WEAK)),
        (20, (Tier.F2, Tier.F2_WEAK, Tier.F1_NORMAL, Tier.F1_NORMAL_WEAK)),
        (30, (Tier.F4, Tier.F4_WEAK, Tier.CODE_PARAMS, Tier.CODE_PARAMS_WEAK)),
    )
    for tier in tiers
}
MAX_LEFT_OUT_KEYS = 40
_MAX_WITH_KEYS = 500
MIN_CURVE_POINTS = 5  # shorter curves match by chance
_OF_RUN = (
    "uuid", "state", "started_us", "ended_us", "failure", "failure_point", "exit_code", "tags",
    "cluster", "job_id", "requested_parent",
)  # fmt: skip
_PARTS = (
    "entry", "code", "code_weak", "code_normal", "params", "told", "seeds", "data", "data_weak",
    "start", "start_weak", "environment", "hardware", "labels", "not_compared", "version",
)  # fmt: skip


def work_of(row: Fingerprint, ignored: Collection[str]) -> Work:
    """Return the work that a fingerprint describes."""
    return _work({name: getattr(row, name) for name in _PARTS}, ignored)


def _work(parts: Mapping[str, Any], ignored: Collection[str]) -> Work:
    is_present = parts["version"] == VERSION
    return Work(
        entry=parts["entry"],
        code=Part(parts["code"], parts["code_weak"]),
        normal=parts["code_normal"],
        params=remove_ignored(parts["params"], ignored),
        plain_values=parts["told"] or {},
        data=Part(parts["data"], parts["data_weak"]),
        start=Part(parts["start"], parts["start_weak"]),
        seeds=parts["seeds"],
        labels=parts["labels"] if is_present else None,
        not_compared=(*parts["not_compared"], *(() if is_present else NOT_IN_FORMER_VERSION)),
        environment=parts["environment"] or {},
        hardware=parts["hardware"] or {},
    )


def past_run_of(run: Run, work: Work) -> PastRun:
    """Return a stored run in the form that is compared."""
    facts = {name: getattr(run, name) for name in _OF_RUN}
    return _to_past_run({**facts, "parent__uuid": run.parent.uuid if run.parent else None}, work)


def _to_past_run(run: Mapping[str, Any], work: Work) -> PastRun:
    return PastRun(
        uuid=run["uuid"],
        work=work,
        state=run["state"],
        started_us=run["started_us"],
        ended_us=run["ended_us"],
        failure=run["failure"],
        failure_point=run["failure_point"],
        exit_code=run["exit_code"],
        has_checkpoint=bool(isinstance(run["tags"], dict) and run["tags"].get("checkpoint")),
        parent=run["parent__uuid"] or run["requested_parent"],
        job=_job(run["cluster"], run["job_id"]),
    )


def _job(cluster: str, job_id: str) -> str:
    return f"{cluster}/{job_id}" if job_id else ""


def job_of(run: Run) -> str:
    """Return the scheduler job of a run, or ''."""
    return _job(run.cluster, run.job_id)


def lookup_keys(parts: Parts, work: Work) -> list[tuple[Tier, int]]:
    """Return the keys to look up. Leave-one-out keys are limited to plain numbers, since only
    these have a tolerance.
    """
    numbers = [
        name for name in parts.left_out or {} if isinstance(work.plain_values.get(name), float)
    ][:MAX_LEFT_OUT_KEYS]
    limited = replace(
        parts,
        left_out=None
        if parts.left_out is None
        else {name: parts.left_out[name] for name in numbers},
    )
    return tier_keys(limited)


def candidates(lab: Lab, keys: Sequence[tuple[Tier, int]]) -> set[int]:
    """Return the ids of runs that share a key, the newest of each key. Probes are left out: they
    did not do the work. One query.
    """
    if not keys:
        return set()
    query = (
        "SELECT run_id FROM (SELECT k.run_id FROM runs_tierkey AS k JOIN runs_run AS r"
        " ON r.id = k.run_id AND r.intent <> %s WHERE k.lab_id = %s AND k.tier = %s AND k.key = %s"
        " ORDER BY k.run_id DESC LIMIT {}) AS t{}"
    )
    parts = [
        query.format(_MAX_PER_TIER.get(tier, MAX_CANDIDATES), i) for i, (tier, _) in enumerate(keys)
    ]
    params = [value for tier, key in keys for value in (Intent.PROBE.value, lab.pk, int(tier), key)]
    return {row["run_id"] for row in fetch_rows(" UNION ".join(parts), params)}


def runs_with_keys_of(run: Run) -> set[int]:
    """Return the ids of runs that share a stored key with ``run``, the newest first, without
    probes. One query.
    """
    rows = fetch_rows(
        "SELECT DISTINCT other.run_id FROM runs_tierkey AS own JOIN runs_tierkey AS other"
        " ON other.lab_id = own.lab_id AND other.tier = own.tier AND other.key = own.key"
        " JOIN runs_run AS r ON r.id = other.run_id AND r.intent <> %s"
        " WHERE own.run_id = %s AND own.lab_id = %s AND other.run_id <> %s"
        " ORDER BY other.run_id DESC LIMIT %s",
        [Intent.PROBE.value, run.pk, run.lab_id, run.pk, _MAX_WITH_KEYS],
    )
    return {row["run_id"] for row in rows}


def past_runs(lab: Lab, run_ids: Iterable[int], ignored: Collection[str]) -> list[PastRun]:
    """Return past runs with their compared parts. One query."""
    run_fields = [f"run__{name}" for name in (*_OF_RUN, "parent__uuid")]
    rows = Fingerprint.objects.filter(run_id__in=list(run_ids), run__lab=lab).values(
        *_PARTS, *run_fields
    )
    return [
        _to_past_run(
            {name.removeprefix("run__"): row[name] for name in run_fields}, _work(row, ignored)
        )
        for row in rows
    ]


def run_of_external(lab: Lab, external: tuple[str, str] | None) -> PastRun | None:
    """Return the run with this id of another tool, or None."""
    if external is None:
        return None
    external_id = (
        ExternalId.objects.filter(lab=lab, tool=external[0], value=external[1])
        .select_related("run__parent")
        .first()
    )
    if external_id is None:
        return None
    return replace(past_run_of(external_id.run, Work()), external=frozenset({external}))


def series_of(run_ids: Iterable[int]) -> dict[int, str]:
    """Return {run id: text that identifies its curves} for runs with curves. One query."""
    metrics_by_run: dict[int, list[tuple[object, ...]]] = {}
    fields = ("run_id", "name", "count", "last_step", "last_value", "min_value", "max_value")
    for run_id, *metric in Metric.objects.filter(
        run_id__in=list(run_ids), count__gte=MIN_CURVE_POINTS
    ).values_list(*fields):
        metrics_by_run.setdefault(run_id, []).append(tuple(metric))
    return {run_id: repr(sorted(metrics, key=str)) for run_id, metrics in metrics_by_run.items()}


def runs_by_uuid(lab: Lab, uuids: Collection[UUID]) -> dict[UUID, Run]:
    """Return runs with user, project and node. One query."""
    runs = Run.objects.filter(lab=lab, uuid__in=list(uuids)).select_related(
        "user", "charged_project", "node"
    )
    return {run.uuid: run for run in runs}
