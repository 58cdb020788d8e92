"""The search in all of a lab: a page, and its results alone for the dialog."""

from django.http import HttpRequest, HttpResponseBase, HttpResponseRedirect
from django.shortcuts import render

from apps.dashboard.decorators import Visitor, page
from apps.dashboard.search.results import parse_text, search_lab


@page()
def search(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """Show what contains all words of ``q``, or open the only result. ``kind``: more results of
    one kind, always as a list.
    """
    text = parse_text(request.GET.get("q", ""))
    groups = search_lab(visitor, text, request.GET.get("kind", ""))
    count = sum(len(each.results) for each in groups)
    is_part = request.headers.get("HX-Request") == "true"
    if count == 1 and not is_part and "kind" not in request.GET:
        return HttpResponseRedirect(groups[0].results[0].href)
    context = {"text": text, "groups": groups, "count": count}
    template = "results" if is_part else "search"
    return render(request, f"dashboard/search/{template}.html", context)
