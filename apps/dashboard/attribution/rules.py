"""Attribution rules in words, and what one would move before it is written."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any
from zoneinfo import ZoneInfo

from django.core.exceptions import ValidationError

from apps.accounts.models import Lab, Project, User
from apps.attribution.models import AttributionRule
from apps.attribution.selectors import as_rule, rules_of
from apps.attribution.services.derive import Move, moves
from apps.attribution.services.rules import Criteria, drafted_rule
from apps.carbon.figures.energy import Figure, hours_of_consumers
from apps.carbon.figures.visibility import Visibility
from apps.core.errors import InvalidInput
from apps.core.intervals import datetime_to_us
from apps.core.text import parse_record_number
from apps.core.units import US_PER_HOUR
from apps.dashboard.figures import total
from apps.dashboard.formatting import format_value, unit_for
from apps.runs.choices import AttributionSource

TYPED = (
    "os_user",
    "cluster",
    "account",
    "namespace",
    "path_prefix",
    "node",
    "site",
    "project",
    "person",
    "from_day",
    "to_day",
    "note",
)


@dataclass(frozen=True)
class RuleRow:
    """A rule as shown."""

    rule: AttributionRule
    criteria_text: str
    way: str
    state: str
    by: str


@dataclass(frozen=True)
class Moved:
    """Energy that would go from one project to another, in words and as exact integers."""

    before: str
    after: str
    energy: str
    emission: str
    energy_mj: int
    emission_ug: int
    without_factor: bool


@dataclass(frozen=True)
class Preview:
    """What a rule would change. ``moved`` is empty when nothing that was measured falls under it, and None where it would
    tell what a single person used to somebody who may not see that."""

    criteria_text: str
    moved: list[Moved] | None
    from_us: int
    to_us: int | None


@dataclass(frozen=True)
class RulesPage:
    """All rules, and what a new one may name."""

    rows: list[RuleRow]
    projects: list[Project]
    nodes: list[tuple[str, str]]
    sites: list[tuple[int, str]]
    people: list[tuple[int, str]]


def rules_page(*, lab: Lab, hour: int) -> RulesPage:
    """Return the lab's rules. The number of queries does not depend on the number of rules."""
    rows = [rule_row(rule, hour) for rule in rules_of(lab)]
    order = {"holds": 0, "begins later": 1, "ended": 2}
    return RulesPage(
        rows=sorted(rows, key=lambda row: order[row.state]),
        projects=list(lab.projects.all()),
        nodes=[(str(uuid), name) for uuid, name in lab.nodes.order_by("hostname").values_list("uuid", "hostname")],
        sites=list(lab.sites.order_by("name").values_list("pk", "name")),
        people=list(lab.memberships.order_by("user__username").values_list("user_id", "user__username")),
    )


def rule_row(rule: AttributionRule, hour: int) -> RuleRow:
    """Return a rule in words, as of an hour."""
    state = "holds"
    if rule.from_hour > hour:
        state = "begins later"
    elif rule.to_hour is not None and rule.to_hour <= hour:
        state = "ended"
    by = rule.made_by.get_username() if rule.made_by else "somebody who left"
    return RuleRow(rule, criteria_text(rule), AttributionSource(as_rule(rule).way).label, state, by)


def criteria_text(rule: AttributionRule) -> str:
    """Return what a rule asks for in words: 'user alice on ws-1'."""
    parts = [
        f"user {rule.os_user}" if rule.os_user else "",
        f"account {rule.account}" if rule.account else "",
        f"namespace {rule.namespace}" if rule.namespace else "",
        f"in cluster {rule.cluster}" if rule.cluster else "",
        f"commands below {rule.path_prefix}" if rule.path_prefix else "",
        f"on {rule.node.hostname}" if rule.node else "",
        f"at {rule.site.name}" if rule.site else "",
    ]
    words = " ".join(part for part in parts if part)
    return words if words.startswith(("user", "account", "namespace", "commands")) else f"everything {words}"


def draft(*, lab: Lab, typed: Mapping[str, str], zone: ZoneInfo, now: int) -> AttributionRule:
    """Return the rule that a form spells, not written yet. Raises InvalidInput naming the field."""
    from_us = _day(typed.get("from_day", ""), "from_day", zone)
    to_us = _day(typed["to_day"], "to_day", zone) if typed.get("to_day") else None
    rule = drafted_rule(
        lab=lab,
        criteria=Criteria(
            node=_selected(lab.nodes.all(), "uuid", typed.get("node", ""), "node"),
            site=_selected(lab.sites.all(), "pk", typed.get("site", ""), "site"),
            **{name: typed.get(name, "") for name in ("os_user", "cluster", "account", "namespace", "path_prefix")},
        ),
        project=_selected(lab.projects.all(), "slug", typed.get("project", ""), "project"),
        person=_selected(User.objects.filter(memberships__lab=lab), "pk", typed.get("person", ""), "person"),
        from_us=from_us if from_us is not None else now // US_PER_HOUR * US_PER_HOUR,
        to_us=to_us,
    )
    rule.note = typed.get("note", "")[:200]
    return rule


def _selected(rows: Any, field: str, value: str, name: str) -> Any:
    if not value:
        return None
    try:
        record = rows.filter(**{field: value}).first() if field != "pk" or parse_record_number(value) is not None else None
    except ValidationError:  # not a UUID
        record = None
    if record is None:
        raise InvalidInput(f"There is no such {name} in this lab.", field=name, hint="Choose one of the list.")
    return record


def _day(text: str, field: str, zone: ZoneInfo) -> int | None:
    """Return the begin of a day of the lab's zone; '' is none."""
    if not text:
        return None
    try:
        day = date.fromisoformat(text)
        moment = datetime(day.year, day.month, day.day, tzinfo=zone)
    except ValueError as error:
        raise InvalidInput(f"{text[:20]!r} is not a day.", field=field, hint="Write 2026-11-01.") from error
    return max(0, datetime_to_us(moment))


def preview(*, rule: AttributionRule, visibility: Visibility, without: bool = False) -> Preview:
    """Return what a rule would move over all time, largest first; ``without``: what taking it away would."""
    to_us = rule.to_hour * US_PER_HOUR if rule.to_hour is not None else None
    moved = moved_by(rule.lab, [rule], visibility, without=without)
    return Preview(criteria_text(rule), moved, rule.from_hour * US_PER_HOUR, to_us)


def moved_by(lab: Lab, rules: list[AttributionRule], visibility: Visibility, *, without: bool = False) -> list[Moved] | None:
    """Return what rules would move together, from whom to whom, largest first; None where a rule speaks of a user whom the
    visitor may not see."""
    if not all(visibility.of_os_user(rule.os_user) for rule in rules):
        return None
    span_moves = moves(lab=lab, rules=rules, without=without)
    names: dict[int | None, str] = {None: "nobody"}
    names.update(lab.projects.values_list("pk", "name"))
    by_change: dict[tuple[int | None, int | None], list[Figure]] = defaultdict(list)
    places: dict[tuple[int, int], list[Move]] = defaultdict(list)
    for move in span_moves:
        places[move.consumer_id, move.node_id].append(move)
    consumer_ids = sorted({move.consumer_id for move in span_moves})
    for consumer_id, node_id, hour, part in hours_of_consumers(lab, lab.basis, consumer_ids):
        for move in places.get((consumer_id, node_id), ()):
            if move.from_hour <= hour < move.to_hour:
                by_change[move.before, move.after].append(part)
    moved = [_moved(names[before], names[after], total(parts)) for (before, after), parts in by_change.items()]
    return sorted(moved, key=lambda each: -each.energy_mj)


def _moved(before: str, after: str, part: Figure) -> Moved:
    energy, emission = unit_for("energy_mj", [part.energy_mj]), unit_for("emission_ug", [part.emission_ug])
    return Moved(
        before=before,
        after=after,
        energy=f"{format_value(part.energy_mj, energy)} {energy.name}",
        emission=f"{format_value(part.emission_ug, emission)} {emission.name}",
        energy_mj=part.energy_mj,
        emission_ug=part.emission_ug,
        without_factor=bool(part.without_factor_mj),
    )
