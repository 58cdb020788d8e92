"""Views of cleanup plans and retention periods."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponseBase, HttpResponseRedirect, QueryDict
from django.shortcuts import render
from django.urls import reverse

from apps.accounts.models import Project
from apps.accounts.selectors import project_by_slug
from apps.artifacts.cleanup import plans as acts
from apps.artifacts.cleanup.retention_settings import set_retention_periods
from apps.artifacts.models import CleanupPlan
from apps.core.errors import InvalidInput, LabCarbonError
from apps.core.text import is_unstorable, parse_record_number
from apps.dashboard.artifacts.cleanup import CSV_COLUMNS, plan_csv_rows, plan_page, plans_page
from apps.dashboard.csv_response import csv_response
from apps.dashboard.decorators import MANAGERS, WRITERS, Visitor, or_not_found, page
from apps.dashboard.form_fields import optional_node

_DEFAULT_DAYS = "14"  # prefilled in the form


@page("GET", "POST")
def plans(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """List plans; POST creates a plan for a machine or sets retention periods."""
    error: LabCarbonError | None = None
    if request.method == "POST":
        visitor.require_role(MANAGERS if request.POST.get("do") == "days" else WRITERS)
        try:
            return HttpResponseRedirect(_handle_list_post(request, visitor))
        except LabCarbonError as exception:
            error = exception
    wrong_days = request.POST if error and error.field != "project" and request.POST.get("do") == "days" else None
    project = _project(wrong_days or request.GET, visitor)
    listed = plans_page(visitor.lab, project=project, typed=wrong_days.dict() if wrong_days else {})
    context = {"page": listed, "error": error, "typed": {} if wrong_days else request.POST}
    return render(request, "dashboard/artifacts/cleanup_plans.html", context, status=error.status if error else 200)


def _handle_list_post(request: HttpRequest, visitor: Visitor) -> str:
    data = request.POST
    project = _project(data, visitor)
    if data.get("do") == "days":
        days = {name.removeprefix("days:"): value for name, value in data.dict().items() if name.startswith("days:")}
        set_retention_periods(lab=visitor.lab, project=project, days=days, by=visitor.user, now=visitor.now)
        messages.success(request, f"For how long what is kept in {project.name if project else 'the lab'} is recorded.")
        return reverse("cleanup-plans") + (f"?project={project.slug}" if project else "")
    node = optional_node(data, visitor)
    if node is None:
        raise InvalidInput("Choose the machine that it is for.", field="node", hint="One on which artifacts were found.")
    plan = acts.create_plan(lab=visitor.lab, node=node, project=project, by=visitor.user, now=visitor.now)
    messages.success(request, "Here is what is due. Nothing goes yet: look through it, then tell the owners.")
    return reverse("cleanup-plan", args=[plan.uuid])


def _project(data: QueryDict, visitor: Visitor) -> Project | None:
    slug = str(data.get("project", ""))
    if not slug:
        return None
    project = None if is_unstorable(slug) else project_by_slug(visitor.lab, slug)
    if project is None:
        raise InvalidInput("There is no such project in your lab.", field="project", hint="Choose one of the list.")
    return project


@page("GET", "POST")
def plan(request: HttpRequest, visitor: Visitor, uuid: UUID) -> HttpResponseBase:
    """Show a plan; POST selects items, notifies owners, objects, approves or withdraws."""
    plan: CleanupPlan = or_not_found(acts.plan_by_uuid(visitor.lab, uuid), "plan", reverse("cleanup-plans"))
    error: LabCarbonError | None = None
    if request.method == "POST":
        try:
            messages.success(request, _handle_plan_post(request.POST, visitor, plan))
            return HttpResponseRedirect(_redirect_address(request))
        except LabCarbonError as wrong:
            error = wrong
    ticks = _posted_ticks(request.POST)
    listed = plan_page(plan=plan, params=request.GET.dict(), user=visitor.user, now=visitor.now, ticks=ticks)
    context = {
        "page": listed, "error": error, "typed": request.POST or request.GET, "asking": request.GET.get("withdraw") == "1",
    }  # fmt: skip
    return render(request, "dashboard/artifacts/cleanup_plan.html", context, status=error.status if error else 200)


def _redirect_address(request: HttpRequest) -> str:
    """Return the same address, with typed days that differ from the default."""
    query = request.GET.copy()
    for name in ("grace_days", "trash_days"):
        query.pop(name, None)
        typed = request.POST.get(name, "")
        if request.POST.get("do") == "choose" and typed not in ("", _DEFAULT_DAYS):
            query[name] = typed
    return f"{request.path}?{query.urlencode()}" if query else request.path


def _posted_ticks(data: QueryDict) -> dict[str, bool]:
    """Return by item whether its checkbox was checked in the posted form."""
    return {**dict.fromkeys(data.getlist("shown"), False), **dict.fromkeys(data.getlist("line"), True)}


@page()
def plan_csv(request: HttpRequest, visitor: Visitor, uuid: UUID) -> HttpResponseBase:
    """Download all items of a plan."""
    plan: CleanupPlan = or_not_found(acts.plan_by_uuid(visitor.lab, uuid), "plan", reverse("cleanup-plans"))
    return csv_response(f"{visitor.lab.slug}-plan", CSV_COLUMNS, plan_csv_rows(plan, visitor.now))


PlanAction = Callable[[QueryDict, Visitor, CleanupPlan, dict[str, Any]], str]


def _handle_plan_post(data: QueryDict, visitor: Visitor, plan: CleanupPlan) -> str:
    do = str(data.get("do", ""))
    if do not in _ACTIONS:
        raise InvalidInput(f"{do[:40]!r} cannot be done to a plan.", field="do", hint=f"Use one of {', '.join(_ACTIONS)}.")
    roles, act = _ACTIONS[do]
    visitor.require_role(roles)
    return act(data, visitor, plan, {"plan": plan, "by": visitor.user, "now": visitor.now})


def _select(data: QueryDict, visitor: Visitor, plan: CleanupPlan, context: dict[str, Any]) -> str:
    changed = acts.select_items(selected=_item_numbers(data, "line"), listed=_item_numbers(data, "shown"), **context)
    return f"{changed} line{'s' if changed != 1 else ''} changed."


def _notify(data: QueryDict, visitor: Visitor, plan: CleanupPlan, context: dict[str, Any]) -> str:
    selected, listed = _item_numbers(data, "line"), _item_numbers(data, "shown")
    grace, trash = _parse_days(data, "grace_days"), _parse_days(data, "trash_days")
    notified = acts.notify_owners(grace_days=grace, trash_days=trash, selected=selected, listed=listed, **context)
    number = notified.items.filter(selected=True).count()
    go = f"{number} line{'s' if number != 1 else ''} may go, and the grace begins."
    return f"{go} Owners see on every page they open what is to go, and may object."


def _notify_remaining(data: QueryDict, visitor: Visitor, plan: CleanupPlan, context: dict[str, Any]) -> str:
    number = acts.notify_remaining(grace_days=_parse_days(data, "grace_days"), **context)
    return f"{number} more {'people were' if number != 1 else 'person was'} told: their grace begins."


def _object(data: QueryDict, visitor: Visitor, plan: CleanupPlan, context: dict[str, Any]) -> str:
    lines = _item_numbers(data, "line")
    if not lines:
        raise InvalidInput("Nothing was ticked.", field="line", hint="Tick what is to stay.")
    if not visitor.can_manage and plan.items.filter(pk__in=lines).exclude(artifact__owner=visitor.user).exists():
        raise InvalidInput("Some of these are not yours.", field="line", hint="Their owners, PIs and admins may object.")
    number = acts.object_to_items(items=lines, reason=str(data.get("reason", "")), **context)
    late = len(set(lines)) - number
    but = f"; {late} {'were' if late != 1 else 'was'} moved already, or {'stay' if late != 1 else 'stays'} anyway"
    return f"{number} line{'s stay' if number != 1 else ' stays'}{but if late else ''}."


def _approve(data: QueryDict, visitor: Visitor, plan: CleanupPlan, context: dict[str, Any]) -> str:
    acts.approve(**context)
    return "The plan is approved. It is carried out on the machine, by the command below."


def _withdraw(data: QueryDict, visitor: Visitor, plan: CleanupPlan, context: dict[str, Any]) -> str:
    acts.withdraw(**context)
    return "The plan is withdrawn: everything stays as it was."


_ACTIONS: dict[str, tuple[frozenset[Any], PlanAction]] = {
    "choose": (WRITERS, _select),
    "tell": (MANAGERS, _notify),
    "rest": (MANAGERS, _notify_remaining),
    "object": (WRITERS, _object),
    "approve": (MANAGERS, _approve),
    "withdraw": (WRITERS, _withdraw),
}


def _item_numbers(data: QueryDict, name: str) -> list[int]:
    texts = data.getlist(name)
    numbers = [number for text in texts if (number := parse_record_number(str(text))) is not None]
    if len(numbers) < len(texts):
        raise InvalidInput("There is no such line.", field=name, hint="Load the page again.")
    return numbers


def _parse_days(data: QueryDict, name: str) -> int:
    days = parse_record_number(str(data.get(name, "")))
    if days is None:
        raise InvalidInput("Write a number of days.", field=name)
    return days
