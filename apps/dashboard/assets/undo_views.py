"""Pages of finished imports, their undo, and the removal of single assets."""

from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponseBase, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django_htmx.http import HttpResponseClientRedirect

from apps.assets.choices import RUNNING
from apps.assets.selectors import asset_of
from apps.assets.services.csv_import import import_of
from apps.assets.services.undo import plan_redo, plan_removal, plan_undo
from apps.core.errors import NotFound
from apps.dashboard.assets.forms.undo import RedoForm, RemoveForm, RestoreForm, UndoForm
from apps.dashboard.assets.undo_pages import history_page, running_page, undo_page
from apps.dashboard.decorators import MANAGERS, Visitor, page


@page("GET", "POST")
def import_history(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """List finished imports and removed assets. POST restores a removed asset."""
    visitor.require_role(MANAGERS)
    form = RestoreForm.from_request(request, visitor)
    if form.is_bound and form.submit():
        messages.success(request, form.message)
        return HttpResponseRedirect(reverse("asset-import-history"))
    context = {"page": history_page(visitor.lab), "form": form}
    return render(request, "dashboard/assets/import_history.html", context, status=form.status)


@page("GET", "POST")
def import_undo(request: HttpRequest, visitor: Visitor, uuid: UUID) -> HttpResponseBase:
    """Show what the undo of an import does. POST undoes it."""
    return _undo(request, visitor, uuid, is_redo=False)


@page("GET", "POST")
def import_redo(request: HttpRequest, visitor: Visitor, uuid: UUID) -> HttpResponseBase:
    """Show what the undo of the last undo does. POST executes it."""
    return _undo(request, visitor, uuid, is_redo=True)


def _undo(request: HttpRequest, visitor: Visitor, uuid: UUID, *, is_redo: bool) -> HttpResponseBase:
    visitor.require_role(MANAGERS)
    row = import_of(visitor.lab, uuid)
    history = reverse("asset-import-history")
    form = (RedoForm if is_redo else UndoForm).from_request(request, visitor, row=row)
    if form.is_bound and form.submit():
        if form.message:
            messages.success(request, form.message)
        return HttpResponseRedirect(request.path if row.state in RUNNING else history)
    if row.state in RUNNING:
        context = {"page": running_page(row), "form": form}
        return render(request, "dashboard/assets/import_running.html", context, status=form.status)
    if request.headers.get("HX-Request") and not row.task.get("error"):
        return HttpResponseClientRedirect(history)  # the job has ended
    content = undo_page(row, plan_redo(row) if is_redo else plan_undo(row))
    context = {"page": content, "form": form}
    return render(request, "dashboard/assets/import_undo.html", context, status=form.status)


@page("GET", "POST")
def asset_remove(request: HttpRequest, visitor: Visitor, pk: int) -> HttpResponseBase:
    """Show what the removal of an asset does. POST removes it."""
    visitor.require_role(MANAGERS)
    asset = asset_of(visitor.lab, pk)
    if asset is None:
        raise NotFound("No such asset in your lab.", hint=f"See {reverse('assets')}.")
    form = RemoveForm.from_request(request, visitor, asset=asset)
    if form.is_bound and form.submit():
        messages.success(request, form.message)
        return HttpResponseRedirect(reverse("asset-import-history"))
    context = {"asset": asset, "step": plan_removal(asset), "form": form}
    return render(request, "dashboard/assets/asset_remove.html", context, status=form.status)
