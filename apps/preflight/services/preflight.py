"""Duplicate checks: responses, reported outcomes, and avoided runs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid4

from django.db import transaction

from apps.accounts.models import Lab, Project, User
from apps.accounts.selectors import project_by_slug
from apps.core.errors import Conflict, NotFound
from apps.core.units import US_PER_HOUR
from apps.preflight.choices import AVOIDING_VERDICTS, Certainty, Outcome
from apps.preflight.models import Avoided, Preflight
from apps.preflight.presenters import Requester, present_match, present_matches, sentence
from apps.preflight.selectors import candidates, lookup_keys, past_runs, run_of_external, work_of
from apps.preflight.similarity import Question
from apps.preflight.suggestions import suggest_reuse
from apps.preflight.verdicts import Finding, judge
from apps.runs.choices import Tier
from apps.runs.fingerprint_parsing import FingerprintIn
from apps.runs.models import Run
from apps.runs.services.fingerprints import ignored_params_of_project, parts_of, row_from_payload

WITHDRAWN_WITHIN_US = 7 * 24 * US_PER_HOUR


@dataclass(frozen=True)
class PreflightRequest:
    """A duplicate check request."""

    fingerprint: FingerprintIn
    project: str | None = None
    name: str = ""
    run: UUID | None = None
    parent: UUID | None = None
    job: str = ""
    external: tuple[str, str] | None = None
    tags: Mapping[str, str] | None = None


def check_duplicates(
    *, lab: Lab, payload: PreflightRequest, requester: Requester, node_uuid: UUID | None, now: int
) -> dict[str, Any]:
    """Return the response to a duplicate check, and store the check. The number of queries is
    constant.

    One row is written, last: on SQLite a longer transaction would block all writers.
    """
    project = project_by_slug(lab, payload.project) if payload.project else None
    ignored = ignored_params_of_project(project.pk if project else None)
    row = row_from_payload(payload.fingerprint)
    parts, work = parts_of(row, ignored=ignored), work_of(row, ignored)
    keys = lookup_keys(parts, work)
    past = past_runs(lab, candidates(lab, keys), ignored)
    if (same := run_of_external(lab, payload.external)) is not None:
        past = [same, *(other for other in past if other.uuid != same.uuid)]
    question = Question(
        work=work,
        now=now,
        run=payload.run,
        parent=payload.parent,
        job=payload.job,
        external=payload.external,
        intent=payload.fingerprint.intent or "train",
        sweep=payload.fingerprint.sweep or "",
    )
    judgement = judge(question, past)
    presented, estimate = present_matches(lab, question, judgement, requester)
    stored = _save_preflight(lab, payload, judgement, keys, requester.user, node_uuid, project, now)
    return {
        "verdict": judgement.verdict.value,
        "certainty": judgement.certainty.value,
        "level": judgement.level.value,
        "message": sentence(judgement, presented, lab.time_zone),
        "unknown": list(judgement.unknown),
        "asked": str(stored.uuid),
        "matches": [present_match(other, requester) for other in presented],
        "estimate": estimate,
        "reuse": suggest_reuse(lab, row, judgement, requester, payload.tags or {}),
    }


def _save_preflight(
    lab: Lab,
    payload: PreflightRequest,
    judgement: Finding,
    keys: Sequence[tuple[Tier, int]],
    user: User | None,
    node_uuid: UUID | None,
    project: Project | None,
    now: int,
) -> Preflight:
    f1 = dict(reversed(keys))
    return Preflight.objects.create(
        lab=lab,
        uuid=uuid4(),
        at_us=now,
        user=user,
        node_uuid=node_uuid,
        project=project,
        run_uuid=payload.run,
        name=payload.name,
        verdict=judgement.verdict,
        certainty=judgement.certainty,
        level=judgement.level,
        matches=[str(match.past.uuid) for match in judgement.matches[:5]],
        f1=f1.get(Tier.F1),
        f1_weak=f1.get(Tier.F1_WEAK),
    )


@transaction.atomic
def record_outcome(
    *, lab: Lab, uuid: UUID, outcome: Outcome, by: User | None, node_uuid: UUID | None, now: int
) -> Preflight:
    """Record the outcome of a check. Idempotent; a run that proceeded cannot become stopped.

    Only the requester may report. Raises NotFound, and Conflict for a stop after proceeding.
    """
    preflight = Preflight.objects.select_for_update().filter(lab=lab, uuid=uuid).first()
    if preflight is None or (preflight.user_id, preflight.node_uuid) != (
        by.pk if by else None,
        node_uuid,
    ):
        raise NotFound(
            "You made no such duplicate check.",
            hint="Use 'asked' of the response of POST preflight/.",
        )
    if preflight.outcome == outcome:
        return preflight
    if preflight.outcome == Outcome.PROCEEDED:
        raise Conflict(
            "This run has already proceeded.",
            field="outcome",
            hint="Check again before the next start.",
        )
    preflight.outcome, preflight.outcome_us = outcome, now
    preflight.save(update_fields=["outcome", "outcome_us"])
    if outcome == Outcome.STOPPED:
        _count_avoided(preflight, now)
    else:
        Avoided.objects.filter(preflight=preflight, withdrawn_us__isnull=True).update(
            withdrawn_us=now
        )
    return preflight


def _count_avoided(preflight: Preflight, now: int) -> None:
    """Record an avoided run, if the match is verified and the same work was not recorded within
    a week.
    """
    if (
        preflight.verdict not in AVOIDING_VERDICTS
        or preflight.certainty != Certainty.VERIFIED
        or preflight.f1 is None
    ):
        return
    run = Run.objects.filter(lab_id=preflight.lab_id, uuid=preflight.matches[0]).first()
    since = now - WITHDRAWN_WITHIN_US
    is_counted = Avoided.objects.filter(
        lab_id=preflight.lab_id, f1=preflight.f1, at_us__gt=since, withdrawn_us__isnull=True
    ).exists()
    if run is not None and not is_counted:
        Avoided.objects.create(
            lab_id=preflight.lab_id,
            preflight=preflight,
            run=run,
            f1=preflight.f1,
            f1_weak=preflight.f1_weak,
            at_us=now,
        )


def withdraw_avoided(*, run: Run, keys: Sequence[tuple[Tier, int]], now: int) -> None:
    """Withdraw avoided runs of the week before ``run`` started, if ``run`` is the same work."""
    since = run.started_us - WITHDRAWN_WITHIN_US
    active = Avoided.objects.filter(
        lab_id=run.lab_id, at_us__gt=since, at_us__lte=run.started_us, withdrawn_us__isnull=True
    ).exclude(run=run)
    for tier, field in ((Tier.F1, "f1"), (Tier.F1_WEAK, "f1_weak")):
        tier_keys = [key for key_tier, key in keys if key_tier == tier]
        active.filter(**{f"{field}__in": tier_keys}).update(withdrawn_us=now, by_run=run)
