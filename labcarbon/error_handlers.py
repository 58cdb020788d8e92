"""Error responses outside of views: under /api/ in the error format of the API, elsewhere as a
page.
"""

import sys
from typing import Any

from django.contrib.sessions.exceptions import SessionInterrupted
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.middleware.common import CommonMiddleware
from django.template.loader import render_to_string
from django.urls import is_valid_path
from django.views import defaults

from apps.core.database_problems import DatabaseUnavailable
from apps.core.errors import Forbidden, LabCarbonError, NotFound

_API = "/api/"
_DOCS_HINT = "All URLs are listed at /api/docs/."


class _ServerError(LabCarbonError):
    status = 500
    code = "server_error"


class ApiSlashMiddleware(CommonMiddleware):
    """Redirects to the URL with a trailing slash. Never redirects API requests that change data,
    because clients would repeat them as GET.
    """

    def should_redirect_with_slash(self, request: HttpRequest) -> bool:
        changes = request.method not in {"GET", "HEAD"}
        return not (changes and _is_api(request)) and super().should_redirect_with_slash(request)


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Return 404: a signed-in person keeps the navigation."""
    if not _is_api(request):
        error = NotFound("The address is wrong, or the item does not exist in your lab.")
        return _page_of_lab(request, error) or defaults.page_not_found(request, exception)
    with_slash = f"{request.path}/"
    hint = f"The URL ends with a slash: {with_slash}" if is_valid_path(with_slash) else _DOCS_HINT
    return _error_response(NotFound("There is nothing at this URL.", hint=hint))


def _page_of_lab(request: HttpRequest, error: LabCarbonError) -> HttpResponse | None:
    """Return the error as a page of the visitor's lab. None without a session or a lab."""
    from apps.dashboard.decorators import render_error, visitor_of  # its models need the settings

    user = getattr(request, "user", None)
    if user is None or not user.is_authenticated:
        return None
    try:
        visitor_of(request)
    except LabCarbonError:
        return None
    return render_error(request, error)


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Return 400 for requests that Django rejects, such as an unknown host."""
    if isinstance(exception, SessionInterrupted) and (reason := _reason_behind(exception)):
        return unavailable(request, reason)
    if not _is_api(request):
        return defaults.bad_request(request, exception)
    return _error_response(LabCarbonError("The request is invalid.", hint=_DOCS_HINT))


def invalid_request(request: HttpRequest, error: LabCarbonError) -> HttpResponse:
    """Return 400 for a request that no view can read."""
    return _error_response(error) if _is_api(request) else defaults.bad_request(request, error)


def forbidden(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Return 403."""
    error = Forbidden("You are not allowed to do this.")
    if not _is_api(request):
        return _page_of_lab(request, error) or defaults.permission_denied(request, exception)
    return _error_response(error)


def unavailable(request: HttpRequest, error: DatabaseUnavailable) -> HttpResponse:
    """Return 503 with Retry-After. Uses no database."""
    response = (
        _error_response(error)
        if _is_api(request)
        else HttpResponse(render_to_string("503.html", {"error": error}), status=error.status)
    )
    response["Retry-After"] = str(error.retry_after_s)
    return response


def server_error(request: HttpRequest) -> HttpResponse:
    """Return 500, or 503 if the database is the cause."""
    reason = _reason(sys.exc_info()[1])
    if reason is not None:
        return unavailable(request, reason)
    if not _is_api(request):
        return defaults.server_error(request)
    hint = "Try again in a minute. If the error persists, check the server log."
    return _error_response(_ServerError("Internal server error. No data was changed.", hint=hint))


def _reason(error: BaseException | None) -> DatabaseUnavailable | None:
    from apps.core.database.health import unavailability_of  # its models need the settings

    return unavailability_of(error)


def _reason_behind(error: BaseException | None) -> DatabaseUnavailable | None:
    """Return the database problem because of which Django could not save a session."""
    while error is not None:
        if reason := _reason(error):
            return reason
        error = error.__context__
    return None


def _is_api(request: HttpRequest) -> bool:
    """Return whether a program sent the request, which reads an error as JSON."""
    from apps.trackers.registry import NAMES  # its models need the settings

    return request.path.startswith((_API, *(f"/{name}/" for name in NAMES)))


def _error_response(error: LabCarbonError) -> HttpResponse:
    body: dict[str, Any] = error.body()
    return JsonResponse(body, status=error.status)
