"""Context of the frame of every page: visitor, navigation, profiles."""

from typing import Any

from django.conf import settings
from django.http import HttpRequest
from django.utils.functional import SimpleLazyObject

from apps.accounts.selectors import is_set_up
from apps.artifacts.cleanup.notifications import pending_deletions
from apps.dashboard.first_command import compose_first_command
from apps.dashboard.frame.navigation import navigation, settings_pages
from apps.dashboard.frame.period_menu import period_params
from apps.dashboard.frame.profile_menu import profile_choices
from apps.dashboard.help.topics import help_href


def shell(request: HttpRequest) -> dict[str, Any]:
    """Return the context of the frame. What needs a query is read only where a template uses
    it.
    """
    visitor = getattr(request, "visitor", None)
    pending = SimpleLazyObject(
        lambda: pending_deletions(visitor.lab, visitor.user) if visitor else []
    )
    return {
        "visitor": visitor,
        "first_command": compose_first_command(request),
        "profiles": profile_choices(request, visitor.lab) if visitor else [],
        "navigation": SimpleLazyObject(
            lambda: (
                navigation(visitor, request.path, pending, period_params(request))
                if visitor
                else []
            )
        ),
        "settings_pages": settings_pages(visitor, request.path) if visitor else [],
        "pending_deletions": pending,
        "help_href": help_href(request),
        "is_demo": settings.DEMO,
        "is_set_up": SimpleLazyObject(is_set_up),
    }
