"""Makes a test's live server process one request at a time."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from django.core.handlers.base import BaseHandler


def serialize_requests(patch: pytest.MonkeyPatch) -> threading.Lock:
    """Serialise requests of the live server, whose threads share one database connection. Returns
    the lock, for tests that query the database meanwhile.
    """
    lock, original = threading.Lock(), BaseHandler.get_response

    def get_response(handler: BaseHandler, request: Any) -> Any:
        with lock:
            return original(handler, request)

    patch.setattr(BaseHandler, "get_response", get_response)
    return lock
