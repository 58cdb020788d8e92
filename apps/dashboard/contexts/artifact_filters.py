"""What a visitor asks of the list of artifacts: filters and sort, as the address writes them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.db.models import Count, OuterRef, QuerySet, Subquery
from django.db.models.functions import Coalesce

from apps.accounts.models import Lab
from apps.artifacts.choices import ArtifactState, CopyState, Kind
from apps.artifacts.models import Artifact, Copy
from apps.artifacts.search import FIELDS, Search, search_of
from apps.artifacts.searching import by_metric, found_of
from apps.artifacts.selectors import Wanted
from apps.core.errors import InvalidInput
from apps.core.text import unstorable

FILTERS = ("text", "kind", "state", "project", "format", "copies", "pinned", "run", *FIELDS)
SORTS = {"registered": "registered_us", "name": "name", "bytes": "bytes", "copies": "present", "metric": ""}
LATEST = "-registered"
BEST = "metric"  # the best first, whether that is the most or the least
COPIES = {
    "twice": "in two places or more", CopyState.PRESENT.value: "present", CopyState.MISSING.value: "missing",
    CopyState.CORRUPT.value: "corrupt", CopyState.TRASHED.value: "in the trash",
}  # fmt: skip
# What only says how another filter is meant goes with it.
_WITH = {"metric": ("metric_min", "metric_max")}
_NAMES = {
    "text": "name, licence or digest", "pinned": "pinned only", "run": "of one run", "base_model": "base model",
    "metric_min": "metric from", "metric_max": "metric to", "bytes_min": "size from", "bytes_max": "size to",
}  # fmt: skip
_CHOICES: dict[str, list[str]] = {"kind": Kind.values, "state": ArtifactState.values, "copies": list(COPIES)}


@dataclass(frozen=True)
class Asked:
    """The artifacts that were asked for, in their order (a query of which to take numbers), and the question as
    understood."""

    found: QuerySet[Artifact, Any]
    filters: dict[str, str]
    search: Search = field(default_factory=Search)

    @property
    def told(self) -> dict[str, str]:
        """What the address of this list holds."""
        usual = self.usual_sort
        return {name: value for name, value in self.filters.items() if value and (name, value) != ("sort", usual)}

    @property
    def usual_sort(self) -> str:
        return BEST if self.search.metric else LATEST

    @property
    def is_narrowed(self) -> bool:
        return any(self.filters[name] for name in FILTERS)


@dataclass(frozen=True)
class Drop:
    """A filter without which something fits."""

    name: str
    value: str
    href: str


def artifacts_filtered(lab: Lab, params: Mapping[str, str]) -> Asked:
    """Return the artifacts that ``params`` ask for, and the filters as understood. Raises InvalidInput."""
    filters = {name: params.get(name, "").strip() for name in FILTERS}
    if unstorable("".join(filters.values())):
        raise InvalidInput("A filter holds a character that no artifact can.", field="text", hint="Leave it out.")
    for name, known in _CHOICES.items():
        if filters[name] and filters[name] not in known:
            hint = f"Use one of {', '.join(known)}."
            raise InvalidInput(f"{filters[name][:40]!r} is not known as {name}.", field=name, hint=hint)
    search = search_of(filters)
    sort = params.get("sort") or (BEST if search.metric else LATEST)
    _check_sort(sort, search)
    wanted = Wanted(
        text=filters["text"], kind=filters["kind"], state=filters["state"], format=filters["format"],
        project=filters["project"], copies=filters["copies"], run=_run(filters["run"]), pinned=bool(filters["pinned"]),
    )  # fmt: skip
    column, descending = sort.removeprefix("-"), sort.startswith("-")
    if column == "metric":
        found = by_metric(lab, wanted, search, best_first=not descending)
    else:
        found = _sorted(found_of(lab, wanted, search), column, "-" if descending else "")
    return Asked(found, {**filters, "sort": sort}, search)


def _check_sort(sort: str, search: Search) -> None:
    column = sort.removeprefix("-")
    if column not in SORTS:
        hint = f"Use one of {', '.join(SORTS)}, with - for the other way round."
        raise InvalidInput(f"{sort[:40]!r} is not a sort.", field="sort", hint=hint)
    if column == "metric" and not search.metric:
        raise InvalidInput("There is no metric to sort by.", field="sort", hint="Name one: metric=val_acc.")


def _run(text: str) -> str:
    try:
        return str(UUID(text)) if text else ""
    except ValueError as error:
        raise InvalidInput(
            "A run is named by its UUID.", field="run", hint="Open a run and follow its artifacts."
        ) from error


def _sorted(found: QuerySet[Artifact], column: str, sign: str) -> QuerySet[Artifact]:
    if column == "copies":
        counted: QuerySet[Copy, Any] = (
            Copy.objects.filter(artifact=OuterRef("pk"), state=CopyState.PRESENT)
            .order_by().values("artifact").annotate(many=Count("pk")).values("many")
        )  # fmt: skip
        found = found.annotate(present=Coalesce(Subquery(counted), 0))
    return found.order_by(f"{sign}{SORTS[column]}", f"{sign}pk")


def to_drop(lab: Lab, asked: Asked) -> list[Drop]:
    """Return the filters of which each alone keeps a list empty: without it something fits. A query for each."""
    active = [name for name in FILTERS if asked.filters[name]]
    return [
        Drop(_NAMES.get(name, name), "" if name == "pinned" else asked.filters[name], "?" + urlencode(left))
        for name in active
        if (left := _without(asked.told, name)) and artifacts_filtered(lab, left).found.exists()
    ]


def _without(told: Mapping[str, str], dropped: str) -> dict[str, str]:
    gone = {dropped, *_WITH.get(dropped, ())}
    left = {name: value for name, value in told.items() if name not in gone}
    if dropped == "metric" and left.get("sort", "").removeprefix("-") == "metric":
        del left["sort"]
    return left
