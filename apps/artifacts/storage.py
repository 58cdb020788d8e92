"""Queries of stored bytes by kind, project, medium and node, with PUE and factor. Aggregated in
SQL.
"""

from collections.abc import Iterable
from dataclasses import dataclass

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


@dataclass(frozen=True)
class KindTotal:
    """Stored bytes of a kind and a project (None: no project), each content counted once."""

    kind: str
    project_id: int | None
    artifacts: int
    bytes: int


def totals_by_kind(lab: Lab) -> list[KindTotal]:
    """Return the stored bytes of a lab by kind and project: artifacts with a present copy. One
    query.
    """
    rows = fetch_rows(
        f"SELECT a.kind, a.project_id, COUNT(*) AS artifacts, SUM(a.bytes / {_PART}) AS high, "
        f"SUM(a.bytes %% {_PART}) AS low FROM artifacts_artifact a WHERE a.lab_id = %s AND EXISTS "
        "(SELECT 1 FROM artifacts_copy c WHERE c.lab_id = %s AND c.state = %s AND c.artifact_id = "
        "a.id) "
        "GROUP BY a.kind, a.project_id ORDER BY a.kind, a.project_id",
        [lab.pk, lab.pk, CopyState.PRESENT.value],
    )
    return [
        KindTotal(
            row["kind"], row["project_id"], row["artifacts"], row["high"] * _PART + row["low"]
        )
        for row in rows
    ]


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
    of a UTC hour. Five queries.
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
    return [
        StorageLot(
            row["project_id"],
            row["medium"],
            row["node_id"],
            row["copies"],
            row["high"] * _PART + row["low"],
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
    """Return the stored bytes of each copy in a UTC hour, None for a copy that is not present.
    Three queries.
    """
    pues = pue_by_node(artifact.lab, hour)
    return [
        StoredBytes(copy.medium, artifact.bytes, pues.get(copy.node_id) if copy.node_id else None)
        if copy.state == CopyState.PRESENT
        else None
        for copy in copies
    ]
