"""The search in all of a lab: a page, and its results alone for the dialog."""

from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import render

from apps.dashboard.decorators import Visitor, page
from apps.dashboard.search.results import parse_text, search_lab


@page()
def search(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """Show what contains all words of ``q``. ``kind``: more results of one kind."""
    text = parse_text(request.GET.get("q", ""))
    groups = search_lab(visitor, text, request.GET.get("kind", ""))
    context = {"text": text, "groups": groups, "count": sum(len(each.results) for each in groups)}
    is_part = request.headers.get("HX-Request") == "true"
    template = "results" if is_part else "search"
    return render(request, f"dashboard/search/{template}.html", context)
