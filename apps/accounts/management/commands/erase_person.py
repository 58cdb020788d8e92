"""``manage.py erase_person USERNAME``: removes the names of a person from all their labs."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from apps.accounts.models import User
from apps.accounts.services.erasure import account_names, erase_person, labs_of
from apps.core.clock import now_us
from apps.core.errors import LabCarbonError


class Command(BaseCommand):
    help = (
        "Erase a person in all their labs, also a former member: the account and every name in "
        "texts. Energy, runs and figures stay under a neutral label. This cannot be undone."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("username", help="user name of the person")
        parser.add_argument(
            "--name",
            action="append",
            default=[],
            dest="names",
            help="a further name, such as an OS user; can be repeated",
        )
        parser.add_argument(
            "--confirm", action="store_true", help="erase; without it, list what would be erased"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        person = User.objects.filter(username=options["username"]).first()
        if person is None:
            raise CommandError(f"No user {options['username']!r}.")
        labs = labs_of(person)
        if not options["confirm"]:
            names = ", ".join([*account_names(person), *options["names"]])
            self.stdout.write(f"Names: {names}")
            self.stdout.write(f"Labs: {', '.join(lab.slug for lab in labs) or 'none'}")
            self.stdout.write("Nothing was changed. Add --confirm to erase.")
            return
        try:
            result = erase_person(
                person=person, names=options["names"], labs=labs, by=None, now=now_us()
            )
        except LabCarbonError as error:
            raise CommandError(f"{error.message} {error.hint}") from error
        self.stdout.write(f"{result.label}: {sum(result.changed.values())} values changed.")
        for word in result.kept_words:
            self.stdout.write(f"{word!r} is a common word and stays in texts.")
