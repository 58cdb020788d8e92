"""What becomes known of a run by and by: what it is for, its parent, tags, ids elsewhere, fingerprint, why it failed."""

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
from apps.runs.fingerprint_parsing import FingerprintIn
from apps.runs.models import ExternalId, Fingerprint, Run
from apps.runs.services.fingerprints import put_fingerprint, told_by_params

MAX_TAGS = 100
_MAX_ANCESTORS = 64
WATCH = "runs.watch"


@dataclass(frozen=True)
class External:
    """What another tool calls a run."""

    tool: str
    value: str


@dataclass(frozen=True)
class FailureIn:
    """Why a run failed, where (a short digest of the place in the code), and what it said last."""

    kind: str = ""
    point: str = ""
    text: str = ""


@dataclass(frozen=True)
class Known:
    """What a client tells of a run at its start or later. None: it says nothing of that, and what is known stays.

    ``tags``: name → text, None takes a tag away.
    """

    fingerprint: FingerprintIn | None = None
    intent: str | None = None
    sweep: str | None = None
    parent: UUID | None = None
    tags: Mapping[str, str | None] = field(default_factory=dict)
    external: External | None = None
    failure: FailureIn | None = None


def hear(run: Run, now: int | None) -> None:
    """Note that a word of a run came; it revives a run that was given up. ``now`` None: a record of the past is no word."""
    if now is None:
        return
    run.seen_us = max(run.seen_us or 0, now)
    if run.state == RunState.LOST:
        run.state = RunState.RUNNING


def watch(run: Run, now: int | None) -> None:
    """See to it that somebody looks whether a running run of the lab is lost. Costs a read where somebody does already."""
    key = str(run.lab_id)
    if now is None or run.state != RunState.RUNNING or Job.objects.filter(kind=WATCH, key=key).exists():
        return
    enqueue(kind=WATCH, key=key, due_us=now)


def note_known(run: Run, known: Known) -> None:
    """Put what is told onto a run that the caller saves. Raises InvalidInput for a parent that cannot be one."""
    told = known.fingerprint
    run.intent = known.intent or (told.intent if told else None) or run.intent
    sweep = known.sweep if known.sweep is not None else told.sweep if told else None
    run.sweep = run.sweep if sweep is None else sweep
    if known.tags:
        tags = {**run.tags, **known.tags}
        run.tags = {name: text for name, text in tags.items() if text is not None}
        if len(run.tags) > MAX_TAGS:
            raise InvalidInput(f"A run has at most {MAX_TAGS} tags; these would be {len(run.tags)}.", field="tags")
    if known.parent is not None:
        _note_parent(run, known.parent)
    if known.failure is not None:
        run.failure = known.failure.kind or run.failure
        run.failure_point = known.failure.point or run.failure_point
        run.failure_text = known.failure.text or run.failure_text


def keep_known(run: Run, known: Known, *, params: Mapping[str, Any] | None = None, is_new: bool = False) -> None:
    """Store what has tables of its own, for a run that is saved. ``params``: told beside or instead of a fingerprint."""
    if known.external is not None:
        _keep_external(run, known.external)
    told = known.fingerprint
    if params and (told is None or told.params is None) and (is_new or _params_are_the_apis(run)):
        told = _with_params(told, params)
    if told is not None:
        put_fingerprint(run=run, told=told, is_new=is_new)


def welcome(run: Run, now: int | None) -> None:
    """Make a run that is new the parent of those that named it before it came, and :func:`watch` it. One read, as a rule."""
    asked = [WATCH, str(run.lab_id), run.lab_id, uuid_param(run.uuid)]
    (found,) = fetch_rows(
        "SELECT EXISTS (SELECT 1 FROM core_job WHERE kind = %s AND key = %s) AS watched,"
        " EXISTS (SELECT 1 FROM runs_run WHERE lab_id = %s AND parent_asked = %s) AS named",
        asked,
    )
    if found["named"]:
        Run.objects.filter(lab_id=run.lab_id, parent_asked=run.uuid).update(parent=run, parent_asked=None)
    if not found["watched"]:
        watch(run, now)


def first_of(lab: Lab, external: External) -> Run | None:
    """Return the run that a tool's id belongs to, locked, or None."""
    runs = Run.objects.select_for_update(of=("self",)).select_related("node", "project")
    return runs.filter(lab=lab, external_ids__lab=lab, external_ids__tool=external.tool,
                       external_ids__value=external.value).first()  # fmt: skip


def _params_are_the_apis(run: Run) -> bool:
    """Whether the parameters of the run's body make its recipe: nobody told more of it who knew better."""
    row = Fingerprint.objects.filter(run=run).first()
    return row is None or row.params is None or not (row.entry or row.code or row.code_weak or row.data or row.data_weak)


def _with_params(told: FingerprintIn | None, params: Mapping[str, Any]) -> FingerprintIn:
    found = told_by_params(params)
    if told is None:
        return found
    seeds = found.seeds if told.seeds is None else told.seeds
    return structs.replace(told, params=found.params, told=told.told or found.told, dropped=found.dropped, seeds=seeds)


def _note_parent(run: Run, uuid: UUID) -> None:
    if uuid == run.uuid:
        raise InvalidInput("A run is not its own parent.", field="parent")
    parent = Run.objects.filter(lab_id=run.lab_id, uuid=uuid).only("pk", "parent_id").first()
    if parent is None:
        run.parent, run.parent_asked = None, uuid
        return
    above, steps = parent.parent_id, 0
    while above is not None and steps < _MAX_ANCESTORS:
        if above == run.pk:
            raise InvalidInput("This would make a run an ancestor of itself.", field="parent")
        above = Run.objects.filter(pk=above).values_list("parent_id", flat=True).first()
        steps += 1
    run.parent, run.parent_asked = parent, None


def _keep_external(run: Run, external: External) -> None:
    told = ExternalId(lab_id=run.lab_id, run=run, tool=external.tool, value=external.value)
    ExternalId.objects.bulk_create([told], ignore_conflicts=True)
    kept = ExternalId.objects.select_related("run").get(lab_id=run.lab_id, tool=external.tool, value=external.value)
    if kept.run_id != run.pk:
        raise Conflict(
            f"{external.tool} {external.value!r} is the id of another run here, {kept.run.uuid}.",
            field="external", hint="Go on with that run's UUID.",
        )  # fmt: skip
