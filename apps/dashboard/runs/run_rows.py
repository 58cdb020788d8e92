"""Rows of lists of runs: figures, energy state, and cells of parameters and metrics."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from django.db.models import Value

from apps.accounts.models import Lab
from apps.carbon.figures.figure_query import COST, FigureQuery, hours_of_us
from apps.carbon.figures.run_table import TableRow, hours_of_runs, run_table
from apps.carbon.figures.run_table_query import ENERGY, TableQuery
from apps.carbon.figures.visibility import Visibility
from apps.dashboard.figures import (
    EnergyAndEmissions,
    Quantity,
    Units,
    amount_quantity,
    column_units,
    cost_quantity,
    energy_and_emissions,
)
from apps.dashboard.formatting import duration
from apps.dashboard.runs.run_filters import Clip
from apps.runs.choices import EnergyState
from apps.runs.fingerprint_diff import value_text
from apps.runs.models import Metric, Run
from apps.runs.selectors import energy_states, fingerprints_of

NONE = ""
# What the energy of a listed run is: of the whole run, or of its part in the period of the list.
WHOLE_RUN, PERIOD = "run", "period"


def column_cells(runs: Sequence[Run], names: Sequence[str]) -> dict[int, list[str]]:
    """Return {run pk: cells}. A cell is a parameter, a seed, the last value of a metric, or
    NONE. Two queries.
    """
    if not names:
        return {}
    prints = fingerprints_of(runs)
    last = {
        (run_id, name): value
        for run_id, name, value in Metric.objects.filter(run__in=runs, name__in=names).values_list(
            "run_id", "name", "last_value"
        )
    }
    cells = {}
    for run in runs:
        fingerprint = prints.get(run.pk)
        hashes = {**(fingerprint.params or {}), **(fingerprint.seeds or {})} if fingerprint else {}
        cells[run.pk] = [
            value_text(fingerprint, name, hashes[name])
            if fingerprint and name in hashes
            else _metric(last, run.pk, name)
            for name in names
        ]
    return cells


def _metric(last: dict[tuple[int, str], float | None], run_id: int, name: str) -> str:
    if (run_id, name) not in last:
        return NONE
    value = last[run_id, name]
    return "NaN" if value is None else f"{value:.6g}"


@dataclass(frozen=True)
class RunRow:
    """A run in a list. ``figures`` None: see ``energy_state``. ``cost`` None: the lab has no
    currency. ``apart``: costs in other currencies. ``told``: parameters of its fingerprint, if the
    list shows the model.
    """

    run: Run
    who: str
    took: str
    figures: EnergyAndEmissions | None
    energy_state: EnergyState
    cells: list[str] = field(default_factory=list)
    cost: Quantity | None = None
    apart: list[Quantity] = field(default_factory=list)
    without_price_mj: int | None = None
    told: Mapping[str, object] = field(default_factory=dict)

    @property
    def node(self) -> str:
        return self.run.host or (self.run.node.hostname if self.run.node else "")

    @property
    def model(self) -> str:
        """Return the parameter ``model``, '' if it is unknown."""
        value = self.run.params.get("model", self.told.get("model"))
        return "" if value is None else str(value)

    @property
    def energy_mj(self) -> int | None:
        return self.figures.energy.value if self.figures else None

    @property
    def emission_ug(self) -> int | None:
        """The emissions, None if part of the energy has no factor."""
        if self.figures is None or self.figures.emission.missing:
            return None
        return self.figures.emission.value

    @property
    def cost_ucurrency(self) -> int | None:
        """The cost of the energy with a price in the lab's currency, None without any."""
        return None if self.cost is None or self.cost.missing else self.cost.value

    @property
    def apart_text(self) -> str:
        """Return the costs in other currencies, in millionths: 'CHF 400; USD 12'."""
        return "; ".join(f"{cost.query.currency} {cost.value}" for cost in self.apart)


def run_hours(run: Run, now: int) -> tuple[int, int]:
    """Return the hours in which a run can have energy: from its start to its end (or now), plus
    one for the last window.
    """
    start, end = hours_of_us(run.started_us, max(run.active_until_us(now), run.started_us + 1))
    return start, end + 1


def run_rows(
    lab: Lab, runs: list[Run], now: int, visibility: Visibility
) -> tuple[list[RunRow], Units]:
    """Return runs with the figures of the whole run. Four queries."""
    listed = Run.objects.filter(lab=lab, pk__in=[run.pk for run in runs])
    table = run_table(
        lab, listed, TableQuery(sort=ENERGY, duration=Value(0), with_sums=False, number=len(runs))
    )
    return figure_rows(lab, runs, {row.run_id: row for row in table.rows}, now, visibility)


def figure_rows(
    lab: Lab,
    runs: Sequence[Run],
    table_rows: Mapping[int, TableRow],
    now: int,
    visibility: Visibility,
    columns: Sequence[str] = (),
    clip: Clip | None = None,
    units: Units | None = None,
    *,
    with_model: bool = False,
) -> tuple[list[RunRow], Units]:
    """Return runs with their figures of the table, by pk. At most two queries for figures and
    their hours, two for columns, one for models.
    """
    figures = {pk: row.figure for pk, row in table_rows.items() if row.figure}
    measured = [run.uuid for run in runs if run.pk in figures]
    hours = hours_of_runs(lab, measured)
    units = units or column_units(figures.values())
    states = energy_states(lab, [run.uuid for run in runs], set(measured))
    cells = column_cells(runs, columns)
    prints = fingerprints_of(runs) if with_model else {}
    rows = []
    for run in runs:
        figure, pair, cost, apart = figures.get(run.pk), None, None, []
        if figure:
            start, end = hours[run.uuid]
            start, end = clip.within(start, end) if clip else (start, end)
            query = FigureQuery("energy_mj", start, end, "run", str(run.uuid), basis=lab.basis)
            pair = energy_and_emissions(query, figure, units)
            cost = cost_quantity(lab, query, figure)
            apart = [
                amount_quantity(query.replace(metric=COST, currency=currency), amount)
                for currency, amount in sorted(table_rows[run.pk].apart.items())
            ]
        who, state = visibility.user_of(run), states[run.uuid]
        told = prints[run.pk].told if run.pk in prints else {}
        rows.append(
            RunRow(
                run=run,
                who=who,
                took=took(run, now),
                figures=pair,
                energy_state=state,
                cells=cells.get(run.pk, []),
                cost=cost,
                apart=apart,
                without_price_mj=figure.without_price_mj if figure else None,
                told=told,
            )
        )
    return rows, units


def took(run: Run, now: int) -> str:
    """Return the duration of a run so far."""
    return duration(run.active_until_us(now) - run.started_us)
