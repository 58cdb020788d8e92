"""Rules of signing in with a password: nobody signs up by themselves, guessing is slow, and names are not given away."""

from allauth.account.adapter import DefaultAccountAdapter
from allauth.account.auth_backends import AuthenticationBackend
from django.core.exceptions import PermissionDenied
from django.db.models import Q
from django.http import HttpRequest

from apps.accounts.models import User


def find_user(typed: str) -> User | None:
    """Return whose user name, else whose mail address this is; None where two people have the address."""
    name = typed.strip()
    candidates = list(User.objects.filter(Q(username__iexact=name) | Q(email__iexact=name)).order_by("id")[:20])
    by_name = [user for user in candidates if user.username == name] or [
        user for user in candidates if user.username.lower() == name.lower()
    ]
    people = by_name or [user for user in candidates if name and user.email.lower() == name.lower()]
    return people[0] if len(people) == 1 else None


class UsernameOrEmailBackend(AuthenticationBackend):
    """Checks one password hash for every answer: a known name, an unknown one and a mail address take the same work."""

    def authenticate(self, request: HttpRequest | None, **credentials: str) -> User | None:
        """Return who may sign in; raise PermissionDenied, so that no other backend hashes again."""
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
    """Accounts are made by the set-up wizard, by admins and by invitations, never by a stranger."""

    def is_open_for_signup(self, request: HttpRequest) -> bool:
        return False

    def _get_login_attempts_cache_key(self, request: HttpRequest, **credentials: str) -> str:
        """Return whose attempts are counted together: a person's, by whichever name, else those on what was typed."""
        typed = credentials.get("username") or credentials.get("email") or ""
        user = find_user(typed)
        return f"person:{user.pk}" if user else f"name:{typed.strip().lower()}"
