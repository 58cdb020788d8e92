"""SQL of the energy ledger: an entry ``e`` with factor, price and attribution, and its metrics."""

from collections.abc import Mapping
from typing import Any

from apps.carbon.choices import UseKind
from apps.carbon.figures.figure_query import ANY, ANY_WASTE, HIDDEN, FigureQuery
from apps.core.sql import cost_sql, emission_sql, facility_sql, split_sql
from apps.fleet.choices import CURRENCIES
from apps.ingest.choices import EnergyQuality
from apps.runs.choices import Intent

# Ledger entry → the PUE, factor and price of its node at its hour. Takes the basis as parameter.
PRICED = """
JOIN ingest_consumer c ON c.id = e.consumer_id
LEFT JOIN carbon_appliedfactor a
  ON a.node_id = e.node_id AND a.basis = %s AND a.from_hour <= e.hour AND e.hour < a.to_hour
LEFT JOIN carbon_hourfactor hf
  ON hf.series_id = a.hourly_id AND hf.hour = e.hour AND hf.superseded_us IS NULL
LEFT JOIN carbon_emissionfactor f ON f.id = COALESCE(hf.factor_id, a.factor_id)
LEFT JOIN carbon_hourprice hp ON hp.site_id = a.hourly_site_id AND hp.hour = e.hour
LEFT JOIN fleet_siteprice pr ON pr.id = COALESCE(hp.price_id, a.price_id)
"""


def charges_sql(consumer_kind: str) -> str:
    """Return SQL that joins the project and person charged for an entry ``e``, and the project's
    share of spread idle energy. ``consumer_kind`` is the column of the kind of its consumer.
    """
    return f"""
LEFT JOIN attribution_attribution t
  ON t.consumer_id = e.consumer_id AND t.node_id = e.node_id AND t.from_hour <= e.hour
    AND e.hour < t.to_hour
LEFT JOIN energy_idleshare s
  ON {consumer_kind} = 'idle' AND s.lab_id = e.lab_id AND s.from_hour <= e.hour
    AND e.hour < s.to_hour
"""


CHARGED = PRICED + charges_sql("c.kind")
FACTOR = "COALESCE(hf.ug_per_kwh, f.ug_per_kwh)"  # µg per kWh: of the hour, else of its period
PRICE = "COALESCE(hp.ucurrency_per_kwh, pr.ucurrency_per_kwh)"  # of the hour, else flat
NOT_CHARGED = ("~idle", "~overhead", "~system", "~unattributed")  # use that no project is charged
PROJECT = "COALESCE(t.project_id, s.project_id)"


def kind_sql(consumer_kind: str) -> str:
    """Return SQL for the kind of use of an entry that is joined with its charges."""
    return (
        f"CASE WHEN {consumer_kind} = 'idle' AND s.id IS NULL THEN '{UseKind.IDLE.value}' "
        f"WHEN {consumer_kind} = 'idle' THEN '{UseKind.IDLE_SHARE.value}' "
        f"WHEN {consumer_kind} = 'overhead' THEN '{UseKind.OVERHEAD.value}' "
        f"WHEN {consumer_kind} = 'system' AND {PROJECT} IS NULL THEN '{UseKind.SYSTEM.value}' "
        f"ELSE '{UseKind.USED.value}' END"
    )


KIND = kind_sql("c.kind")


def charge_sql(kind: str, project: str = "p") -> str:
    """Return SQL for the charged party: a project slug, or that of NOT_CHARGED."""
    return (
        f"CASE {kind} WHEN '{UseKind.IDLE.value}' THEN '~idle' WHEN '{UseKind.OVERHEAD.value}' "
        f"THEN '~overhead' WHEN '{UseKind.SYSTEM.value}' THEN '~system' "
        f"ELSE CASE WHEN {project}.id IS NULL THEN '~unattributed' ELSE {project}.slug END END"
    )


_DUPLICATES = (
    "SELECT o.run_id FROM preflight_repeat o WHERE o.state = 'confirmed' OR (o.state = 'open' "
    "AND o.certainty = 'verified' AND o.verdict IN ('duplicate', 'concurrent'))"
)

_FAILED = f"r.state = 'failed' AND r.intent <> '{Intent.PROBE.value}'"


def waste_sql(kind: str) -> str:
    """Return SQL for the kind of waste of an entry with run ``r``, '' for none. The kinds are
    disjoint. A run is a duplicate if somebody confirmed its finding, or if an open finding is
    verified.
    """
    return (
        f"CASE WHEN {idle_sql(kind)} THEN 'idle' WHEN r.id IN ({_DUPLICATES}) THEN 'duplicate' "
        f"WHEN {_FAILED} THEN 'failed' ELSE '' END"
    )


def idle_sql(kind: str) -> str:
    """Return SQL for whether a use is idle energy, charged to projects or not."""
    return f"{kind} IN ('{UseKind.IDLE.value}', '{UseKind.IDLE_SHARE.value}')"


def wasted_consumers_sql(lab_id: int) -> str:
    """Return SQL for (id, waste) of the consumers of failed runs and duplicates. Few runs are."""
    joined = (  # SQLite keeps the order of a CROSS JOIN
        "FROM runs_run r CROSS JOIN ingest_consumer k WHERE k.run_uuid = r.uuid "
        # With the plus SQLite reads failed runs by their own index, not all runs of the lab.
        f"AND k.lab_id = r.lab_id AND +r.lab_id = {int(lab_id)}"
    )
    return (
        f"SELECT k.id, 'duplicate' AS waste {joined} AND r.id IN ({_DUPLICATES}) UNION ALL "
        f"SELECT k.id, 'failed' {joined} AND {_FAILED} AND r.id NOT IN ({_DUPLICATES})"
    )


def part_sql(value: str) -> str:
    """Return SQL for an entry's value, or for the project's part of spread idle energy."""
    return (
        f"CASE WHEN s.id IS NULL THEN {value} ELSE "
        f"{split_sql(value, 's.low', 's.high', 's.total')} END"
    )


def entry_metrics_sql() -> dict[str, str]:
    """Return SQL for each metric of a whole entry: exact integers, NULL without factor or PUE."""
    return {
        "energy_mj": "e.energy_mj",
        "facility_energy_mj": facility_sql("e.energy_mj", "a.pue_ppm"),
        "emission_ug": emission_sql("e.energy_mj", "a.pue_ppm", FACTOR),
        "cost_ucurrency": cost_sql("e.energy_mj", "a.pue_ppm", PRICE),
    }


def metrics_sql() -> dict[str, str]:
    """Return SQL for each metric of an entry, or of the project's part of spread idle energy."""
    return {name: part_sql(sql) for name, sql in entry_metrics_sql().items()}


def in_currency_sql(currency: str) -> str:
    """Return SQL for whether the price ``pr`` is in a currency: costs of two are never added."""
    if currency == ANY:
        return "pr.id IS NOT NULL"
    return f"pr.currency = '{currency}'" if currency in CURRENCIES else "1 = 0"


def sums_sql(currency: str) -> str:
    """Return SQL for the sums of entries. The columns are the fields of Figure."""
    metrics, priced = metrics_sql(), in_currency_sql(currency)
    metrics["cost_ucurrency"] = f"CASE WHEN {priced} THEN {metrics['cost_ucurrency']} END"
    return (
        "".join(f"SUM({sql}) AS {name}, " for name, sql in metrics.items())
        + f"SUM(CASE WHEN f.id IS NULL THEN {metrics['energy_mj']} ELSE 0 END) AS "
        "without_factor_mj, "
        f"SUM(CASE WHEN {priced} THEN 0 ELSE {metrics['energy_mj']} END) AS without_price_mj, "
        "COUNT(*) AS entries"
    )


def narrowed_sql(
    query: FigureQuery, groups: Mapping[str, str], *, idle_share: str
) -> tuple[list[str], list[Any]]:
    """Return SQL conditions for the filters of a query other than its subject, and parameters.

    They use the columns of ``groups``.
    """
    clauses, params = list[str](), list[Any]()
    if query.quality:
        clauses.append(f"{groups['quality']} = %s")
        params.append(int(EnergyQuality[query.quality]))
    if query.consumer == "idle_share":
        clauses.append(idle_share)
    elif query.consumer:
        clauses.append(f"({groups['charge']}) = %s")
        params.append(f"~{query.consumer}")
    if query.waste == ANY_WASTE:
        clauses.append(f"({groups['waste']}) <> ''")
    elif query.waste:
        clauses.append(f"({groups['waste']}) = %s")
        params.append(query.waste)
    if query.project == HIDDEN:
        clauses.append(f"({groups['charge']}) IN {NOT_CHARGED}")
    elif query.project:
        clauses.append(f"{groups['project']} = %s")
        params.append(query.project)
    if query.use:
        clauses.append(f"{groups['consumer']} = %s")
        params.append(query.use)
    for name in ("os_user", "program"):
        if value := getattr(query, name):
            clauses.append(f"{groups[name]} = %s")
            params.append("" if value == HIDDEN else value)
    return clauses, params
