"""Figures: energy, facility energy, emissions and cost of a subject over a period, in set-based
SQL over the ledger.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any
from uuid import UUID

from apps.accounts.models import Lab
from apps.accounts.selectors import project_by_slug, require_project
from apps.carbon.figures.figure_query import HIDDEN, FigureQuery
from apps.carbon.figures.scopes import controlled_sql
from apps.carbon.figures.sql import (
    CHARGED,
    FACTOR,
    KIND,
    PRICE,
    PROJECT,
    charge_sql,
    metrics_sql,
    narrowed_sql,
    sums_sql,
    waste_sql,
)
from apps.carbon.models import AppliedFactor, EmissionFactor
from apps.carbon.rollups import reader
from apps.core.errors import NotFound
from apps.core.sql import as_int, fetch_rows, uuid_param
from apps.core.text import is_unstorable
from apps.fleet.models import Device, Node
from apps.fleet.selectors import node_of
from apps.ingest.models import Consumer
from apps.runs.selectors import run_of

_FROM = f""" FROM energy_ledgerentry e {CHARGED}
LEFT JOIN runs_run r ON r.uuid = c.run_uuid AND r.lab_id = e.lab_id
LEFT JOIN accounts_project p ON p.id = {PROJECT}
LEFT JOIN fleet_node n ON n.id = e.node_id
LEFT JOIN fleet_device d ON d.id = e.device_id
"""
CHARGE = charge_sql(f"({KIND})")
GROUPS = {
    "charge": CHARGE,
    "project": "p.slug",
    "run": "r.uuid",
    "node": "n.uuid",
    "device": "d.key",
    "hour": "e.hour",
    "stretch": "e.hour",
    "quality": "e.energy_quality",
    "consumer": "c.key",
    "person": "t.person_id",
    "os_user": "COALESCE(t.os_user, '')",
    "program": "COALESCE(t.program, '')",
    "way": "t.way",
    "factor": "f.id",
    "pue": "a.pue_ppm",
    "waste": waste_sql(f"({KIND})"),
    "price": "pr.id",
}
# Groups that any member may use. Pages show personal figures by the lab's policy.
PUBLIC_GROUPS = frozenset(GROUPS) - {"person", "os_user", "program", "stretch"}


@dataclass(frozen=True)
class Figure:
    """The sums of a set of ledger entries. ``without_factor_mj`` is energy without an emission
    factor, ``without_price_mj`` energy without a price in the currency of the cost.
    """

    energy_mj: int = 0
    facility_energy_mj: int = 0
    emission_ug: int = 0
    without_factor_mj: int = 0
    cost_ucurrency: int = 0
    without_price_mj: int = 0
    entries: int = 0

    def __add__(self, other: "Figure") -> "Figure":
        return sum_figures((self, other))

    def value(self, metric: str) -> int:
        """Return the sum of one metric."""
        return int(getattr(self, metric))


_values = attrgetter(*Figure.__dataclass_fields__)


def sum_figures(figures: Iterable[Figure]) -> Figure:
    """Return the sum of figures. A page of a year adds thousands of them."""
    return Figure(*map(sum, zip(*map(_values, figures), strict=True)))


def _where(
    lab: Lab, query: FigureQuery, within: str = "", *, of_devices: bool = False
) -> tuple[str, list[Any]]:
    # The plus keeps SQLite from walking all entries of the lab for those of a node or of devices.
    is_small = of_devices or query.subject_kind == "node"
    of_lab = "+e.lab_id = %s" if is_small else "e.lab_id = %s"
    clauses = [of_lab, "e.hour >= %s", "e.hour < %s"]
    params: list[Any] = [query.basis, lab.pk, query.from_hour, query.to_hour]
    by_subject = {
        "project": "p.slug = %s",
        "run": "r.uuid = %s",
        "node": (
            f"e.node_id = (SELECT id FROM fleet_node WHERE lab_id = {int(lab.pk)} AND uuid = %s)"
        ),
        "device": "d.key = %s",
    }
    by_subject["person"] = "t.person_id = %s"
    if query.subject_kind in by_subject:
        clauses.append(by_subject[query.subject_kind])
        params.append(_subject_param(query))
    if query.subject_kind == "runs":
        uuids = [uuid_param(uuid) for uuid in query.subject_key.split(",")]
        clauses.append(f"c.run_uuid IN ({', '.join(['%s'] * len(uuids))}) AND r.id IS NOT NULL")
        params += uuids
    more, values = narrowed_sql(query, GROUPS, idle_share="s.id IS NOT NULL")
    if within := within or _within(lab, query):
        more.append(within)
    return " AND ".join([*clauses, *more]), [*params, *values]


def _within(lab: Lab, query: FigureQuery) -> str:
    """Return SQL that limits entries to a scope, '' if it contains all of them."""
    return controlled_sql(lab, query) if query.scope else ""


def _subject_param(query: FigureQuery) -> Any:
    if query.subject_kind in {"run", "node"}:
        return uuid_param(query.subject_key)
    return int(query.subject_key) if query.subject_kind == "person" else query.subject_key


def figure_of(row: dict[str, Any]) -> Figure:
    """Return the figure of a row of sums. Without sums of cost, the cost is unknown."""
    row = {"cost_ucurrency": 0, "without_price_mj": row["energy_mj"], **row}
    return Figure(**{name: int(row[name] or 0) for name in Figure.__dataclass_fields__})


def require_subject(lab: Lab, query: FigureQuery) -> None:
    """Raise NotFound unless the subject of a query belongs to the lab, InvalidInput for an unknown
    project as filter. Missing is not zero.
    """
    key = query.subject_key
    exists: dict[str, Callable[[], bool]] = {
        "lab": lambda: True,
        "project": lambda: project_by_slug(lab, key) is not None,
        "person": lambda: lab.memberships.filter(user_id=int(key)).exists(),
        "run": lambda: run_of(lab, UUID(key)) is not None,
        "runs": lambda: lab.runs.filter(uuid__in=key.split(",")).count() == key.count(",") + 1,
        "node": lambda: node_of(lab, UUID(key)) is not None,
        "device": lambda: Device.objects.filter(lab=lab, key=key).exists(),
        "asset": lambda: lab.assets.filter(pk=int(key)).exists(),
    }
    if (
        is_unstorable(f"{key}{query.project}{query.os_user}{query.program}{query.use}")
        or not exists[query.subject_kind]()
    ):
        raise NotFound(
            f"There is no such {query.subject_kind} in this lab.",
            field="subject",
            hint="Ask for subject=lab with group_by.",
        )
    if query.project not in ("", HIDDEN):
        require_project(lab, query.project)


def figure(lab: Lab, query: FigureQuery) -> Figure:
    """Return the sums of ``query``."""
    return figures_by(lab, query, [])[()]


def figures_by(
    lab: Lab, query: FigureQuery, group_by: Sequence[str], *, devices: Sequence[int] | None = None
) -> dict[tuple[Any, ...], Figure]:
    """Return the sums of ``query`` per group (names of GROUPS). ``devices``: of these only, by id.

    They add up to :func:`figure` exactly. Without groups there is one sum. Daily rollups are used
    where they exist. Group values: charge '~idle', '~overhead', '~system', '~unattributed' or a
    project's slug; run and node UUIDs as text with hyphens (see :func:`normal`); hour an integer;
    quality the number of EnergyQuality. ``stretch`` is the first hour of a day of the lab, or an
    hour. Factor, pue and price (id) may be None. Costs are in the currency of the query, else of
    the lab.
    """
    within = _within(lab, query)
    if devices is not None:
        ids = ", ".join(str(int(pk)) for pk in devices) or "NULL"
        within = " AND ".join(filter(None, (within, f"e.device_id IN ({ids})")))
    if not within and reader.answers(query, group_by, basis=lab.basis):
        rows = reader.use_by(lab, query, group_by)
    else:
        columns = ", ".join(GROUPS[name] for name in group_by)
        selected = [*(f"{GROUPS[name]} AS g{i}" for i, name in enumerate(group_by))]
        selected.append(sums_sql(query.currency or lab.currency))
        where, params = _where(lab, query, within, of_devices=devices is not None)
        ordered = f"GROUP BY {columns} ORDER BY {columns}" if columns else ""
        rows = fetch_rows(f"SELECT {', '.join(selected)} {_FROM} WHERE {where} {ordered}", params)
    return {
        tuple(normal(row[f"g{i}"], name) for i, name in enumerate(group_by)): figure_of(row)
        for row in rows
    }


def figures_of_lab(lab: Lab, from_hour: int, to_hour: int) -> dict[int, Figure]:
    """Return {first hour of a day or hour: figure} of the whole lab on its basis, without costs.
    One query.
    """
    rows = reader.lab_by_stretch(lab, from_hour, to_hour)
    return {row["from_hour"]: figure_of(row) for row in rows}


def hours_of_consumers(
    lab: Lab, basis: str, consumer_ids: Sequence[int]
) -> Iterator[tuple[int, int, int, Figure]]:
    """Yield (consumer id, node id, hour, figure) of all ledger entries of consumers."""
    for start in range(0, len(consumer_ids), 500):
        part = consumer_ids[start : start + 500]
        rows = fetch_rows(
            f"SELECT e.consumer_id, e.node_id, e.hour, {sums_sql(lab.currency)} "
            f"{_FROM} WHERE e.lab_id = %s AND e.consumer_id IN "
            f"({', '.join(['%s'] * len(part))}) GROUP BY e.consumer_id, e.node_id, e.hour",
            [basis, lab.pk, *part],
        )
        for row in rows:
            yield row["consumer_id"], row["node_id"], row["hour"], figure_of(row)


def figures_of_runs(lab: Lab, uuids: Sequence[UUID]) -> dict[UUID, Figure]:
    """Return the total figure of each run.

    Unmeasured runs are left out. Two queries for 500 runs.
    """
    spans = spans_of_runs(lab, uuids)
    return {uuid: figure for uuid, (figure, _, _) in spans.items()}


def spans_of_runs(lab: Lab, uuids: Sequence[UUID]) -> dict[UUID, tuple[Figure, int, int]]:
    """Return the total figure of each run and its hours ``[from, to)``, for its explain query."""
    spans: dict[UUID, tuple[Figure, int, int]] = {}
    if not uuids:
        return spans
    consumers = Consumer.objects.filter(lab=lab, run_uuid__in=list(uuids)).values_list(
        "pk", "run_uuid"
    )
    runs = {pk: uuid for pk, uuid in consumers if uuid is not None}
    for consumer, _, hour, part in hours_of_consumers(lab, lab.basis, sorted(runs)):
        figure, start, end = spans.get(runs[consumer], (Figure(), hour, hour + 1))
        spans[runs[consumer]] = (figure + part, min(start, hour), max(end, hour + 1))
    return spans


def figures_of_meters(
    lab: Lab, column: str, spans: Sequence[tuple[int, int, int]]
) -> dict[int, tuple[Figure, int]]:
    """Return {index in ``spans``: (figure, idle energy in mJ)}.

    ``spans`` are (device or node id, from hour, to hour) and may overlap. ``column`` is device_id
    or node_id. One query for a thousand spans. The attribution has no effect: the parts of an entry
    that is spread over projects sum to it exactly.
    """
    figures: dict[int, tuple[Figure, int]] = {}
    for start in range(0, len(spans), 1000):
        part = [(start + i, *span) for i, span in enumerate(spans[start : start + 1000])]
        for row in reader.meters_by_place(lab, column, part):
            figures[row["place"]] = (figure_of(row), as_int(row["idle_mj"]))
    return figures


def normal(value: Any, group: str) -> Any:
    """Return UUIDs as text with hyphens on every database."""
    if value is not None and group in {"run", "node"}:
        return str(value) if not isinstance(value, str) else str(UUID(value))
    return value


_LOOK_HOURS = 24


def entries(
    lab: Lab, query: FigureQuery, *, limit: int | None = None, offset: int = 0
) -> Iterator[dict[str, Any]]:
    """Yield the ledger entries of a figure, newest first. Their sums are the figure.

    Each has its own facility energy, emission, PUE and factor. With a ``limit`` the last day is
    read first: a page has few rows, its period may have millions.
    """
    if limit is not None and query.to_hour - query.from_hour > _LOOK_HOURS:
        last = list(
            _entries(lab, query.replace(from_hour=query.to_hour - _LOOK_HOURS), limit, offset)
        )
        if len(last) == limit:
            yield from last
            return
    yield from _entries(lab, query, limit, offset)


def _entries(
    lab: Lab, query: FigureQuery, limit: int | None, offset: int
) -> Iterator[dict[str, Any]]:
    where, params = _where(lab, query)
    page = f" LIMIT {int(limit)} OFFSET {int(offset)}" if limit is not None else ""
    yield from fetch_rows(
        "SELECT e.id, e.hour, e.device_id, d.key AS device, d.name AS device_name, n.uuid AS "
        "node, n.hostname, "
        "c.key AS consumer, r.uuid AS run, r.name AS run_name, p.slug AS project, "
        "e.energy_quality, e.share_quality, "
        "e.placement_quality, a.pue_ppm, f.id AS factor_id, "
        f"{FACTOR} AS factor_ug_per_kwh, "
        f"pr.id AS price_id, {PRICE} AS price_ucurrency_per_kwh, pr.currency, "
        f"{', '.join(f'{sql} AS {name}' for name, sql in metrics_sql().items())} "
        f"{_FROM} WHERE {where} ORDER BY e.hour DESC, d.key, c.key, e.id, p.id{page}",
        params,
    )


def applied_factor(node: Node, basis: str, hour: int) -> AppliedFactor | None:
    """Return the PUE and factor of a node in a UTC hour, None if they are not derived yet."""
    return (
        AppliedFactor.objects.select_related("factor")
        .filter(node=node, basis=basis, from_hour__lte=hour, to_hour__gt=hour)
        .first()
    )


def applied_factors(lab: Lab, basis: str, hour: int) -> dict[int, AppliedFactor]:
    """Return the PUE and factor of each node in a UTC hour. One query.

    Nodes without derived factors are left out.
    """
    factors = AppliedFactor.objects.select_related("factor")
    rows = factors.filter(node__lab=lab, basis=basis, from_hour__lte=hour, to_hour__gt=hour)
    return {row.node_id: row for row in rows}


def factors_used(
    lab: Lab, query: FigureQuery
) -> list[tuple[EmissionFactor | None, int | None, Figure]]:
    """Return factor, PUE and partial figure of each pair, largest energy first.

    Factor None: the emissions are unknown.
    """
    parts = figures_by(lab, query, ["factor", "pue"])
    factors = EmissionFactor.objects.in_bulk([factor for factor, _ in parts if factor is not None])
    listed = [(factors.get(factor), pue, part) for (factor, pue), part in parts.items()]
    return sorted(listed, key=lambda item: -item[2].energy_mj)


def earlier_edition(factor: EmissionFactor) -> EmissionFactor | None:
    """Return the edition that a factor superseded, or None."""
    return EmissionFactor.objects.filter(
        lab=factor.lab,
        zone=factor.zone,
        basis=factor.basis,
        resolution=factor.resolution,
        year=factor.year,
        month=factor.month,
        edition=factor.edition - 1,
    ).first()


def zones() -> list[tuple[str, str]]:
    """Return the zones with a shipped factor as (code, name), by name."""
    names = EmissionFactor.objects.filter(lab__isnull=True, superseded_us__isnull=True).values_list(
        "zone", "zone_name"
    )
    return sorted(set(names), key=lambda pair: pair[1])
