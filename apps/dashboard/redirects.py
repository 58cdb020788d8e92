"""Redirects from addresses that pages had in earlier versions (docs/compatibility.md)."""

from django.urls import URLPattern, path
from django.views.generic import RedirectView


def moved(route: str, name: str) -> URLPattern:
    """Return a path that answers 301 with the address of the page ``name``; arguments and query
    string are kept.
    """
    return path(route, RedirectView.as_view(pattern_name=name, permanent=True, query_string=True))
