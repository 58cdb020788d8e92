"""Views of artifacts: list, one artifact and its actions, CSV files, model card and storage
cost.
"""

import re
from collections.abc import Iterator
from typing import Any, cast

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseBase, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse

from apps.artifacts.models import Artifact
from apps.artifacts.selectors import artifact_by_digest
from apps.core.text import parse_record_number
from apps.dashboard.artifacts.artifact_page import artifact_page
from apps.dashboard.artifacts.artifacts_page import (
    CSV_COLUMNS,
    artifact_csv_rows,
    artifacts_page,
    parse_query,
)
from apps.dashboard.artifacts.forms.artifact import ARTIFACT_FORMS, ArtifactForm, description_values
from apps.dashboard.artifacts.lineage_graph import LINEAGE_COLUMNS, lineage_csv_rows
from apps.dashboard.artifacts.model_card import build_card
from apps.dashboard.artifacts.storage_page import STORAGE_COLUMNS, storage_csv_rows, storage_page
from apps.dashboard.csv_response import csv_response
from apps.dashboard.decorators import WRITERS, Visitor, or_not_found, page
from apps.dashboard.forms import PageForms


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
    artifact: Artifact = or_not_found(
        artifact_by_digest(visitor.lab, digest), "artifact", reverse("artifacts")
    )
    return artifact


@page("GET", "POST")
def artifact(request: HttpRequest, visitor: Visitor, digest: str) -> HttpResponseBase:
    """Show one artifact; POST pins or describes it, changes its state, or undoes such an action."""
    target = _artifact_or_404(visitor, digest)
    if request.method == "POST":
        visitor.require_role(WRITERS)
    forms = PageForms(
        request,
        visitor,
        ARTIFACT_FORMS,
        initial={"describe": description_values(target)},
        artifact=target,
    )
    if request.method == "POST":
        form = cast("ArtifactForm", forms.submitted)
        if form.submit():
            messages.success(request, form.message)
            return HttpResponseRedirect(f"{reverse('artifact', args=[target.digest])}{form.query}")
        target = _artifact_or_404(visitor, digest)
    done = parse_record_number(request.GET.get("done", ""))
    context = {
        "page": artifact_page(lab=visitor.lab, artifact=target, done=done, now=visitor.now),
        "forms": forms,
    }
    return render(request, "dashboard/artifacts/artifact.html", context, status=forms.status)


@page()
def lineage_csv(request: HttpRequest, visitor: Visitor, digest: str) -> HttpResponseBase:
    """Download the lineage of an artifact: one row for each edge, with the use of the run."""
    target = _artifact_or_404(visitor, digest)

    def lines() -> Iterator[tuple[Any, ...]]:
        yield from lineage_csv_rows(visitor.lab, target)

    return csv_response(
        f"{visitor.lab.slug}-lineage-{target.digest[:12]}", LINEAGE_COLUMNS, lines()
    )


@page()
def card(request: HttpRequest, visitor: Visitor, digest: str) -> HttpResponseBase:
    """Download the model card of an artifact."""
    target = _artifact_or_404(visitor, digest)
    response = HttpResponse(
        build_card(lab=visitor.lab, artifact=target), content_type="text/markdown; charset=utf-8"
    )
    name = re.sub(r"[^A-Za-z0-9.\-]+", "-", target.name).strip("-.")[:80] or "artifact"
    response["Content-Disposition"] = f'attachment; filename="{name}-card.md"'
    return response


@page()
def storage(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """Show the yearly cost of storage."""
    return render(
        request,
        "dashboard/artifacts/storage.html",
        {"page": storage_page(lab=visitor.lab, now=visitor.now)},
    )


@page()
def storage_csv(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """Download the storage cost by project and medium."""
    return csv_response(
        f"{visitor.lab.slug}-storage", STORAGE_COLUMNS, storage_csv_rows(visitor.lab, visitor.now)
    )
