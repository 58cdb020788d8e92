"""What nobody claimed: by user and program, to be claimed a line or many at a time."""

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

from django.urls import reverse

from apps.accounts.models import Lab, User
from apps.attribution.calc import ConsumerSpan
from apps.attribution.models import Claim
from apps.attribution.selectors import unattributed
from apps.attribution.services.rules import at_most_claimed
from apps.carbon.figures.energy import Figure, figures_by
from apps.carbon.figures.query import HIDDEN, FigureQuery
from apps.carbon.figures.visibility import Visibility
from apps.core.errors import InvalidInput
from apps.dashboard.figures import (
    EnergyAndEmissions,
    Quantity,
    Units,
    column_units,
    energy_and_emissions,
    percent_quantity,
    total,
)
from apps.dashboard.periods import Period, lab_query

MAX_ACTS = 8


@dataclass(frozen=True)
class Line:
    """What one user used with one program (either may be unknown), on which machines."""

    key: str
    who: str
    what: str
    nodes: str
    figures: EnergyAndEmissions
    share: Quantity
    rule: str


@dataclass(frozen=True)
class Act:
    """A claim that was made: what, by whom, whether it stands."""

    act: str
    project: str
    consumers: int
    by: str
    claimed_us: int
    undone: bool


@dataclass(frozen=True)
class UnattributedPage:
    """The inbox."""

    period: Period
    lines: list[Line]
    totals: EnergyAndEmissions | None
    units: Units
    some_hidden: bool
    projects: list[tuple[str, str]]
    acts: list[Act]
    attributed: str


def unattributed_query(lab: Lab, period: Period) -> FigureQuery:
    """Return the query of what nobody claimed in a period."""
    return lab_query(lab, period).replace(consumer="unattributed")


def line_key(os_user: str, program: str) -> str:
    """Return how a line is named in forms."""
    return f"{os_user}\t{program}"


def unattributed_page(*, lab: Lab, period: Period, visibility: Visibility) -> UnattributedPage:
    """Return what nobody claimed. The number of queries does not depend on the number of lines."""
    query = unattributed_query(lab, period)
    figures = figures_by(lab, query, ["os_user", "program", "node"])
    names = {str(uuid): name for uuid, name in lab.nodes.values_list("uuid", "hostname")}
    groups: dict[tuple[str, str], dict[str, Figure]] = defaultdict(dict)
    for (os_user, program, node), part in figures.items():
        groups[os_user, program][names.get(node, "")] = part
    whole = total(figures.values())
    lab_whole = total(figures_by(lab, lab_query(lab, period), ["charge"]).values())
    units = column_units([whole])
    visible = {key: parts for key, parts in groups.items() if visibility.of_os_user(key[0])}
    lines = [_line(query, key, parts, units, whole.energy_mj) for key, parts in visible.items()]
    lines.sort(key=lambda line: -line.figures.energy.value)
    known = lab_whole.energy_mj - whole.energy_mj
    return UnattributedPage(
        period=period,
        lines=lines,
        totals=energy_and_emissions(query, whole, units) if figures else None,
        units=units,
        some_hidden=len(visible) < len(groups),
        projects=list(lab.projects.values_list("slug", "name")),
        acts=_acts(lab),
        attributed=_percent(known, lab_whole.energy_mj),
    )


def _percent(part: int, whole: int) -> str:
    return f"{100 * part // whole}" if whole > 0 else ""


def _line(query: FigureQuery, key: tuple[str, str], parts: dict[str, Figure], units: Units, whole_mj: int) -> Line:
    os_user, program = key
    own = query.replace(os_user=os_user or HIDDEN, program=program or HIDDEN)
    summed = total(parts.values())
    nodes = sorted(name for name in parts if name)
    more = f" and {len(nodes) - 3} more" if len(nodes) > 3 else ""
    rule = f"os_user={os_user}" if os_user else f"node={nodes[0]}" if len(nodes) == 1 else ""
    return Line(
        key=line_key(*key),
        who=os_user or "not told",
        what=program or "not told",
        nodes=", ".join(nodes[:3]) + more,
        figures=energy_and_emissions(own, summed, units),
        share=percent_quantity(own, summed.energy_mj, whole_mj),
        rule=rule,
    )


def _acts(lab: Lab) -> list[Act]:
    rows: dict[Any, list[Claim]] = defaultdict(list)
    recent = Claim.objects.filter(lab=lab).select_related("project", "made_by").order_by("-made_us", "-pk")
    for claim in recent[:500]:
        rows[claim.act].append(claim)
    return [_act(act, claims) for act, claims in list(rows.items())[:MAX_ACTS]]


def _act(act: Any, claims: list[Claim]) -> Act:
    first = claims[0]
    by = first.made_by.get_username() if isinstance(first.made_by, User) else "somebody who left"
    undone = all(claim.undone_us is not None for claim in claims)
    return Act(str(act), first.project.name, len(claims), by, first.made_us, undone)


def consumer_spans_of(
    *, lab: Lab, period: Period, keys: list[str], visibility: Visibility
) -> tuple[list[ConsumerSpan], EnergyAndEmissions]:
    """Return the stretches behind chosen lines for which nobody is charged in the period, and what was used in them."""
    selected_keys = set(keys)
    for key in selected_keys:
        os_user, tab, _ = key.partition("\t")
        if not tab or not visibility.of_os_user(os_user):
            raise InvalidInput("There is no such line.", field="line", hint=f"Open {reverse('unattributed')} again.")
    query, groups = unattributed_query(lab, period), ["os_user", "program", "consumer", "node"]
    figures = {
        (consumer, node): part
        for (os_user, program, consumer, node), part in figures_by(lab, query, groups).items()
        if line_key(os_user, program) in selected_keys
    }
    at_most_claimed(len(figures))
    return unattributed(lab, figures, period.from_hour, period.to_hour), energy_and_emissions(query, total(figures.values()))
