"""What a daemon forwards of the artifacts that a client tells of. Pure."""

from __future__ import annotations

from typing import Any, Dict, List

from labcarbon_collect.lineage.messages import DISTILLED_FROM, INITIALISED_FROM, PRODUCED, USED

MOST_ROWS = 100
# Not where it lies: anybody on this machine may tell the daemon of a path that is somebody else's.
_KEPT = ("digest", "name", "bytes", "form", "files", "kind", "format", "payload", "licence", "facts")
_ROLES = (PRODUCED, USED, INITIALISED_FROM, DISTILLED_FROM)


def forwarded(artifacts: object, run: str) -> List[Dict[str, Any]]:
    """What a client tells of one's own run's artifacts, as the daemon forwards it: of that run alone, without places.

    The rest of a row the server checks. Raises ValueError.
    """
    if not isinstance(artifacts, list) or len(artifacts) > MOST_ROWS:
        raise ValueError(f"artifacts must be a list of at most {MOST_ROWS}")
    rows = []
    for each in artifacts:
        if not isinstance(each, dict):
            raise ValueError("an artifact must be an object")
        told = each.get("runs")
        roles = [edge.get("role") for edge in told if isinstance(edge, dict)] if isinstance(told, list) else []
        edges = [{"run": run, "role": role} for role in roles if role in _ROLES]
        rows.append({**{key: each[key] for key in _KEPT if key in each}, "runs": edges})
    return rows
