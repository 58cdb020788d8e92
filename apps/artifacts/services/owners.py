"""Whose a file is: from the user of its machine to a person of the lab."""

from collections.abc import Sequence

from apps.accounts.models import Lab
from apps.artifacts.models import Artifact
from apps.attribution.calc import PlacementSpan, Rule, Use, spans
from apps.attribution.selectors import as_rule, placements, rules_of
from apps.core.units import hour_of
from apps.fleet.models import Node
from apps.runs.models import Run

HIDDEN_USER = "-"  # what a collector tells instead of a name that may not leave its machine


def assign_owners(*, lab: Lab, node: Node, now: int) -> int:
    """Note whose the artifacts on a node are, where nobody is known: by the lab's rules of users, else the one person who
    ran something as that user. Return how many. In the caller's transaction."""
    unowned = Artifact.objects.filter(lab=lab, owner=None, copies__node=node).exclude(os_user__in=("", HIDDEN_USER))
    names = sorted(unowned.values_list("os_user", flat=True).distinct())
    people = _by_rules(lab, node, names, now)
    people |= _by_runs(lab, [name for name in names if name not in people])
    return sum(
        Artifact.objects.filter(pk__in=unowned.filter(os_user=name).values("pk")).update(owner=person)
        for name, person in people.items()
    )


def _by_rules(lab: Lab, node: Node, names: Sequence[str], now: int) -> dict[str, int]:
    rules = [as_rule(row) for row in rules_of(lab).filter(os_user__in=names, person__isnull=False)] if names else []
    if not rules:
        return {}
    where = placements([node.pk])[node.pk]
    persons = {name: _person(rules, Use("file", node.pk, os_user=name), where, hour_of(now)) for name in names}
    return {name: person for name, person in persons.items() if person is not None}


def _person(rules: Sequence[Rule], use: Use, where: Sequence[PlacementSpan], hour: int) -> int | None:
    intervals = spans(use, rules=rules, claims=(), placements=where)
    return next((interval.person_id for interval in intervals if interval.from_hour <= hour < interval.to_hour), None)


def _by_runs(lab: Lab, names: Sequence[str]) -> dict[str, int]:
    """Where two people ran something as one user, as root or a shared account, nobody can say whose its files are."""
    if not names:
        return {}
    ran = Run.objects.filter(lab=lab, os_user__in=names, user__isnull=False)
    people: dict[str, set[int]] = {}
    for name, person in ran.values_list("os_user", "user").distinct().order_by():
        people.setdefault(name, set()).add(person)
    return {name: person for name, (person, *others) in people.items() if not others}
