"""Queries of stored bytes by kind, project, medium and node, with PUE and factor. Aggregated in
SQL.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from apps.accounts.models import Lab
from apps.artifacts.choices import ArtifactState, CopyState
from apps.artifacts.models import Artifact, Copy
from apps.artifacts.storage_model import StorageLot, StoredBytes
from apps.carbon.figures.energy import applied_factors
from apps.carbon.models import AppliedFactor
from apps.core.sql import fetch_rows
from apps.fleet.dated_facts import value_at
from apps.fleet.selectors import site_facts_of

# Bytes are summed in two parts: sums of reported sizes could exceed 64 bits.
_PART = 10**6
# The bytes by which the size of a copy exceeds the space that is counted at it: its own bytes, and
# the shared bytes that no present copy with a lower primary key uses. Parameters: lab, state, lab,
# state.
_EXCESS = (
    "SELECT c.id, c.artifact_id, c.medium, c.node_id, a.kind, a.project_id, "
    "a.bytes - c.own_bytes - COALESCE(counted.bytes, 0) AS excess "
    "FROM artifacts_copy c JOIN artifacts_artifact a ON a.id = c.artifact_id LEFT JOIN ("
    "SELECT s.copy_id, CAST(SUM(s.bytes) AS bigint) AS bytes FROM artifacts_sharedbytes s JOIN ("
    "SELECT MIN(o.copy_id) AS copy_id, o.key FROM artifacts_sharedbytes o JOIN artifacts_copy p ON "
    "p.id = o.copy_id WHERE p.lab_id = %s AND p.state = %s GROUP BY p.node_id, o.key) f "
    "ON f.copy_id = s.copy_id AND f.key = s.key GROUP BY s.copy_id) counted "
    "ON counted.copy_id = c.id WHERE c.lab_id = %s AND c.state = %s AND c.own_bytes IS NOT NULL"
)


@dataclass(frozen=True)
class KindTotal:
    """Stored bytes of a kind and a project (None: no project), each content counted once, as is
    each file that several artifacts share.
    """

    kind: str
    project_id: int | None
    artifacts: int
    bytes: int


def totals_by_kind(lab: Lab) -> list[KindTotal]:
    """Return the stored bytes of a lab by kind and project: the first present copy of each
    artifact, with shared files counted once. Two queries.
    """
    rows = fetch_rows(
        f"SELECT a.kind, a.project_id, COUNT(*) AS artifacts, SUM(a.bytes / {_PART}) AS high, "
        f"SUM(a.bytes %% {_PART}) AS low FROM artifacts_artifact a WHERE a.lab_id = %s AND EXISTS "
        "(SELECT 1 FROM artifacts_copy c WHERE c.lab_id = %s AND c.state = %s AND c.artifact_id = "
        "a.id) "
        "GROUP BY a.kind, a.project_id ORDER BY a.kind, a.project_id",
        [lab.pk, lab.pk, CopyState.PRESENT.value],
    )
    first = (
        "WHERE NOT EXISTS (SELECT 1 FROM artifacts_copy b WHERE b.artifact_id = e.artifact_id AND "
        "b.state = %s AND b.id < e.id)"
    )
    excess = _excess_bytes(lab, ("kind", "project_id"), first, [CopyState.PRESENT.value])
    return [
        KindTotal(
            row["kind"],
            row["project_id"],
            row["artifacts"],
            row["high"] * _PART + row["low"] - excess.get((row["kind"], row["project_id"]), 0),
        )
        for row in rows
    ]


def _excess_bytes(
    lab: Lab, columns: Sequence[str], condition: str = "", parameters: Sequence[object] = ()
) -> dict[tuple[Any, ...], int]:
    """Return by how much the sizes of present copies exceed their space, by ``columns``."""
    groups, place = ", ".join(columns), [lab.pk, CopyState.PRESENT.value]
    rows = fetch_rows(
        f"SELECT {groups}, SUM(excess / {_PART}) AS high, SUM(excess %% {_PART}) AS low "
        f"FROM ({_EXCESS}) e {condition} GROUP BY {groups}",
        [*place, *place, *parameters],
    )
    return {
        tuple(row[column] for column in columns): row["high"] * _PART + row["low"] for row in rows
    }


def count_artifacts(lab: Lab) -> int:
    """Return the number of artifacts of a lab without tombstones."""
    return Artifact.objects.filter(lab=lab).exclude(state=ArtifactState.TOMBSTONE).count()


def pue_by_node(lab: Lab, hour: int) -> dict[int, int]:
    """Return {node id: PUE (ppm) of its site in a UTC hour}. Nodes without a PUE are left out.
    Three queries.
    """
    places = site_facts_of(lab)
    at_site = {
        site: pue
        for site, history in places.pues.items()
        if (pue := value_at(history, hour)) is not None
    }
    sites = {node: value_at(history, hour) for node, history in places.placements.items()}
    return {
        node: at_site[site] for node, site in sites.items() if site is not None and site in at_site
    }


def storage_lots(lab: Lab, hour: int) -> list[StorageLot]:
    """Return the present copies of a lab as lots by project, medium and node, with PUE and factor
    of a UTC hour. Shared files are counted at one copy. Six queries.
    """
    pues, applied = pue_by_node(lab, hour), applied_factors(lab, lab.basis, hour)
    rows = fetch_rows(
        f"SELECT a.project_id, c.medium, c.node_id, COUNT(*) AS copies, SUM(a.bytes / {_PART}) AS "
        "high, "
        f"SUM(a.bytes %% {_PART}) AS low FROM artifacts_copy c JOIN artifacts_artifact a ON a.id "
        "= c.artifact_id "
        "WHERE c.lab_id = %s AND c.state = %s GROUP BY a.project_id, c.medium, c.node_id "
        "ORDER BY a.project_id, c.medium, c.node_id",
        [lab.pk, CopyState.PRESENT.value],
    )
    columns = ("project_id", "medium", "node_id")
    excess = _excess_bytes(lab, columns)
    return [
        StorageLot(
            row["project_id"],
            row["medium"],
            row["node_id"],
            row["copies"],
            row["high"] * _PART
            + row["low"]
            - excess.get(tuple(row[column] for column in columns), 0),
            pues.get(row["node_id"]),
            factor_ug(applied.get(row["node_id"])),
        )
        for row in rows
    ]


def factor_ug(applied: AppliedFactor | None) -> int | None:
    """Return the applied emission factor (µg per kWh), None if there is none."""
    return applied.factor.ug_per_kwh if applied is not None and applied.factor is not None else None


def stored_copies(
    artifact: Artifact, copies: Iterable[Copy], hour: int
) -> list[StoredBytes | None]:
    """Return the stored bytes of each copy in a UTC hour, as counted in totals; None for a copy
    that is not present. Four queries.
    """
    pues = pue_by_node(artifact.lab, hour)
    condition, parameters = "WHERE artifact_id = %s", [artifact.pk]
    excess = _excess_bytes(artifact.lab, ("id",), condition, parameters)
    return [
        StoredBytes(
            copy.medium,
            artifact.bytes - excess.get((copy.pk,), 0),
            pues.get(copy.node_id) if copy.node_id else None,
        )
        if copy.state == CopyState.PRESENT
        else None
        for copy in copies
    ]
