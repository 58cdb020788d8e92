"""Artifacts: the board, its CSV, one artifact and what is done with it, its lineage as CSV, its model card."""

import re
from collections.abc import Callable, Iterator
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseBase, HttpResponseRedirect, QueryDict
from django.shortcuts import render

from apps.accounts.models import AuditEntry, Project
from apps.accounts.selectors import project_by_slug
from apps.artifacts.models import Artifact
from apps.artifacts.selectors import artifact_of
from apps.artifacts.services import curation
from apps.core.errors import InvalidInput, LabCarbonError, NotFound
from apps.core.text import is_unstorable, parse_record_number
from apps.dashboard.artifacts.detail import artifact_page
from apps.dashboard.artifacts.lineage import LINEAGE_HEAD, lineage_lines
from apps.dashboard.artifacts.list import CSV_HEAD, artifact_lines, artifacts_filtered, artifacts_page
from apps.dashboard.artifacts.model_card import card_of
from apps.dashboard.artifacts.storage import STORAGE_HEAD, storage_lines, storage_page
from apps.dashboard.csv_response import csv_response
from apps.dashboard.decorators import WRITERS, Visitor, found, page


@page()
def artifacts(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """Show what the lab keeps; filters, sort and page live in the address."""
    shown = artifacts_page(lab=visitor.lab, params=request.GET.dict(), now=visitor.now)
    return render(request, "pages/artifacts.html", {"page": shown})


@page()
def artifacts_csv(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """Download the artifacts that the filters leave."""
    asked = artifacts_filtered(visitor.lab, request.GET.dict())
    return csv_response(f"{visitor.lab.slug}-artifacts", CSV_HEAD, artifact_lines(asked))


def _asked(visitor: Visitor, digest: str) -> Artifact:
    asked: Artifact = found(artifact_of(visitor.lab, digest), "artifact", "/artifacts/")
    return asked


@page("GET", "POST")
def artifact(request: HttpRequest, visitor: Visitor, digest: str) -> HttpResponseBase:
    """Show one artifact; POST pins or describes it, puts it into a state, or takes such an act back."""
    asked = _asked(visitor, digest)
    error: LabCarbonError | None = None
    if request.method == "POST":
        visitor.needs(WRITERS)
        try:
            return HttpResponseRedirect(f"/artifacts/{asked.digest}/{_done(request, visitor, asked)}")
        except LabCarbonError as wrong:
            error = wrong
            asked = _asked(visitor, digest)
    done = parse_record_number(request.GET.get("done", ""))
    shown = artifact_page(lab=visitor.lab, artifact=asked, done=done, now=visitor.now)
    context = {"page": shown, "error": error, "typed": request.POST}
    return render(request, "pages/artifact.html", context, status=error.status if error else 200)


_STATES: dict[str, tuple[Callable[..., Artifact], str]] = {
    "candidate": (curation.make_candidate, "It is a candidate: the best of its run."),
    "no_candidate": (curation.unmake_candidate, "It is no candidate any more."),
    "promote": (curation.promote, "It is promoted: neither it nor what it came of is ever in a plan."),
    "take_back": (curation.take_back, "The promotion is taken back."),
    "lay_aside": (curation.lay_aside, "It is laid aside: no plan takes it unless days are set for what is archived."),
    "take_up": (curation.take_up, "It is taken up again."),
}


def _done(request: HttpRequest, visitor: Visitor, asked: Artifact) -> str:
    """Do what a form asks; return what comes behind the address of the page to show."""
    data, do = request.POST, request.POST.get("do", "")
    who: dict[str, Any] = {"artifact": asked, "by": visitor.user, "now": visitor.now}
    if do == "describe":
        return _described(request, visitor, asked)
    if do == "pin":
        curation.pin(reason=data.get("reason", ""), **who)
        told = "It is pinned: no plan takes it."
    elif do == "unpin":
        curation.unpin(keeper=visitor.may_keep, **who)
        told = "The pin is taken away."
    elif do in _STATES:
        act, told = _STATES[do]
        act(**who)
    elif do == "restore":
        curation.restore(entry=_entry(data, visitor), **who)
        told = "It says again what it said before."
    else:
        raise InvalidInput("Nothing was chosen to do.", field="do", hint="Use one of the buttons.")
    messages.success(request, told)
    return ""


def _described(request: HttpRequest, visitor: Visitor, asked: Artifact) -> str:
    data = request.POST
    told = curation.Description(
        kind=data.get("kind", ""), licence=data.get("licence", ""), note=data.get("note", ""),
        tags=tags_of(data.get("tags", "")), project=_project(data, visitor),
    )  # fmt: skip
    entry = curation.describe(artifact=asked, told=told, by=visitor.user, now=visitor.now)
    messages.success(request, "Nothing was changed." if entry is None else "It is described anew.")
    return "" if entry is None else f"?done={entry.pk}"


def tags_of(text: str) -> dict[str, str]:
    """Return tags from lines of ``name=value``. Raises InvalidInput for a line that is none."""
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
    """Download all of an artifact's lineage: an edge a line, with what the run used."""
    asked = _asked(visitor, digest)

    def lines() -> Iterator[tuple[Any, ...]]:
        yield from lineage_lines(visitor.lab, asked)

    return csv_response(f"{visitor.lab.slug}-lineage-{asked.digest[:12]}", LINEAGE_HEAD, lines())


@page()
def card(request: HttpRequest, visitor: Visitor, digest: str) -> HttpResponseBase:
    """Download the model card of an artifact."""
    asked = _asked(visitor, digest)
    response = HttpResponse(card_of(lab=visitor.lab, artifact=asked), content_type="text/markdown; charset=utf-8")
    name = re.sub(r"[^A-Za-z0-9.\-]+", "-", asked.name).strip("-.")[:80] or "artifact"
    response["Content-Disposition"] = f'attachment; filename="{name}-card.md"'
    return response


@page()
def storage(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """Show what keeping costs in a year."""
    return render(request, "pages/storage.html", {"page": storage_page(lab=visitor.lab, now=visitor.now)})


@page()
def storage_csv(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """Download it by project and medium."""
    return csv_response(f"{visitor.lab.slug}-storage", STORAGE_HEAD, storage_lines(visitor.lab, visitor.now))
