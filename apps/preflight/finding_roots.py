"""The first runs of chains of duplicates: an original can itself be a duplicate."""

from collections.abc import Collection

from apps.core.sql import fetch_rows, placeholders
from apps.preflight.choices import FindingState, Verdict
from apps.runs.models import Run

MOST_STEPS = 100


def first_runs(run_ids: Collection[int]) -> dict[int, Run]:
    """Return {run id: first run} for those of ``run_ids`` that are themselves duplicates. Dismissed
    findings and near duplicates end a chain. Two queries.
    """
    if not run_ids:
        return {}
    ids = sorted(set(run_ids))
    is_repeat = "f.state <> %s AND f.verdict <> %s"
    values = [FindingState.DISMISSED.value, Verdict.NEAR.value]
    rows = fetch_rows(
        "WITH RECURSIVE chain(run_id, first_id, steps) AS ("
        "SELECT f.run_id, f.of_id, 1 FROM preflight_repeat f "
        f"WHERE f.run_id IN ({placeholders(ids)}) AND {is_repeat} UNION ALL "
        "SELECT c.run_id, f.of_id, c.steps + 1 FROM chain c "
        "JOIN preflight_repeat f ON f.run_id = c.first_id "
        f"WHERE c.steps < {MOST_STEPS} AND {is_repeat}) "
        "SELECT run_id, first_id FROM chain ORDER BY steps",
        [*ids, *values, *values],
    )
    first_ids = {row["run_id"]: row["first_id"] for row in rows}  # the last step remains
    runs = Run.objects.in_bulk(set(first_ids.values()))
    return {run_id: runs[first_id] for run_id, first_id in first_ids.items()}
