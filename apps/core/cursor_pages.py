"""Pages of an API by cursor, in the order of a whole number."""

import re

from rest_framework.exceptions import NotFound
from rest_framework.pagination import Cursor, CursorPagination
from rest_framework.request import Request

from apps.core.units import INT64_MAX


def is_position(text: str) -> bool:
    """Return whether a text is a whole number that every database can compare."""
    return re.fullmatch(r"-?[0-9]{1,19}", text) is not None and abs(int(text)) <= INT64_MAX


class NumberCursorPagination(CursorPagination):
    """Pages whose first order is a whole number. Another position is an invalid cursor."""

    def decode_cursor(self, request: Request) -> Cursor | None:
        cursor: Cursor | None = super().decode_cursor(request)
        position = None if cursor is None else cursor.position
        if position is not None and not is_position(str(position)):
            raise NotFound(self.invalid_cursor_message)
        return cursor
