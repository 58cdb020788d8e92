"""Drawing and CSV of an artifact's lineage. Pure layout: generations from left to right, the
nearest first.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from django.urls import reverse

from apps.accounts.models import Lab
from apps.artifacts.choices import LineageRole, LineageSource
from apps.artifacts.models import Artifact, LineageEdge
from apps.artifacts.selectors import Lineage, load_lineage
from apps.dashboard.artifacts.model_footprint import load_spans

MAX_GENERATIONS, MAX_PER_GENERATION = 6, 8
WIDTH, HEIGHT, COLUMN_WIDTH, ROW_HEIGHT, EDGE_DROP = 172, 44, 206, 58, 48
Key = tuple[str, int]  # 'artifact' or 'run', number


@dataclass(frozen=True)
class GraphNode:
    """A run or an artifact with its position."""

    kind: str
    href: str
    name: str
    label: str
    x: int
    y: int
    is_subject: bool

    @property
    def middle(self) -> int:
        return self.y + HEIGHT // 2


@dataclass(frozen=True)
class GraphEdge:
    """An edge: path, class and label."""

    path: str
    css_class: str
    label: str


@dataclass(frozen=True)
class Graph:
    """A drawing. ``steps``: the same by generation, for narrow screens. ``hidden_count``: nodes
    that are not drawn.
    """

    nodes: list[GraphNode]
    lines: list[GraphEdge]
    steps: list[list[GraphNode]]
    width: int
    height: int
    hidden_count: int


@dataclass
class _Neighbours:
    """Predecessors and successors of each node."""

    before: dict[Key, list[Key]] = field(default_factory=dict)
    after: dict[Key, list[Key]] = field(default_factory=dict)

    def add(self, first: Key, then: Key) -> None:
        self.after.setdefault(first, []).append(then)
        self.before.setdefault(then, []).append(first)


def build_graph(artifact: Artifact, lineage: Lineage) -> Graph | None:
    """Return the drawing, None for an artifact without runs."""
    if not lineage.edges:
        return None
    start: Key = ("artifact", artifact.pk)
    columns = _columns(start, _neighbours(lineage.edges))
    first_column = min(columns.values())
    steps: list[list[Key]] = [[] for _ in range(max(columns.values()) - first_column + 1)]
    for key, column in columns.items():
        steps[column - first_column].append(key)
    tallest = max(map(len, steps))
    placed = {
        key: _graph_node(
            lineage,
            key,
            key == start,
            1 + COLUMN_WIDTH * i,
            1 + ROW_HEIGHT * j + ROW_HEIGHT * (tallest - len(step)) // 2,
        )
        for i, step in enumerate(steps)
        for j, key in enumerate(step)
    }
    return Graph(
        nodes=list(placed.values()),
        lines=[line for edge in lineage.edges if (line := _graph_edge(edge, placed))],
        steps=[[placed[key] for key in step] for step in steps],
        width=COLUMN_WIDTH * (len(steps) - 1) + WIDTH + 2,
        height=ROW_HEIGHT * (tallest - 1) + HEIGHT + EDGE_DROP // 2,
        hidden_count=len(lineage.artifacts) + len(lineage.runs) - len(placed),
    )


def _ends(edge: LineageEdge) -> tuple[Key, Key]:
    run, artifact = ("run", edge.run_id), ("artifact", edge.artifact_id)
    return (run, artifact) if edge.role == LineageRole.PRODUCED else (artifact, run)


def _neighbours(edges: Iterable[LineageEdge]) -> _Neighbours:
    net = _Neighbours()
    for edge in edges:
        net.add(*_ends(edge))
    return net


def _columns(start: Key, net: _Neighbours) -> dict[Key, int]:
    """Return the column of each visible node: predecessors of ``start`` are to its left."""
    after = _levels(start, net.after)
    before = _levels(start, net.before)
    return {**after, **{key: -level for key, level in before.items()}}


def _levels(start: Key, nexts: Mapping[Key, list[Key]]) -> dict[Key, int]:
    """Return the distance of each node from ``start`` along the longest visible path; in a cycle
    the shortest.
    """
    near = _visible_distances(start, nexts)
    drawn = {
        key: [each for each in nexts.get(key, []) if each in near and each != start] for key in near
    }
    waiting = Counter(each for listed in drawn.values() for each in listed)
    levels, queue = {start: 0}, [start]
    while queue:
        key = queue.pop(0)
        for each in drawn[key]:
            levels[each] = max(levels.get(each, 0), levels[key] + 1)
            waiting[each] -= 1
            if not waiting[each]:
                queue.append(each)
    return {key: levels.get(key, distance) for key, distance in near.items()}


def _visible_distances(start: Key, nexts: Mapping[Key, list[Key]]) -> dict[Key, int]:
    """Return the distance of visible nodes: a few of each generation, those with successors
    first.
    """
    near, wave = {start: 0}, [start]
    for distance in range(1, MAX_GENERATIONS + 1):
        fresh = dict.fromkeys(
            each for key in wave for each in nexts.get(key, []) if each not in near
        )
        wave = sorted(fresh, key=lambda each: not nexts.get(each))[:MAX_PER_GENERATION]
        near.update(dict.fromkeys(wave, distance))
    return near


def _graph_node(lineage: Lineage, key: Key, is_it: bool, x: int, y: int) -> GraphNode:
    kind, number = key
    if kind == "run":
        run = lineage.runs[number]
        return GraphNode(
            kind,
            reverse("run", args=[run.uuid]),
            run.name,
            f"run, {run.get_state_display().lower()}",
            x,
            y,
            is_it,
        )
    artifact = lineage.artifacts[number]
    label = (
        f"{artifact.get_kind_display().lower()}"
        f"{', promoted' if artifact.state == 'promoted' else ''}"
    )
    return GraphNode(
        kind, reverse("artifact", args=[artifact.digest]), artifact.name, label, x, y, is_it
    )


def _graph_edge(edge: LineageEdge, placed: Mapping[Key, GraphNode]) -> GraphEdge | None:
    first, then = (placed.get(key) for key in _ends(edge))
    if first is None or then is None:
        return None
    start, end = first.x + WIDTH, then.x
    bend = max(24, abs(end - start) // 2)
    under = EDGE_DROP if abs(end - start) > COLUMN_WIDTH else 0  # below the nodes between them
    curve = f"C{start + bend} {first.middle + under} {end - bend} {then.middle + under}"
    path = f"M{start} {first.middle}{curve} {end} {then.middle}"
    source_text = "" if edge.source == LineageSource.REPORTED else f", {edge.get_source_display()}"
    return GraphEdge(path, edge.role.replace("_", "-"), f"{edge.get_role_display()}{source_text}")


LINEAGE_COLUMNS = (
    "run", "run_name", "run_state", "role", "known", "artifact", "artifact_name", "artifact_kind",
    "artifact_bytes", "led_to_it", "energy_mj", "emission_ug_co2e", "whole_lineage",
)  # fmt: skip


def lineage_csv_rows(lab: Lab, artifact: Artifact) -> Iterator[tuple[Any, ...]]:
    """Yield the edges of an artifact's lineage. Empty: not measured, or no factor.

    ``led_to_it``: the run's energy is part of the artifact's footprint. A run has one row for each
    edge, and counts once.
    """
    lineage = load_lineage(artifact)
    spans = load_spans(lab, list(lineage.runs.values()))
    for edge in lineage.edges:
        run, end = lineage.runs[edge.run_id], lineage.artifacts[edge.artifact_id]
        span = spans.get(run.uuid)
        figure = span[0] if span else None
        emission = (
            None
            if figure is None or (figure.without_factor_mj and not figure.emission_ug)
            else figure.emission_ug
        )
        yield (
            run.uuid,
            run.name,
            run.state,
            edge.role,
            edge.source,
            end.digest,
            end.name,
            end.kind,
            end.bytes,
            "yes" if run.pk in lineage.producing_runs else "no",
            figure.energy_mj if figure else None,
            emission,
            "no" if lineage.is_cut else "yes",
        )
