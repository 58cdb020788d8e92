"""The inbox of repeats, its CSV, and one finding side by side."""

from collections.abc import Iterator
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponseBase, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse

from apps.carbon.figures.visibility import visibility_for
from apps.core.errors import InvalidInput, LabCarbonError
from apps.core.text import is_unstorable, parse_record_number
from apps.dashboard.csv_response import csv_response
from apps.dashboard.decorators import MANAGERS, WRITERS, Visitor, or_not_found, page
from apps.dashboard.runs.duplicates import CSV_HEAD, duplicates_page, filter_findings, finding_page, finding_rows, line_of
from apps.preflight.choices import FindingState
from apps.preflight.finding_selectors import finding_by_id
from apps.preflight.models import DuplicateFinding
from apps.preflight.services.findings import count_parameter_again, decide, ignore_finding_parameter, reopen

CHUNK = 500
_DONE = {
    FindingState.CONFIRMED: "confirmed as repeats",
    FindingState.INTENTIONAL: "marked as intentional",
    FindingState.DISMISSED: "dismissed: no repeats",
}


@page("GET", "POST")
def duplicates(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """List findings; POST decides about the chosen ones, or undoes what was decided."""
    error: LabCarbonError | None = None
    if request.method == "POST":
        visitor.require_role(WRITERS)
        try:
            messages.success(request, _decided(request, visitor, _chosen(request.POST.getlist("line"))))
            return HttpResponseRedirect(request.get_full_path())
        except LabCarbonError as wrong:
            error = wrong
    visibility = visibility_for(visitor.lab, visitor.user)
    context_page = duplicates_page(lab=visitor.lab, params=request.GET.dict(), now=visitor.now, visibility=visibility)
    context = {"page": context_page, "error": error, "reason": request.POST.get("reason", "")}
    return render(request, "dashboard/runs/duplicates.html", context, status=error.status if error else 200)


def _chosen(lines: list[str]) -> list[int]:
    numbers = [number for line in lines if (number := parse_record_number(line)) is not None]
    if len(numbers) < len(lines):
        raise InvalidInput("There is no such line.", field="line", hint=f"Open {reverse('duplicates')} again.")
    return numbers


def _decided(request: HttpRequest, visitor: Visitor, finding_ids: list[int]) -> str:
    action, reason = request.POST.get("do", ""), request.POST.get("reason", "").strip()
    arguments: dict[str, Any] = {
        "lab": visitor.lab, "by": visitor.user, "is_manager": visitor.can_manage, "now": visitor.now,
    }  # fmt: skip
    if action == "undo":
        number = len(reopen(finding_ids=finding_ids, **arguments))
        return f"{number} finding{'s are' if number > 1 else ' is'} open again."
    if action not in FindingState.values:
        raise InvalidInput("Nothing was chosen to do.", field="do", hint="Use one of the buttons.")
    state = FindingState(action)
    number = len(decide(finding_ids=finding_ids, state=state, reason=reason, **arguments))
    return f"{number} {_DONE.get(state, 'decided')}. Undo it from the list of those."


@page()
def duplicates_csv(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """Download the findings that the filters leave. Empty: not measured, or no factor."""
    visibility = visibility_for(visitor.lab, visitor.user)
    findings, _ = filter_findings(visitor.lab, request.GET.dict())

    def lines() -> Iterator[tuple[Any, ...]]:
        total = findings.count()
        for start in range(0, total, CHUNK):
            for row in finding_rows(visitor.lab, list(findings[start : start + CHUNK]), visibility)[0]:
                yield line_of(row)

    return csv_response(f"{visitor.lab.slug}-repeats", CSV_HEAD, lines())


@page("GET", "POST")
def finding(request: HttpRequest, visitor: Visitor, pk: int) -> HttpResponseBase:
    """Show a repeat beside the run it repeats; POST decides what it is."""
    record = or_not_found(finding_by_id(visitor.lab, pk), "finding", reverse("duplicates"))
    error: LabCarbonError | None = None
    if request.method == "POST":
        visitor.require_role(WRITERS)
        try:
            messages.success(request, _acted(request, visitor, record))
            return HttpResponseRedirect(reverse("duplicate", args=[pk]))
        except LabCarbonError as wrong:
            error = wrong
    visibility = visibility_for(visitor.lab, visitor.user)
    finding_details = finding_page(lab=visitor.lab, finding=record, now=visitor.now, visibility=visibility)
    context = {"page": finding_details, "error": error, "reason": request.POST.get("reason", "")}
    return render(request, "dashboard/runs/duplicate.html", context, status=error.status if error else 200)


def _acted(request: HttpRequest, visitor: Visitor, record: DuplicateFinding) -> str:
    action, name = request.POST.get("do", ""), request.POST.get("name", "")
    if action not in ("ignore", "count"):
        return _decided(request, visitor, [record.pk])
    visitor.require_role(MANAGERS)  # it changes what is compared for everybody's runs of the project
    if is_unstorable(name):
        raise InvalidInput("The run has no such parameter.", field="name", hint="Choose one of the list.")
    change = ignore_finding_parameter if action == "ignore" else count_parameter_again
    project = change(finding=record, name=name, by=visitor.user, now=visitor.now)
    effect = "no longer counts" if action == "ignore" else "counts again"
    return f"{name} {effect} in {project.name}. Its runs are compared anew within a minute."
