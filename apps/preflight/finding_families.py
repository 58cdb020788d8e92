"""Families of duplicate findings: their newer runs have entry, data and start in common."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from uuid import UUID

from django.db.models import OuterRef, QuerySet, Subquery

from apps.accounts.models import Lab, User
from apps.core.errors import InvalidInput
from apps.core.units import INT64_MAX
from apps.preflight.models import DuplicateFinding
from apps.runs.choices import Tier
from apps.runs.models import Run, TierKey

# By names, sizes and times: a run has this key as soon as entry, data and start are known.
FAMILY_TIER = Tier.F4_WEAK
_FACTS = (
    "pk", "run__uuid", "run__name", "run__user_id", "run__user__username", "run__os_user",
    "original__user_id", "run__charged_project__name", "run__fingerprint__entry_name", "verdict",
    "certainty", "run__started_us", "family",
)  # fmt: skip


@dataclass(frozen=True)
class FindingFacts:
    """The facts of a finding that the list groups by. ``family`` None: a part is unknown.

    ``user``: of the newer run, for its name only. ``project`` None: unattributed.
    """

    pk: int
    run_uuid: UUID
    run_name: str
    user: User | None
    os_user: str
    original_user_id: int | None
    project: str | None
    script: str
    verdict: str
    certainty: str
    started_us: int
    family: int | None

    def belongs_to(self, person_id: int | None) -> bool:
        """Return whether a person is the user of one of the two runs."""
        user_ids = (self.user.pk if self.user else None, self.original_user_id)
        return person_id is not None and person_id in user_ids


def parse_family(text: str) -> int | None:
    """Return the key of a family, or None if the text is none."""
    is_number = text.isascii() and text.isdecimal() and len(text) <= len(str(INT64_MAX))
    return int(text) if is_number and int(text) <= INT64_MAX else None


def require_family(lab: Lab, text: str) -> int:
    """Return the key of a family. Raises InvalidInput unless a run of the lab belongs to it."""
    key = parse_family(text)
    if key is None or not TierKey.objects.filter(lab=lab, tier=FAMILY_TIER, key=key).exists():
        raise InvalidInput(
            f"There is no family {text[:20]!r} in this lab.",
            field="family",
            hint="Open a family from the list of duplicate findings.",
        )
    return key


def finding_facts(findings: QuerySet[DuplicateFinding]) -> list[FindingFacts]:
    """Return the facts of findings, in their order. One query."""
    key = TierKey.objects.filter(run=OuterRef("run"), tier=FAMILY_TIER).values("key")[:1]
    rows = findings.annotate(family=Subquery(key)).values_list(*_FACTS)
    return [
        FindingFacts(
            pk=pk,
            run_uuid=uuid,
            run_name=name,
            user=None if user_id is None else User(pk=user_id, username=username),
            os_user=os_user,
            original_user_id=original_user_id,
            project=project,
            script=script or "",
            verdict=verdict,
            certainty=certainty,
            started_us=started_us,
            family=family,
        )
        for (
            pk, uuid, name, user_id, username, os_user, original_user_id, project, script, verdict,
            certainty, started_us, family,
        ) in rows
    ]  # fmt: skip


def group_by_family(facts: Iterable[FindingFacts]) -> list[list[FindingFacts]]:
    """Return the findings of each family, families in the order of their first finding. Without a
    known family, a finding is a group of its own.
    """
    groups: dict[tuple[str, int], list[FindingFacts]] = {}
    for one in facts:
        key = ("finding", one.pk) if one.family is None else ("family", one.family)
        groups.setdefault(key, []).append(one)
    return list(groups.values())


def families_of_runs(run_ids: Collection[int]) -> dict[int, tuple[int, str]]:
    """Return {run id: (key of its family, script)}; runs without a family are left out. One
    query.
    """
    keys = TierKey.objects.filter(tier=FAMILY_TIER, run_id__in=run_ids)
    rows = keys.values_list("run_id", "key", "run__fingerprint__entry_name")
    return {run_id: (key, script or "") for run_id, key, script in rows}


def run_for_name(facts: FindingFacts) -> Run:
    """Return the newer run with its user only, unsaved: enough to name the person."""
    return Run(user=facts.user, os_user=facts.os_user)


def script_of(facts: Sequence[FindingFacts]) -> str:
    """Return the script of a family, or the newest run's name where no script is stored."""
    return next((one.script for one in facts if one.script), facts[0].run_name)
