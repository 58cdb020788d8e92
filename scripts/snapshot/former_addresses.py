"""Former addresses of pages that moved.

A snapshot requests and records a moved page under its former address, which redirects. Snapshots
from before and after the move therefore have the same keys.
"""

import re

# Current address of a page and its former one, up to the query string.
MOVED = (
    (r"/artifacts/cleanup(?=[/.])", "/artifacts/plans"),
    (r"(/assets/\d+)/replacement(?=[/.])", r"\1/keep"),
    (r"/runs/duplicates(?=[/.])", "/duplicates"),
    (r"/settings/idle/", "/idle/"),
    (r"/settings/(?=$|[?#])", "/lab/"),
    (r"/trackers/codecarbon/", "/tokens/codecarbon/"),
)
_PATTERNS = tuple((re.compile(pattern), former) for pattern, former in MOVED)


def former_address(address: str) -> str:
    """Return the former address of a page that moved, and any other address unchanged."""
    for pattern, former in _PATTERNS:
        if match := pattern.match(address):
            return match.expand(former) + address[match.end() :]
    return address


def with_current_parameters(address: str) -> str:
    """Return an address with its former parameter ``do`` given as ``action`` too."""
    return re.sub(r"(?<=[?&])do=([a-z_]+)", r"do=\1&action=\1", address)
