"""Views of artifacts: list, one artifact and its actions, CSV files, model card and storage cost."""

import re
from collections.abc import Callable, Iterator
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseBase, HttpResponseRedirect, QueryDict
from django.shortcuts import render
from django.urls import reverse

from apps.accounts.models import AuditEntry, Project
from apps.accounts.selectors import project_by_slug
from apps.artifacts.models import Artifact
from apps.artifacts.selectors import artifact_by_digest
from apps.artifacts.services import curation
from apps.core.errors import InvalidInput, LabCarbonError, NotFound
from apps.core.text import is_unstorable, parse_record_number
from apps.dashboard.artifacts.detail import artifact_page
from apps.dashboard.artifacts.lineage import LINEAGE_COLUMNS, lineage_csv_rows
from apps.dashboard.artifacts.list import CSV_COLUMNS, artifact_csv_rows, artifacts_page, parse_query
from apps.dashboard.artifacts.model_card import build_card
from apps.dashboard.artifacts.storage import STORAGE_COLUMNS, storage_csv_rows, storage_page
from apps.dashboard.csv_response import csv_response
from apps.dashboard.decorators import WRITERS, Visitor, or_not_found, page


@page()
def artifacts(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """List artifacts. Filters, sort and page are in the address."""
    page_data = artifacts_page(lab=visitor.lab, params=request.GET.dict(), now=visitor.now)
    return render(request, "dashboard/artifacts/artifacts.html", {"page": page_data})


@page()
def artifacts_csv(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """Download the artifacts that match the filters."""
    query = parse_query(visitor.lab, request.GET.dict())
    return csv_response(f"{visitor.lab.slug}-artifacts", CSV_COLUMNS, artifact_csv_rows(query))


def _artifact_or_404(visitor: Visitor, digest: str) -> Artifact:
    artifact: Artifact = or_not_found(artifact_by_digest(visitor.lab, digest), "artifact", reverse("artifacts"))
    return artifact


@page("GET", "POST")
def artifact(request: HttpRequest, visitor: Visitor, digest: str) -> HttpResponseBase:
    """Show one artifact; POST pins or describes it, changes its state, or undoes such an action."""
    target = _artifact_or_404(visitor, digest)
    error: LabCarbonError | None = None
    if request.method == "POST":
        visitor.require_role(WRITERS)
        try:
            return HttpResponseRedirect(
                f"{reverse('artifact', args=[target.digest])}{_handle_post(request, visitor, target)}"
            )
        except LabCarbonError as exception:
            error = exception
            target = _artifact_or_404(visitor, digest)
    done = parse_record_number(request.GET.get("done", ""))
    page_data = artifact_page(lab=visitor.lab, artifact=target, done=done, now=visitor.now)
    context = {"page": page_data, "error": error, "typed": request.POST}
    return render(request, "dashboard/artifacts/artifact.html", context, status=error.status if error else 200)


_STATE_ACTIONS: dict[str, tuple[Callable[..., Artifact], str]] = {
    "candidate": (curation.mark_candidate, "It is a candidate: the best of its run."),
    "no_candidate": (curation.unmark_candidate, "It is no candidate any more."),
    "promote": (curation.promote, "It is promoted: neither it nor what it came of is ever in a plan."),
    "take_back": (curation.demote, "The promotion is taken back."),
    "lay_aside": (curation.archive, "It is laid aside: no plan takes it unless days are set for what is archived."),
    "take_up": (curation.unarchive, "It is taken up again."),
}


def _handle_post(request: HttpRequest, visitor: Visitor, target: Artifact) -> str:
    """Perform the posted action; return the query of the next page."""
    data, do = request.POST, request.POST.get("do", "")
    context: dict[str, Any] = {"artifact": target, "by": visitor.user, "now": visitor.now}
    if do == "describe":
        return _describe(request, visitor, target)
    if do == "pin":
        curation.pin(reason=data.get("reason", ""), **context)
        message = "It is pinned: no plan takes it."
    elif do == "unpin":
        curation.unpin(is_manager=visitor.can_manage, **context)
        message = "The pin is taken away."
    elif do in _STATE_ACTIONS:
        action, message = _STATE_ACTIONS[do]
        action(**context)
    elif do == "restore":
        curation.restore_description(entry=_entry(data, visitor), **context)
        message = "It says again what it said before."
    else:
        raise InvalidInput("Nothing was chosen to do.", field="do", hint="Use one of the buttons.")
    messages.success(request, message)
    return ""


def _describe(request: HttpRequest, visitor: Visitor, target: Artifact) -> str:
    data = request.POST
    description = curation.Description(
        kind=data.get("kind", ""), licence=data.get("licence", ""), note=data.get("note", ""),
        tags=parse_tags(data.get("tags", "")), project=_project(data, visitor),
    )  # fmt: skip
    entry = curation.describe(artifact=target, description=description, by=visitor.user, now=visitor.now)
    messages.success(request, "Nothing was changed." if entry is None else "It is described anew.")
    return "" if entry is None else f"?done={entry.pk}"


def parse_tags(text: str) -> dict[str, str]:
    """Return tags from lines of ``name=value``. Raises InvalidInput for an invalid line."""
    tags: dict[str, str] = {}
    for line in (line.strip() for line in text.splitlines() if line.strip()):
        name, equals, value = (part.strip() for part in line.partition("="))
        if not (name and equals):
            raise InvalidInput(f"{line[:40]!r} is no tag.", field="tags", hint="Write one a line, like task=cats.")
        tags[name] = value
    return tags


def _project(data: QueryDict, visitor: Visitor) -> Project | None:
    slug = data.get("project", "")
    project = None if is_unstorable(slug) or not slug else project_by_slug(visitor.lab, slug)
    if slug and project is None:
        raise InvalidInput("There is no such project in your lab.", field="project", hint="Choose one of the list, or none.")
    return project


def _entry(data: QueryDict, visitor: Visitor) -> AuditEntry:
    number = parse_record_number(data.get("entry", ""))
    entry = AuditEntry.objects.filter(lab=visitor.lab, pk=number).first() if number is not None else None
    if entry is None:
        raise NotFound("There is no such entry in the audit log.", hint="Load the page again.")
    return entry


@page()
def lineage_csv(request: HttpRequest, visitor: Visitor, digest: str) -> HttpResponseBase:
    """Download the lineage of an artifact: one row for each edge, with the use of the run."""
    target = _artifact_or_404(visitor, digest)

    def lines() -> Iterator[tuple[Any, ...]]:
        yield from lineage_csv_rows(visitor.lab, target)

    return csv_response(f"{visitor.lab.slug}-lineage-{target.digest[:12]}", LINEAGE_COLUMNS, lines())


@page()
def card(request: HttpRequest, visitor: Visitor, digest: str) -> HttpResponseBase:
    """Download the model card of an artifact."""
    target = _artifact_or_404(visitor, digest)
    response = HttpResponse(build_card(lab=visitor.lab, artifact=target), content_type="text/markdown; charset=utf-8")
    name = re.sub(r"[^A-Za-z0-9.\-]+", "-", target.name).strip("-.")[:80] or "artifact"
    response["Content-Disposition"] = f'attachment; filename="{name}-card.md"'
    return response


@page()
def storage(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """Show the yearly cost of storage."""
    return render(request, "dashboard/artifacts/storage.html", {"page": storage_page(lab=visitor.lab, now=visitor.now)})


@page()
def storage_csv(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """Download the storage cost by project and medium."""
    return csv_response(f"{visitor.lab.slug}-storage", STORAGE_COLUMNS, storage_csv_rows(visitor.lab, visitor.now))
