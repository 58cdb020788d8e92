"""The way back in for a person who lost the phone and the recovery codes."""

from typing import Any

from allauth.mfa.models import Authenticator
from django.core.management.base import BaseCommand, CommandError, CommandParser

from apps.accounts.models import User


class Command(BaseCommand):
    help = "Remove a person's authenticator app and recovery codes: signing in asks for no code until they set it up anew."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("username", help="user name of the person, as they sign in; make sure that it is they who ask")

    def handle(self, *args: Any, **options: Any) -> None:
        user = User.objects.filter(username=options["username"]).first()
        if user is None:
            raise CommandError(f"There is nobody with the user name {options['username']!r}.")
        removed, _ = Authenticator.objects.filter(user=user).delete()
        if not removed:
            self.stdout.write(f"{user.get_username()} has no second factor; nothing was changed.")
            return
        self.stdout.write(f"The second factor of {user.get_username()} is removed. They sign in without a code now.")
