"""Assignment of owners to artifacts, from the user names of their machines."""

from collections.abc import Sequence

from apps.accounts.models import Lab
from apps.artifacts.models import Artifact
from apps.attribution.precedence import PlacementSpan, Rule, Use, spans
from apps.attribution.selectors import as_rule, placements, rules_of
from apps.core.units import hour_of
from apps.fleet.models import Node
from apps.runs.models import Run

HIDDEN_USER = "-"  # sent by a collector instead of a name that may not leave the machine


def assign_owners(*, lab: Lab, node: Node, now: int) -> int:
    """Assign owners to artifacts on a node that have none; return their number. Within the caller's
    transaction.

    The owner comes from the lab's rules for user names, or else is the only person who ran anything
    as that user.
    """
    unowned = Artifact.objects.filter(lab=lab, owner=None, copies__node=node).exclude(
        os_user__in=("", HIDDEN_USER)
    )
    names = sorted(unowned.values_list("os_user", flat=True).distinct())
    people = _by_rules(lab, node, names, now)
    people |= _by_runs(lab, [name for name in names if name not in people])
    return sum(
        Artifact.objects.filter(pk__in=unowned.filter(os_user=name).values("pk")).update(
            owner=person
        )
        for name, person in people.items()
    )


def _by_rules(lab: Lab, node: Node, names: Sequence[str], now: int) -> dict[str, int]:
    rules = (
        [as_rule(row) for row in rules_of(lab).filter(os_user__in=names, person__isnull=False)]
        if names
        else []
    )
    if not rules:
        return {}
    where = placements([node.pk])[node.pk]
    persons = {
        name: _person(rules, Use("file", node.pk, os_user=name), where, hour_of(now))
        for name in names
    }
    return {name: person for name, person in persons.items() if person is not None}


def _person(
    rules: Sequence[Rule], use: Use, where: Sequence[PlacementSpan], hour: int
) -> int | None:
    intervals = spans(use, rules=rules, claims=(), placements=where)
    return next(
        (
            interval.person_id
            for interval in intervals
            if interval.from_hour <= hour < interval.to_hour
        ),
        None,
    )


def _by_runs(lab: Lab, names: Sequence[str]) -> dict[str, int]:
    """Return owners by user name. A user name shared by several people, such as root, has no
    owner.
    """
    if not names:
        return {}
    ran = Run.objects.filter(lab=lab, os_user__in=names, user__isnull=False)
    people: dict[str, set[int]] = {}
    for name, person in ran.values_list("os_user", "user").distinct().order_by():
        people.setdefault(name, set()).add(person)
    return {name: person for name, (person, *others) in people.items() if not others}
