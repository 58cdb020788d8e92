"""The board of artifacts: what is kept, what keeping takes, and the list."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.db.models import Count, QuerySet

from apps.accounts.models import Lab
from apps.artifacts.choices import ArtifactState, CopyState, Kind
from apps.artifacts.models import Artifact, Copy, Pin
from apps.core.clock import utc
from apps.core.errors import InvalidInput
from apps.dashboard.calc import size
from apps.dashboard.contexts.artifact_filters import COPIES, FILTERS, LATEST, SORTS, artifacts_filtered, is_narrowed
from apps.dashboard.contexts.artifact_holdings import NO_PROJECT, Holdings, holdings
from apps.dashboard.contexts.runs import Sort

PAGE_ROWS = 50
CHUNK = 2000
_COUNTED = (CopyState.PRESENT, CopyState.MISSING, CopyState.CORRUPT)  # as the CSV has them


@dataclass(frozen=True)
class ArtifactRow:
    """An artifact in a list, with how many of its copies are in which state."""

    artifact: Artifact
    size: str
    copies: Mapping[str, int]
    pinned: str  # why, '' where it is not

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
    narrowed: bool
    more: bool
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
    found, filters = artifacts_filtered(lab, params)
    page = _page_number(params.get("page", "1"))
    start = (page - 1) * PAGE_ROWS
    rows = artifact_rows(_whole(list(found.values_list("pk", flat=True)[start : start + PAGE_ROWS])))
    number = found.count()
    asked = {name: value for name, value in filters.items() if value and (name, value) != ("sort", LATEST)}

    def address(**changes: str) -> str:
        return "?" + urlencode({**asked, **changes})

    projects = list(lab.projects.order_by("name", "pk"))
    return ArtifactsPage(
        holdings=None if is_narrowed(filters, page) else holdings(lab, projects, now),
        rows=rows,
        number=number,
        first=start + 1,
        last=start + len(rows),
        filters=filters,
        narrowed=any(filters[name] for name in FILTERS),
        more=any(filters[name] for name in ("format", "copies", "pinned")),
        kinds=list(Kind.choices),
        states=list(ArtifactState.choices),
        copies=list(COPIES.items()),
        formats=_formats(lab),
        projects=[*((each.slug, each.name) for each in projects), ("~none", NO_PROJECT)],
        sorts={name: _sort(name, filters["sort"], address) for name in SORTS},
        before=address(page=str(page - 1)) if page > 1 else "",
        after=address(page=str(page + 1)) if start + len(rows) < number else "",
        csv="/artifacts.csv" + address(),
        any_artifacts=bool(rows) or Artifact.objects.filter(lab=lab).exists(),
    )


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


def _sort(name: str, current: str, address: Any) -> Sort:
    now = {f"-{name}": "descending", name: "ascending"}.get(current, "")
    first = name if name == "name" else f"-{name}"
    return Sort(address(sort={"descending": name, "ascending": f"-{name}"}.get(now, first)), now)


def artifact_rows(artifacts: Sequence[Artifact]) -> list[ArtifactRow]:
    """Return artifacts as rows. Two queries."""
    copies, pins = _copies_and_pins([each.pk for each in artifacts])
    return [ArtifactRow(each, size(each.bytes), copies[each.pk], pins.get(each.pk, "")) for each in artifacts]


def _copies_and_pins(numbers: Sequence[int]) -> tuple[Mapping[int, Counter[str]], Mapping[int, str]]:
    """Return by artifact how many of its copies are in which state, and why it is pinned."""
    counted = Copy.objects.filter(artifact__in=numbers).order_by().values_list("artifact", "state").annotate(n=Count("pk"))
    copies: dict[int, Counter[str]] = defaultdict(Counter)
    for artifact, state, number in counted:
        copies[artifact][state] = number
    return copies, dict(Pin.objects.filter(artifact__in=numbers, ended_us=None).values_list("artifact", "reason"))


CSV_HEAD = (
    "digest", "name", "kind", "form", "format", "bytes", "files", "state", "project", "owner", "licence", "copies_present",
    "copies_missing", "copies_corrupt", "pinned", "registered_utc",
)  # fmt: skip
_COLUMNS = (
    "pk", "digest", "name", "kind", "form", "format", "bytes", "files", "state", "project__slug", "owner__username",
    "licence", "registered_us",
)  # fmt: skip


def artifact_lines(found: QuerySet[Artifact]) -> Iterator[tuple[Any, ...]]:
    """Yield the lines of the CSV. Three queries for each CHUNK of artifacts."""
    numbers = list(found.values_list("pk", flat=True))
    for start in range(0, len(numbers), CHUNK):
        part = numbers[start : start + CHUNK]
        by_pk = {row[0]: row[1:] for row in Artifact.objects.filter(pk__in=part).values_list(*_COLUMNS)}
        copies, pins = _copies_and_pins(part)
        for pk in part:
            if pk in by_pk:
                *told, registered_us = by_pk[pk]
                yield (*told, *(copies[pk][state] for state in _COUNTED), pins.get(pk, ""), utc(registered_us).isoformat())
