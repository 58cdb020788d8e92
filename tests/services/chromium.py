"""Debian's Chromium for Playwright: no download, no calls home, no sandbox only where root
forbids one.
"""

import os
import shutil
from typing import Any

_QUIET = [
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
]


def program() -> str | None:
    """Return Debian's Chromium, or None: the one without windows, a tenth lighter, where there
    is one.
    """
    return shutil.which("chromium-headless-shell") or shutil.which("chromium")


def launch_options() -> dict[str, Any]:
    """Return what ``playwright.chromium.launch`` takes."""
    flags = [*_QUIET, "--no-sandbox"] if os.geteuid() == 0 else list(_QUIET)
    return {
        "executable_path": program(),
        "args": flags,
        "headless": True,
        "chromium_sandbox": os.geteuid() != 0,
    }
