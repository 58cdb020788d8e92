"""What a visitor asks of the list of artifacts: filters and sort, as the address writes them."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from django.db.models import Count, OuterRef, QuerySet, Subquery
from django.db.models.functions import Coalesce

from apps.accounts.models import Lab
from apps.artifacts.choices import ArtifactState, CopyState, Kind
from apps.artifacts.models import Artifact, Copy
from apps.artifacts.selectors import Wanted, artifacts_of
from apps.core.errors import InvalidInput
from apps.core.text import unstorable

FILTERS = ("text", "kind", "state", "project", "format", "copies", "pinned", "run")
SORTS = {"registered": "registered_us", "name": "name", "bytes": "bytes", "copies": "present"}
LATEST = "-registered"
COPIES = {
    "twice": "in two places or more", CopyState.PRESENT.value: "present", CopyState.MISSING.value: "missing",
    CopyState.CORRUPT.value: "corrupt", CopyState.TRASHED.value: "in the trash",
}  # fmt: skip
_CHOICES: dict[str, list[str]] = {"kind": Kind.values, "state": ArtifactState.values, "copies": list(COPIES)}


def artifacts_filtered(lab: Lab, params: Mapping[str, str]) -> tuple[QuerySet[Artifact], dict[str, str]]:
    """Return the artifacts that ``params`` ask for, in their order, and the filters as understood. Raises InvalidInput."""
    filters = {name: params.get(name, "").strip() for name in FILTERS}
    if unstorable("".join(filters.values())):
        raise InvalidInput("A filter holds a character that no artifact can.", field="text", hint="Leave it out.")
    for name, known in _CHOICES.items():
        if filters[name] and filters[name] not in known:
            hint = f"Use one of {', '.join(known)}."
            raise InvalidInput(f"{filters[name][:40]!r} is not known as {name}.", field=name, hint=hint)
    sort = params.get("sort", LATEST)
    if sort.removeprefix("-") not in SORTS:
        hint = f"Use one of {', '.join(SORTS)}, with - for descending."
        raise InvalidInput(f"{sort[:40]!r} is not a sort.", field="sort", hint=hint)
    wanted = Wanted(
        text=filters["text"], kind=filters["kind"], state=filters["state"], format=filters["format"],
        project=filters["project"], copies=filters["copies"], run=_run(filters["run"]), pinned=bool(filters["pinned"]),
    )  # fmt: skip
    return _sorted(artifacts_of(lab, wanted), sort), {**filters, "sort": sort}


def _run(text: str) -> str:
    try:
        return str(UUID(text)) if text else ""
    except ValueError as error:
        raise InvalidInput(
            "A run is named by its UUID.", field="run", hint="Open a run and follow its artifacts."
        ) from error


def _sorted(found: QuerySet[Artifact], sort: str) -> QuerySet[Artifact]:
    column, descending = sort.removeprefix("-"), sort.startswith("-")
    if column == "copies":
        counted: QuerySet[Copy, Any] = (
            Copy.objects.filter(artifact=OuterRef("pk"), state=CopyState.PRESENT)
            .order_by().values("artifact").annotate(many=Count("pk")).values("many")
        )  # fmt: skip
        found = found.annotate(present=Coalesce(Subquery(counted), 0))
    sign = "-" if descending else ""
    return found.order_by(f"{sign}{SORTS[column]}", f"{sign}pk")


def is_narrowed(filters: Mapping[str, str], page: int) -> bool:
    """Return whether somebody looks for something: any filter, another order, a page behind the first."""
    return page > 1 or filters["sort"] != LATEST or any(filters[name] for name in FILTERS)
