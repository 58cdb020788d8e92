"""Shared parts of the REST API: the error format and strict request bodies."""

import re
from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import Http404
from rest_framework import exceptions, serializers
from rest_framework.pagination import Cursor, CursorPagination
from rest_framework.request import Request
from rest_framework.response import Response

from apps.core.errors import LabCarbonError
from apps.core.units import INT64_MAX


class StrictSerializer(serializers.Serializer[Any]):
    """A serializer that rejects unknown keys, so that a typing error is reported and not
    ignored.
    """

    def to_internal_value(self, data: Any) -> Any:
        if isinstance(data, dict):
            unknown = sorted(set(data) - set(self.fields))
            if unknown:
                raise serializers.ValidationError(
                    {unknown[0]: [f"Unknown key. Known keys: {', '.join(sorted(self.fields))}."]}
                )
        return super().to_internal_value(data)


def _first_error(detail: Any, path: str = "") -> tuple[str, str]:
    """Return (field path, text) of the first error in DRF's nested error detail."""
    if isinstance(detail, dict):
        key, value = next(iter(detail.items()))
        return _first_error(value, f"{path}.{key}" if path else str(key))
    if isinstance(detail, list):
        return _first_error(detail[0], path)
    return path, str(detail)


def error_response(error: Exception, context: dict[str, Any]) -> Response | None:
    """Return any expected error in the API's error format. Others become status 500."""
    if isinstance(error, LabCarbonError):
        response = Response(error.body(), status=error.status)
        if error.status == 401:
            response["WWW-Authenticate"] = "Bearer"
        retry_after = getattr(error, "retry_after_s", None)
        if retry_after is not None:
            response["Retry-After"] = str(retry_after)
        return response
    if isinstance(error, Http404):
        error = exceptions.NotFound()
    elif isinstance(error, PermissionDenied):
        error = exceptions.PermissionDenied()
    if not isinstance(error, exceptions.APIException):
        return None
    field, message = _first_error(error.detail)
    code = error.default_code if isinstance(error.default_code, str) else "error"
    hint = {
        "not_authenticated": (
            "Send Authorization: Bearer <token>; get one with `labcarbon-collect login` or `enrol`."
        ),
        "parse_error": "The body must be JSON.",
    }.get(code, "")
    response = Response(
        {"error": {"code": code, "message": message, "field": field or None, "hint": hint}},
        status=error.status_code,
    )
    auth_header, wait_s = getattr(error, "auth_header", None), getattr(error, "wait", None)
    if auth_header:
        response["WWW-Authenticate"] = auth_header
    if wait_s:
        response["Retry-After"] = str(int(wait_s) + 1)
    return response


def is_position(text: str) -> bool:
    """Return whether a text is a whole number that every database can compare."""
    return re.fullmatch(r"-?[0-9]{1,19}", text) is not None and abs(int(text)) <= INT64_MAX


class NumberCursorPagination(CursorPagination):
    """Pages whose first order is a whole number. Another position is an invalid cursor."""

    def decode_cursor(self, request: Request) -> Cursor | None:
        cursor: Cursor | None = super().decode_cursor(request)
        position = None if cursor is None else cursor.position
        if position is not None and not self.is_valid_position(str(position), request):
            raise exceptions.NotFound(self.invalid_cursor_message)
        return cursor

    def is_valid_position(self, text: str, request: Request) -> bool:
        """Return whether a row can have this position."""
        return is_position(text)
