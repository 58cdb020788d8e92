"""Page objects: what a template shows, computed. And what every page's frame shows."""

from typing import Any

from django.http import HttpRequest
from django.urls import reverse
from django.utils.functional import SimpleLazyObject

from apps.accounts.selectors import is_set_up
from apps.artifacts.cleanup.notifications import pending_deletions
from apps.dashboard.profile_menu import profile_choices

RAIL = (
    ("Overview", "overview"),
    ("Projects", "projects"),
    ("Runs", "runs"),
    ("Assets", "assets"),
    ("Nodes", "nodes"),
    ("Artifacts", "artifacts"),
)


def shell(request: HttpRequest) -> dict[str, Any]:
    """Return what the frame needs: the visitor, the rail with its current page, and, asked where it is used, whether set-up
    is done and what goes soon of the visitor's artifacts."""
    first = request.path.strip("/").split("/", 1)[0] or "overview"
    area = {
        "sites": "nodes",
        "devices": "nodes",
        "catalog": "nodes",
        "explain": "",
        "unattributed": "projects",
        "rules": "projects",
        "claims": "projects",
        "scopes": "overview",
        "duplicates": "runs",
    }.get(first, first)
    visitor = getattr(request, "visitor", None)
    return {
        "visitor": visitor,
        "profiles": profile_choices(request, visitor.lab) if visitor else [],
        "rail": [{"name": name, "href": reverse(page), "current": page == area} for name, page in RAIL],
        "pending_deletions": SimpleLazyObject(lambda: pending_deletions(visitor.lab, visitor.user) if visitor else []),
        "is_set_up": SimpleLazyObject(is_set_up),
    }
