"""Families in the list of duplicate findings, and decisions about all findings of a family."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from apps.accounts.models import Lab
from apps.carbon.figures.visibility import Visibility
from apps.core.errors import Conflict
from apps.dashboard.figures import Units
from apps.dashboard.runs.duplicate_figures import (
    LimitedTotal,
    Spans,
    Uncounted,
    count_uncounted,
    limited_total,
)
from apps.dashboard.runs.duplicate_filters import EVERY_STATE, filter_findings
from apps.preflight.choices import Certainty, Verdict
from apps.preflight.finding_families import (
    FindingFacts,
    finding_facts,
    run_for_name,
    script_of,
)
from apps.preflight.presenters import who_of
from apps.preflight.services.findings import MAX_DECIDED
from apps.runs.choices import EnergyState

MAX_NAMES = 3


@dataclass(frozen=True)
class FamilyRow:
    """The findings of a family that match the filters. ``decidable``: about how many of them the
    visitor may decide. ``choice``: value of the checkbox for these, '' if there is none.

    ``people``: up to MAX_NAMES names; ``other_people``: number of further ones.
    """

    key: int
    script: str
    projects: list[str]
    number: int
    decidable: int
    choice: str
    verdicts: list[tuple[str, int]]
    verified: int
    people: list[str]
    other_people: int
    newest_us: int
    total: LimitedTotal
    uncounted: Uncounted


def is_decidable(facts: FindingFacts, visibility: Visibility, *, is_manager: bool) -> bool:
    """Return whether a visitor may decide about a finding."""
    return is_manager or facts.belongs_to(visibility.person_id)


def family_row(
    lab: Lab,
    findings: Sequence[FindingFacts],
    *,
    state: str,
    visibility: Visibility,
    is_manager: bool,
    spans: Spans,
    states: Mapping[UUID, EnergyState],
    units: Units | None,
) -> FamilyRow:
    """Return the row of a family. ``findings``: newest first. ``units`` None: those that suit its
    own total. No query.
    """
    key = findings[0].family
    assert key is not None
    decidable = sum(is_decidable(one, visibility, is_manager=is_manager) for one in findings)
    can_choose = state != EVERY_STATE and 0 < decidable <= MAX_DECIDED
    people = sorted({who_of(run_for_name(one), visibility) for one in findings})
    numbers = Counter(one.verdict for one in findings)
    return FamilyRow(
        key=key,
        script=script_of(findings),
        projects=sorted({one.project or "Unattributed" for one in findings}),
        number=len(findings),
        decidable=decidable,
        choice=f"{key}-{decidable}" if can_choose else "",
        verdicts=[
            (str(verdict.label), numbers[verdict]) for verdict in Verdict if verdict in numbers
        ],
        verified=sum(one.certainty == Certainty.VERIFIED for one in findings),
        people=people[:MAX_NAMES],
        other_people=len(people[MAX_NAMES:]),
        newest_us=max(one.started_us for one in findings),
        total=limited_total(lab, run_uuids(findings), spans, units),
        uncounted=count_uncounted(run_uuids(findings), states),
    )


def run_uuids(findings: Sequence[FindingFacts]) -> list[UUID]:
    """Return the UUIDs of the newer runs."""
    return [one.run_uuid for one in findings]


def family_finding_ids(
    lab: Lab,
    params: Mapping[str, str],
    key: int,
    number: int,
    *,
    visibility: Visibility,
    is_manager: bool,
    now: int,
) -> list[int]:
    """Return the ids of the findings of a family that match the filters and that the visitor may
    decide about. Raises Conflict unless they are ``number``, which the visitor saw.
    """
    findings, filters = filter_findings(lab, {**params, "family": str(key)}, visibility, now)
    if filters["state"] == EVERY_STATE:
        raise Conflict(
            "A decision about a whole family needs one state.",
            field="family",
            hint="Filter by a state first.",
        )
    ids = [
        one.pk
        for one in finding_facts(findings)
        if is_decidable(one, visibility, is_manager=is_manager)
    ]
    if len(ids) != number:
        raise Conflict(
            f"The family now has {len(ids)} findings that you can decide about, not {number}.",
            field="family",
            hint="Check the list and decide again.",
        )
    return ids
