"""Import of MLflow runs: create a run, update it, or add to a run of another source."""

from typing import Any

from django.db import transaction
from msgspec import structs

from apps.accounts.models import Project
from apps.core.errors import LabCarbonError
from apps.core.units import US_PER_HOUR
from apps.fleet.selectors import TRACKER
from apps.runs.choices import RunState, Source
from apps.runs.fingerprint_parsing import FingerprintIn
from apps.runs.models import Fingerprint, Run
from apps.runs.services.fingerprints import fingerprint_from_tracker, typed_params
from apps.runs.services.runs import RunFacts, put_run
from apps.runs.services.updates import External, RunUpdate, save_update, touch
from apps.trackers.mlflow.models import MlflowRun, MlflowSource
from apps.trackers.mlflow.parsing import (
    HOST,
    US_PER_MS,
    TrackedRun,
    from_scratch,
    select_params,
    select_tags,
)
from apps.trackers.mlflow.services.resolve import TOOL, RunResolution

FUTURE_US = 24 * US_PER_HOUR
METRICS = "Its metrics: "  # prefix of a problem that the next poll may resolve
_MAX_ANCESTORS = 64


@transaction.atomic
def import_run(
    *, source: MlflowSource, tracked_run: TrackedRun, experiment: str, project: Project, now: int
) -> MlflowRun:
    """Store an MLflow run; return its locked row.

    If it cannot be imported, ``run`` is null and ``problem`` is set.
    """
    row, _ = MlflowRun.objects.select_for_update(of=("self",)).get_or_create(
        source=source, mlflow_id=tracked_run.run_id, defaults={"last_listed_us": now}
    )
    row.is_open, row.last_listed_us = True, now  # until all of its metrics are read
    if row.run is not None and row.facts_digest == tracked_run.facts_digest:
        _touch(row.run, tracked_run, now)
        row.problem = "" if row.problem.startswith(METRICS) else row.problem
        row.save()
        return row
    row.parent, row.quiet, row.node_uuid = (
        tracked_run.parent,
        tracked_run.is_quiet,
        tracked_run.node_uuid,
    )
    row.problem = _invalid_time(tracked_run, now)
    if row.problem == "":
        try:
            with transaction.atomic():
                _import_facts(source, row, tracked_run, experiment, project, now)
        except LabCarbonError as error:
            row.problem = f"{error.message} {error.hint}".strip()[:300]
    row.facts_digest = tracked_run.facts_digest
    row.save()
    return row


def _touch(run: Run, tracked_run: TrackedRun, now: int) -> None:
    """Record a report of a running run; this recovers a lost one."""
    activity_us = min(tracked_run.last_activity_us, now)
    if (
        tracked_run.is_over
        or run.state not in (RunState.RUNNING, RunState.LOST)
        or activity_us <= (run.last_report_us or 0)
    ):
        return
    touch(run, activity_us)
    run.save(update_fields=["last_report_us", "state"])


def _invalid_time(tracked_run: TrackedRun, now: int) -> str:
    if not tracked_run.start_ms:
        return "MLflow reports no start time for this run."
    if tracked_run.start_ms * US_PER_MS > now + FUTURE_US:
        return "It starts more than a day ahead: the clock of its machine is wrong."
    return ""


def _import_facts(
    source: MlflowSource,
    row: MlflowRun,
    tracked_run: TrackedRun,
    experiment: str,
    project: Project,
    now: int,
) -> None:
    is_new = row.run is None
    resolution = RunResolution(source, row, tracked_run, project)
    row.problem = resolution.problem
    if resolution.refused:
        return
    row.is_linked = resolution.is_linked
    row.run = (
        _complete_run(resolution.run, tracked_run, now)
        if resolution.is_linked and resolution.run
        else _save_run(resolution, tracked_run, experiment, now)
    )
    if is_new:
        _link_children(row)


def _save_run(resolution: RunResolution, tracked_run: TrackedRun, experiment: str, now: int) -> Run:
    """Create or update a run whose only source is MLflow. Called for new facts."""
    source = resolution.source
    existing = resolution.run
    started_us, activity_us = (
        tracked_run.start_ms * US_PER_MS,
        min(tracked_run.last_activity_us, now),
    )
    is_new_activity = existing is None or activity_us > (existing.last_report_us or 0)
    params = typed_params(select_params(tracked_run.params))
    node = resolution.node
    facts = RunFacts(
        name=tracked_run.name or tracked_run.run_id,
        started_us=started_us,
        project=resolution.project.slug,
        params=params if tracked_run.counted_params else {},
        os_user=tracked_run.user,
        host=tracked_run.tags.get(HOST, "")[:255]
        or ("" if node is None or TRACKER in node.facts else node.hostname),
        node_uuid=node.uuid if node else None,
        known=RunUpdate(
            fingerprint=_fingerprint(tracked_run),
            parent=resolution.parent,
            tags=select_tags(tracked_run.tags, experiment),
            external=External(TOOL, tracked_run.run_id),
        ),
    )
    if existing is not None and existing.ended_us is not None and existing.ended_us < started_us:
        Run.objects.filter(pk=existing.pk).update(
            ended_us=None
        )  # MLflow changed its start to a later time
    uuid = existing.uuid if existing is not None else resolution.uuid
    run, _ = put_run(
        lab=source.lab,
        uuid=uuid,
        facts=facts,
        by=None,
        bound_node=None,
        reported_by=Source.MLFLOW,
        now=activity_us if is_new_activity and not tracked_run.is_over else None,
    )
    if (
        run.params != params
    ):  # too many to compare: a subset would match different runs; display all of them
        run.params = params
        run.save(update_fields=["params"])
    return _update_state(run, tracked_run)


def _update_state(run: Run, tracked_run: TrackedRun) -> Run:
    """Update state and end from MLflow. Exception: a lost run without new reports."""
    state, ended_us = run.state, None
    if tracked_run.is_over and tracked_run.state is not None:
        state = tracked_run.state.value
        ended_us = max(
            tracked_run.end_ms * US_PER_MS if tracked_run.end_ms else tracked_run.last_activity_us,
            run.started_us,
        )
    elif run.state != RunState.LOST:
        state = RunState.RUNNING.value
    if (state, ended_us) != (run.state, run.ended_us):
        run.state, run.ended_us = state, ended_us
        run.save(update_fields=["state", "ended_us"])
    return run


def _fingerprint(tracked_run: TrackedRun) -> FingerprintIn:
    return fingerprint_from_tracker(
        tracked_run.counted_params,
        commit=tracked_run.tags.get("mlflow.source.git.commit", ""),
        entry=tracked_run.tags.get("mlflow.source.name", "").replace("\\", "/").rpartition("/")[2],
        datasets=tracked_run.datasets,
        from_scratch=from_scratch(tracked_run.counted_params),
    )


def _complete_run(run: Run, tracked_run: TrackedRun, now: int) -> Run:
    """Add missing facts to a run of another source: the id, parameters, unknown parts of its
    fingerprint.
    """
    params = typed_params(select_params(tracked_run.params))
    missing = {name: value for name, value in params.items() if name not in run.params}
    if missing:
        run.params = {**run.params, **missing}
        run.save(update_fields=["params"])
    _touch(run, tracked_run, now)
    stored = Fingerprint.objects.filter(run=run).first()
    update = RunUpdate(
        fingerprint=_missing_parts(stored, _fingerprint(tracked_run)),
        external=External(TOOL, tracked_run.run_id),
    )
    save_update(run, update)
    return _update_end(run, tracked_run)


def _update_end(run: Run, tracked_run: TrackedRun) -> Run:
    """Use MLflow's end state if the exit code is unknown: a process cannot read its own exit
    code.
    """
    if (
        not tracked_run.is_over
        or tracked_run.state is None
        or run.exit_code is not None
        or run.scheduler
    ):
        return run
    ended_us = max(
        tracked_run.end_ms * US_PER_MS if tracked_run.end_ms else tracked_run.last_activity_us,
        run.started_us,
    )
    if run.ended_us is not None and run.state != RunState.LOST:
        ended_us = run.ended_us
    if (run.state, run.ended_us) != (tracked_run.state.value, ended_us):
        run.state, run.ended_us = tracked_run.state.value, ended_us
        run.save(update_fields=["state", "ended_us"])
    return run


def _missing_parts(stored: Fingerprint | None, payload: FingerprintIn) -> FingerprintIn | None:
    """Return the parts of a fingerprint that the stored one lacks, or None.

    Parameters are one part: those of a command line are not mixed with logged ones. Otherwise the
    next duplicate check by command line would not match.
    """
    if stored is None:
        return payload
    missing: dict[str, Any] = {
        "entry": "" if stored.entry else payload.entry,
        "entry_name": "" if stored.entry else payload.entry_name,
        "code": None if stored.code or stored.code_weak else payload.code,
        "data": None if stored.data or stored.data_weak else payload.data,
        "start": None if stored.start or stored.start_weak else payload.start,
        "seeds": None if stored.seeds is not None else payload.seeds,
    }
    if stored.params is not None:
        missing |= {"params": None, "told": None, "dropped": None}
    added = structs.replace(payload, **missing)
    return added if any(getattr(added, name) for name in (*missing, "params")) else None


def _link_children(row: MlflowRun) -> None:
    """Make a new run the parent of nested runs that were imported before it.

    No run becomes its own ancestor.
    """
    run = row.run
    if run is None:
        return
    ancestors, pk = {run.pk}, run.parent_id
    while pk is not None and pk not in ancestors and len(ancestors) < _MAX_ANCESTORS:
        ancestors.add(pk)
        pk = Run.objects.filter(pk=pk).values_list("parent_id", flat=True).first()
    nested = row.source.runs.filter(
        parent=row.mlflow_id, run__isnull=False, is_linked=False
    ).values("run")
    Run.objects.filter(pk__in=nested, parent__isnull=True).exclude(pk__in=ancestors).update(
        parent=run
    )
