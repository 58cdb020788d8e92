"""Scope profiles: one ledger, read in two ways. A profile maps what an activity is, and who controls its electricity, to a
scope of the Greenhouse Gas Protocol. Pure.

``ghg_protocol``: Corporate Standard and Scope 3 Standard (categories 1 bought goods and services, 2 capital goods, 3 fuel-
and energy-related, 5 waste). ``lesson``: as green computing is taught, electricity of training and serving is Scope 2
wherever it runs, hardware is Scope 3. Both read the same entries: kWh and grand total are equal by construction.
"""

from collections.abc import Iterable

from apps.accounts.models import Lab
from apps.carbon.figures.figure_query import FigureQuery
from apps.core.units import END_HOUR
from apps.fleet.dated_facts import dated_intervals
from apps.fleet.models import Site
from apps.fleet.selectors import site_facts_of

OPERATION, EMBODIED, WASTE, UPSTREAM = "operation", "embodied", "waste", "upstream"
ROLES = (OPERATION, EMBODIED, WASTE, UPSTREAM)
OWN, INSIDE, OUTSIDE, CLOUD = "own", "inside_boundary", "outside_boundary", "cloud"
CONTROLS = (OWN, INSIDE, OUTSIDE, CLOUD)
GHG_PROTOCOL, LESSON = "ghg_protocol", "lesson"
PROFILES = (GHG_PROTOCOL, LESSON)
PROFILE_NAMES = {GHG_PROTOCOL: "GHG Protocol", LESSON: "Course scheme"}
# What may be asked of each profile: "3" holds all of its categories.
SCOPES = {GHG_PROTOCOL: ("2", "3", "3.1", "3.2", "3.3", "3.5"), LESSON: ("2", "3")}
SCOPE_NAMES = {
    "2": "Scope 2",
    "3": "Scope 3",
    "3.1": "Scope 3, category 1: bought goods and services",
    "3.2": "Scope 3, category 2: capital goods",
    "3.3": "Scope 3, category 3: fuel- and energy-related",
    "3.5": "Scope 3, category 5: waste",
}


def scope_of(profile: str, role: str, control: str = OWN) -> str:
    """Return the scope of an activity: "2", or "3" and under ``ghg_protocol`` its category. KeyError for what is no role."""
    if role == OPERATION:
        beyond = profile == GHG_PROTOCOL and control in (OUTSIDE, CLOUD)
        return "3.1" if beyond else "2"
    if profile == LESSON:
        return "3"
    return {EMBODIED: "3.2", WASTE: "3.5", UPSTREAM: "3.3"}[role]


def beyond_the_lesson(role: str) -> bool:
    """Return whether the lesson does not speak of an activity: it is in its table, and marked."""
    return role == UPSTREAM


def within(scope: str, requested_scope: str) -> bool:
    """Return whether a scope is the one that was asked for, or a category of it; '' asks for all."""
    return not requested_scope or scope == requested_scope or scope.startswith(f"{requested_scope}.")


def roles_within(profile: str, requested_scope: str, roles: Iterable[str] = ROLES) -> set[str]:
    """Return which of ``roles`` other than operation a scope holds."""
    return {role for role in roles if role != OPERATION and within(scope_of(profile, role), requested_scope)}


def controls_within(profile: str, requested_scope: str) -> set[str]:
    """Return whose electricity a scope holds."""
    return {control for control in CONTROLS if within(scope_of(profile, OPERATION, control), requested_scope)}


def controlled_sql(lab: Lab, query: FigureQuery) -> str:
    """Return SQL that narrows ledger entries ``e`` to the scope of ``query``; '' where all are in it.

    A node that never stood at a site is the lab's own. Two queries, four where some site is not the lab's own.
    """
    controls = controls_within(query.profile, query.scope)
    if controls == set(CONTROLS):
        return ""
    if not controls:
        return "1 = 0"
    control = dict(Site.objects.filter(lab=lab).exclude(control=OWN).values_list("pk", "control"))
    own = OWN in controls
    named = {pk for pk, site_control in control.items() if (site_control in controls) != own}
    if not named:
        return "" if own else "1 = 0"
    listed = ", ".join(
        f"({int(node_id)}, {int(start)}, {END_HOUR if end is None else int(end)})"
        for node_id, history in sorted(site_facts_of(lab).placements.items())
        for start, end, site_id in dated_intervals(history)
        if site_id in named
    )
    in_node_sql = (
        f"EXISTS (SELECT 1 FROM (VALUES {listed or '(0, 0, 0)'}) k "
        "WHERE k.column1 = e.node_id AND k.column2 <= e.hour AND e.hour < k.column3)"
    )
    return f"NOT {in_node_sql}" if own else in_node_sql
