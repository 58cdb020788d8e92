"""The page of one artifact: content, copies, storage, candidates, lineage and footprint."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from apps.accounts.models import AuditEntry, Lab
from apps.artifacts.choices import MODELS, AuditAction, CopyState, Kind, LineageRole
from apps.artifacts.costs import retraining_costs
from apps.artifacts.holds import holds_on_artifact
from apps.artifacts.models import Artifact, Copy, Hold, LineageEdge, Pin
from apps.artifacts.reuse.candidates import Candidate, find_candidates
from apps.artifacts.selectors import MAX_LINEAGE, load_lineage
from apps.artifacts.storage import stored_copies
from apps.artifacts.storage_model import storage_energy, total_storage_energy
from apps.core.units import hour_of
from apps.dashboard.artifacts.artifact_runs import RunRows, run_rows, visible_edges
from apps.dashboard.artifacts.lineage_graph import Graph, build_graph
from apps.dashboard.artifacts.model_footprint import (
    Footprint,
    lineage_footprint,
    load_spans,
    run_query,
)
from apps.dashboard.artifacts.storage_cost import (
    MediumRow,
    StorageEnergyText,
    absence_text,
    break_even_text,
    media_rows,
    storage_energy_text,
)
from apps.dashboard.figures import Projected, Quantity, Units, column_units, estimated, quantity
from apps.dashboard.formatting import grouped, pue, size
from apps.runs.models import Run

MAX_CANDIDATES = 5
_KINDS = (Kind.MODEL, Kind.CHECKPOINT, Kind.DATASET)


@dataclass(frozen=True)
class CandidateRow:
    """A candidate. ``energy``: of the run that produced it, None if not measured."""

    candidate: Candidate
    size: str
    energy: Quantity | None


@dataclass(frozen=True)
class CandidateRows:
    """The most similar candidates. ``is_known``: the artifact has terms to compare."""

    rows: list[CandidateRow]
    units: Units
    is_known: bool
    is_dataset: bool


def candidate_rows(artifact: Artifact) -> CandidateRows | None:
    """Return fine-tuning candidates; None for kinds that cannot be fine-tuned."""
    if artifact.kind not in _KINDS:
        return None
    result = find_candidates(artifact, limit=MAX_CANDIDATES)
    units = column_units(each.span[0] for each in result.candidates if each.span)
    rows = [
        CandidateRow(each, size(each.model.artifact.bytes), _energy(artifact, each, units))
        for each in result.candidates
    ]
    return CandidateRows(rows, units, result.is_known, artifact.kind == Kind.DATASET)


def _energy(artifact: Artifact, each: Candidate, units: Units) -> Quantity | None:
    if each.span is None or each.model.producing_run is None:
        return None
    return quantity(
        run_query(artifact.lab, each.model.producing_run.uuid, each.span),
        each.span[0],
        units.energy,
    )


MAX_COPIES = 100


@dataclass(frozen=True)
class CopyDetail:
    """A copy and the energy of a year of storage (None: unknown). ``pue``: '' if unknown."""

    copy: Copy
    energy: Projected | None
    pue: str


@dataclass(frozen=True)
class RetrainingRow:
    """The retraining cost: of several producing runs the one with the least energy."""

    run: Run
    energy: Quantity
    value_mj: int
    artifact_count: int  # produced by the run


@dataclass(frozen=True)
class ArtifactPage:
    """One artifact. ``has_producer``: a model with a known producing run. ``absence_text``: text
    where no copy is present.

    ``limit``: number of runs and artifacts of the lineage that are read at once.
    """

    artifact: Artifact
    size: str
    aliases: list[tuple[str, str, str]]
    facts: list[tuple[str, str]]
    tags: list[tuple[str, str]]
    has_producer: bool
    pin: Pin | None
    holds: list[Hold]
    copies: list[CopyDetail]
    copies_more: int
    present: int
    storage: StorageEnergyText
    absence_text: str
    retraining: RetrainingRow | None
    reuse: str
    media: list[MediumRow]
    runs: RunRows
    candidates: CandidateRows | None
    graph: Graph | None
    is_cut: bool
    limit: int
    footprint: Footprint | None
    undo: AuditEntry | None


def artifact_page(*, lab: Lab, artifact: Artifact, done: int | None, now: int) -> ArtifactPage:
    """Return one artifact. ``done``: the audit entry that the visitor can undo.

    The number of queries is independent of its copies. Its lineage adds two for each 500 producing
    runs.
    """
    lineage = load_lineage(artifact)
    edges, number = visible_edges(artifact)
    producers = [lineage.runs[pk] for pk in lineage.producing_runs]
    spans = load_spans(
        lab, list({run.uuid: run for run in (*producers, *(edge.run for edge in edges))}.values())
    )
    own = {edge.run_id for edge in edges if edge.role == LineageRole.PRODUCED}
    copies, present, energy = _copies(artifact, hour_of(now))
    retraining = _retraining_row(lab, artifact)
    return ArtifactPage(
        artifact=artifact,
        size=size(artifact.bytes),
        aliases=_aliases(artifact),
        facts=[
            (name.replace("_", " "), _fact(value)) for name, value in sorted(artifact.facts.items())
        ],
        tags=sorted((str(name), str(value)) for name, value in artifact.tags.items()),
        has_producer=bool(own) and artifact.kind in MODELS,
        pin=artifact.pins.filter(ended_us=None).select_related("by").first(),
        holds=holds_on_artifact(artifact, now),
        copies=copies[:MAX_COPIES],
        copies_more=max(0, len(copies) - MAX_COPIES),
        present=present,
        storage=storage_energy_text(energy),
        absence_text="" if present else absence_text([line.copy.state for line in copies]),
        retraining=retraining,
        reuse=break_even_text(energy, retraining.value_mj) if retraining and present else "",
        media=media_rows(),
        runs=run_rows(lab, edges, number, spans),
        candidates=candidate_rows(artifact),
        graph=build_graph(artifact, lineage),
        is_cut=lineage.is_cut,
        limit=MAX_LINEAGE,
        footprint=lineage_footprint(lab, lineage, own, spans) if lineage.producing_runs else None,
        undo=_undo_entry(artifact, done),
    )


def _aliases(artifact: Artifact) -> list[tuple[str, str, str]]:
    """Return the digests with label and element id."""
    own = "SHA-256" if artifact.form == "file" else "SHA-256 of the folder manifest"
    payload = [("SHA-256 of the weights", artifact.payload)] if artifact.payload else []
    others = [
        (str(each.get_algorithm_display()), each.value)
        for each in artifact.aliases.order_by("algorithm")
    ]
    listed = [(own, artifact.digest), *payload, *others]
    return [(label, f"digest-{i}", value) for i, (label, value) in enumerate(listed)]


def _fact(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "unknown"}[value]
    return (
        grouped(value)
        if isinstance(value, int)
        else f"{value:.6g}"
        if isinstance(value, float)
        else str(value)
    )


def _copies(artifact: Artifact, hour: int) -> tuple[list[CopyDetail], int, Any]:
    """Return the copies, present ones first, the number of present ones, and the sum of their
    storage energy.
    """
    listed = list(
        Copy.objects.filter(artifact=artifact).select_related("node").order_by("path", "pk")
    )
    listed.sort(key=lambda copy: copy.state != CopyState.PRESENT)
    lots = stored_copies(artifact, listed, hour)
    lines = []
    for copy, lot in zip(listed, lots, strict=True):
        year = storage_energy(lot) if lot else None
        energy = estimated(year.energy_mj) if year is not None and year.is_known else None
        lines.append(
            CopyDetail(copy, energy, pue(lot.pue_ppm) if lot and lot.pue_ppm is not None else "")
        )
    present = [lot for lot in lots if lot is not None]
    return lines, len(present), total_storage_energy(present)


def _retraining_row(lab: Lab, artifact: Artifact) -> RetrainingRow | None:
    """Return the retraining cost as in cleanup plans; None if no producing run was measured."""
    cost = retraining_costs(lab, [artifact.pk]).get(artifact.pk)
    if cost is None:
        return None
    artifact_count = LineageEdge.objects.filter(run=cost.run, role=LineageRole.PRODUCED).count()
    return RetrainingRow(
        cost.run,
        quantity(run_query(lab, cost.run.uuid, cost.span), cost.span[0]),
        cost.energy_mj,
        artifact_count,
    )


def _undo_entry(artifact: Artifact, done: int | None) -> AuditEntry | None:
    if done is None:
        return None
    conditions: Mapping[str, Any] = {
        "lab": artifact.lab,
        "action": AuditAction.DESCRIBED,
        "subject": artifact.digest,
    }
    return AuditEntry.objects.filter(pk=done, **conditions).first()
