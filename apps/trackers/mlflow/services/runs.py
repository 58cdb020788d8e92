"""From a run as MLflow tells it to a run here: made, renewed, or added to where somebody else told of it already."""

from typing import Any

from django.db import transaction
from msgspec import structs

from apps.accounts.models import Project
from apps.core.errors import LabCarbonError
from apps.core.units import US_PER_HOUR
from apps.fleet.selectors import TRACKER
from apps.runs.choices import RunState, Teller
from apps.runs.fingerprint_parsing import FingerprintIn
from apps.runs.models import Fingerprint, Run
from apps.runs.services.fingerprints import told_by_tracker, typed_params
from apps.runs.services.runs import RunFacts, put_run
from apps.runs.services.updates import External, Known, hear, keep_known
from apps.trackers.mlflow.parsing import HOST, US_PER_MS, ToldRun, from_scratch, kept_params, kept_tags
from apps.trackers.mlflow.services.resolve import TOOL, Place
from apps.trackers.models import MlflowRun, MlflowSource

FUTURE_US = 24 * US_PER_HOUR
METRICS = "Its metrics: "  # begins a problem that the next reading may mend
_MAX_ANCESTORS = 64


@transaction.atomic
def take_run(*, source: MlflowSource, told: ToldRun, experiment: str, project: Project, now: int) -> MlflowRun:
    """Store what MLflow tells of a run; return it locked, its ``run`` null and ``problem`` set where it cannot be taken."""
    row, _ = MlflowRun.objects.select_for_update(of=("self",)).get_or_create(
        source=source, mlflow_id=told.run_id, defaults={"seen_us": now}
    )
    row.is_open, row.seen_us = True, now  # until all of its metrics are read
    if row.run is not None and row.facts_digest == told.facts_digest:
        _hear(row.run, told, now)
        row.problem = "" if row.problem.startswith(METRICS) else row.problem
        row.save()
        return row
    row.parent, row.quiet, row.node_uuid = told.parent, told.is_quiet, told.node_uuid
    row.problem = _impossible(told, now)
    if row.problem == "":
        try:
            with transaction.atomic():
                _take(source, row, told, experiment, project, now)
        except LabCarbonError as error:
            row.problem = f"{error.message} {error.hint}".strip()[:300]
    row.facts_digest = told.facts_digest
    row.save()
    return row


def _hear(run: Run, told: ToldRun, now: int) -> None:
    """Note a sign of life of a run that goes on; it revives one that was given up."""
    heard_us = min(told.heard_us, now)
    if told.is_over or run.state not in (RunState.RUNNING, RunState.LOST) or heard_us <= (run.seen_us or 0):
        return
    hear(run, heard_us)
    run.save(update_fields=["seen_us", "state"])


def _impossible(told: ToldRun, now: int) -> str:
    if not told.start_ms:
        return "MLflow tells no start of it, so it cannot be placed in time."
    if told.start_ms * US_PER_MS > now + FUTURE_US:
        return "It starts more than a day ahead: the clock of its machine is wrong."
    return ""


def _take(source: MlflowSource, row: MlflowRun, told: ToldRun, experiment: str, project: Project, now: int) -> None:
    is_new = row.run is None
    place = Place(source, row, told, project)
    row.problem = place.problem
    if place.refused:
        return
    row.joined = place.joined
    row.run = _added_to(place.run, told, now) if place.joined and place.run else _made(place, told, experiment, now)
    if is_new:
        _adopt(row)


def _made(place: Place, told: ToldRun, experiment: str, now: int) -> Run:
    """Make or renew a run of which MLflow alone tells. Called where its facts are new."""
    source = place.source
    there = place.run
    started_us, heard_us = told.start_ms * US_PER_MS, min(told.heard_us, now)
    news = there is None or heard_us > (there.seen_us or 0)
    params = typed_params(kept_params(told.params))
    node = place.node
    facts = RunFacts(
        name=told.name or told.run_id,
        started_us=started_us,
        project=place.project.slug,
        params=params if told.counted_params else {},
        os_user=told.user,
        host=told.tags.get(HOST, "")[:255] or ("" if node is None or TRACKER in node.facts else node.hostname),
        node_uuid=node.uuid if node else None,
        known=Known(
            fingerprint=_fingerprint(told), parent=place.parent, tags=kept_tags(told.tags, experiment),
            external=External(TOOL, told.run_id),
        ),
    )  # fmt: skip
    if there is not None and there.ended_us is not None and there.ended_us < started_us:
        Run.objects.filter(pk=there.pk).update(ended_us=None)  # told anew with a later start
    uuid = there.uuid if there is not None else place.uuid
    run, _ = put_run(lab=source.lab, uuid=uuid, facts=facts, by=None, bound_node=None, teller=Teller.MLFLOW,
                     now=heard_us if news and not told.is_over else None)  # fmt: skip
    if run.params != params:  # too many to be compared: a part of them would match what differs; shown all the same
        run.params = params
        run.save(update_fields=["params"])
    return _stands(run, told)


def _stands(run: Run, told: ToldRun) -> Run:
    """Bring state and end up to date: MLflow's word, but for a run that is lost and of which nothing new is heard."""
    state, ended_us = run.state, None
    if told.is_over and told.state is not None:
        state = told.state.value
        ended_us = max(told.end_ms * US_PER_MS if told.end_ms else told.heard_us, run.started_us)
    elif run.state != RunState.LOST:
        state = RunState.RUNNING.value
    if (state, ended_us) != (run.state, run.ended_us):
        run.state, run.ended_us = state, ended_us
        run.save(update_fields=["state", "ended_us"])
    return run


def _fingerprint(told: ToldRun) -> FingerprintIn:
    return told_by_tracker(
        told.counted_params,
        commit=told.tags.get("mlflow.source.git.commit", ""),
        entry=told.tags.get("mlflow.source.name", "").replace("\\", "/").rpartition("/")[2],
        datasets=told.datasets,
        from_scratch=from_scratch(told.counted_params),
    )


def _added_to(run: Run, told: ToldRun, now: int) -> Run:
    """Add what a run lacks that somebody else told of: the id, parameters, parts of its fingerprint that are unknown."""
    params = typed_params(kept_params(told.params))
    lacking = {name: value for name, value in params.items() if name not in run.params}
    if lacking:
        run.params = {**run.params, **lacking}
        run.save(update_fields=["params"])
    _hear(run, told, now)
    there = Fingerprint.objects.filter(run=run).first()
    known = Known(fingerprint=_lacking(there, _fingerprint(told)), external=External(TOOL, told.run_id))
    keep_known(run, known)
    return _ended(run, told)


def _ended(run: Run, told: ToldRun) -> Run:
    """Take MLflow's word on how a run ended where nobody saw its exit code: from inside a process it cannot be seen."""
    if not told.is_over or told.state is None or run.exit_code is not None or run.scheduler:
        return run
    ended_us = max(told.end_ms * US_PER_MS if told.end_ms else told.heard_us, run.started_us)
    if run.ended_us is not None and run.state != RunState.LOST:
        ended_us = run.ended_us
    if (run.state, run.ended_us) != (told.state.value, ended_us):
        run.state, run.ended_us = told.state.value, ended_us
        run.save(update_fields=["state", "ended_us"])
    return run


def _lacking(there: Fingerprint | None, told: FingerprintIn) -> FingerprintIn | None:
    """Return of a fingerprint the parts that the stored one does not know; None: there are none.

    Parameters are one part: those of a command line are not mixed with those that were logged, or the next start, which is
    asked about by its command line again, would not match.
    """
    if there is None:
        return told
    new: dict[str, Any] = {
        "entry": "" if there.entry else told.entry,
        "entry_name": "" if there.entry else told.entry_name,
        "code": None if there.code or there.code_weak else told.code,
        "data": None if there.data or there.data_weak else told.data,
        "start": None if there.start or there.start_weak else told.start,
        "seeds": None if there.seeds is not None else told.seeds,
    }
    if there.params is not None:
        new |= {"params": None, "told": None, "dropped": None}
    added = structs.replace(told, **new)
    return added if any(getattr(added, name) for name in (*new, "params")) else None


def _adopt(row: MlflowRun) -> None:
    """Make a run that is new here the parent of those nested in it that came before it; nobody becomes his own ancestor."""
    run = row.run
    if run is None:
        return
    above, pk = {run.pk}, run.parent_id
    while pk is not None and pk not in above and len(above) < _MAX_ANCESTORS:
        above.add(pk)
        pk = Run.objects.filter(pk=pk).values_list("parent_id", flat=True).first()
    nested = row.source.runs.filter(parent=row.mlflow_id, run__isnull=False, joined=False).values("run")
    Run.objects.filter(pk__in=nested, parent__isnull=True).exclude(pk__in=above).update(parent=run)
