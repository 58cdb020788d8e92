"""Lets a test's live server answer one request at a time."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from django.core.handlers.base import BaseHandler


def serialize_requests(patch: pytest.MonkeyPatch) -> threading.Lock:
    """The test's server shares one connection among its threads: two transactions at once would break each other's. Return
    what is held meanwhile, for who asks the database beside it."""
    lock, original = threading.Lock(), BaseHandler.get_response

    def get_response(handler: BaseHandler, request: Any) -> Any:
        with lock:
            return original(handler, request)

    patch.setattr(BaseHandler, "get_response", get_response)
    return lock
