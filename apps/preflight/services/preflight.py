"""Writes of preflight: a question answered and kept, what its asker did, and what that avoided."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid4

from django.db import transaction

from apps.accounts.models import Lab, Project, User
from apps.accounts.selectors import project_by_slug
from apps.core.errors import Conflict, NotFound
from apps.core.units import US_PER_HOUR
from apps.preflight.choices import SAVING, Certainty, Outcome
from apps.preflight.models import Avoided, Preflight
from apps.preflight.presenters import Asker, sentence, told, told_match
from apps.preflight.selectors import candidates, keys_asked, pasts, run_of_external, work_of
from apps.preflight.similarity import Question
from apps.preflight.suggestions import told_reuse
from apps.preflight.verdicts import Found, judge
from apps.runs.choices import Tier
from apps.runs.fingerprint_parsing import FingerprintIn
from apps.runs.models import Run
from apps.runs.services.fingerprints import ignored_in, parts_of, row_told

WITHDRAWN_WITHIN_US = 7 * 24 * US_PER_HOUR


@dataclass(frozen=True)
class Asked:
    """A question as it comes over the wire."""

    fingerprint: FingerprintIn
    project: str | None = None
    name: str = ""
    run: UUID | None = None
    parent: UUID | None = None
    job: str = ""
    external: tuple[str, str] | None = None
    tags: Mapping[str, str] | None = None


def ask(*, lab: Lab, asked: Asked, asker: Asker, node_uuid: UUID | None, now: int) -> dict[str, Any]:
    """Answer a question and keep it. The number of statements depends neither on the number of runs nor of matches.

    One row is written, last: on SQLite a transaction around the reading would hold everybody up who writes.
    """
    project = project_by_slug(lab, asked.project) if asked.project else None
    ignored = ignored_in(project.pk if project else None)
    row = row_told(asked.fingerprint)
    parts, work = parts_of(row, ignored=ignored), work_of(row, ignored)
    keys = keys_asked(parts, work)
    past = pasts(lab, candidates(lab, keys), ignored)
    if (same := run_of_external(lab, asked.external)) is not None:
        past = [same, *(each for each in past if each.uuid != same.uuid)]
    question = Question(
        work=work, now=now, run=asked.run, parent=asked.parent, job=asked.job, external=asked.external,
        intent=asked.fingerprint.intent or "train", sweep=asked.fingerprint.sweep or "",
    )  # fmt: skip
    found = judge(question, past)
    listed, estimate = told(lab, question, found, asker)
    kept = _kept(lab, asked, found, keys, asker.user, node_uuid, project, now)
    return {
        "verdict": found.verdict.value,
        "certainty": found.certainty.value,
        "level": found.level.value,
        "message": sentence(found, listed, lab.time_zone),
        "asked": str(kept.uuid),
        "matches": [told_match(each, asker) for each in listed],
        "estimate": estimate,
        "reuse": told_reuse(lab, row, found, asker, asked.tags or {}),
    }


def _kept(
    lab: Lab, asked: Asked, found: Found, keys: Sequence[tuple[Tier, int]], user: User | None, node_uuid: UUID | None,
    project: Project | None, now: int,
) -> Preflight:  # fmt: skip
    f1 = dict(reversed(keys))
    return Preflight.objects.create(
        lab=lab, uuid=uuid4(), at_us=now, user=user, node_uuid=node_uuid, project=project, run_uuid=asked.run,
        name=asked.name, verdict=found.verdict, certainty=found.certainty, level=found.level,
        matches=[str(match.past.uuid) for match in found.matches[:5]],
        f1=f1.get(Tier.F1), f1_weak=f1.get(Tier.F1_WEAK),
    )  # fmt: skip


@transaction.atomic
def record_outcome(
    *, lab: Lab, uuid: UUID, outcome: Outcome, by: User | None, node_uuid: UUID | None, now: int
) -> Preflight:
    """Record what the asker did. Saying it again changes nothing; who went on did not stop, whatever was said before.

    Only who asked may say. Raises NotFound, and Conflict for a stop after going on.
    """
    asked = Preflight.objects.select_for_update().filter(lab=lab, uuid=uuid).first()
    if asked is None or (asked.user_id, asked.node_uuid) != (by.pk if by else None, node_uuid):
        raise NotFound("You asked no such question.", hint="Take 'asked' from the answer of POST preflight/.")
    if asked.outcome == outcome:
        return asked
    if asked.outcome == Outcome.WENT_ON:
        raise Conflict("This run went on already.", field="outcome", hint="Ask anew before the next start.")
    asked.outcome, asked.outcome_us = outcome, now
    asked.save(update_fields=["outcome", "outcome_us"])
    if outcome == Outcome.STOPPED:
        _count_avoided(asked, now)
    else:
        Avoided.objects.filter(preflight=asked, withdrawn_us__isnull=True).update(withdrawn_us=now)
    return asked


def _count_avoided(asked: Preflight, now: int) -> None:
    """Count a stop, if it rests on contents and the same work was not counted within a week."""
    if asked.verdict not in SAVING or asked.certainty != Certainty.VERIFIED or asked.f1 is None:
        return
    run = Run.objects.filter(lab_id=asked.lab_id, uuid=asked.matches[0]).first()
    since = now - WITHDRAWN_WITHIN_US
    again = Avoided.objects.filter(lab_id=asked.lab_id, f1=asked.f1, at_us__gt=since, withdrawn_us__isnull=True).exists()
    if run is not None and not again:
        Avoided.objects.create(lab_id=asked.lab_id, preflight=asked, run=run, f1=asked.f1, f1_weak=asked.f1_weak, at_us=now)


def withdraw_avoided(*, run: Run, keys: Sequence[tuple[Tier, int]], now: int) -> None:
    """Take back what was counted as avoided in the week before ``run`` began, if ``run`` is that work."""
    since = run.started_us - WITHDRAWN_WITHIN_US
    standing = Avoided.objects.filter(
        lab_id=run.lab_id, at_us__gt=since, at_us__lte=run.started_us, withdrawn_us__isnull=True
    ).exclude(run=run)
    for tier, field in ((Tier.F1, "f1"), (Tier.F1_WEAK, "f1_weak")):
        found = [key for each, key in keys if each == tier]
        standing.filter(**{f"{field}__in": found}).update(withdrawn_us=now, by_run=run)
