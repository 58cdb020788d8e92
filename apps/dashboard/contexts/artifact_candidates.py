"""What could be adapted instead of an artifact, or beside it, as its page shows it."""

from dataclasses import dataclass

from apps.artifacts.choices import Kind
from apps.artifacts.models import Artifact
from apps.artifacts.reuse.candidates import Candidate, candidates_of
from apps.dashboard.artifacts.footprint import run_query
from apps.dashboard.figures import Fig, Units, column_units, fig
from apps.dashboard.formatting import size

MOST_SHOWN = 5
_KINDS = (Kind.MODEL, Kind.CHECKPOINT, Kind.DATASET)


@dataclass(frozen=True)
class CandidateLine:
    """A candidate; ``energy`` of the run that made it, None: not measured."""

    each: Candidate
    size: str
    energy: Fig | None


@dataclass(frozen=True)
class CandidateLines:
    """The likeliest few. ``is_known``: whether anything is known of the artifact that another could share."""

    rows: list[CandidateLine]
    units: Units
    is_known: bool
    is_of_data: bool


def candidate_lines(artifact: Artifact) -> CandidateLines | None:
    """Return what could be adapted; None for what nobody adapts."""
    if artifact.kind not in _KINDS:
        return None
    found = candidates_of(artifact, most=MOST_SHOWN)
    units = column_units(each.span[0] for each in found.listed if each.span)
    rows = [CandidateLine(each, size(each.found.artifact.bytes), _energy(artifact, each, units)) for each in found.listed]
    return CandidateLines(rows, units, found.is_known, artifact.kind == Kind.DATASET)


def _energy(artifact: Artifact, each: Candidate, units: Units) -> Fig | None:
    if each.span is None or each.found.maker is None:
        return None
    return fig(run_query(artifact.lab, each.found.maker.uuid, each.span), each.span[0], units.energy)
