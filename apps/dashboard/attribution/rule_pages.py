"""Content of the pages of attribution rules, and the effect of a rule before it is created."""

from collections import defaultdict
from dataclasses import dataclass

from apps.accounts.models import Lab
from apps.attribution.models import AttributionRule
from apps.attribution.selectors import as_rule, rules_of
from apps.attribution.services.derive import Move, moves
from apps.carbon.figures.energy import Figure, hours_of_consumers
from apps.carbon.figures.visibility import Visibility
from apps.core.units import US_PER_HOUR
from apps.dashboard.figures import total
from apps.dashboard.formatting import figure_text
from apps.runs.choices import AttributionSource

ACTIVE, PLANNED, ENDED = "active", "planned", "ended"  # states of a rule


@dataclass(frozen=True)
class RuleRow:
    """A rule as shown."""

    rule: AttributionRule
    criteria_text: str
    source: str
    state: str
    by: str


@dataclass(frozen=True)
class ChargeChange:
    """Energy that would be charged to another project, as text and as exact integers."""

    before: str
    after: str
    energy: str
    emission: str
    energy_mj: int
    emission_ug: int
    without_factor: bool


@dataclass(frozen=True)
class Preview:
    """The effect of a rule. ``changes`` is empty if no measured energy matches, and None if it
    would reveal the energy of one person to somebody without the right to see it.
    """

    criteria_text: str
    changes: list[ChargeChange] | None
    from_us: int
    to_us: int | None


@dataclass(frozen=True)
class RulesPage:
    """All rules."""

    rows: list[RuleRow]


def rules_page(*, lab: Lab, hour: int) -> RulesPage:
    """Return the lab's rules. The number of queries does not depend on the number of rules."""
    rows = [rule_row(rule, hour) for rule in rules_of(lab)]
    order = {ACTIVE: 0, PLANNED: 1, ENDED: 2}
    return RulesPage(rows=sorted(rows, key=lambda row: order[row.state]))


def rule_row(rule: AttributionRule, hour: int) -> RuleRow:
    """Return a rule as shown, with its state in an hour."""
    state = ACTIVE
    if rule.from_hour > hour:
        state = PLANNED
    elif rule.to_hour is not None and rule.to_hour <= hour:
        state = ENDED
    by = rule.created_by.get_username() if rule.created_by else "a former member"
    return RuleRow(rule, criteria_text(rule), AttributionSource(as_rule(rule).way).label, state, by)


def criteria_text(rule: AttributionRule) -> str:
    """Return the criteria of a rule as text: 'user alice on ws-1'."""
    parts = [
        f"user {rule.os_user}" if rule.os_user else "",
        f"account {rule.account}" if rule.account else "",
        f"namespace {rule.namespace}" if rule.namespace else "",
        f"in cluster {rule.cluster}" if rule.cluster else "",
        f"commands starting with {rule.path_prefix}" if rule.path_prefix else "",
        f"on {rule.node.name}" if rule.node else "",
        f"at {rule.site.name}" if rule.site else "",
    ]
    text = " ".join(part for part in parts if part)
    return (
        text
        if text.startswith(("user", "account", "namespace", "commands"))
        else f"everything {text}"
    )


def preview(*, rule: AttributionRule, visibility: Visibility, without: bool = False) -> Preview:
    """Return the effect of a rule over all time, largest change first. ``without``: the effect
    of withdrawing it.
    """
    to_us = rule.to_hour * US_PER_HOUR if rule.to_hour is not None else None
    changes = charge_changes(rule.lab, [rule], visibility, without=without)
    return Preview(criteria_text(rule), changes, rule.from_hour * US_PER_HOUR, to_us)


def charge_changes(
    lab: Lab, rules: list[AttributionRule], visibility: Visibility, *, without: bool = False
) -> list[ChargeChange] | None:
    """Return the joint effect of rules, largest change first. None if a rule names a user whom
    the visitor has no right to see.
    """
    if not all(visibility.of_os_user(rule.os_user) for rule in rules):
        return None
    span_moves = moves(lab=lab, rules=rules, without=without)
    names: dict[int | None, str] = {None: "unattributed"}
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
    changes = [
        _charge_change(names[before], names[after], total(parts))
        for (before, after), parts in by_change.items()
    ]
    return sorted(changes, key=lambda change: -change.energy_mj)


def _charge_change(before: str, after: str, part: Figure) -> ChargeChange:
    return ChargeChange(
        before=before,
        after=after,
        energy=figure_text("energy_mj", part.energy_mj),
        emission=figure_text("emission_ug", part.emission_ug),
        energy_mj=part.energy_mj,
        emission_ug=part.emission_ug,
        without_factor=bool(part.without_factor_mj),
    )
