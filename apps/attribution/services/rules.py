"""Writes of attribution: rules and claims."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid4

from django.db import transaction
from django.urls import reverse

from apps.accounts import audit
from apps.accounts.choices import Act
from apps.accounts.models import Lab, Membership, Project, User
from apps.attribution.models import AttributionRule, Claim
from apps.attribution.precedence import ConsumerSpan
from apps.attribution.services.derive import reattribute_consumers
from apps.core.errors import Conflict, InvalidInput
from apps.core.jobs import enqueue
from apps.core.text import is_unstorable
from apps.core.units import END_HOUR, hour_of
from apps.fleet.models import Node, Site
from apps.ingest.models import Consumer

MAX_CLAIMED = 5_000


@dataclass(frozen=True)
class Criteria:
    """Criteria of a rule. Empty (or None) criteria match everything."""

    node: Node | None = None
    site: Site | None = None
    os_user: str = ""
    cluster: str = ""
    account: str = ""
    namespace: str = ""
    path_prefix: str = ""

    def texts(self) -> dict[str, str]:
        """Return the text criteria."""
        return {
            name: getattr(self, name)
            for name in ("os_user", "cluster", "account", "namespace", "path_prefix")
        }


def drafted_rule(
    *,
    lab: Lab,
    criteria: Criteria,
    project: Project | None,
    person: User | None,
    from_us: int,
    to_us: int | None = None,
) -> AttributionRule:
    """Return a rule that is not saved. It is valid from the hour of ``from_us`` until before the
    hour of ``to_us``. Raises InvalidInput with the field.
    """
    texts = {name: text.strip() for name, text in criteria.texts().items()}
    for name, text in texts.items():
        limit = 256 if name == "path_prefix" else 100
        if len(text) > limit or is_unstorable(text):
            raise InvalidInput(
                f"Invalid value {text[:40]!r}.",
                field=name,
                hint=f"Enter at most {limit} characters, without NUL.",
            )
    if criteria.node is None and criteria.site is None and not any(texts.values()):
        raise InvalidInput(
            "A rule needs at least one criterion.",
            field="os_user",
            hint="Enter a user, an account, a node or a site.",
        )
    if texts["cluster"] and not (texts["account"] or texts["namespace"]):
        raise InvalidInput(
            "A cluster needs an account or a namespace.",
            field="cluster",
            hint="Enter the Slurm account or the namespace.",
        )
    if project is None and person is None:
        raise InvalidInput(
            "A rule needs a project or a person.", field="project", hint="Choose one."
        )
    _of_this_lab(lab, criteria, project, person)
    from_hour, to_hour = max(0, hour_of(from_us)), None if to_us is None else hour_of(to_us)
    if from_hour >= END_HOUR or (to_hour is not None and to_hour <= from_hour):
        raise InvalidInput(
            "The end of the rule is before its start.", field="to_day", hint="Choose a later end."
        )
    return AttributionRule(
        lab=lab,
        node=criteria.node,
        site=criteria.site,
        project=project,
        person=person,
        from_hour=from_hour,
        to_hour=to_hour,
        **texts,
    )


def _of_this_lab(
    lab: Lab, criteria: Criteria, project: Project | None, person: User | None
) -> None:
    for field, target in (("node", criteria.node), ("site", criteria.site), ("project", project)):
        if target is not None and target.lab_id != lab.pk:
            raise InvalidInput(f"No such {field} in this lab.", field=field)
    if person is not None and not Membership.objects.filter(lab=lab, user=person).exists():
        raise InvalidInput(
            "This person is not a member of the lab.", field="person", hint="Invite them first."
        )


@transaction.atomic
def make_rule(*, rule: AttributionRule, by: User | None, now: int) -> AttributionRule:
    """Save a drafted rule. A job derives its attributions within seconds."""
    same = {
        name: getattr(rule, name)
        for name in (
            "lab",
            "node",
            "site",
            "os_user",
            "cluster",
            "account",
            "namespace",
            "path_prefix",
            "project",
            "person",
            "from_hour",
            "to_hour",
        )
    }
    if AttributionRule.objects.filter(**same, withdrawn_us__isnull=True).exists():
        raise Conflict("The same rule already exists.", hint=f"See {reverse('attribution-rules')}.")
    rule.created_by, rule.created_us = by, now
    rule.save(force_insert=True)
    _note(rule, by, Act.RULE_CREATED, now)
    enqueue(kind="attribution.rule", key=str(rule.pk))
    return rule


@transaction.atomic
def make_rules(*, rules: Sequence[AttributionRule], by: User | None, now: int) -> None:
    """Save drafted rules, all or none. Raises Conflict if one already exists."""
    for rule in rules:
        make_rule(rule=rule, by=by, now=now)


def _note(rule: AttributionRule, by: User | None, action: str, now: int) -> None:
    details: dict[str, Any] = {
        name: getattr(rule, name) for name in Criteria().texts() if getattr(rule, name)
    }
    details |= {"node": rule.node.hostname} if rule.node else {}
    details |= {"site": rule.site.name} if rule.site else {}
    details |= {"person": rule.person.get_username()} if rule.person else {}
    details |= {"from_hour": rule.from_hour, "to_hour": rule.to_hour}
    subject = rule.project.slug if rule.project else "no project"
    audit.record(
        lab=rule.lab,
        by=by,
        action=action,
        subject=f"rule {rule.pk}: {subject}",
        details=details,
        now=now,
    )


@transaction.atomic
def end_rule(*, rule: AttributionRule, at_us: int, by: User | None, now: int) -> AttributionRule:
    """End a rule before the hour of ``at_us``. Earlier attributions stay."""
    hour = hour_of(at_us)
    if rule.withdrawn_us is not None or (rule.to_hour is not None and rule.to_hour <= hour):
        raise Conflict("This rule has already ended.", hint=f"See {reverse('attribution-rules')}.")
    if hour <= rule.from_hour:
        raise InvalidInput(
            "The end of the rule is before its start.",
            field="at",
            hint="To undo the rule completely, withdraw it.",
        )
    rule.to_hour = hour
    rule.save(update_fields=["to_hour"])
    _note(rule, by, Act.RULE_ENDED, now)
    enqueue(kind="attribution.rule", key=str(rule.pk))
    return rule


@transaction.atomic
def withdraw_rule(*, rule: AttributionRule, by: User | None, now: int) -> AttributionRule:
    """Withdraw a rule with its effect on past energy. A second withdrawal changes nothing."""
    if rule.withdrawn_us is None:
        rule.withdrawn_us = now
        rule.save(update_fields=["withdrawn_us"])
        _note(rule, by, Act.RULE_WITHDRAWN, now)
        enqueue(kind="attribution.rule", key=str(rule.pk))
    return rule


@transaction.atomic
def restore_rule(*, rule: AttributionRule, by: User | None, now: int) -> AttributionRule:
    """Restore a withdrawn rule."""
    if rule.withdrawn_us is not None:
        rule.withdrawn_us = None
        rule.save(update_fields=["withdrawn_us"])
        _note(rule, by, Act.RULE_RESTORED, now)
        enqueue(kind="attribution.rule", key=str(rule.pk))
    return rule


def at_most_claimed(number: int) -> None:
    """Raise InvalidInput for more spans than one claim can contain."""
    if number > MAX_CLAIMED:
        raise InvalidInput(
            f"The claim contains {number} periods of consumers, more than {MAX_CLAIMED}.",
            field="consumer",
            hint="Select fewer rows or a shorter period.",
        )


@transaction.atomic
def claim(
    *, lab: Lab, spans: Sequence[ConsumerSpan], project: Project, by: User | None, now: int
) -> UUID:
    """Claim the energy of ``spans`` for ``project``. Claims take precedence over rules, not over
    projects named by runs.

    Return the UUID of the claim, for ``undo_claim``. Figures are up to date afterwards.
    """
    if not spans:
        raise InvalidInput(
            "No unattributed energy selected.", field="consumer", hint="Select at least one row."
        )
    consumer_ids = {span.consumer_id for span in spans}
    at_most_claimed(len(spans))
    if any(span.to_hour <= span.from_hour for span in spans):
        raise InvalidInput("The period is empty.", field="to", hint="'to' is after 'from'.")
    if (
        project.lab_id != lab.pk
        or Consumer.objects.filter(pk__in=consumer_ids).exclude(lab=lab).exists()
    ):
        raise InvalidInput("No such project in this lab.", field="project")
    act = uuid4()
    Claim.objects.bulk_create(
        [
            Claim(
                lab=lab,
                act=act,
                consumer_id=span.consumer_id,
                node_id=span.node_id,
                from_hour=span.from_hour,
                to_hour=span.to_hour,
                project=project,
                created_by=by,
                created_us=now,
            )
            for span in spans
        ],
        batch_size=500,
    )
    details = {
        "consumers": len(consumer_ids),
        "from_hour": min(span.from_hour for span in spans),
        "to_hour": max(span.to_hour for span in spans),
        "act": str(act),
    }
    audit.record(
        lab=lab, by=by, action=Act.CLAIM_CREATED, subject=project.slug, details=details, now=now
    )
    reattribute_consumers(lab=lab, consumer_ids=consumer_ids)
    return act


@transaction.atomic
def undo_claim(*, lab: Lab, act: UUID, by: User | None, now: int) -> int:
    """Undo a claim. Return the number of its consumers. A second call changes nothing."""
    rows = list(Claim.objects.select_for_update().filter(lab=lab, act=act, undone_us__isnull=True))
    Claim.objects.filter(pk__in=[row.pk for row in rows]).update(undone_us=now, undone_by=by)
    _note_claim(lab, rows, by, Act.CLAIM_UNDONE, now)
    consumer_ids = {row.consumer_id for row in rows}
    reattribute_consumers(lab=lab, consumer_ids=consumer_ids)
    return len(consumer_ids)


def _note_claim(lab: Lab, rows: list[Claim], by: User | None, action: str, now: int) -> None:
    if rows:
        details = {"consumers": len({row.consumer_id for row in rows}), "act": str(rows[0].act)}
        audit.record(
            lab=lab, by=by, action=action, subject=rows[0].project.slug, details=details, now=now
        )


@transaction.atomic
def redo_claim(*, lab: Lab, act: UUID, by: User | None, now: int) -> int:
    """Restore a claim that was undone. Return the number of its consumers."""
    rows = list(Claim.objects.select_for_update().filter(lab=lab, act=act, undone_us__isnull=False))
    Claim.objects.filter(pk__in=[row.pk for row in rows]).update(undone_us=None, undone_by=None)
    _note_claim(lab, rows, by, Act.CLAIM_REDONE, now)
    consumer_ids = {row.consumer_id for row in rows}
    reattribute_consumers(lab=lab, consumer_ids=consumer_ids)
    return len(consumer_ids)
