"""The page of artifacts: stored bytes, storage energy, and the list with its filters."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.db.models import Count, Min, OuterRef, QuerySet, Subquery
from django.db.models.functions import Coalesce
from django.urls import reverse

from apps.accounts.models import Lab
from apps.artifacts.choices import ArtifactState, CopyState, Kind, Medium
from apps.artifacts.models import Artifact, Copy, Pin
from apps.artifacts.search import (
    SEARCH_FIELDS,
    Search,
    metric_values,
    parse_search,
    rank_by_metric,
    search_artifacts,
)
from apps.artifacts.selectors import ArtifactFilter
from apps.core.clock import utc
from apps.core.errors import InvalidInput
from apps.core.text import is_unstorable
from apps.dashboard.artifacts.storage_summary import NO_PROJECT, StorageSummary, storage_summary
from apps.dashboard.formatting import size
from apps.dashboard.runs.runs_page import Sort
from apps.runs.metric_summary import is_lower_better

FILTERS = ("text", "kind", "state", "project", "format", "copies", "pinned", "run", *SEARCH_FIELDS)
SORTS = {
    "registered": "registered_us",
    "name": "name",
    "bytes": "bytes",
    "copies": "present",
    "metric": "",
}
LATEST = "-registered"
BEST = "metric"  # the best first, whether the highest or the lowest
COPIES = {
    "twice": "two or more", CopyState.PRESENT.value: "present", CopyState.MISSING.value: "missing",
    CopyState.CORRUPT.value: "corrupt", CopyState.TRASHED.value: "in the trash",
}  # fmt: skip
# Filters that depend on another filter are removed with it.
_DEPENDENT_FILTERS = {"metric": ("metric_min", "metric_max")}
_FILTER_LABELS = {
    "text": "name, licence or digest", "pinned": "pinned only", "run": "of one run",
    "base_model": "base model", "metric_min": "metric from", "metric_max": "metric to",
    "bytes_min": "size from", "bytes_max": "size to",
}  # fmt: skip
_CHOICES: dict[str, list[str]] = {
    "kind": Kind.values,
    "state": ArtifactState.values,
    "copies": list(COPIES),
}


@dataclass(frozen=True)
class ArtifactQuery:
    """The matching artifacts in order (a query of primary keys), with the parsed filters."""

    artifacts: QuerySet[Artifact, Any]
    filters: dict[str, str]
    search: Search = field(default_factory=Search)

    @property
    def active_params(self) -> dict[str, str]:
        """Return the parameters of the list's address."""
        usual = self.usual_sort
        return {
            name: value
            for name, value in self.filters.items()
            if value and (name, value) != ("sort", usual)
        }

    @property
    def usual_sort(self) -> str:
        return BEST if self.search.metric else LATEST

    @property
    def number_of_filters(self) -> int:
        return sum(bool(self.filters[name]) for name in FILTERS)


@dataclass(frozen=True)
class RemovableFilter:
    """A filter whose removal yields results."""

    name: str
    value: str
    href: str


def parse_query(lab: Lab, params: Mapping[str, str]) -> ArtifactQuery:
    """Return the artifacts that match ``params``, with the parsed filters. Raises InvalidInput."""
    filters = {name: params.get(name, "").strip() for name in FILTERS}
    if is_unstorable("".join(filters.values())):
        raise InvalidInput(
            "Invalid character in filter.", field="text", hint="Remove it and try again."
        )
    for name, values in _CHOICES.items():
        if filters[name] and filters[name] not in values:
            hint = f"Use one of {', '.join(values)}."
            raise InvalidInput(f"Unknown {name} {filters[name][:40]!r}.", field=name, hint=hint)
    search = parse_search(filters)
    sort = params.get("sort") or (BEST if search.metric else LATEST)
    _check_sort(sort, search)
    artifact_filter = ArtifactFilter(
        text=filters["text"],
        kind=filters["kind"],
        state=filters["state"],
        format=filters["format"],
        project=filters["project"],
        copies=filters["copies"],
        run=_run(filters["run"]),
        pinned=bool(filters["pinned"]),
    )
    column, descending = sort.removeprefix("-"), sort.startswith("-")
    if column == "metric":
        artifacts = rank_by_metric(lab, artifact_filter, search, best_first=not descending)
    else:
        artifacts = _sorted(
            search_artifacts(lab, artifact_filter, search), column, "-" if descending else ""
        )
    return ArtifactQuery(artifacts, {**filters, "sort": sort}, search)


def _check_sort(sort: str, search: Search) -> None:
    column = sort.removeprefix("-")
    if column not in SORTS:
        hint = f"Use one of {', '.join(SORTS)}, with - for the reverse order."
        raise InvalidInput(f"Unknown sort order {sort[:40]!r}.", field="sort", hint=hint)
    if column == "metric" and not search.metric:
        raise InvalidInput(
            "Sorting by metric needs a metric.",
            field="sort",
            hint="Add one, for example metric=val_acc.",
        )


def _run(text: str) -> str:
    try:
        return str(UUID(text)) if text else ""
    except ValueError as error:
        raise InvalidInput(
            "Invalid UUID of a run.",
            field="run",
            hint="Open a run and follow the link to its artifacts.",
        ) from error


def _sorted(artifacts: QuerySet[Artifact], column: str, sign: str) -> QuerySet[Artifact]:
    if column == "copies":
        counted: QuerySet[Copy, Any] = (
            Copy.objects.filter(artifact=OuterRef("pk"), state=CopyState.PRESENT)
            .order_by()
            .values("artifact")
            .annotate(many=Count("pk"))
            .values("many")
        )
        artifacts = artifacts.annotate(present=Coalesce(Subquery(counted), 0))
    return artifacts.order_by(f"{sign}{SORTS[column]}", f"{sign}pk")


def removable_filters(lab: Lab, query: ArtifactQuery) -> list[RemovableFilter]:
    """Return the filters each of which alone makes a list empty. One query for each."""
    active = [name for name in FILTERS if query.filters[name]]
    return [
        RemovableFilter(
            _FILTER_LABELS.get(name, name),
            "" if name == "pinned" else query.filters[name],
            "?" + urlencode(left),
        )
        for name in active
        if (left := _without(query.active_params, name))
        and parse_query(lab, left).artifacts.exists()
    ]


def _without(params: Mapping[str, str], dropped: str) -> dict[str, str]:
    removed = {dropped, *_DEPENDENT_FILTERS.get(dropped, ())}
    left = {name: value for name, value in params.items() if name not in removed}
    if dropped == "metric" and left.get("sort", "").removeprefix("-") == "metric":
        del left["sort"]
    return left


PAGE_ROWS = 50
# Filters that the form collapses.
ADVANCED_FILTERS = (
    "architecture", "base_model", "data", "metric", "metric_min", "metric_max", "bytes_min",
    "bytes_max", "licence", "medium", "format", "copies", "pinned",
)  # fmt: skip
BATCH_SIZE = 2000
_COUNTED_STATES = (CopyState.PRESENT, CopyState.MISSING, CopyState.CORRUPT)  # columns of the CSV


@dataclass(frozen=True)
class ArtifactRow:
    """An artifact in a list, with its copies by state and one path ('' if unknown). ``value``: of
    the searched metric.
    """

    artifact: Artifact
    size: str
    copies: Mapping[str, int]
    path: str
    pinned: str  # the reason, '' if not pinned
    value: float | None = None

    @property
    def folder(self) -> str:
        """Return the end of the folder's path."""
        return shorten_path(self.path.rpartition("/")[0])

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
    """The page. ``summary`` is None if filters or a sort are active: then only the list is
    shown.
    """

    summary: StorageSummary | None
    rows: list[ArtifactRow]
    number: int
    first: int
    last: int
    filters: dict[str, str]
    number_of_filters: int
    custom_sort: str  # for the form: an order other than the default
    more: bool
    removable_filters: list[RemovableFilter]
    no_single_cause: bool  # no results, and no single filter is the cause
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
    """Return the page. The number of queries is independent of the number of artifacts."""
    query = parse_query(lab, params)
    page = _page_number(params.get("page", "1"))
    start = (page - 1) * PAGE_ROWS
    numbers, number = _page_ids(query, start)
    rows = artifact_rows(_load_artifacts(numbers), metric_values(numbers, query.search))
    filters = query.filters
    removable = [] if number else removable_filters(lab, query)

    def address(**changes: str) -> str:
        return "?" + urlencode({**query.active_params, **changes})

    projects = list(lab.projects.order_by("name", "pk"))
    return ArtifactsPage(
        summary=None
        if query.number_of_filters or page > 1 or filters["sort"] != LATEST
        else storage_summary(lab, projects, now),
        rows=rows,
        number=number,
        first=start + 1,
        last=start + len(rows),
        filters=filters,
        number_of_filters=query.number_of_filters,
        custom_sort="" if filters["sort"] in (query.usual_sort, "-metric") else filters["sort"],
        more=any(filters[name] for name in ADVANCED_FILTERS),
        removable_filters=removable,
        no_single_cause=not number and not removable and query.number_of_filters > 1,
        media=list(Medium.choices),
        kinds=list(Kind.choices),
        states=list(ArtifactState.choices),
        copies=list(COPIES.items()),
        formats=_formats(lab),
        projects=[*((each.slug, each.name) for each in projects), ("~none", NO_PROJECT)],
        sorts={name: _sort(name, query, address) for name in SORTS},
        before=address(page=str(page - 1)) if page > 1 else "",
        after=address(page=str(page + 1)) if start + len(rows) < number else "",
        csv=reverse("artifacts-csv") + address(),
        any_artifacts=bool(rows) or Artifact.objects.filter(lab=lab).exists(),
    )


def _page_ids(query: ArtifactQuery, start: int) -> tuple[list[int], int]:
    """Return the primary keys on a page and the number of matches. A slow search runs once: a count
    would repeat it.
    """
    listed = query.artifacts.values_list("pk", flat=True)
    if query.search == Search():
        return list(listed[start : start + PAGE_ROWS]), query.artifacts.count()
    numbers = list(listed)
    return numbers[start : start + PAGE_ROWS], len(numbers)


def _load_artifacts(numbers: Sequence[int]) -> list[Artifact]:
    """Return artifacts in the order of ``numbers``. Sorting only primary keys is much faster
    than sorting rows.
    """
    by_pk = (
        Artifact.objects.select_related("project", "owner")
        .defer("facts", "tags", "note")
        .in_bulk(numbers)
    )
    return [by_pk[number] for number in numbers if number in by_pk]


def _page_number(text: str) -> int:
    if not (text.isascii() and text.isdecimal()) or not 1 <= int(text) <= 10**7:
        raise InvalidInput(
            f"Invalid page number {text[:20]!r}.", field="page", hint="The first page is 1."
        )
    return int(text)


def _formats(lab: Lab) -> list[str]:
    listed = (
        Artifact.objects.filter(lab=lab)
        .exclude(format="")
        .order_by()
        .values_list("format", flat=True)
    )
    return sorted(listed.distinct())


def _sort(name: str, query: ArtifactQuery, address: Any) -> Sort:
    direction = {f"-{name}": "descending", name: "ascending"}.get(query.filters["sort"], "")
    first = name if name in ("name", "metric") else f"-{name}"
    other = {"descending": name, "ascending": f"-{name}"}.get(direction, first)
    if name == "metric" and query.search.metric and not is_lower_better(query.search.metric):
        direction = {"ascending": "descending", "descending": "ascending"}.get(
            direction, ""
        )  # a higher value is better
    return Sort(address(sort=other), direction)


def artifact_rows(
    artifacts: Sequence[Artifact], values: Mapping[int, float] | None = None
) -> list[ArtifactRow]:
    """Return artifacts as rows, with ``values`` of the searched metric. Two queries."""
    facts = _copy_facts([each.pk for each in artifacts])
    metric_values_by_pk = values or {}
    return [
        ArtifactRow(
            each,
            size(each.bytes),
            facts.copies[each.pk],
            facts.paths.get(each.pk, ""),
            facts.pins.get(each.pk, ""),
            metric_values_by_pk.get(each.pk),
        )
        for each in artifacts
    ]


def shorten_path(path: str, longest: int = 44) -> str:
    """Return the end of a path in whole names: models called ``weights.pt`` differ by their
    folder.
    """
    if len(path) <= longest:
        return path
    tail = path[-longest + 2 :]
    complete = tail.partition("/")[2]
    return f"…/{complete}" if complete else f"…{tail}"


@dataclass(frozen=True)
class _CopyFacts:
    """By artifact: copies by state, the path of one copy (a present one if any), and the reason of
    its pin.
    """

    copies: Mapping[int, Counter[str]]
    paths: Mapping[int, str]
    pins: Mapping[int, str]


def _copy_facts(numbers: Sequence[int]) -> _CopyFacts:
    """Two queries."""
    counted = Copy.objects.filter(artifact__in=numbers).order_by().values_list("artifact", "state")
    copies: dict[int, Counter[str]] = defaultdict(Counter)
    paths: dict[int, str] = {}
    for artifact, state, number, path in counted.annotate(n=Count("pk"), path_of_one=Min("path")):
        copies[artifact][state] = number
        if state == CopyState.PRESENT or artifact not in paths:
            paths[artifact] = path
    pins = dict(
        Pin.objects.filter(artifact__in=numbers, ended_us=None).values_list("artifact", "reason")
    )
    return _CopyFacts(copies, paths, pins)


CSV_COLUMNS = (
    "digest", "name", "kind", "form", "format", "bytes", "files", "state", "project", "owner",
    "licence", "copies_present", "copies_missing", "copies_corrupt", "path", "pinned",
    "registered_utc", "metric", "metric_value",
)  # fmt: skip
_COLUMNS = (
    "pk", "digest", "name", "kind", "form", "format", "bytes", "files", "state", "project__slug",
    "owner__username", "licence", "registered_us",
)  # fmt: skip


def artifact_csv_rows(query: ArtifactQuery) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of the CSV. At most four queries for each batch of artifacts."""
    numbers = list(query.artifacts.values_list("pk", flat=True))
    metric = query.search.metric
    for start in range(0, len(numbers), BATCH_SIZE):
        part = numbers[start : start + BATCH_SIZE]
        by_pk = {
            row[0]: row[1:] for row in Artifact.objects.filter(pk__in=part).values_list(*_COLUMNS)
        }
        facts = _copy_facts(part)
        values = metric_values(part, query.search)
        for pk in part:
            if pk in by_pk:
                *columns, registered_us = by_pk[pk]
                counted = (facts.copies[pk][state] for state in _COUNTED_STATES)
                beside = facts.paths.get(pk, ""), facts.pins.get(pk, "")
                yield (
                    *columns,
                    *counted,
                    *beside,
                    utc(registered_us).isoformat(),
                    metric,
                    values.get(pk, ""),
                )
