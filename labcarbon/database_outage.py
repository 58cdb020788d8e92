"""Returns 503 with Retry-After for every request that the database cannot serve now: it is away,
locked, full, read-only or damaged.
"""

import logging
from collections.abc import Callable

from django.http import HttpRequest, HttpResponse

from apps.core.database.health import unavailability_of
from labcarbon.error_handlers import unavailable

log = logging.getLogger(__name__)


class DatabaseOutageMiddleware:
    """Handles database errors of views, including their authentication. Errors in other middleware
    reach ``error_handlers.server_error``.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self._get_response(request)

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        """Return 503 if the database is the cause, else None."""
        reason = unavailability_of(exception)
        if reason is None:
            return None
        log.error("%s %s: %s: %s", request.method, request.path, reason.problem, reason.detail)
        return unavailable(request, reason)
