"""An admin's word that a mail address is a person's, for accounts that were there before the identity provider was."""

from typing import Any

from allauth.account.internal.emailkit import valid_email_or_none
from django.core.management.base import BaseCommand, CommandError, CommandParser

from apps.accounts.models import User
from apps.accounts.oidc.adapter import verify_email_address
from apps.core.errors import Conflict


class Command(BaseCommand):
    help = "Confirm a person's mail address: whoever the identity provider knows by it signs in as them."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("username", help="user name of the person, as they sign in")
        parser.add_argument("mail", help="their address as the identity provider gives it")

    def handle(self, *args: Any, **options: Any) -> None:
        user = User.objects.filter(username=options["username"]).first()
        if user is None:
            raise CommandError(f"There is nobody with the user name {options['username']!r}.")
        mail = valid_email_or_none(options["mail"].strip())
        if mail is None:
            raise CommandError(f"{options['mail']!r} is no mail address.")
        try:
            verify_email_address(user=user, mail=mail)
        except Conflict as error:
            raise CommandError(f"{error.message} {error.hint}") from error
        self.stdout.write(f"Whoever owns {mail.lower()} at the identity provider may sign in as {user.get_username()}.")
