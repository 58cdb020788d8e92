"""The lineage of an artifact as lines of a CSV: an edge a line, with what its run used."""

from collections.abc import Iterator
from typing import Any

from apps.accounts.models import Lab
from apps.artifacts.models import Artifact
from apps.artifacts.selectors import lineage
from apps.dashboard.artifacts.footprint import spans_of

LINEAGE_HEAD = (
    "run", "run_name", "run_state", "role", "known", "artifact", "artifact_name", "artifact_kind", "artifact_bytes",
    "led_to_it", "energy_mj", "emission_ug_co2e", "whole_lineage",
)  # fmt: skip


def lineage_lines(lab: Lab, artifact: Artifact) -> Iterator[tuple[Any, ...]]:
    """Yield the edges of an artifact's lineage. Empty: not measured, or no factor. ``led_to_it``: whether the run is one of
    those whose energy the artifact's life is the sum of; a run stands once for each edge, and counts once."""
    found = lineage(artifact)
    spans = spans_of(lab, list(found.runs.values()))
    for edge in found.edges:
        run, end = found.runs[edge.run_id], found.artifacts[edge.artifact_id]
        span = spans.get(run.uuid)
        figure = span[0] if span else None
        emission = None if figure is None or (figure.without_factor_mj and not figure.emission_ug) else figure.emission_ug
        yield (
            run.uuid, run.name, run.state, edge.role, edge.way, end.digest, end.name, end.kind, end.bytes,
            "yes" if run.pk in found.makers else "no", figure.energy_mj if figure else None, emission,
            "no" if found.is_cut else "yes",
        )  # fmt: skip
