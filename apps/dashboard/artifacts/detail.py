"""One artifact: what it is, where it lies, what keeping it takes, what it came of and what came of it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from apps.accounts.models import AuditEntry, Lab
from apps.artifacts.choices import MODELS, Act, CopyState, Kind, Role
from apps.artifacts.costs import making_again
from apps.artifacts.holds import holds_of
from apps.artifacts.models import Artifact, Copy, Hold, LineageEdge, Pin
from apps.artifacts.reuse.candidates import Candidate, candidates_of
from apps.artifacts.selectors import MOST_LINEAGE, lineage
from apps.artifacts.storage import lying_each
from apps.artifacts.storage_model import keeping, kept
from apps.core.units import hour_of
from apps.dashboard.artifacts.footprint import Life, life_of, run_query, spans_of
from apps.dashboard.artifacts.lineage import Graph, graph_of
from apps.dashboard.artifacts.runs import RunLines, edges_of, run_lines
from apps.dashboard.artifacts.storage_cost import KeepingShown, MediumShown, keeping_shown, media, not_kept, reuse_told
from apps.dashboard.figures import Fig, Units, WouldBe, column_units, estimated, fig
from apps.dashboard.formatting import grouped, pue, size
from apps.runs.models import Run

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


MOST_COPIES = 100


@dataclass(frozen=True)
class CopyLine:
    """A copy, and what keeping it for a year takes (None: nobody knows). ``pue``: '' where none is known."""

    copy: Copy
    energy: WouldBe | None
    pue: str


@dataclass(frozen=True)
class Again:
    """What making an artifact again would take: what the run took that made it, of several the one that took least."""

    run: Run
    energy: Fig
    value_mj: int
    made: int  # artifacts that the run made


@dataclass(frozen=True)
class ArtifactPage:
    """One artifact. ``is_of_a_run``: a model that a run is known to have made. ``not_kept``: in words, where no copy is
    there. ``most``: how many runs and artifacts of its lineage are read at once."""

    artifact: Artifact
    size: str
    aliases: list[tuple[str, str, str]]
    facts: list[tuple[str, str]]
    tags: list[tuple[str, str]]
    tags_text: str
    is_of_a_run: bool
    pin: Pin | None
    holds: list[Hold]
    copies: list[CopyLine]
    copies_more: int
    present: int
    keeping: KeepingShown
    not_kept: str
    again: Again | None
    reuse: str
    media: list[MediumShown]
    runs: RunLines
    candidates: CandidateLines | None
    graph: Graph | None
    is_cut: bool
    most: int
    life: Life | None
    kinds: list[tuple[str, str]]
    projects: list[tuple[str, str]]
    undo: AuditEntry | None


def artifact_page(*, lab: Lab, artifact: Artifact, done: int | None, now: int) -> ArtifactPage:
    """Return one artifact. The number of queries does not depend on its copies, and on its lineage only by two more for
    each 500 runs that led to it. ``done``: the entry of the audit log that a visitor may take back."""
    found = lineage(artifact)
    edges, number = edges_of(artifact)
    makers = [found.runs[pk] for pk in found.makers]
    spans = spans_of(lab, list({run.uuid: run for run in (*makers, *(edge.run for edge in edges))}.values()))
    own = {edge.run_id for edge in edges if edge.role == Role.PRODUCED}
    copies, present, it = _copies(artifact, hour_of(now))
    again = _again(lab, artifact)
    return ArtifactPage(
        artifact=artifact,
        size=size(artifact.bytes),
        aliases=_aliases(artifact),
        facts=[(name.replace("_", " "), _fact(value)) for name, value in sorted(artifact.facts.items())],
        tags=sorted((str(name), str(value)) for name, value in artifact.tags.items()),
        tags_text="\n".join(f"{name}={value}" for name, value in sorted(artifact.tags.items())),
        is_of_a_run=bool(own) and artifact.kind in MODELS,
        pin=artifact.pins.filter(ended_us=None).select_related("by").first(),
        holds=holds_of(artifact, now),
        copies=copies[:MOST_COPIES],
        copies_more=max(0, len(copies) - MOST_COPIES),
        present=present,
        keeping=keeping_shown(it),
        not_kept="" if present else not_kept([line.copy.state for line in copies]),
        again=again,
        reuse=reuse_told(it, again.value_mj) if again and present else "",
        media=media(),
        runs=run_lines(lab, edges, number, spans),
        candidates=candidate_lines(artifact),
        graph=graph_of(artifact, found),
        is_cut=found.is_cut,
        most=MOST_LINEAGE,
        life=life_of(lab, found, own, spans) if found.makers else None,
        kinds=list(Kind.choices),
        projects=list(lab.projects.order_by("name", "pk").values_list("slug", "name")),
        undo=_undo(artifact, done),
    )


def _aliases(artifact: Artifact) -> list[tuple[str, str, str]]:
    """Return the digests that find it, each with what it is of and a name on the page."""
    whole = "SHA-256" if artifact.form == "file" else "SHA-256 of the list of its files"
    payload = [("SHA-256 of the weights alone", artifact.payload)] if artifact.payload else []
    others = [(str(each.get_algorithm_display()), each.value) for each in artifact.aliases.order_by("algorithm")]
    listed = [(whole, artifact.digest), *payload, *others]
    return [(words, f"digest-{i}", value) for i, (words, value) in enumerate(listed)]


def _fact(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "not known"}[value]
    return grouped(value) if isinstance(value, int) else f"{value:.6g}" if isinstance(value, float) else str(value)


def _copies(artifact: Artifact, hour: int) -> tuple[list[CopyLine], int, Any]:
    """Return the copies, those that are there first, how many are there, and what keeping them takes: the sum of theirs."""
    listed = list(Copy.objects.filter(artifact=artifact).select_related("node").order_by("path", "pk"))
    listed.sort(key=lambda copy: copy.state != CopyState.PRESENT)
    lots = lying_each(artifact, listed, hour)
    lines = []
    for copy, lot in zip(listed, lots, strict=True):
        year = keeping(lot) if lot else None
        energy = estimated(year.energy_mj) if year is not None and year.known else None
        lines.append(CopyLine(copy, energy, pue(lot.pue_ppm) if lot and lot.pue_ppm is not None else ""))
    there = [lot for lot in lots if lot is not None]
    return lines, len(there), kept(there)


def _again(lab: Lab, artifact: Artifact) -> Again | None:
    """Return what making it again would take, as plans have it; None where no run that made it was measured."""
    found = making_again(lab, [artifact.pk]).get(artifact.pk)
    if found is None:
        return None
    made = LineageEdge.objects.filter(run=found.run, role=Role.PRODUCED).count()
    return Again(found.run, fig(run_query(lab, found.run.uuid, found.span), found.span[0]), found.energy_mj, made)


def _undo(artifact: Artifact, done: int | None) -> AuditEntry | None:
    if done is None:
        return None
    asked: Mapping[str, Any] = {"lab": artifact.lab, "action": Act.DESCRIBED, "subject": artifact.digest}
    return AuditEntry.objects.filter(pk=done, **asked).first()
