"""Context of the frame of every page: visitor, navigation, profiles."""

from typing import Any

from django.http import HttpRequest
from django.urls import reverse
from django.utils.functional import SimpleLazyObject

from apps.accounts.selectors import is_set_up
from apps.artifacts.cleanup.notifications import pending_deletions
from apps.dashboard.profile_menu import profile_choices

SECTIONS = (
    ("Overview", "overview"),
    ("Projects", "projects"),
    ("Runs", "runs"),
    ("Assets", "assets"),
    ("Nodes", "nodes"),
    ("Artifacts", "artifacts"),
)


def shell(request: HttpRequest) -> dict[str, Any]:
    """Return the context of the frame. Setup state and pending deletions are queried only where
    a template uses them.
    """
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
        "sections": [
            {"name": name, "href": reverse(page), "current": page == area}
            for name, page in SECTIONS
        ],
        "pending_deletions": SimpleLazyObject(
            lambda: pending_deletions(visitor.lab, visitor.user) if visitor else []
        ),
        "is_set_up": SimpleLazyObject(is_set_up),
    }
