"""The requested part of the table of runs."""

from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import Expression, F, Subquery

# Sort orders by a figure: {name: (key of a run, key of a group)}.
ENERGY, EMISSION, COST = "energy", "emission", "cost"
FIGURE_SORTS = {
    ENERGY: ("energy_key", "energy_mj"),
    EMISSION: ("emission_key", "emission_ug"),
    COST: ("cost_key", "cost_ucurrency"),
}
ALL_HOURS = (0, 10**7)  # beyond every hour of a ledger


@dataclass(frozen=True)
class TableQuery:
    """The requested part of a table.

    ``sort``: a name of FIGURE_SORTS, or an expression over runs; unknown values are last in both
    directions. ``hours``: period of the energy, None for whole runs. ``limit`` None: all runs.
    ``group``: an expression for the key of a run's group as text. With it there are no rows except
    the first ``group_rows`` of the groups in ``open_groups``; ``limit`` and ``offset`` are of
    groups. ``group_sort``: a name of FIGURE_SORTS or 'duration'. ``with_sums`` False: no sums of
    all runs. ``with_rows`` False: sums only. ``with_costs`` False: no costs are read, so all of
    them are unknown. ``number``: that of the runs, None: unknown.
    """

    sort: str | Expression | F | Subquery
    duration: Expression
    descending: bool = True
    hours: tuple[int, int] | None = None
    offset: int = 0
    limit: int | None = None
    group: Expression | None = None
    group_sort: str = ENERGY
    open_groups: Sequence[str] = ()
    group_rows: int = 10
    with_sums: bool = True
    with_rows: bool = True
    with_costs: bool = True
    number: int | None = None
