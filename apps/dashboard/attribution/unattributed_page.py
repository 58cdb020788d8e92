"""Content of the page of unattributed energy: rows by user and program that can be claimed, and
recent claims.
"""

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

from django.urls import reverse

from apps.accounts.models import Lab, User
from apps.attribution.models import Claim
from apps.attribution.precedence import ConsumerSpan
from apps.attribution.selectors import unattributed
from apps.attribution.services.rules import at_most_claimed
from apps.carbon.figures.energy import Figure, figures_by
from apps.carbon.figures.figure_query import HIDDEN, FigureQuery
from apps.carbon.figures.visibility import Visibility
from apps.core.errors import InvalidInput
from apps.dashboard.figures import (
    EnergyAndEmissions,
    Quantity,
    Units,
    column_units,
    energy_and_emissions,
    percent_quantity,
    quantity,
    total,
)
from apps.dashboard.formatting import percent
from apps.dashboard.periods import Period, lab_query

MAX_CLAIMS = 8


@dataclass(frozen=True)
class Row:
    """Energy of one user with one program on nodes. User and program can be unknown."""

    key: str
    user: str
    program: str
    nodes: str
    figures: EnergyAndEmissions
    share: Quantity
    rule: str


@dataclass(frozen=True)
class ClaimRow:
    """A claim and whether it was undone."""

    act: str
    project: str
    consumers: int
    by: str
    claimed_us: int
    undone: bool


@dataclass(frozen=True)
class UnattributedPage:
    """Unattributed energy of a period, and that of system processes beside it."""

    period: Period
    rows: list[Row]
    totals: EnergyAndEmissions | None
    system: Quantity | None
    units: Units
    some_hidden: bool
    claims: list[ClaimRow]
    unattributed_percent: str


def unattributed_query(lab: Lab, period: Period) -> FigureQuery:
    """Return the query of the unattributed energy of a period."""
    return lab_query(lab, period).replace(consumer="unattributed")


def row_key(os_user: str, program: str) -> str:
    """Return the key of a row in forms."""
    return f"{os_user}\t{program}"


def unattributed_page(*, lab: Lab, period: Period, visibility: Visibility) -> UnattributedPage:
    """Return unattributed energy. The number of queries does not depend on the number of rows."""
    query = unattributed_query(lab, period)
    figures = figures_by(lab, query, ["os_user", "program", "node"])
    names = {str(node.uuid): node.name for node in lab.nodes.all()}
    groups: dict[tuple[str, str], dict[str, Figure]] = defaultdict(dict)
    for (os_user, program, node), part in figures.items():
        groups[os_user, program][node] = part
    whole = total(figures.values())
    charged = figures_by(lab, lab_query(lab, period), ["charge"])
    lab_whole = total(charged.values())
    system = charged.get(("~system",))
    units = column_units([whole])
    visible = {key: parts for key, parts in groups.items() if visibility.of_os_user(key[0])}
    rows = [
        _row(query, key, parts, names, units, whole.energy_mj) for key, parts in visible.items()
    ]
    rows.sort(key=lambda row: -row.figures.energy.value)
    return UnattributedPage(
        period=period,
        rows=rows,
        totals=energy_and_emissions(query, whole, units) if figures else None,
        system=quantity(lab_query(lab, period).replace(consumer="system"), system)
        if system
        else None,
        units=units,
        some_hidden=len(visible) < len(groups),
        claims=_claims(lab),
        unattributed_percent=percent(whole.energy_mj, lab_whole.energy_mj)
        if lab_whole.energy_mj
        else "",
    )


def _row(
    query: FigureQuery,
    key: tuple[str, str],
    parts: dict[str, Figure],
    names: dict[str, str],
    units: Units,
    whole_mj: int,
) -> Row:
    os_user, program = key
    own = query.replace(os_user=os_user or HIDDEN, program=program or HIDDEN)
    summed = total(parts.values())
    nodes = [node for node in parts if node in names]
    node_names = sorted(names[node] for node in nodes)
    more = f" and {len(nodes) - 3} more" if len(nodes) > 3 else ""
    rule = f"os_user={os_user}" if os_user else f"node={nodes[0]}" if len(nodes) == 1 else ""
    return Row(
        key=row_key(*key),
        user=os_user or "unknown",
        program=program or "unknown",
        nodes=", ".join(node_names[:3]) + more,
        figures=energy_and_emissions(own, summed, units),
        share=percent_quantity(own, summed.energy_mj, whole_mj),
        rule=rule,
    )


def _claims(lab: Lab) -> list[ClaimRow]:
    rows: dict[Any, list[Claim]] = defaultdict(list)
    recent = (
        Claim.objects.filter(lab=lab)
        .select_related("project", "created_by")
        .order_by("-created_us", "-pk")
    )
    for claim in recent[:500]:
        rows[claim.act].append(claim)
    return [_claim_row(act, claims) for act, claims in list(rows.items())[:MAX_CLAIMS]]


def _claim_row(act: Any, claims: list[Claim]) -> ClaimRow:
    first = claims[0]
    by = (
        first.created_by.get_username() if isinstance(first.created_by, User) else "a former member"
    )
    undone = all(claim.undone_us is not None for claim in claims)
    return ClaimRow(str(act), first.project.name, len(claims), by, first.created_us, undone)


def consumer_spans_of(
    *, lab: Lab, period: Period, keys: list[str], visibility: Visibility
) -> tuple[list[ConsumerSpan], EnergyAndEmissions]:
    """Return the unattributed spans of the selected rows in the period, and their energy and
    emissions.
    """
    selected_keys = set(keys)
    for key in selected_keys:
        os_user, tab, _ = key.partition("\t")
        if not tab or not visibility.of_os_user(os_user):
            raise InvalidInput(
                "No such row.", field="item", hint=f"Open {reverse('unattributed')} again."
            )
    query, groups = unattributed_query(lab, period), ["os_user", "program", "consumer", "node"]
    figures = {
        (consumer, node): part
        for (os_user, program, consumer, node), part in figures_by(lab, query, groups).items()
        if row_key(os_user, program) in selected_keys
    }
    at_most_claimed(len(figures))
    return unattributed(lab, figures, period.from_hour, period.to_hour), energy_and_emissions(
        query, total(figures.values())
    )
