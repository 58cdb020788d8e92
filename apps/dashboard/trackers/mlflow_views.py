"""Pages of MLflow servers: the list with a form to add one, and one server."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponseBase, HttpResponseRedirect
from django.shortcuts import render
from django.urls import path, reverse
from django.views.decorators.cache import never_cache

from apps.dashboard.decorators import MANAGERS, Visitor, or_not_found, page
from apps.dashboard.forms import PageForms
from apps.dashboard.trackers.mlflow import client_lines, initial_values, server_page, server_rows
from apps.dashboard.trackers.mlflow_forms import (
    SERVER_FORMS,
    AddServerForm,
    ChangeServerForm,
    RemoveServerForm,
    ServerActionForm,
)
from apps.trackers.mlflow.selectors import server_at


@never_cache
@page("GET", "POST")
def servers(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """List the lab's MLflow servers; POST adds one and tests the connection."""
    if request.method == "POST":
        visitor.require_role(MANAGERS)
    forms = PageForms(
        request,
        visitor,
        [AddServerForm],
        initial={"": {"writes_verdicts": True, "reads_files": True}},
    )
    form = forms[AddServerForm.action]
    assert isinstance(form, AddServerForm)
    if forms.submitted and form.submit():
        (messages.success if form.is_reached else messages.error)(request, form.message)
        return HttpResponseRedirect(reverse("mlflow-server", args=[form.source.pk]))
    context = {
        "rows": server_rows(visitor),
        "form": form,
        "client": client_lines("https://mlflow.example.org"),
    }
    return render(request, "dashboard/trackers/mlflow_servers.html", context, status=forms.status)


@never_cache
@page("GET", "POST")
def server(request: HttpRequest, visitor: Visitor, pk: int) -> HttpResponseBase:
    """Show one server; POST changes, tests, polls, enables, disables or removes it."""
    source = or_not_found(server_at(visitor.lab, pk), "MLflow server", reverse("mlflow-servers"))
    if request.method == "POST":
        visitor.require_role(MANAGERS)
    initial = {ChangeServerForm.action: initial_values(source)}
    forms = PageForms(request, visitor, SERVER_FORMS, initial=initial, source=source)
    form = forms.submitted
    if form and form.submit():
        is_reached = not isinstance(form, ServerActionForm) or form.is_reached
        (messages.success if is_reached else messages.error)(request, form.message)
        is_removed = isinstance(form, RemoveServerForm)
        return HttpResponseRedirect(
            reverse("mlflow-servers") if is_removed else reverse("mlflow-server", args=[source.pk])
        )
    context = {
        "page": server_page(source),
        "form": forms[ChangeServerForm.action],
        "action_form": form if isinstance(form, ServerActionForm) else None,
        "confirms_removal": request.GET.get("remove") == "1",
    }
    return render(request, "dashboard/trackers/mlflow_server.html", context, status=forms.status)


SETTINGS_PAGE = ("MLflow", "mlflow-servers")  # name and page, for the navigation
urlpatterns = [
    path("trackers/mlflow/", servers, name="mlflow-servers"),
    path("trackers/mlflow/<int:pk>/", server, name="mlflow-server"),
]
