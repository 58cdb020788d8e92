"""Scope profiles map activities to scopes of the Greenhouse Gas Protocol. Pure.

The scope depends on the activity and on who controls its electricity.

``ghg_protocol``: Corporate Standard and Scope 3 Standard (categories 1 bought goods and services, 2
capital goods, 3 fuel- and energy-related, 5 waste, 8 upstream leased assets). ``lesson``: scheme of
green computing courses. Electricity of training and serving is Scope 2 at any location, and
hardware is Scope 3. Both profiles read the same ledger entries: kWh and grand total are equal by
construction.
"""

from collections.abc import Iterable

from apps.accounts.models import Lab
from apps.carbon.figures.figure_query import FigureQuery
from apps.core.units import END_HOUR
from apps.fleet.dated_facts import dated_intervals
from apps.fleet.models import Site
from apps.fleet.selectors import site_facts_of

OPERATION, EMBODIED, WASTE, UPSTREAM = "operation", "embodied", "waste", "upstream"
LEASED = "leased"  # embodied carbon of leased hardware
ROLES = (OPERATION, EMBODIED, WASTE, UPSTREAM, LEASED)
OWN, INSIDE, OUTSIDE, CLOUD = "own", "inside_boundary", "outside_boundary", "cloud"
CONTROLS = (OWN, INSIDE, OUTSIDE, CLOUD)
GHG_PROTOCOL, LESSON = "ghg_protocol", "lesson"
PROFILES = (GHG_PROTOCOL, LESSON)
PROFILE_NAMES = {GHG_PROTOCOL: "GHG Protocol", LESSON: "Course scheme"}
# Valid scopes of each profile. "3" contains all of its categories.
SCOPES = {GHG_PROTOCOL: ("2", "3", "3.1", "3.2", "3.3", "3.5", "3.8"), LESSON: ("2", "3")}
SCOPE_NAMES = {
    "2": "Scope 2",
    "3": "Scope 3",
    "3.1": "Scope 3, category 1: bought goods and services",
    "3.2": "Scope 3, category 2: capital goods",
    "3.3": "Scope 3, category 3: fuel- and energy-related",
    "3.5": "Scope 3, category 5: waste",
    "3.8": "Scope 3, category 8: leased assets",
}


def scope_of(profile: str, role: str, control: str = OWN) -> str:
    """Return the scope of an activity: "2", "3", or under ``ghg_protocol`` a category of 3.

    Raises KeyError for an unknown role.
    """
    if role == OPERATION:
        beyond = profile == GHG_PROTOCOL and control in (OUTSIDE, CLOUD)
        return "3.1" if beyond else "2"
    if profile == LESSON:
        return "3"
    return {EMBODIED: "3.2", WASTE: "3.5", UPSTREAM: "3.3", LEASED: "3.8"}[role]


def beyond_the_lesson(role: str) -> bool:
    """Return whether the course scheme does not cover an activity.

    Its table shows it with a mark.
    """
    return role == UPSTREAM


def within(scope: str, requested_scope: str) -> bool:
    """Return whether a scope is the requested scope or a category of it. '' contains all scopes."""
    return (
        not requested_scope or scope == requested_scope or scope.startswith(f"{requested_scope}.")
    )


def roles_within(profile: str, requested_scope: str, roles: Iterable[str] = ROLES) -> set[str]:
    """Return the roles of a scope, without operation."""
    return {
        role
        for role in roles
        if role != OPERATION and within(scope_of(profile, role), requested_scope)
    }


def controls_within(profile: str, requested_scope: str) -> set[str]:
    """Return the control types of sites whose electricity is in a scope."""
    return {
        control
        for control in CONTROLS
        if within(scope_of(profile, OPERATION, control), requested_scope)
    }


def controlled_sql(lab: Lab, query: FigureQuery) -> str:
    """Return SQL that limits ledger entries ``e`` to the scope of ``query``, '' if it contains all.

    A node without any site belongs to the lab. Two queries, four if a site is not the lab's own.
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
