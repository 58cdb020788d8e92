"""Waits in a browser until a condition holds on a page."""

from __future__ import annotations

import time
from typing import Any

from playwright.sync_api import Error

_TIMEOUT_S, _PAUSE_MS = 120.0, 50


def wait_until_true(page: Any, script: str) -> None:
    """Evaluate a script on a page until it returns true. Playwright's wait_for_function uses eval
    in the page, which the Content-Security-Policy blocks.
    """
    end = time.monotonic() + _TIMEOUT_S
    while not _is_true(page, script):
        assert time.monotonic() < end, (
            f"{page.url}: this was not so within {_TIMEOUT_S:.0f} s: {script}"
        )
        page.wait_for_timeout(_PAUSE_MS)


def _is_true(page: Any, script: str) -> bool:
    try:
        return bool(page.evaluate(script))
    except Error as error:
        if "context was destroyed" in error.message:  # the page changed during the evaluation
            return False
        raise
