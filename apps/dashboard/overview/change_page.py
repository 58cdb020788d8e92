"""Page object of what changed against an earlier period: each project and each node in both."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from django.urls import reverse

from apps.accounts.models import Lab
from apps.carbon.coverage import device_times
from apps.carbon.figures.energy import Figure, figure, figures_by
from apps.carbon.figures.figure_query import COST, FigureQuery
from apps.core.errors import InvalidInput
from apps.dashboard.figures import Projected, Quantity, estimated, quantity, signed, total
from apps.dashboard.formatting import Unit, unit_for
from apps.dashboard.frame.period_steps import YEAR_EARLIER
from apps.dashboard.overview.change import Comparison, comparisons_of, not_comparable
from apps.dashboard.overview.energy_use import Use, charge_query, charges
from apps.dashboard.periods import Period, lab_query

TABLES = {"project": "By project", "node": "By node"}
METRICS = {"energy_mj": "Energy", "emission_ug": "Emissions", COST: "Cost"}


@dataclass(frozen=True)
class Pair:
    """The use of a subject in the earlier period and in this one."""

    before: Figure
    after: Figure

    def difference(self, metric: str) -> int | None:
        """Return the exact change of a metric, None if a part of it is unknown in either period."""
        if any(lacking_mj(figure, metric) for figure in (self.before, self.after)):
            return None
        return self.after.value(metric) - self.before.value(metric)

    def lacks(self, metric: str) -> bool:
        """Return whether a metric is known of no energy of both periods."""
        return all(
            known_value(figure, metric) is None or not figure.energy_mj
            for figure in (self.before, self.after)
        )


def lacking_mj(figure: Figure, metric: str) -> int:
    """Return the energy of which a metric is unknown."""
    lacking = {"emission_ug": figure.without_factor_mj, COST: figure.without_price_mj}
    return lacking.get(metric, 0)


def known_value(figure: Figure, metric: str) -> int | None:
    """Return a metric of a figure, None if it is known of no energy."""
    value = figure.value(metric)
    return None if not value and 0 < figure.energy_mj <= lacking_mj(figure, metric) else value


@dataclass(frozen=True)
class Cell:
    """A metric of a row: its figures (None: no energy) and their difference (None: unknown)."""

    before: Quantity | None
    after: Quantity | None
    value: int | None
    difference: Projected | None


@dataclass(frozen=True)
class Subject:
    """What a row is about: a project or another receiver of energy, or a node."""

    key: str
    name: str
    colour: str
    note: str
    href: str
    is_node: bool = False

    def query(self, of_lab: FigureQuery) -> FigureQuery:
        """Return the figure query of the row from that of the lab."""
        if self.is_node:
            return of_lab.replace(subject_kind="node", subject_key=self.key)
        return charge_query(of_lab, self.key)


@dataclass(frozen=True)
class Row:
    """A project, a receiver without project, or a node. ``width``: of its bar, in percent of half
    the cell.
    """

    subject: Subject
    pair: Pair
    cells: list[Cell]
    direction: str
    width: str


@dataclass(frozen=True)
class Column:
    """A metric with the unit of its cells."""

    name: str
    metric: str
    unit: Unit


@dataclass(frozen=True)
class ChangeTable:
    """Rows by the size of their difference. They add up to the totals."""

    key: str
    title: str
    rows: list[Row]
    totals: list[Cell]


@dataclass(frozen=True)
class ChangePage:
    """Content of the page. Without ``tables``, ``reason`` says why nothing is compared.
    ``incomplete``: names of metrics that are unknown for some energy, ``unknown``: for all of it.
    """

    period: Period
    earlier: str
    reason: str
    not_comparable: dict[str, str]
    direction: str
    difference: Projected | None
    columns: list[Column]
    tables: list[ChangeTable]
    incomplete: list[str]
    unknown: list[Quantity]


def requested_table(text: str) -> str:
    """Return the key of a table. Raises InvalidInput for another text."""
    if text not in TABLES:
        raise InvalidInput(
            f"{text[:40]!r} is not a table.", field="by", hint=f"Use one of {', '.join(TABLES)}."
        )
    return text


def comparison_of(
    lab: Lab, period: Period, comparison: str, now: int
) -> tuple[Comparison | None, dict[str, str]]:
    """Return the chosen comparison (None: none), and the reasons against the others."""
    whole = figure(lab, lab_query(lab, period))
    times = device_times(lab, period.from_hour, period.to_hour, now)
    comparisons = comparisons_of(lab, period, whole, times, now)
    return comparisons.get(comparison), not_comparable(comparisons)


def change_page(*, lab: Lab, period: Period, comparison: str, now: int) -> ChangePage:
    """Return what changed. The number of queries does not depend on the number of rows."""
    chosen, impossible = comparison_of(lab, period, comparison, now)
    reason = chosen.reason if chosen else "none is chosen"
    if chosen is None or reason:
        earlier = chosen.name if chosen else ""
        return ChangePage(period, earlier, reason, impossible, "", None, [], [], [], [])
    pairs = _pairs(lab, period, chosen.earlier)
    whole = _sum(pairs)
    queries = lab_query(lab, chosen.earlier), lab_query(lab, period)
    metrics = [metric for metric in METRICS if metric != COST or lab.currency]
    columns = [
        Column(METRICS[metric], metric, _unit(lab, metric, whole))
        for metric in metrics
        if not whole.lacks(metric)
    ]
    change_mj = whole.difference("energy_mj") or 0
    return ChangePage(
        period=period,
        earlier=chosen.name,
        reason="",
        not_comparable=impossible,
        direction=_direction(change_mj),
        difference=estimated(abs(change_mj)),
        columns=columns,
        tables=[_table(lab, period, key, pairs, columns, queries) for key in TABLES],
        incomplete=[
            column.name.lower() for column in columns if whole.difference(column.metric) is None
        ],
        unknown=[
            quantity(_metric_query(lab, queries[1], metric), whole.after)
            for metric in metrics
            if whole.lacks(metric)
        ],
    )


def change_rows(
    *, lab: Lab, period: Period, comparison: str, table: str, now: int
) -> tuple[Comparison, list[Row]]:
    """Return the comparison and the rows of a table for a file. Raises InvalidInput without an
    earlier period.
    """
    chosen, _ = comparison_of(lab, period, comparison, now)
    if chosen is None:
        raise InvalidInput(
            "There is nothing to compare with.",
            field="compare",
            hint=f"Use compare={YEAR_EARLIER} or leave it out.",
        )
    queries = lab_query(lab, chosen.earlier), lab_query(lab, period)
    pairs = _pairs(lab, period, chosen.earlier)
    return chosen, _table(lab, period, table, pairs, [], queries).rows


def _pairs(lab: Lab, period: Period, earlier: Period) -> dict[tuple[str, str], Pair]:
    """Return both periods by charge and node. Two queries."""
    before, after = (
        figures_by(lab, lab_query(lab, part), ["charge", "node"]) for part in (earlier, period)
    )
    return {
        (charge, node): Pair(
            before.get((charge, node), Figure()), after.get((charge, node), Figure())
        )
        for charge, node in {**before, **after}
    }


def _sum(pairs: Mapping[tuple[str, str], Pair]) -> Pair:
    return Pair(
        total(pair.before for pair in pairs.values()), total(pair.after for pair in pairs.values())
    )


def _table(
    lab: Lab,
    period: Period,
    key: str,
    pairs: Mapping[tuple[str, str], Pair],
    columns: list[Column],
    queries: Sequence[FigureQuery],
) -> ChangeTable:
    place = list(TABLES).index(key)
    groups: dict[str, dict[tuple[str, str], Pair]] = defaultdict(dict)
    for group, pair in pairs.items():
        groups[group[place]][group] = pair
    sums = {name: _sum(group) for name, group in groups.items()}
    subjects = (_projects if key == "project" else _nodes)(lab, period, sums)
    change_mj = {name: pair.difference("energy_mj") or 0 for name, pair in sums.items()}
    largest = max((abs(change) for change in change_mj.values()), default=0)
    order = sorted(subjects, key=lambda subject: (-abs(change_mj[subject.key]), subject.name))
    rows = [
        Row(
            subject,
            sums[subject.key],
            [
                _cell(lab, column, sums[subject.key], [*map(subject.query, queries)])
                for column in columns
            ],
            _direction(change_mj[subject.key]),
            f"{100 * abs(change_mj[subject.key]) / largest:.2f}" if largest else "0",
        )
        for subject in order
    ]
    whole = _sum(pairs)
    return ChangeTable(
        key,
        TABLES[key],
        rows,
        [_cell(lab, column, whole, queries) for column in columns],
    )


def _projects(lab: Lab, period: Period, sums: Mapping[str, Pair]) -> list[Subject]:
    """Return the projects and other receivers as the overview names them. One query."""
    whole = {(0, key, 0): pair.before + pair.after for key, pair in sums.items()}
    return [
        Subject(
            charge.key,
            charge.name,
            charge.colour,
            "",
            charge.href,
        )
        for charge in charges(lab, Use(lab_query(lab, period), whole), period)
    ]


def _nodes(lab: Lab, period: Period, sums: Mapping[str, Pair]) -> list[Subject]:
    """Return the nodes. One query."""
    return [
        Subject(
            str(node.uuid),
            node.name,
            "",
            "retired" if node.retired_us is not None else "",
            f"{reverse('node', args=[node.uuid])}?{period.query}",
            is_node=True,
        )
        for node in lab.nodes.filter(uuid__in=list(sums))
    ]


def _cell(
    lab: Lab,
    column: Column,
    pair: Pair,
    queries: Sequence[FigureQuery],
) -> Cell:
    before, after = (
        quantity(_metric_query(lab, query, column.metric), figure, column.unit)
        if figure.entries
        else None
        for query, figure in zip(queries, (pair.before, pair.after), strict=True)
    )
    value = pair.difference(column.metric)
    difference = None
    if value is not None:
        difference = signed(value, column.metric, column.unit, currency=lab.currency)
    return Cell(before, after, value, difference)


def _metric_query(lab: Lab, query: FigureQuery, metric: str) -> FigureQuery:
    return query.replace(metric=metric, currency=lab.currency if metric == COST else "")


def _unit(lab: Lab, metric: str, whole: Pair) -> Unit:
    values = [whole.before.value(metric), whole.after.value(metric)]
    return unit_for(metric, values, column=True, currency=lab.currency)


def _direction(change: int) -> str:
    return "up" if change > 0 else "down" if change < 0 else "same"
