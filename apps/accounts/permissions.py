"""Permissions of API callers: each endpoint requires a scope."""

from django.conf import settings
from django.urls import reverse
from rest_framework.permissions import BasePermission
from rest_framework.request import Request
from rest_framework.views import APIView

from apps.accounts.authentication import Caller
from apps.accounts.models import User
from apps.accounts.selectors import LAB_KEY, lab_of_user
from apps.core.errors import Forbidden


def caller(request: Request) -> Caller:
    """Return the caller of an authenticated request, whether by token or by session."""
    who = request.user
    if isinstance(who, Caller):
        return who
    assert isinstance(who, User)
    lab, scopes = lab_of_user(who, request.session.get(LAB_KEY))
    return Caller(lab, scopes, user=who)


def require(scope: str) -> type[BasePermission]:
    """Return a permission class that requires ``scope``."""

    class HasScope(BasePermission):
        def has_permission(self, request: Request, view: APIView) -> bool:
            if not request.user:
                return False
            who = caller(request)
            if who.node_uuid and not who.scopes:
                raise Forbidden(
                    "This node waits for the approval of a manager.",
                    hint=(
                        f"A PI or an admin approves it at {settings.SITE_URL}{reverse('node-add')}."
                    ),
                    code="waiting_for_approval",
                )
            if scope not in who.scopes:
                raise Forbidden(
                    f"This requires the permission {scope!r}.", hint="Ask an admin of your lab."
                )
            return True

    return HasScope
