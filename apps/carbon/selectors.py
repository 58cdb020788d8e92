"""Figures: energy, facility energy and emissions of a subject over a period, in set-based SQL over the ledger."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any
from uuid import UUID

from apps.accounts.models import Lab
from apps.accounts.selectors import project_by_slug
from apps.carbon.calc import NOT_TOLD, FigureQuery
from apps.carbon.control import controlled_sql
from apps.carbon.models import AppliedFactor, EmissionFactor
from apps.core.errors import NotFound
from apps.core.sql import as_int, emission_sql, facility_sql, rows, split_sql, uuid_param
from apps.core.text import unstorable
from apps.fleet.models import Device, Node
from apps.fleet.selectors import node_of
from apps.ingest.choices import EnergyQuality
from apps.runs.selectors import run_of

# Ledger entry → the PUE and factor of its node at its hour → the run that used it, the project and person charged.
_PRICED = """
JOIN ingest_consumer c ON c.id = e.consumer_id
LEFT JOIN carbon_appliedfactor a
  ON a.node_id = e.node_id AND a.basis = %s AND a.from_hour <= e.hour AND e.hour < a.to_hour
LEFT JOIN carbon_emissionfactor f ON f.id = a.factor_id
"""
_FROM = f""" FROM energy_ledgerentry e {_PRICED}
LEFT JOIN runs_run r ON r.uuid = c.run_uuid AND r.lab_id = e.lab_id
LEFT JOIN attribution_attribution t
  ON t.consumer_id = e.consumer_id AND t.node_id = e.node_id AND t.from_hour <= e.hour AND e.hour < t.to_hour
LEFT JOIN energy_idleshare s
  ON c.kind = 'idle' AND s.lab_id = e.lab_id AND s.from_hour <= e.hour AND e.hour < s.to_hour
LEFT JOIN accounts_project p ON p.id = COALESCE(t.project_id, s.project_id)
LEFT JOIN fleet_node n ON n.id = e.node_id
LEFT JOIN fleet_device d ON d.id = e.device_id
"""
CHARGE = (
    "CASE WHEN c.kind = 'idle' AND s.id IS NULL THEN '~idle' WHEN c.kind = 'overhead' THEN '~overhead' "
    "WHEN p.id IS NULL THEN '~unattributed' ELSE p.slug END"
)
GROUPS = {
    "charge": CHARGE,
    "project": "p.slug",
    "run": "r.uuid",
    "node": "n.uuid",
    "device": "d.key",
    "hour": "e.hour",
    "quality": "e.energy_quality",
    "consumer": "c.key",
    "person": "t.person_id",
    "os_user": "COALESCE(t.os_user, '')",
    "program": "COALESCE(t.program, '')",
    "way": "t.way",
    "factor": "f.id",
    "pue": "a.pue_ppm",
}
# What anybody of the lab may group by; what single persons used is told on pages, by the lab's policy.
TOLD_GROUPS = frozenset(GROUPS) - {"person", "os_user", "program"}


@dataclass(frozen=True)
class Figure:
    """The sums of a set of ledger entries. ``without_factor_mj`` is energy whose emissions nobody can tell."""

    energy_mj: int = 0
    facility_energy_mj: int = 0
    emission_ug: int = 0
    without_factor_mj: int = 0
    entries: int = 0

    def __add__(self, other: "Figure") -> "Figure":
        return Figure(*(getattr(self, field.name) + getattr(other, field.name) for field in fields(self)))

    def value(self, metric: str) -> int:
        """Return the sum of one metric."""
        return int(getattr(self, metric))


def _where(lab: Lab, query: FigureQuery) -> tuple[str, list[Any]]:
    clauses = ["e.lab_id = %s", "e.hour >= %s", "e.hour < %s"]
    params: list[Any] = [query.basis, lab.pk, query.from_hour, query.to_hour]
    by_subject = {"project": "p.slug = %s", "run": "r.uuid = %s", "node": "n.uuid = %s", "device": "d.key = %s"}
    by_subject["person"] = "t.person_id = %s"
    if query.subject_kind in by_subject:
        clauses.append(by_subject[query.subject_kind])
        params.append(_subject_param(query))
    if query.quality:
        clauses.append("e.energy_quality = %s")
        params.append(int(EnergyQuality[query.quality]))
    if query.consumer == "idle_share":
        clauses.append("s.id IS NOT NULL")
    elif query.consumer:
        clauses.append(f"({CHARGE}) = %s")
        params.append(f"~{query.consumer}")
    if query.project:
        nobody = f"({CHARGE}) IN ('~idle', '~overhead', '~unattributed')"
        clauses.append(nobody if query.project == NOT_TOLD else "p.slug = %s")
        params += [] if query.project == NOT_TOLD else [query.project]
    if query.scope and (within := controlled_sql(lab, query)):
        clauses.append(within)
    if query.use:
        clauses.append("c.key = %s")
        params.append(query.use)
    for name in ("os_user", "program"):
        if value := getattr(query, name):
            clauses.append(f"COALESCE(t.{name}, '') = %s")
            params.append("" if value == NOT_TOLD else value)
    return " AND ".join(clauses), params


def _subject_param(query: FigureQuery) -> Any:
    if query.subject_kind in {"run", "node"}:
        return uuid_param(query.subject_key)
    return int(query.subject_key) if query.subject_kind == "person" else query.subject_key


def _part(value: str) -> str:
    """Return SQL for an entry's value, or for the part of it that a project bears where idle energy is spread."""
    return f"CASE WHEN s.id IS NULL THEN {value} ELSE {split_sql(value, 's.low', 's.high', 's.total')} END"


def _metrics() -> dict[str, str]:
    return {
        "energy_mj": _part("e.energy_mj"),
        "facility_energy_mj": _part(facility_sql("e.energy_mj", "a.pue_ppm")),
        "emission_ug": _part(emission_sql("e.energy_mj", "a.pue_ppm", "f.ug_per_kwh")),
    }


def _sums() -> str:
    metrics = _metrics()
    return (
        "".join(f"SUM({sql}) AS {name}, " for name, sql in metrics.items())
        + f"SUM(CASE WHEN f.id IS NULL THEN {metrics['energy_mj']} ELSE 0 END) AS without_factor_mj, "
        "COUNT(*) AS entries"
    )


def figure_of(row: dict[str, Any]) -> Figure:
    """Return the figure that a row of sums holds."""
    return Figure(**{name: int(row[name] or 0) for name in Figure.__dataclass_fields__})


def require_subject(lab: Lab, query: FigureQuery) -> None:
    """Raise NotFound unless the subject of a query is the lab's: what is not there is not zero."""
    key = query.subject_key
    there: dict[str, Callable[[], bool]] = {
        "lab": lambda: True,
        "project": lambda: project_by_slug(lab, key) is not None,
        "person": lambda: lab.memberships.filter(user_id=int(key)).exists(),
        "run": lambda: run_of(lab, UUID(key)) is not None,
        "node": lambda: node_of(lab, UUID(key)) is not None,
        "device": lambda: Device.objects.filter(lab=lab, key=key).exists(),
        "asset": lambda: lab.assets.filter(pk=int(key)).exists(),
    }
    if unstorable(f"{key}{query.project}{query.os_user}{query.program}{query.use}") or not there[query.subject_kind]():
        raise NotFound(
            f"There is no such {query.subject_kind} in this lab.", field="subject", hint="Ask for subject=lab with group_by."
        )


def figure(lab: Lab, query: FigureQuery) -> Figure:
    """Return the sums of ``query``."""
    where, params = _where(lab, query)
    return figure_of(next(rows(f"SELECT {_sums()} {_FROM} WHERE {where}", params)))


def figures_by(lab: Lab, query: FigureQuery, group_by: Sequence[str]) -> dict[tuple[Any, ...], Figure]:
    """Return the sums of ``query`` per group (names of GROUPS); the groups add up to :func:`figure` exactly.

    Group values: charge '~idle', '~overhead', '~unattributed' or a project's slug; run and node UUIDs as the database
    stores them (see ``normal_uuid``); hour an integer; quality the number of EnergyQuality; factor and pue may be None.
    """
    columns = ", ".join(GROUPS[name] for name in group_by)
    names = ", ".join(f"{GROUPS[name]} AS g{i}" for i, name in enumerate(group_by))
    where, params = _where(lab, query)
    found = rows(f"SELECT {names}, {_sums()} {_FROM} WHERE {where} GROUP BY {columns} ORDER BY {columns}", params)
    return {tuple(normal(row[f"g{i}"], name) for i, name in enumerate(group_by)): figure_of(row) for row in found}


def hours_of_consumers(lab: Lab, basis: str, consumer_ids: Sequence[int]) -> Iterator[tuple[int, int, int, Figure]]:
    """Yield (consumer id, node id, hour, figure) of all that some consumers ever used."""
    for start in range(0, len(consumer_ids), 500):
        part = consumer_ids[start : start + 500]
        found = rows(
            f"SELECT e.consumer_id, e.node_id, e.hour, {_sums()} {_FROM} WHERE e.lab_id = %s AND e.consumer_id IN "
            f"({', '.join(['%s'] * len(part))}) GROUP BY e.consumer_id, e.node_id, e.hour",
            [basis, lab.pk, *part],
        )
        for row in found:
            yield row["consumer_id"], row["node_id"], row["hour"], figure_of(row)


def figures_of_meters(lab: Lab, column: str, spans: Sequence[tuple[int, int, int]]) -> dict[int, tuple[Figure, int]]:
    """Return {place in ``spans``: figure, idle energy (mJ)} of (device or node id, from hour, to hour), as figures are.

    ``column`` is device_id or node_id; spans may overlap. One query for a thousand spans. Who is charged does not matter
    here: the parts of an entry that is spread over projects sum to it exactly.
    """
    found: dict[int, tuple[Figure, int]] = {}
    sums = (
        f"SUM(e.energy_mj) AS energy_mj, SUM({facility_sql('e.energy_mj', 'a.pue_ppm')}) AS facility_energy_mj, "
        f"SUM({emission_sql('e.energy_mj', 'a.pue_ppm', 'f.ug_per_kwh')}) AS emission_ug, COUNT(*) AS entries, "
        "SUM(CASE WHEN f.id IS NULL THEN e.energy_mj ELSE 0 END) AS without_factor_mj, "
        "SUM(CASE WHEN c.kind = 'idle' THEN e.energy_mj ELSE 0 END) AS idle_mj"
    )
    told = f"FROM m JOIN energy_ledgerentry e ON e.{column} = m.of_id AND e.hour >= m.from_hour AND e.hour < m.to_hour"
    for start in range(0, len(spans), 1000):  # far below the databases' limits of parameters
        part = [(start + i, *span) for i, span in enumerate(spans[start : start + 1000])]
        marks = ", ".join([f"({', '.join(['CAST(%s AS bigint)'] * 4)})"] * len(part))
        for row in rows(
            f"WITH m(place, of_id, from_hour, to_hour) AS (VALUES {marks}) SELECT m.place, {sums} "
            # The plus keeps SQLite from walking all entries of the lab for each span.
            f"{told} {_PRICED} WHERE +e.lab_id = %s GROUP BY m.place",
            [*(value for values in part for value in values), lab.basis, lab.pk],
        ):
            found[row["place"]] = (figure_of(row), as_int(row["idle_mj"]))
    return found


def normal(value: Any, group: str) -> Any:
    """Return UUIDs as text with hyphens on every database."""
    if value is not None and group in {"run", "node"}:
        return str(value) if not isinstance(value, str) else str(UUID(value))
    return value


def entries(lab: Lab, query: FigureQuery, *, limit: int | None = None, offset: int = 0) -> Iterator[dict[str, Any]]:
    """Yield the ledger entries behind a figure, by hour, device, consumer, each with its own facility energy, emission,
    PUE and factor. Their sums are the figure."""
    where, params = _where(lab, query)
    page = f" LIMIT {int(limit)} OFFSET {int(offset)}" if limit is not None else ""
    yield from rows(
        "SELECT e.id, e.hour, e.device_id, d.key AS device, d.name AS device_name, n.uuid AS node, n.hostname, "
        "c.key AS consumer, r.uuid AS run, r.name AS run_name, p.slug AS project, e.energy_quality, e.share_quality, "
        "e.placement_quality, a.pue_ppm, f.id AS factor_id, f.ug_per_kwh AS factor_ug_per_kwh, "
        f"{', '.join(f'{sql} AS {name}' for name, sql in _metrics().items())} "
        f"{_FROM} WHERE {where} ORDER BY e.hour DESC, d.key, c.key, e.id, p.id{page}",
        params,
    )


def applied_factor(node: Node, basis: str, hour: int) -> AppliedFactor | None:
    """Return which PUE and factor hold for a node in a UTC hour, or None while they were not derived yet."""
    return (
        AppliedFactor.objects.select_related("factor")
        .filter(node=node, basis=basis, from_hour__lte=hour, to_hour__gt=hour)
        .first()
    )


def factors_used(lab: Lab, query: FigureQuery) -> list[tuple[EmissionFactor | None, int | None, Figure]]:
    """Return which factor and PUE priced how much of a figure, largest energy first; factor None = no carbon known."""
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
        edition=factor.edition - 1,
    ).first()


def zones() -> list[tuple[str, str]]:
    """Return the zones with a shipped factor as (code, name), by name."""
    found = EmissionFactor.objects.filter(lab__isnull=True, superseded_us__isnull=True).values_list("zone", "zone_name")
    return sorted(set(found), key=lambda pair: pair[1])
