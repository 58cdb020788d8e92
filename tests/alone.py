"""Lets a test's live server answer one request at a time."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from django.core.handlers.base import BaseHandler


def answer_one_at_a_time(patch: pytest.MonkeyPatch) -> threading.Lock:
    """The test's server shares one connection among its threads: two transactions at once would break each other's. Return
    what is held meanwhile, for who asks the database beside it."""
    lock, answer = threading.Lock(), BaseHandler.get_response

    def alone(handler: BaseHandler, request: Any) -> Any:
        with lock:
            return answer(handler, request)

    patch.setattr(BaseHandler, "get_response", alone)
    return lock
