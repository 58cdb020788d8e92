"""MLflow servers that are polled: the list with its form, and one server's state, form and removal."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponseBase, HttpResponseRedirect, QueryDict
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.cache import never_cache

from apps.accounts.models import Project
from apps.accounts.selectors import project_by_slug
from apps.core.errors import InvalidInput, LabCarbonError
from apps.core.jobs import enqueue
from apps.core.text import is_unstorable
from apps.dashboard.decorators import MANAGERS, Visitor, or_not_found, page
from apps.dashboard.form_fields import optional_node, optional_site
from apps.dashboard.trackers.mlflow import choices, client_lines, server_page, server_rows
from apps.trackers.choices import SignIn
from apps.trackers.mlflow.selectors import server_at
from apps.trackers.mlflow.services.servers import (
    POLL,
    SourceIn,
    add_source,
    change_source,
    remove_source,
    switch_source,
    try_source,
)
from apps.trackers.models import MlflowSource

_ACTS = "save, test, read, on, off, remove"


@never_cache
@page("GET", "POST")
def servers(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """List the lab's MLflow servers; POST adds one and tries whether it answers."""
    error: LabCarbonError | None = None
    if request.method == "POST":
        visitor.require_role(MANAGERS)
        try:
            source = add_source(lab=visitor.lab, payload=_told(request.POST, visitor), by=visitor.user, now=visitor.now)
            _tried(request, source)
            return HttpResponseRedirect(reverse("mlflow-server", args=[source.pk]))
        except LabCarbonError as raised:
            error = raised
    context = {
        "rows": server_rows(visitor), "choices": choices(visitor), "client": client_lines("https://mlflow.example.org"),
        "typed": request.POST if error else {"verdicts": "on", "files": "on"}, "error": error,
    }  # fmt: skip
    return render(request, "dashboard/trackers/mlflow_servers.html", context, status=error.status if error else 200)


@never_cache
@page("GET", "POST")
def server(request: HttpRequest, visitor: Visitor, pk: int) -> HttpResponseBase:
    """Show one server; POST changes, tries, switches or removes it."""
    source = or_not_found(server_at(visitor.lab, pk), "MLflow server", reverse("mlflow-servers"))
    error: LabCarbonError | None = None
    if request.method == "POST":
        visitor.require_role(MANAGERS)
        try:
            return HttpResponseRedirect(_done(request, visitor, source))
        except LabCarbonError as raised:
            error = raised
    details = server_page(visitor, source)
    context = {"page": details, "typed": request.POST if error and request.POST.get("do") == "save" else details.typed,
               "error": error, "removing": request.GET.get("remove") == "1"}  # fmt: skip
    return render(request, "dashboard/trackers/mlflow_server.html", context, status=error.status if error else 200)


def _done(request: HttpRequest, visitor: Visitor, source: MlflowSource) -> str:
    """Do what a form asks of a server; return where to go on."""
    action, address = request.POST.get("do", ""), reverse("mlflow-server", args=[source.pk])
    if action == "save":
        payload = _told(request.POST, visitor, address=source.address)
        change_source(source=source, payload=payload, by=visitor.user, now=visitor.now)
        messages.success(
            request, f"{payload.name.strip()} is described anew. Runs that were read already keep their project."
        )
    elif action == "test":
        _tried(request, source)
    elif action == "read":
        enqueue(kind=POLL, key=str(source.pk))
        messages.success(request, "It is read in a moment. Open this page again to see how it went.")
    elif action in ("on", "off"):
        switch_source(source=source, enabled=action == "on", by=visitor.user, now=visitor.now)
        messages.success(
            request, f"{source.name} is switched {action}." + ("" if action == "on" else " What it told stays.")
        )
    elif action == "remove":
        remove_source(source=source, by=visitor.user, now=visitor.now)
        messages.success(request, f"{source.name} is removed. Its runs and their energy stay.")
        return reverse("mlflow-servers")
    else:
        raise InvalidInput(f"{action[:40]!r} cannot be done to a server.", field="do", hint=f"Use one of {_ACTS}.")
    return address


def _tried(request: HttpRequest, source: MlflowSource) -> None:
    is_reached, message = try_source(source)
    (messages.success if is_reached else messages.error)(request, message)


def _told(data: QueryDict, visitor: Visitor, *, address: str = "") -> SourceIn:
    sign_in = data.get("sign_in", "")
    if sign_in not in SignIn.values:
        raise InvalidInput(f"{sign_in[:40]!r} is no way to sign in.", field="sign_in", hint="Choose one of the list.")
    if is_unstorable("".join(data.get(name, "") for name in ("name", "address", "user", "secret", "patterns", "project"))):
        raise InvalidInput("NUL and half characters cannot be stored.")
    node = optional_node(data, visitor)
    return SourceIn(
        name=data.get("name", ""),
        address=address or data.get("address", ""),
        sign_in=SignIn(sign_in),
        user=data.get("user", ""),
        secret=data.get("secret") or None,
        patterns=_patterns(data.get("patterns", ""), visitor),
        project=_project(slug, visitor, "project") if (slug := data.get("project", "")) else None,
        node=node,
        site=None if node else optional_site(data, visitor),
        writes_verdicts="verdicts" in data,
        reads_files="files" in data,
    )


def _patterns(text: str, visitor: Visitor) -> tuple[tuple[str, Project], ...]:
    rows = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        pattern, equals, slug = line.rpartition("=")
        if not equals or not pattern.strip() or not slug.strip():
            raise InvalidInput(
                f"Line {number} of the experiments is not 'name = project'.",
                field="patterns",
                hint="Such as: vision-* = demo",
            )
        rows.append((pattern.strip(), _project(slug.strip(), visitor, "patterns")))
    return tuple(rows)


def _project(slug: str, visitor: Visitor, field: str) -> Project:
    project = project_by_slug(visitor.lab, slug)
    if project is None:
        known = ", ".join(visitor.lab.projects.order_by("slug").values_list("slug", flat=True)[:20])
        raise InvalidInput(f"There is no project {slug[:60]!r}.", field=field, hint=f"Known: {known}.")
    return project
