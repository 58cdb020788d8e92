"""The inbox of repeats, its CSV, and one finding side by side."""

from collections.abc import Iterator
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponseBase, HttpResponseRedirect
from django.shortcuts import render

from apps.carbon.figures.visibility import sight_of
from apps.core.errors import InvalidInput, LabCarbonError
from apps.core.text import is_unstorable, parse_record_number
from apps.dashboard.csv_response import csv_response
from apps.dashboard.decorators import KEEPERS, WRITERS, Visitor, found, page
from apps.dashboard.runs.duplicates import CSV_HEAD, duplicates_page, finding_page, line_of, repeat_rows, repeats_filtered
from apps.preflight.choices import RepeatState
from apps.preflight.finding_selectors import repeat_of
from apps.preflight.models import Repeat
from apps.preflight.services.findings import count_again, decide, ignore, reopen

CHUNK = 500
_DONE = {
    RepeatState.CONFIRMED: "confirmed as repeats",
    RepeatState.INTENTIONAL: "marked as intentional",
    RepeatState.DISMISSED: "dismissed: no repeats",
}


@page("GET", "POST")
def duplicates(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """List findings; POST decides about the chosen ones, or undoes what was decided."""
    error: LabCarbonError | None = None
    if request.method == "POST":
        visitor.needs(WRITERS)
        try:
            messages.success(request, _decided(request, visitor, _chosen(request.POST.getlist("line"))))
            return HttpResponseRedirect(request.get_full_path())
        except LabCarbonError as wrong:
            error = wrong
    sight = sight_of(visitor.lab, visitor.user)
    shown = duplicates_page(lab=visitor.lab, params=request.GET.dict(), now=visitor.now, sight=sight)
    context = {"page": shown, "error": error, "reason": request.POST.get("reason", "")}
    return render(request, "pages/duplicates.html", context, status=error.status if error else 200)


def _chosen(lines: list[str]) -> list[int]:
    numbers = [number for line in lines if (number := parse_record_number(line)) is not None]
    if len(numbers) < len(lines):
        raise InvalidInput("There is no such line.", field="line", hint="Open /duplicates/ again.")
    return numbers


def _decided(request: HttpRequest, visitor: Visitor, chosen: list[int]) -> str:
    do, reason = request.POST.get("do", ""), request.POST.get("reason", "").strip()
    who: dict[str, Any] = {"lab": visitor.lab, "by": visitor.user, "keeper": visitor.may_keep, "now": visitor.now}
    if do == "undo":
        number = len(reopen(repeats=chosen, **who))
        return f"{number} finding{'s are' if number > 1 else ' is'} open again."
    if do not in RepeatState.values:
        raise InvalidInput("Nothing was chosen to do.", field="do", hint="Use one of the buttons.")
    state = RepeatState(do)
    number = len(decide(repeats=chosen, state=state, reason=reason, **who))
    return f"{number} {_DONE.get(state, 'decided')}. Undo it from the list of those."


@page()
def duplicates_csv(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """Download the findings that the filters leave. Empty: not measured, or no factor."""
    sight = sight_of(visitor.lab, visitor.user)
    listed, _ = repeats_filtered(visitor.lab, request.GET.dict())

    def lines() -> Iterator[tuple[Any, ...]]:
        total = listed.count()
        for start in range(0, total, CHUNK):
            for row in repeat_rows(visitor.lab, list(listed[start : start + CHUNK]), sight)[0]:
                yield line_of(row)

    return csv_response(f"{visitor.lab.slug}-repeats", CSV_HEAD, lines())


@page("GET", "POST")
def finding(request: HttpRequest, visitor: Visitor, pk: int) -> HttpResponseBase:
    """Show a repeat beside the run it repeats; POST decides what it is."""
    asked = found(repeat_of(visitor.lab, pk), "finding", "/duplicates/")
    error: LabCarbonError | None = None
    if request.method == "POST":
        visitor.needs(WRITERS)
        try:
            messages.success(request, _acted(request, visitor, asked))
            return HttpResponseRedirect(f"/duplicates/{pk}/")
        except LabCarbonError as wrong:
            error = wrong
    sight = sight_of(visitor.lab, visitor.user)
    shown = finding_page(lab=visitor.lab, repeat=asked, now=visitor.now, sight=sight)
    context = {"page": shown, "error": error, "reason": request.POST.get("reason", "")}
    return render(request, "pages/finding.html", context, status=error.status if error else 200)


def _acted(request: HttpRequest, visitor: Visitor, asked: Repeat) -> str:
    do, name = request.POST.get("do", ""), request.POST.get("name", "")
    if do not in ("ignore", "count"):
        return _decided(request, visitor, [asked.pk])
    visitor.needs(KEEPERS)  # it changes what is compared for everybody's runs of the project
    if is_unstorable(name):
        raise InvalidInput("The run has no such parameter.", field="name", hint="Choose one of the list.")
    act = ignore if do == "ignore" else count_again
    project = act(repeat=asked, name=name, by=visitor.user, now=visitor.now)
    told = "no longer counts" if do == "ignore" else "counts again"
    return f"{name} {told} in {project.name}. Its runs are compared anew within a minute."
