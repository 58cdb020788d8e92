"""Refuses requests that no view can read, before any view: headers and paths with what Django or
a database cannot decode.
"""

import codecs
from collections.abc import Callable, Iterable
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.utils.http import parse_header_parameters

from apps.core.errors import InvalidInput
from apps.core.text import is_unstorable
from labcarbon.error_handlers import invalid_request, not_found

_FLAG = "labcarbon.invalid_content_type"
# Django decodes query strings and forms by the charset of the request.
_CHARSETS = frozenset({"utf-8", "ascii", "iso8859-1", "cp1252"})
Environ = dict[str, Any]


class Entrance:
    """A WSGI application that wraps Django's: Django reads some headers before its middleware."""

    def __init__(self, application: Callable[[Environ, Any], Iterable[bytes]]) -> None:
        self._application = application

    def __call__(self, environ: Environ, start_response: Any) -> Iterable[bytes]:
        return self._application(flag_content_type(environ), start_response)


def flag_content_type(environ: Environ) -> Environ:
    """Remove a Content-Type that Django cannot read. EntranceMiddleware refuses the request."""
    if not _is_readable(environ.get("CONTENT_TYPE", "")):
        environ["CONTENT_TYPE"], environ[_FLAG] = "", True
    return environ


def _is_readable(content_type: str) -> bool:
    try:
        _, params = parse_header_parameters(content_type)
        charset = params.get("charset", "utf-8")
        return codecs.lookup(charset).name in _CHARSETS
    except (LookupError, ValueError):
        return False


class EntranceMiddleware:
    """Refuses an unreadable Content-Type (400) and NUL in a path (404), and ignores cookies with
    NUL: no record can have such a key. NUL in a query string is left to views and their forms.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if is_unstorable(request.path):
            return not_found(request, Http404())
        if request.META.get(_FLAG):
            error = InvalidInput(
                "The Content-Type is invalid, or its charset is not supported.",
                hint="Send UTF-8, for example Content-Type: application/json.",
            )
            return invalid_request(request, error)
        for name in [name for name, value in request.COOKIES.items() if is_unstorable(value)]:
            del request.COOKIES[name]
        return self._get_response(request)
