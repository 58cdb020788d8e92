"""Keeps responses out of the caches of browsers and proxies: pages, downloads and API responses
contain data of a lab.
"""

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse


class NoStoreMiddleware:
    """Adds ``Cache-Control: no-store`` to each response without a rule of its own. Static files are
    served before it.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self._get_response(request)
        response.headers.setdefault("Cache-Control", "private, no-store")
        return response
