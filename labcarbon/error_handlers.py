"""What is answered where no view answers: under /api/ in the API's one shape of errors, elsewhere as a page."""

from typing import Any

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.middleware.common import CommonMiddleware
from django.urls import is_valid_path
from django.views import defaults

from apps.core.errors import Forbidden, LabCarbonError, NotFound

_API = "/api/"
_ALL = "All addresses stand at /api/docs/."


class _Broken(LabCarbonError):
    status = 500
    code = "server_error"


class Slashes(CommonMiddleware):
    """Sends on to the address with a slash at its end; not what changes something by the API: it would arrive as a GET."""

    def should_redirect_with_slash(self, request: HttpRequest) -> bool:
        changes = request.method not in {"GET", "HEAD"}
        return not (changes and _is_api(request)) and super().should_redirect_with_slash(request)


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Answer 404."""
    if not _is_api(request):
        return defaults.page_not_found(request, exception)
    with_slash = f"{request.path}/"
    hint = f"It ends with a slash: {with_slash}" if is_valid_path(with_slash) else _ALL
    return _error_response(NotFound("There is nothing at this address.", hint=hint))


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Answer 400: what Django itself refuses, as a host that is not ours."""
    if not _is_api(request):
        return defaults.bad_request(request, exception)
    return _error_response(LabCarbonError("This request cannot be read.", hint=_ALL))


def forbidden(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Answer 403."""
    if not _is_api(request):
        return defaults.permission_denied(request, exception)
    return _error_response(Forbidden("You may not do this."))


def broken(request: HttpRequest) -> HttpResponse:
    """Answer 500."""
    if not _is_api(request):
        return defaults.server_error(request)
    hint = "Try again in a minute. If it stays, look into the server's log."
    return _error_response(_Broken("Something broke on the server. No figure was changed by it.", hint=hint))


def _is_api(request: HttpRequest) -> bool:
    return request.path.startswith(_API)


def _error_response(error: LabCarbonError) -> HttpResponse:
    body: dict[str, Any] = error.body()
    return JsonResponse(body, status=error.status)
