"""What one person used: by project, of which OS users; and the energy of each person for the list of people."""

from collections import defaultdict
from dataclasses import dataclass

from apps.accounts.models import Lab, User
from apps.attribution.models import AttributionRule
from apps.carbon.figures.energy import figures_by
from apps.carbon.figures.query import FigureQuery
from apps.carbon.figures.visibility import Sight
from apps.dashboard.figures import Fig, Pair, Units, column_units, fig, pair, percent_fig, total
from apps.dashboard.overview.energy_use import SPECIAL
from apps.dashboard.overview.page import lab_query
from apps.dashboard.periods import Period


@dataclass(frozen=True)
class ChargeRow:
    """What a person used for one project."""

    name: str
    href: str
    figures: Pair
    share: Fig


@dataclass(frozen=True)
class PersonPage:
    """One person over a period."""

    person: User
    period: Period
    own: bool
    measured: bool
    figures: Pair
    column: Pair
    units: Units
    rows: list[ChargeRow]
    os_users: list[str]


def person_query(lab: Lab, period: Period, person_id: int) -> FigureQuery:
    """Return the query of a person over a period."""
    return lab_query(lab, period).but(subject_kind="person", subject_key=str(person_id))


def os_users(lab: Lab) -> dict[int, list[str]]:
    """Return the OS users that rules say are each person. One query."""
    found: dict[int, set[str]] = defaultdict(set)
    rules = AttributionRule.objects.filter(lab=lab, person__isnull=False, withdrawn_us__isnull=True).exclude(os_user="")
    for person_id, name in rules.values_list("person_id", "os_user"):
        found[person_id or 0].add(name)
    return {person_id: sorted(names) for person_id, names in found.items()}


def energy_of_people(lab: Lab, period: Period, sight: Sight) -> dict[int, Fig]:
    """Return the energy of each person whom the visitor may see. One query."""
    query = lab_query(lab, period)
    found = figures_by(lab, query, ["person"])
    units = column_units(found.values())
    return {
        person: fig(query.but(subject_kind="person", subject_key=str(person)), part, units.energy)
        for (person,), part in found.items()
        if person is not None and sight.of_person(person)
    }


def person_page(*, lab: Lab, person: User, period: Period, sight: Sight) -> PersonPage:
    """Return what a person used. The number of queries does not depend on the number of rows."""
    query = person_query(lab, period, person.pk)
    sight.check(query)
    found = figures_by(lab, query, ["charge"])
    whole = total(found.values())
    units = column_units([whole])
    names = dict(lab.projects.values_list("slug", "name"))
    rows = []
    for (key,), part in sorted(found.items(), key=lambda item: -item[1].energy_mj):
        own = query.but(consumer=key[1:]) if key.startswith("~") else query.but(project=key)
        name, href = (SPECIAL[key][0], "/unattributed/") if key in SPECIAL else (names.get(key, key), f"/projects/{key}/")
        rows.append(ChargeRow(name, href, pair(own, part, units), percent_fig(own, part.energy_mj, whole.energy_mj)))
    return PersonPage(
        person=person,
        period=period,
        own=person.pk == sight.person_id,
        measured=bool(found),
        figures=pair(query, whole),
        column=pair(query, whole, units),
        units=units,
        rows=rows,
        os_users=os_users(lab).get(person.pk, []),
    )
