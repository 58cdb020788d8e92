"""Declared artifacts as messages between processes. Pure."""

from __future__ import annotations

import os
import re
from typing import Any, Dict, List, Mapping, Union

from labcarbon_collect.redaction import is_secret_name, mask_argument
from labcarbon_collect.scan.description import clean_facts, one_line

PRODUCED, USED, INITIALISED_FROM, DISTILLED_FROM = (
    "produced",
    "used",
    "initialised_from",
    "distilled_from",
)
KINDS = ("checkpoint", "model", "dataset", "log", "other")
ArtifactRef = Union[str, "os.PathLike[str]"]
_DIGEST = re.compile(r"^[0-9a-f]{64}\Z")
_MAX_NAME_CHARS, _MAX_LICENCE_CHARS = 255, 100


def declaration(
    role: str,
    artifact_ref: ArtifactRef,
    *,
    name: str = "",
    kind: str = "",
    licence: str = "",
    facts: Any = None,
) -> Dict[str, Any]:
    """Return the message for a declared artifact.

    ``artifact_ref``: a path, or the artifact's digest (64 hex digits). Raises TypeError and
    ValueError; the text says what is wrong.
    """
    text = os.fspath(artifact_ref)
    if not isinstance(text, str) or not text:
        raise ValueError("it is neither a path nor a digest")
    if "\0" in text:
        raise ValueError("a path cannot contain NUL")
    if kind and kind not in KINDS:
        raise ValueError(f"{kind!r} is not a kind: {', '.join(KINDS)}")
    fields: Dict[str, Any] = {
        "role": role,
        "name": one_line(mask_argument(str(name)), _MAX_NAME_CHARS) if name else "",
    }
    if _DIGEST.match(text):
        return {**fields, "digest": text}
    named: Mapping[str, Any] = facts or {}
    clean = clean_facts((key, value) for key, value in named.items() if not is_secret_name(key))
    return {
        **fields,
        "path": os.path.abspath(text),
        "kind": kind,
        "licence": one_line(str(licence), _MAX_LICENCE_CHARS),
        "facts": clean,
    }


def title(artifact: Mapping[str, Any]) -> str:
    """Return a short name of a declared artifact for messages."""
    return str(
        artifact.get("name")
        or os.path.basename(artifact.get("path", "").rstrip("/"))
        or artifact.get("digest", "")[:12]
        or "/"
    )


MAX_DAEMON_ROWS = 100
# No paths: any user of this machine could send the daemon a path of somebody else.
_FORWARDED_KEYS = (
    "digest",
    "name",
    "bytes",
    "form",
    "files",
    "kind",
    "format",
    "payload",
    "licence",
    "facts",
)
_ROLES = (PRODUCED, USED, INITIALISED_FROM, DISTILLED_FROM)


def forwardable_rows(artifacts: object, run: str) -> List[Dict[str, Any]]:
    """Return the artifacts of a client's run as the daemon forwards them: for that run only, and
    without paths.

    The server checks the other fields. Raises ValueError.
    """
    if not isinstance(artifacts, list) or len(artifacts) > MAX_DAEMON_ROWS:
        raise ValueError(f"artifacts must be a list of at most {MAX_DAEMON_ROWS}")
    rows = []
    for artifact in artifacts:
        if not isinstance(artifact, dict):
            raise ValueError("an artifact must be an object")
        run_edges = artifact.get("runs")
        roles = (
            [edge.get("role") for edge in run_edges if isinstance(edge, dict)]
            if isinstance(run_edges, list)
            else []
        )
        edges = [{"run": run, "role": role} for role in roles if role in _ROLES]
        rows.append(
            {**{key: artifact[key] for key in _FORWARDED_KEYS if key in artifact}, "runs": edges}
        )
    return rows
