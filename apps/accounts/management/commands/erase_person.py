"""``manage.py erase_person USERNAME``: removes the names of a person from all their labs."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from apps.accounts.common_words import is_common, is_ordinary
from apps.accounts.models import Lab, User
from apps.accounts.services.erasure import account_names, erase_person, labs_of
from apps.accounts.services.erasure_preview import preview
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
            "--in-texts",
            action="append",
            default=[],
            metavar="NAME",
            help="also replace this name in prose, although it can be a word; can be repeated",
        )
        parser.add_argument(
            "--not-in-texts",
            action="append",
            default=[],
            metavar="NAME",
            help="do not replace this name in prose; can be repeated",
        )
        parser.add_argument(
            "--confirm", action="store_true", help="erase; without it, list what would be erased"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        person = User.objects.filter(username=options["username"]).first()
        if person is None:
            raise CommandError(f"No user {options['username']!r}.")
        labs = labs_of(person)
        names = list(dict.fromkeys([*account_names(person), *options["names"]]))
        selected = [
            name
            for name in names
            if name not in options["not_in_texts"]
            and (name in options["in_texts"] or not is_ordinary(name))
        ]
        if unknown := {*options["in_texts"], *options["not_in_texts"]} - {*names}:
            raise CommandError(f"Not a name of this person: {min(unknown)!r}. Add --name.")
        if not options["confirm"]:
            self._list(labs, names, selected)
            return
        try:
            result = erase_person(
                person=person,
                names=options["names"],
                in_texts=selected,
                labs=labs,
                by=None,
                now=now_us(),
            )
        except LabCarbonError as error:
            raise CommandError(f"{error.message} {error.hint}") from error
        self.stdout.write(f"{result.label}: {sum(result.changed.values())} values changed.")
        for word in result.kept_words:
            self.stdout.write(f"{word!r} was not replaced in texts.")

    def _list(self, labs: list[Lab], names: list[str], selected: list[str]) -> None:
        self.stdout.write(f"Names: {', '.join(names)}")
        self.stdout.write(f"Labs: {', '.join(lab.slug for lab in labs) or 'none'}")
        for lab in labs:
            for row in preview(lab, [name for name in names if not is_common(name)]):
                use = "replaced" if row.name in selected else "not replaced"
                self.stdout.write(f"{lab.slug}: {row.text_count} texts with {row.name!r}, {use}")
                for column, excerpt in row.texts:
                    self.stdout.write(f"  {column}: {excerpt}")
                self.stdout.write(f"{lab.slug}: {row.kept_count} keys and paths keep {row.name!r}")
                for column, excerpt in row.kept:
                    self.stdout.write(f"  {column}: {excerpt}")
        self.stdout.write("Nothing was changed. Add --confirm to erase.")
