"""Confirms the e-mail address of a person, for accounts older than the identity provider."""

from typing import Any

from allauth.account.internal.emailkit import valid_email_or_none
from django.core.management.base import BaseCommand, CommandError, CommandParser

from apps.accounts.models import User
from apps.accounts.oidc.adapter import verify_email_address
from apps.core.errors import Conflict


class Command(BaseCommand):
    help = (
        "Confirm the e-mail address of a person, so that they can sign in with the identity "
        "provider."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("username", help="user name of the person")
        parser.add_argument("mail", help="their address at the identity provider")

    def handle(self, *args: Any, **options: Any) -> None:
        user = User.objects.filter(username=options["username"]).first()
        if user is None:
            raise CommandError(f"No user {options['username']!r}.")
        mail = valid_email_or_none(options["mail"].strip())
        if mail is None:
            raise CommandError(f"{options['mail']!r} is not an e-mail address.")
        try:
            verify_email_address(user=user, mail=mail)
        except Conflict as error:
            raise CommandError(f"{error.message} {error.hint}") from error
        self.stdout.write(
            f"The owner of {mail.lower()} at the identity provider may sign in as "
            f"{user.get_username()}."
        )
