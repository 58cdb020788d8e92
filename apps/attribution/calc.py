"""From rules and claims to who is charged, hour by hour. Pure.

Precedence: the project that the run itself named, a claim, a rule by account or namespace, a rule by user or path on a
machine, a rule by user alone, else nobody. Project and person are looked for apart: a rule that knows only the person
leaves the project to the next one. Among rules of one rank the one that asks for more wins, a node before a site; then
the one that begins later, then the one made later.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from apps.core.units import END_HOUR
from apps.runs.choices import AttributionSource


@dataclass(frozen=True)
class Use:
    """What is known of a consumer on a node: who, under which account, with which command."""

    kind: str
    node_id: int
    os_user: str = ""
    cluster: str = ""
    account: str = ""
    namespace: str = ""
    command: tuple[str, ...] = ()
    program: str = ""
    project_id: int | None = None
    person_id: int | None = None


@dataclass(frozen=True)
class Rule:
    """A rule over ``[from_hour, to_hour)``. What is empty (or None) asks for nothing."""

    id: int
    from_hour: int = 0
    to_hour: int = END_HOUR
    node_id: int | None = None
    site_id: int | None = None
    os_user: str = ""
    cluster: str = ""
    account: str = ""
    namespace: str = ""
    path_prefix: str = ""
    project_id: int | None = None
    person_id: int | None = None

    @property
    def way(self) -> AttributionSource:
        if self.account or self.namespace:
            return AttributionSource.ACCOUNT
        return AttributionSource.PLACE if self.node_id or self.site_id or self.path_prefix else AttributionSource.USER

    @property
    def strength(self) -> tuple[int, int, bool, int, int]:
        """Return what rules are compared by: the greatest wins."""
        criteria = (
            self.node_id, self.site_id, self.os_user, self.cluster, self.account, self.namespace, self.path_prefix,
        )  # fmt: skip
        rank = {AttributionSource.ACCOUNT: 2, AttributionSource.PLACE: 1, AttributionSource.USER: 0}[self.way]
        return rank, sum(map(bool, criteria)), self.node_id is not None, self.from_hour, self.id

    def fits(self, use: Use, site_id: int | None) -> bool:
        """Return whether the rule speaks of this use at this site."""
        return (
            self.node_id in (None, use.node_id)
            and self.site_id in (None, site_id)
            and self.os_user in ("", use.os_user)
            and self.cluster in ("", use.cluster)
            and self.account in ("", use.account)
            and self.namespace in ("", use.namespace)
            and (not self.path_prefix or any(word.startswith(self.path_prefix) for word in use.command))
        )


@dataclass(frozen=True)
class Claimed:
    """A claim over ``[from_hour, to_hour)``, on one node or (None) on all."""

    id: int
    from_hour: int
    to_hour: int
    project_id: int
    node_id: int | None = None


@dataclass(frozen=True)
class ConsumerSpan:
    """What a consumer used on one node (None: on all) over ``[from_hour, to_hour)``."""

    consumer_id: int
    node_id: int | None
    from_hour: int
    to_hour: int


@dataclass(frozen=True)
class PlacementSpan:
    """A node stood at a site over ``[from_hour, to_hour)``."""

    from_hour: int
    to_hour: int
    site_id: int


@dataclass(frozen=True)
class Span:
    """Who is charged over ``[from_hour, to_hour)``, and by what. ``rule_id`` is of the project if it has one, else of the
    person."""

    from_hour: int
    to_hour: int
    project_id: int | None = None
    person_id: int | None = None
    way: str = ""
    rule_id: int | None = None
    claim_id: int | None = None
    os_user: str = ""
    program: str = ""


def spans(use: Use, *, rules: Sequence[Rule], claims: Sequence[Claimed], placements: Sequence[PlacementSpan]) -> list[Span]:
    """Return who is charged for ``use`` over all time: disjoint, without gaps, neighbours that say the same are one."""
    usable = [rule for rule in rules if rule.fits(use, rule.site_id)]
    here = [claim for claim in claims if claim.node_id in (None, use.node_id)]
    cuts = {0, END_HOUR}
    dated_facts: list[Rule | Claimed | PlacementSpan] = [
        *usable,
        *here,
        *(placements if any(rule.site_id for rule in usable) else ()),
    ]
    for dated in dated_facts:
        cuts |= {hour for hour in (dated.from_hour, dated.to_hour) if 0 < hour < END_HOUR}
    return list(_joined(_span(use, start, end, usable, here, placements) for start, end in pairwise(sorted(cuts))))


def _span(
    use: Use, start: int, end: int, rules: Iterable[Rule], claims: Iterable[Claimed], placements: Iterable[PlacementSpan]
) -> Span:
    site_id = next((each.site_id for each in placements if each.from_hour <= start < each.to_hour), None)
    matching_rules = [rule for rule in rules if rule.from_hour <= start < rule.to_hour and rule.fits(use, site_id)]
    by_strength = sorted(matching_rules, key=lambda rule: rule.strength, reverse=True)
    person = next((rule for rule in by_strength if rule.person_id), None)
    person_id = use.person_id or (person.person_id if person else None)
    span = Span(start, end, person_id=person_id, os_user=use.os_user, program=use.program)
    if use.project_id is not None:
        return replace(span, project_id=use.project_id, way=AttributionSource.EXPLICIT.value)
    claimed = [claim for claim in claims if claim.from_hour <= start < claim.to_hour]
    if claimed:
        last = max(claimed, key=lambda claim: claim.id)
        return replace(span, project_id=last.project_id, way=AttributionSource.CLAIM.value, claim_id=last.id)
    rule = next((rule for rule in by_strength if rule.project_id), None)
    if rule is not None:
        return replace(span, project_id=rule.project_id, way=rule.way.value, rule_id=rule.id)
    return replace(span, rule_id=person.id) if person and not use.person_id else span


def _joined(parts: Iterable[Span]) -> Iterator[Span]:
    last: Span | None = None
    for part in parts:
        if last is not None and replace(part, from_hour=last.from_hour, to_hour=last.to_hour) == last:
            last = replace(last, to_hour=part.to_hour)
            continue
        if last is not None:
            yield last
        last = part
    if last is not None:
        yield last


def differences(before: Sequence[Span], after: Sequence[Span]) -> list[tuple[int, int, int | None, int | None]]:
    """Return the stretches (from hour, to hour, project before, project after) in which two answers name another project."""
    changes: list[tuple[int, int, int | None, int | None]] = []
    for old in before:
        for new in after:
            start, end = max(old.from_hour, new.from_hour), min(old.to_hour, new.to_hour)
            if start < end and old.project_id != new.project_id:
                changes.append((start, end, old.project_id, new.project_id))
    return changes


def user_and_program(key: str) -> tuple[str, str]:
    """Return who and what a ``proc:<user>/<comm>`` or ``container:<user>/<id>`` consumer is; ('', '') of any other."""
    kind, _, rest = key.partition(":")
    user, slash, program = rest.partition("/")
    if not slash or kind not in {"proc", "container"}:
        return "", ""
    return ("" if user == "-" else user), program if kind == "proc" else f"container {program[:12]}"


def namespace_of(key: str) -> tuple[str, str]:
    """Return cluster and namespace of a ``pod:<cluster>/<namespace>/<pod>`` consumer; ('', '') of any other."""
    parts = key[4:].split("/", 2) if key.startswith("pod:") else []
    return (parts[0], "" if parts[1] == "-" else parts[1]) if len(parts) == 3 else ("", "")
