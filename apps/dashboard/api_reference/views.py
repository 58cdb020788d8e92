"""The API reference: groups of operations, and the operations of a group."""

from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import render
from django.urls import reverse

from apps.artifacts.models import Artifact
from apps.assets.models import Asset
from apps.catalog.models import HardwareModel
from apps.core.errors import NotFound
from apps.dashboard.api_reference.operations import (
    operation_group,
    operation_groups,
    with_commands,
)
from apps.dashboard.decorators import Visitor, framed, public
from apps.preflight.models import DuplicateFinding
from apps.runs.models import Run


@framed
@public()
def api_reference(request: HttpRequest) -> HttpResponseBase:
    """List the operations of the API."""
    context = {"groups": operation_groups()}
    return render(request, "dashboard/api_reference/groups.html", context)


@framed
@public()
def api_group(request: HttpRequest, group: str) -> HttpResponseBase:
    """Show the operations of a group. Commands name things of the visitor's lab."""
    operations = operation_group(group)
    if operations is None:
        hint = f"All operations are listed at {reverse('api-docs')}."
        raise NotFound("The API has no such group.", hint=hint)
    visitor: Visitor | None = getattr(request, "visitor", None)
    values = _values_of_lab(visitor, group) if visitor else {}
    context = {"group": with_commands(operations, values), "groups": operation_groups()}
    return render(request, "dashboard/api_reference/group.html", context)


def _values_of_lab(visitor: Visitor, group: str) -> dict[str, str]:
    """Return a value of the lab for parameters of paths, those that it has. One query."""
    lab = visitor.lab
    first = {
        "runs": ("uuid", Run.objects.filter(lab=lab).order_by("-started_us"), "uuid"),
        "assets": ("asset", Asset.objects.filter(lab=lab).order_by("pk"), "pk"),
        "artifacts": ("digest", Artifact.objects.filter(lab=lab).order_by("-pk"), "digest"),
        "duplicates": ("finding", DuplicateFinding.objects.filter(lab=lab).order_by("-pk"), "pk"),
        "catalog": ("model", HardwareModel.objects.filter(lab=None).order_by("pk"), "pk"),
    }
    if group not in first:
        return {}
    name, rows, column = first[group]
    value = rows.values_list(column, flat=True).first()
    return {} if value is None else {name: str(value)}
