"""Attribution by hour from rules and claims. Pure.

Precedence:

1. the project that the run requests,
2. a claim,
3. a rule by account or namespace,
4. a rule by user or path on a node,
5. a rule by user only,
6. else unattributed.

Project and person are determined separately: if a rule sets only a person, the next rule sets the
project. Among rules of one rank the rule with more criteria wins; a node ranks before a site. Then
the rule with the later start wins, then the rule that was created later.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from apps.core.units import END_HOUR
from apps.ingest.window_rules import without_system_mark
from apps.runs.choices import AttributionSource


@dataclass(frozen=True)
class Use:
    """Known properties of a consumer on a node: user, account, command."""

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
    """A rule over ``[from_hour, to_hour)``. Empty (or None) criteria match everything."""

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
        return (
            AttributionSource.PLACE
            if self.node_id or self.site_id or self.path_prefix
            else AttributionSource.USER
        )

    @property
    def strength(self) -> tuple[int, int, bool, int, int]:
        """Return the sort key of rules. The greatest wins."""
        criteria = (
            self.node_id,
            self.site_id,
            self.os_user,
            self.cluster,
            self.account,
            self.namespace,
            self.path_prefix,
        )
        rank = {
            AttributionSource.ACCOUNT: 2,
            AttributionSource.PLACE: 1,
            AttributionSource.USER: 0,
        }[self.way]
        return rank, sum(map(bool, criteria)), self.node_id is not None, self.from_hour, self.id

    def fits(self, use: Use, site_id: int | None) -> bool:
        """Return whether the rule matches this use at this site."""
        return (
            self.node_id in (None, use.node_id)
            and self.site_id in (None, site_id)
            and self.os_user in ("", use.os_user)
            and self.cluster in ("", use.cluster)
            and self.account in ("", use.account)
            and self.namespace in ("", use.namespace)
            and (
                not self.path_prefix
                or any(word.startswith(self.path_prefix) for word in use.command)
            )
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
    """A consumer on one node (None: on all nodes) over ``[from_hour, to_hour)``."""

    consumer_id: int
    node_id: int | None
    from_hour: int
    to_hour: int


@dataclass(frozen=True)
class PlacementSpan:
    """A node at a site over ``[from_hour, to_hour)``."""

    from_hour: int
    to_hour: int
    site_id: int


@dataclass(frozen=True)
class Span:
    """Attribution over ``[from_hour, to_hour)`` and its source. ``rule_id``: the rule of the
    project, else of the person.
    """

    from_hour: int
    to_hour: int
    project_id: int | None = None
    person_id: int | None = None
    way: str = ""
    rule_id: int | None = None
    claim_id: int | None = None
    os_user: str = ""
    program: str = ""


def spans(
    use: Use,
    *,
    rules: Sequence[Rule],
    claims: Sequence[Claimed],
    placements: Sequence[PlacementSpan],
) -> list[Span]:
    """Return the attribution of ``use`` over all time: disjoint, without gaps, equal neighbours
    merged.
    """
    usable = [rule for rule in rules if rule.fits(use, rule.site_id)]
    node_claims = [claim for claim in claims if claim.node_id in (None, use.node_id)]
    cuts = {0, END_HOUR}
    dated_facts: list[Rule | Claimed | PlacementSpan] = [
        *usable,
        *node_claims,
        *(placements if any(rule.site_id for rule in usable) else ()),
    ]
    for dated in dated_facts:
        cuts |= {hour for hour in (dated.from_hour, dated.to_hour) if 0 < hour < END_HOUR}
    return list(
        _joined(
            _span(use, start, end, usable, node_claims, placements)
            for start, end in pairwise(sorted(cuts))
        )
    )


def _span(
    use: Use,
    start: int,
    end: int,
    rules: Iterable[Rule],
    claims: Iterable[Claimed],
    placements: Iterable[PlacementSpan],
) -> Span:
    site_id = next(
        (span.site_id for span in placements if span.from_hour <= start < span.to_hour), None
    )
    matching_rules = [
        rule for rule in rules if rule.from_hour <= start < rule.to_hour and rule.fits(use, site_id)
    ]
    by_strength = sorted(matching_rules, key=lambda rule: rule.strength, reverse=True)
    person = next((rule for rule in by_strength if rule.person_id), None)
    person_id = use.person_id or (person.person_id if person else None)
    span = Span(start, end, person_id=person_id, os_user=use.os_user, program=use.program)
    if use.project_id is not None:
        return replace(span, project_id=use.project_id, way=AttributionSource.EXPLICIT.value)
    claimed = [claim for claim in claims if claim.from_hour <= start < claim.to_hour]
    if claimed:
        last = max(claimed, key=lambda claim: claim.id)
        return replace(
            span, project_id=last.project_id, way=AttributionSource.CLAIM.value, claim_id=last.id
        )
    rule = next((rule for rule in by_strength if rule.project_id), None)
    if rule is not None:
        return replace(span, project_id=rule.project_id, way=rule.way.value, rule_id=rule.id)
    return replace(span, rule_id=person.id) if person and not use.person_id else span


def _joined(parts: Iterable[Span]) -> Iterator[Span]:
    last: Span | None = None
    for part in parts:
        if (
            last is not None
            and replace(part, from_hour=last.from_hour, to_hour=last.to_hour) == last
        ):
            last = replace(last, to_hour=part.to_hour)
            continue
        if last is not None:
            yield last
        last = part
    if last is not None:
        yield last


def differences(
    before: Sequence[Span], after: Sequence[Span]
) -> list[tuple[int, int, int | None, int | None]]:
    """Return (from hour, to hour, project before, project after) of the spans with different
    projects.
    """
    changes: list[tuple[int, int, int | None, int | None]] = []
    for old in before:
        for new in after:
            start, end = max(old.from_hour, new.from_hour), min(old.to_hour, new.to_hour)
            if start < end and old.project_id != new.project_id:
                changes.append((start, end, old.project_id, new.project_id))
    return changes


def user_and_program(key: str) -> tuple[str, str]:
    """Return user and program of a ``proc:<user>/<comm>`` or ``container:<user>/<id>`` consumer,
    else ('', ''). Without the mark of a system process.
    """
    kind, _, rest = without_system_mark(key).partition(":")
    user, slash, program = rest.partition("/")
    if not slash or kind not in {"proc", "container"}:
        return "", ""
    return ("" if user == "-" else user), program if kind == "proc" else f"container {program[:12]}"


def namespace_of(key: str) -> tuple[str, str]:
    """Return cluster and namespace of a ``pod:<cluster>/<namespace>/<pod>`` consumer, else ('',
    '').
    """
    parts = key[4:].split("/", 2) if key.startswith("pod:") else []
    return (parts[0], "" if parts[1] == "-" else parts[1]) if len(parts) == 3 else ("", "")
