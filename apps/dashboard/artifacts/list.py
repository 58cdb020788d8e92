"""The board of artifacts: what is kept, what keeping takes, and the list."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.db.models import Count, Min

from apps.accounts.models import Lab
from apps.artifacts.choices import ArtifactState, CopyState, Kind, Medium
from apps.artifacts.models import Artifact, Copy, Pin
from apps.artifacts.search import Search
from apps.artifacts.searching import metric_values
from apps.core.clock import utc
from apps.core.errors import InvalidInput
from apps.dashboard.artifacts.summary import NO_PROJECT, Holdings, holdings
from apps.dashboard.contexts.artifact_filters import COPIES, FILTERS, LATEST, SORTS, Asked, Drop, artifacts_filtered, to_drop
from apps.dashboard.formatting import size
from apps.dashboard.runs.list import Sort
from apps.runs.metric_summary import less_is_better

PAGE_ROWS = 50
# Filters that the form folds away.
MORE = (
    "architecture", "base_model", "data", "metric", "metric_min", "metric_max", "bytes_min", "bytes_max", "licence",
    "medium", "format", "copies", "pinned",
)  # fmt: skip
CHUNK = 2000
_COUNTED = (CopyState.PRESENT, CopyState.MISSING, CopyState.CORRUPT)  # as the CSV has them


@dataclass(frozen=True)
class ArtifactRow:
    """An artifact in a list, with how many of its copies are in which state and where one lies ('' where nobody told).
    ``value``: of the metric asked for."""

    artifact: Artifact
    size: str
    copies: Mapping[str, int]
    path: str
    pinned: str  # why, '' where it is not
    value: float | None = None

    @property
    def folder(self) -> str:
        """The end of the way to the folder it lies in."""
        return end_of(self.path.rpartition("/")[0])

    @property
    def present(self) -> int:
        return self.copies.get(CopyState.PRESENT, 0)

    @property
    def missing(self) -> int:
        return self.copies.get(CopyState.MISSING, 0)

    @property
    def corrupt(self) -> int:
        return self.copies.get(CopyState.CORRUPT, 0)


@dataclass(frozen=True)
class ArtifactsPage:
    """The board. ``holdings`` is None where somebody looks for something: then the list is what was asked."""

    holdings: Holdings | None
    rows: list[ArtifactRow]
    number: int
    first: int
    last: int
    filters: dict[str, str]
    kept_sort: str  # for the form: another order than the usual one
    narrowed: bool
    more: bool
    drops: list[Drop]
    several: bool  # filters leave nothing, and more than one of them is to blame
    media: list[tuple[str, str]]
    kinds: list[tuple[str, str]]
    states: list[tuple[str, str]]
    copies: list[tuple[str, str]]
    formats: list[str]
    projects: list[tuple[str, str]]
    sorts: dict[str, Sort]
    before: str
    after: str
    csv: str
    any_artifacts: bool


def artifacts_page(*, lab: Lab, params: Mapping[str, str], now: int) -> ArtifactsPage:
    """Return the board. The number of queries does not depend on the number of artifacts."""
    asked = artifacts_filtered(lab, params)
    page = _page_number(params.get("page", "1"))
    start = (page - 1) * PAGE_ROWS
    numbers, number = _page_of(asked, start)
    rows = artifact_rows(_whole(numbers), metric_values(numbers, asked.search))
    filters = asked.filters
    drops = [] if number else to_drop(lab, asked)

    def address(**changes: str) -> str:
        return "?" + urlencode({**asked.told, **changes})

    projects = list(lab.projects.order_by("name", "pk"))
    return ArtifactsPage(
        holdings=None if asked.is_narrowed or page > 1 or filters["sort"] != LATEST else holdings(lab, projects, now),
        rows=rows,
        number=number,
        first=start + 1,
        last=start + len(rows),
        filters=filters,
        kept_sort="" if filters["sort"] in (asked.usual_sort, "-metric") else filters["sort"],
        narrowed=asked.is_narrowed,
        more=any(filters[name] for name in MORE),
        drops=drops,
        several=not number and not drops and sum(bool(filters[name]) for name in FILTERS) > 1,
        media=list(Medium.choices),
        kinds=list(Kind.choices),
        states=list(ArtifactState.choices),
        copies=list(COPIES.items()),
        formats=_formats(lab),
        projects=[*((each.slug, each.name) for each in projects), ("~none", NO_PROJECT)],
        sorts={name: _sort(name, asked, address) for name in SORTS},
        before=address(page=str(page - 1)) if page > 1 else "",
        after=address(page=str(page + 1)) if start + len(rows) < number else "",
        csv="/artifacts.csv" + address(),
        any_artifacts=bool(rows) or Artifact.objects.filter(lab=lab).exists(),
    )


def _page_of(asked: Asked, start: int) -> tuple[list[int], int]:
    """Return the numbers on a page, and how many fit. What a search takes long to find is looked for once: to count it would
    take as long again."""
    listed = asked.found.values_list("pk", flat=True)
    if asked.search == Search():
        return list(listed[start : start + PAGE_ROWS]), asked.found.count()
    numbers = list(listed)
    return numbers[start : start + PAGE_ROWS], len(numbers)


def _whole(numbers: Sequence[int]) -> list[Artifact]:
    """Return artifacts in the order of their numbers: to sort numbers is much quicker than to sort all that is known."""
    by_pk = Artifact.objects.select_related("project", "owner").defer("facts", "tags", "note").in_bulk(numbers)
    return [by_pk[number] for number in numbers if number in by_pk]


def _page_number(text: str) -> int:
    if not (text.isascii() and text.isdecimal()) or not 1 <= int(text) <= 10**7:
        raise InvalidInput(f"{text[:20]!r} is not a page.", field="page", hint="Pages count from 1.")
    return int(text)


def _formats(lab: Lab) -> list[str]:
    listed = Artifact.objects.filter(lab=lab).exclude(format="").order_by().values_list("format", flat=True)
    return sorted(listed.distinct())


def _sort(name: str, asked: Asked, address: Any) -> Sort:
    now = {f"-{name}": "descending", name: "ascending"}.get(asked.filters["sort"], "")
    first = name if name in ("name", "metric") else f"-{name}"
    other = {"descending": name, "ascending": f"-{name}"}.get(now, first)
    if name == "metric" and asked.search.metric and not less_is_better(asked.search.metric):
        now = {"ascending": "descending", "descending": "ascending"}.get(now, "")  # the best is the most
    return Sort(address(sort=other), now)


def artifact_rows(artifacts: Sequence[Artifact], values: Mapping[int, float] | None = None) -> list[ArtifactRow]:
    """Return artifacts as rows, with ``values`` of the metric asked for. Two queries."""
    found = _found([each.pk for each in artifacts])
    told = values or {}
    return [
        ArtifactRow(
            each, size(each.bytes), found.copies[each.pk], found.paths.get(each.pk, ""), found.pins.get(each.pk, ""),
            told.get(each.pk),
        )
        for each in artifacts
    ]  # fmt: skip


def end_of(path: str, longest: int = 44) -> str:
    """Return the end of a path, in whole names as far as they fit: models called ``weights.pt`` differ by their folder."""
    if len(path) <= longest:
        return path
    kept = path[-longest + 2 :]
    whole = kept.partition("/")[2]
    return f"…/{whole}" if whole else f"…{kept}"


@dataclass(frozen=True)
class _Found:
    """By artifact: how many of its copies are in which state, where one of them lies (one that is there, if any is), and why
    it is pinned."""

    copies: Mapping[int, Counter[str]]
    paths: Mapping[int, str]
    pins: Mapping[int, str]


def _found(numbers: Sequence[int]) -> _Found:
    """Two queries."""
    counted = Copy.objects.filter(artifact__in=numbers).order_by().values_list("artifact", "state")
    copies: dict[int, Counter[str]] = defaultdict(Counter)
    paths: dict[int, str] = {}
    for artifact, state, number, path in counted.annotate(n=Count("pk"), path_of_one=Min("path")):
        copies[artifact][state] = number
        if state == CopyState.PRESENT or artifact not in paths:
            paths[artifact] = path
    pins = dict(Pin.objects.filter(artifact__in=numbers, ended_us=None).values_list("artifact", "reason"))
    return _Found(copies, paths, pins)


CSV_HEAD = (
    "digest", "name", "kind", "form", "format", "bytes", "files", "state", "project", "owner", "licence", "copies_present",
    "copies_missing", "copies_corrupt", "path", "pinned", "registered_utc", "metric", "metric_value",
)  # fmt: skip
_COLUMNS = (
    "pk", "digest", "name", "kind", "form", "format", "bytes", "files", "state", "project__slug", "owner__username",
    "licence", "registered_us",
)  # fmt: skip


def artifact_lines(asked: Asked) -> Iterator[tuple[Any, ...]]:
    """Yield the lines of the CSV. Four queries for each CHUNK of artifacts at most."""
    numbers = list(asked.found.values_list("pk", flat=True))
    metric = asked.search.metric
    for start in range(0, len(numbers), CHUNK):
        part = numbers[start : start + CHUNK]
        by_pk = {row[0]: row[1:] for row in Artifact.objects.filter(pk__in=part).values_list(*_COLUMNS)}
        found = _found(part)
        values = metric_values(part, asked.search)
        for pk in part:
            if pk in by_pk:
                *told, registered_us = by_pk[pk]
                counted = (found.copies[pk][state] for state in _COUNTED)
                beside = found.paths.get(pk, ""), found.pins.get(pk, "")
                yield (*told, *counted, *beside, utc(registered_us).isoformat(), metric, values.get(pk, ""))
