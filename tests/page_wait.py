"""Waiting in a browser until something holds on a page."""

from __future__ import annotations

import time
from typing import Any

from playwright.sync_api import Error

_TIMEOUT_S, _PAUSE_MS = 30.0, 50


def wait_until_true(page: Any, script: str) -> None:
    """Ask a page until a script is true there. Playwright's wait_for_function asks within the page from its second time on,
    which the Content-Security-Policy of our pages refuses as the eval that it is."""
    end = time.monotonic() + _TIMEOUT_S
    while not _is_true(page, script):
        assert time.monotonic() < end, f"{page.url}: this was not so within {_TIMEOUT_S:.0f} s: {script}"
        page.wait_for_timeout(_PAUSE_MS)


def _is_true(page: Any, script: str) -> bool:
    try:
        return bool(page.evaluate(script))
    except Error as error:
        if "context was destroyed" in error.message:  # another page came while it was asked
            return False
        raise
