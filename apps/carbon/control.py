"""Whose electricity an hour of the ledger used: the control of the site its node stood at."""

from apps.accounts.models import Lab
from apps.carbon.figures.query import FigureQuery
from apps.carbon.figures.scopes import CONTROLS, OWN, controls_within
from apps.core.units import END_HOUR
from apps.fleet.calc import stretches
from apps.fleet.models import Site
from apps.fleet.selectors import places_of


def controlled_sql(lab: Lab, query: FigureQuery) -> str:
    """Return SQL that narrows ledger entries ``e`` to the scope of ``query``; '' where all are in it.

    A node that never stood at a site is the lab's own. Two queries, four where some site is not the lab's own.
    """
    wanted = controls_within(query.profile, query.scope)
    if wanted == set(CONTROLS):
        return ""
    if not wanted:
        return "1 = 0"
    control = dict(Site.objects.filter(lab=lab).exclude(control=OWN).values_list("pk", "control"))
    own = OWN in wanted
    named = {pk for pk, told in control.items() if (told in wanted) != own}
    if not named:
        return "" if own else "1 = 0"
    listed = ", ".join(
        f"({int(node_id)}, {int(start)}, {END_HOUR if end is None else int(end)})"
        for node_id, history in sorted(places_of(lab).stood.items())
        for start, end, site_id in stretches(history)
        if site_id in named
    )
    there = (
        f"EXISTS (SELECT 1 FROM (VALUES {listed or '(0, 0, 0)'}) k "
        "WHERE k.column1 = e.node_id AND k.column2 <= e.hour AND e.hour < k.column3)"
    )
    return f"NOT {there}" if own else there
