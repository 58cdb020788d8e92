"""Removes the second factor of a person who lost the phone and the recovery codes."""

from typing import Any

from allauth.mfa.models import Authenticator
from django.core.management.base import BaseCommand, CommandError, CommandParser

from apps.accounts.models import User


class Command(BaseCommand):
    help = (
        "Remove the authenticator app and the recovery codes of a person, who can then sign in "
        "without a code."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "username", help="user name of the person (verify their identity first)"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        user = User.objects.filter(username=options["username"]).first()
        if user is None:
            raise CommandError(f"No user {options['username']!r}.")
        removed, _ = Authenticator.objects.filter(user=user).delete()
        if not removed:
            self.stdout.write(f"{user.get_username()} has no second factor. Nothing was changed.")
            return
        self.stdout.write(
            f"Second factor of {user.get_username()} removed. They can now sign in without a code."
        )
