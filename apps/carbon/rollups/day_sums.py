"""Sum the ledgers over rolled days, in the database. Each entry is priced once, into a temporary
table that all sums of the energy ledger read.
"""

from django.db import connection
from django.db.backends.utils import CursorWrapper

from apps.accounts.models import Lab
from apps.carbon.figures.sql import (
    PRICED,
    PROJECT,
    charges_sql,
    entry_metrics_sql,
    kind_sql,
    part_sql,
)
from apps.carbon.rollups.reader import (
    CHARGE_KEYS,
    KEYS,
    METERED,
    SUMS,
    USE_SUMS,
    embodied_sql,
    rows_in_spans_sql,
)

_TABLE = "priced_entry"
_METRICS = ("energy_mj", "facility_energy_mj", "emission_ug", "cost_ucurrency")


def sum_embodied(lab: Lab, ids: str) -> None:
    """Write the embodied carbon of rolled days. ``ids`` is SQL: their ids."""
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO carbon_embodiedday (day_id, kind, project_id, embodied_ug, entries) "
            "SELECT day_id, kind, project_id, SUM(part_ug), SUM(entries) "
            f"FROM ({embodied_sql(_spans_sql(ids), 'g.id AS day_id')}) x WHERE part_ug <> 0 "
            "GROUP BY day_id, kind, project_id",
            [lab.pk],
        )


def sum_use(lab: Lab, ids: str) -> None:
    """Write the use of rolled days by consumer, by charged party, by device, and of the lab.
    ``ids`` is SQL: their ids.
    """
    sums = ", ".join(f"SUM({name})" for name in USE_SUMS)
    with connection.cursor() as cursor:
        cursor.execute(f"CREATE TEMPORARY TABLE {_TABLE} AS {_priced_sql(lab, ids)}", [
            lab.basis, lab.pk,
        ])  # fmt: skip
        cursor.execute(
            f"INSERT INTO carbon_useday (day_id, {KEYS}, {', '.join(USE_SUMS)}) "
            f"SELECT day_id, {KEYS}, {sums} FROM ({_use_sql()}) x GROUP BY day_id, {KEYS}"
        )
        cursor.execute(
            f"INSERT INTO carbon_chargeday (day_id, {CHARGE_KEYS}, {', '.join(USE_SUMS)}) "
            f"SELECT day_id, {CHARGE_KEYS}, {sums} FROM carbon_useday WHERE day_id IN ({ids}) "
            f"GROUP BY day_id, {CHARGE_KEYS}"
        )
        _sum_meters(cursor, lab, ids)
        cursor.execute(f"DROP TABLE {_TABLE}")
        of_charges = ", ".join(
            f"COALESCE((SELECT SUM(u.{name}) FROM carbon_chargeday u WHERE u.day_id = b.id), 0)"
            for name in SUMS
        )
        cursor.execute(
            f"INSERT INTO carbon_labday (day_id, {', '.join(SUMS)}, covered_us) SELECT b.id, "
            f"{of_charges}, COALESCE((SELECT SUM(u.covered_us) FROM carbon_meterday u JOIN "
            f"fleet_device d ON d.id = u.device_id WHERE u.day_id = b.id AND {METERED}), 0) "
            f"FROM carbon_rolledday b WHERE b.id IN ({ids})"
        )


def _spans_sql(ids: str) -> str:
    return f"(SELECT id, from_hour, to_hour FROM carbon_rolledday WHERE id IN ({ids}))"


def _priced_sql(lab: Lab, ids: str) -> str:
    """Return SQL for the entries of rolled days with their metrics. Parameters: basis, lab."""
    metrics = ", ".join(
        f"CAST({sql} AS bigint) AS {name}" for name, sql in entry_metrics_sql().items()
    )
    return (
        "SELECT g.id AS day_id, e.lab_id, e.device_id, e.node_id, e.consumer_id, e.hour, "
        "e.energy_quality, c.kind AS consumer_kind, f.id AS factor_id, a.pue_ppm, "
        f"pr.id AS price_id, COALESCE(pr.currency, '') AS currency, {metrics} "
        f"FROM {rows_in_spans_sql(lab, _spans_sql(ids), 'energy_ledgerentry', 'e')} {PRICED} "
        "WHERE e.lab_id = %s AND e.hour >= g.from_hour AND e.hour < g.to_hour"
    )


def _use_sql() -> str:
    """Return SQL for the use of priced entries. Columns: day_id, KEYS and USE_SUMS."""
    parts = {name: part_sql(f"e.{name}") for name in _METRICS}
    return (
        f"SELECT e.day_id, e.node_id, e.consumer_id, {PROJECT} AS project_id, t.person_id, "
        "COALESCE(t.os_user, '') AS os_user, COALESCE(t.program, '') AS program, "
        f"{kind_sql('e.consumer_kind')} AS kind, e.energy_quality, e.factor_id, e.pue_ppm, "
        "e.price_id, e.currency, "
        f"{', '.join(f'COALESCE({sql}, 0) AS {name}' for name, sql in parts.items())}, "
        f"CASE WHEN e.factor_id IS NULL THEN {parts['energy_mj']} ELSE 0 END AS "
        f"without_factor_mj, 1 AS entries FROM {_TABLE} e {charges_sql('e.consumer_kind')}"
    )


def _sum_meters(cursor: CursorWrapper, lab: Lab, ids: str) -> None:
    """Write the sums and the measured time of devices, all parties together."""
    used = (*SUMS, "idle_mj")
    columns = ("covered_us", "measured_us", "estimated_us", *used)
    hours = rows_in_spans_sql(lab, _spans_sql(ids), "energy_devicehour", "w")
    cursor.execute(
        f"INSERT INTO carbon_meterday (day_id, device_id, node_id, {', '.join(columns)}) "
        f"SELECT day_id, device_id, node_id, {', '.join(f'SUM({name})' for name in columns)} "
        "FROM (SELECT g.id AS day_id, w.device_id, w.node_id, w.covered_us, "
        "CASE WHEN q.quality <= 2 THEN w.covered_us ELSE 0 END AS measured_us, "
        "CASE WHEN q.quality > 2 THEN w.covered_us ELSE 0 END AS estimated_us, "
        f"{', '.join(f'0 AS {name}' for name in used)} FROM {hours} LEFT JOIN ("
        f"SELECT device_id, node_id, hour, MAX(energy_quality) AS quality FROM {_TABLE} "
        "GROUP BY device_id, node_id, hour) q "
        "ON q.device_id = w.device_id AND q.node_id = w.node_id AND q.hour = w.hour "
        "WHERE w.lab_id = %s AND w.hour >= g.from_hour AND w.hour < g.to_hour "
        "UNION ALL SELECT e.day_id, e.device_id, e.node_id, 0, 0, 0, e.energy_mj, "
        "COALESCE(e.facility_energy_mj, 0), COALESCE(e.emission_ug, 0), "
        "CASE WHEN e.factor_id IS NULL THEN e.energy_mj ELSE 0 END, 1, "
        f"CASE WHEN e.consumer_kind = 'idle' THEN e.energy_mj ELSE 0 END FROM {_TABLE} e"
        ") y GROUP BY day_id, device_id, node_id",
        [lab.pk],
    )
