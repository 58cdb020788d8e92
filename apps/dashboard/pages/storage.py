"""Storage: what keeping artifacts costs by project and medium, and its CSV."""

from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import render

from apps.dashboard.artifacts.storage import STORAGE_HEAD, storage_lines, storage_page
from apps.dashboard.csv_response import csv_response
from apps.dashboard.decorators import Visitor, page


@page()
def storage(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """Show what keeping costs in a year."""
    return render(request, "pages/storage.html", {"page": storage_page(lab=visitor.lab, now=visitor.now)})


@page()
def storage_csv(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """Download it by project and medium."""
    return csv_response(f"{visitor.lab.slug}-storage", STORAGE_HEAD, storage_lines(visitor.lab, visitor.now))
