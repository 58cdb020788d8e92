"""Later updates of a run: purpose, parent, tags, external ids, fingerprint and failure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from msgspec import structs

from apps.accounts.models import Lab
from apps.core.errors import Conflict, InvalidInput
from apps.core.jobs import enqueue
from apps.core.models import Job
from apps.core.sql import fetch_rows, uuid_param
from apps.runs.choices import RunState
from apps.runs.fingerprint_parsing import VERSION, FingerprintIn
from apps.runs.models import ExternalId, Fingerprint, Run
from apps.runs.services.fingerprints import fingerprint_from_params, put_fingerprint

MAX_TAGS = 100
_MAX_ANCESTORS = 64
LOST_CHECK = "runs.watch"


@dataclass(frozen=True)
class External:
    """The id of a run in another tool."""

    tool: str
    value: str


@dataclass(frozen=True)
class FailureIn:
    """Cause of a failure, place in the code (a short digest), and last output."""

    kind: str = ""
    point: str = ""
    text: str = ""


@dataclass(frozen=True)
class RunUpdate:
    """Data of a run that a client sends at its start or later. None leaves the stored value
    unchanged.

    ``tags``: name → text; None removes a tag.
    """

    fingerprint: FingerprintIn | None = None
    intent: str | None = None
    sweep: str | None = None
    parent: UUID | None = None
    tags: Mapping[str, str | None] = field(default_factory=dict)
    external: External | None = None
    failure: FailureIn | None = None


def touch(run: Run, now: int | None) -> None:
    """Record a report of a run; a lost run becomes running again. ``now`` None: a record of the
    past changes nothing.
    """
    if now is None:
        return
    run.last_report_us = max(run.last_report_us or 0, now)
    if run.state == RunState.LOST:
        run.state = RunState.RUNNING


def schedule_lost_check(run: Run, now: int | None) -> None:
    """Schedule the check for lost runs of the lab, unless one is scheduled."""
    key = str(run.lab_id)
    if (
        now is None
        or run.state != RunState.RUNNING
        or Job.objects.filter(kind=LOST_CHECK, key=key).exists()
    ):
        return
    enqueue(kind=LOST_CHECK, key=key, due_us=now)


def apply_update(run: Run, update: RunUpdate) -> None:
    """Apply an update to a run that the caller saves. Raises InvalidInput for an invalid parent."""
    fingerprint = update.fingerprint
    run.intent = update.intent or (fingerprint.intent if fingerprint else None) or run.intent
    sweep = update.sweep if update.sweep is not None else fingerprint.sweep if fingerprint else None
    run.sweep = run.sweep if sweep is None else sweep
    if update.tags:
        tags = {**run.tags, **update.tags}
        run.tags = {name: text for name, text in tags.items() if text is not None}
        if len(run.tags) > MAX_TAGS:
            raise InvalidInput(
                f"A run has at most {MAX_TAGS} tags; these would be {len(run.tags)}.", field="tags"
            )
    if update.parent is not None:
        _note_parent(run, update.parent)
    if update.failure is not None:
        run.failure = update.failure.kind or run.failure
        run.failure_point = update.failure.point or run.failure_point
        run.failure_text = update.failure.text or run.failure_text


def save_update(
    run: Run, update: RunUpdate, *, params: Mapping[str, Any] | None = None, is_new: bool = False
) -> None:
    """Store the parts of an update that have their own tables, for a saved run. ``params``: sent
    beside or instead of a fingerprint.
    """
    if update.external is not None:
        _keep_external(run, update.external)
    fingerprint = update.fingerprint
    if (
        params
        and (fingerprint is None or fingerprint.params is None)
        and (is_new or _params_are_the_apis(run))
    ):
        fingerprint = _with_params(fingerprint, params)
    if fingerprint is not None:
        put_fingerprint(run=run, payload=fingerprint, is_new=is_new)


def link_waiting_children(run: Run, now: int | None) -> None:
    """Link children that named a new run as parent before it existed, and schedule the lost
    check. Usually one query.
    """
    params = [LOST_CHECK, str(run.lab_id), run.lab_id, uuid_param(run.uuid)]
    (flags,) = fetch_rows(
        "SELECT EXISTS (SELECT 1 FROM core_job WHERE kind = %s AND key = %s) AS watched,"
        " EXISTS (SELECT 1 FROM runs_run WHERE lab_id = %s AND parent_asked = %s) AS named",
        params,
    )
    if flags["named"]:
        Run.objects.filter(lab_id=run.lab_id, requested_parent=run.uuid).update(
            parent=run, requested_parent=None
        )
    if not flags["watched"]:
        schedule_lost_check(run, now)


def run_by_external_id(lab: Lab, external: External) -> Run | None:
    """Return the locked run with an external id, or None."""
    runs = Run.objects.select_for_update(of=("self",)).select_related("node", "project")
    return runs.filter(
        lab=lab,
        external_ids__lab=lab,
        external_ids__tool=external.tool,
        external_ids__value=external.value,
    ).first()


def _params_are_the_apis(run: Run) -> bool:
    """Return whether the parameters of the request determine the recipe, because no better
    fingerprint exists.
    """
    row = Fingerprint.objects.filter(run=run).first()
    return (
        row is None
        or row.params is None
        or not (row.entry or row.code or row.code_weak or row.data or row.data_weak)
    )


def _with_params(payload: FingerprintIn | None, params: Mapping[str, Any]) -> FingerprintIn:
    from_params = fingerprint_from_params(params)
    if payload is None:
        return from_params
    seeds = from_params.seeds if payload.seeds is None else payload.seeds
    return structs.replace(
        payload,
        params=from_params.params,
        told=payload.told or from_params.told,
        dropped=from_params.dropped,
        labels=from_params.labels if payload.version == VERSION else None,
        seeds=seeds,
    )


def _note_parent(run: Run, uuid: UUID) -> None:
    if uuid == run.uuid:
        raise InvalidInput("A run is not its own parent.", field="parent")
    parent = Run.objects.filter(lab_id=run.lab_id, uuid=uuid).only("pk", "parent_id").first()
    if parent is None:
        run.parent, run.requested_parent = None, uuid
        return
    above, steps = parent.parent_id, 0
    while above is not None and steps < _MAX_ANCESTORS:
        if above == run.pk:
            raise InvalidInput("This would make a run an ancestor of itself.", field="parent")
        above = Run.objects.filter(pk=above).values_list("parent_id", flat=True).first()
        steps += 1
    run.parent, run.requested_parent = parent, None


def _keep_external(run: Run, external: External) -> None:
    external_id = ExternalId(lab_id=run.lab_id, run=run, tool=external.tool, value=external.value)
    ExternalId.objects.bulk_create([external_id], ignore_conflicts=True)
    stored = ExternalId.objects.select_related("run").get(
        lab_id=run.lab_id, tool=external.tool, value=external.value
    )
    if stored.run_id != run.pk:
        raise Conflict(
            f"{external.tool} {external.value!r} is the id of another run here, {stored.run.uuid}.",
            field="external",
            hint="Go on with that run's UUID.",
        )
