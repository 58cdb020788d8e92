"""Rules of signing in: nobody signs up by themselves, and one-time links are traded for a session."""

from allauth.account.adapter import DefaultAccountAdapter
from django.http import HttpRequest


class ClosedSignup(DefaultAccountAdapter):
    """Accounts are made by the set-up wizard and by admins, never by a stranger."""

    def is_open_for_signup(self, request: HttpRequest) -> bool:
        return False
