"""Password sign-in: no public sign-up, limited attempts, and no disclosure of user names."""

from typing import Any

from allauth.account.adapter import DefaultAccountAdapter
from allauth.account.auth_backends import AuthenticationBackend
from allauth.account.internal.flows.login import get_authentication_records
from django.core.exceptions import PermissionDenied
from django.db.models import Q
from django.http import HttpRequest, HttpResponse

from apps.accounts.choices import SignInMethod
from apps.accounts.models import User
from apps.accounts.services.sign_ins import record_failed_sign_in, record_sign_in
from apps.core.clock import now_us


def find_user(typed: str) -> User | None:
    """Return the user with this user name, else with this e-mail address. None if two users have
    the address.
    """
    name = typed.strip()
    candidates = list(
        User.objects.filter(Q(username__iexact=name) | Q(email__iexact=name)).order_by("id")[:20]
    )
    by_name = [user for user in candidates if user.username == name] or [
        user for user in candidates if user.username.lower() == name.lower()
    ]
    people = by_name or [user for user in candidates if name and user.email.lower() == name.lower()]
    return people[0] if len(people) == 1 else None


class UsernameOrEmailBackend(AuthenticationBackend):
    """Checks exactly one password hash per attempt, so that the response time discloses no user
    name.
    """

    def authenticate(self, request: HttpRequest | None, **credentials: str) -> User | None:
        """Return the user. Raises PermissionDenied, so that no other backend checks a second
        hash.
        """
        password = credentials.get("password")
        if not password:
            return None
        user = find_user(credentials.get("username") or credentials.get("email") or "")
        if user is None:
            User().set_password(password)
        elif user.check_password(password) and self.user_can_authenticate(user):
            return user
        raise PermissionDenied


class ClosedSignup(DefaultAccountAdapter):
    """Refuses sign-up. Accounts are created by setup, by admins and by invitations."""

    def is_open_for_signup(self, request: HttpRequest) -> bool:
        return False

    def post_login(self, request: HttpRequest, user: User, **options: Any) -> HttpResponse:
        """Record the sign-in: by password, with or without second factor, or by the provider."""
        methods = {record["method"] for record in get_authentication_records(request, user)}
        method = (
            SignInMethod.PROVIDER
            if "socialaccount" in methods
            else SignInMethod.SECOND_FACTOR
            if "mfa" in methods
            else SignInMethod.PASSWORD
        )
        record_sign_in(user=user, method=method, now=now_us())
        response: HttpResponse = super().post_login(request, user, **options)
        return response

    def authentication_failed(self, request: HttpRequest, **credentials: Any) -> None:
        """Record a wrong password. Throttled attempts are not checked and not recorded."""
        typed = credentials.get("username") or credentials.get("email") or ""
        record_failed_sign_in(user=find_user(typed), method=SignInMethod.PASSWORD, now=now_us())

    def _get_login_attempts_cache_key(self, request: HttpRequest, **credentials: str) -> str:
        """Return the key for counting attempts: the user, else the entered text."""
        typed = credentials.get("username") or credentials.get("email") or ""
        user = find_user(typed)
        return f"person:{user.pk}" if user else f"name:{typed.strip().lower()}"
