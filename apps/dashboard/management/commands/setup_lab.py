"""Setup without a browser."""

import getpass
from typing import Any

from django.core.management.base import CommandError, CommandParser

from apps.accounts.choices import Basis
from apps.accounts.models import Lab
from apps.carbon.figures.energy import zones
from apps.carbon.services import load_factors
from apps.core.clock import now_us
from apps.core.errors import LabCarbonError
from apps.core.management.base import MinimalCommand
from apps.dashboard.setup.services import SITE_KINDS, set_up


class Command(MinimalCommand):
    help = (
        "Set up the lab with its first user, a site and the project demo. A repetition with the "
        "same lab changes nothing."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        kinds = [kind for kind, _ in SITE_KINDS]
        parser.add_argument("--lab", required=True, help="name of the lab")
        parser.add_argument(
            "--user",
            default="",
            help="user name of its first admin (default: your user name on this machine)",
        )
        parser.add_argument(
            "--zone",
            default="",
            help="grid zone such as DE or Germany (default: none, emissions unknown)",
        )
        parser.add_argument(
            "--basis",
            default=Basis.LIFECYCLE.value,
            choices=Basis.values,
            help="basis of the emission factors (default: lifecycle)",
        )
        parser.add_argument(
            "--site-kind", default="workstation", choices=kinds, help="type of site"
        )
        parser.add_argument(
            "--time-zone", default="UTC", help="time zone of the lab, such as Europe/Berlin"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        existing = Lab.objects.order_by("id").first()
        if existing is not None:
            if existing.name != options["lab"].strip():
                raise CommandError(
                    f"This server is set up already, for {existing.name!r}. Add another lab with "
                    "`manage.py create_lab`."
                )
            self.stdout.write(f"{existing.name} is set up already.")
            return
        now = now_us()
        try:
            if not zones():
                load_factors(now=now)
            result = set_up(
                lab_name=options["lab"],
                username=options["user"].strip() or getpass.getuser(),
                password="",
                zone=options["zone"],
                basis=options["basis"],
                site_kind=options["site_kind"],
                time_zone=options["time_zone"],
                now=now,
            )
        except LabCarbonError as error:
            raise CommandError(f"{error.message} {error.hint}".strip()) from error
        self.stdout.write(
            f"{result.lab.name} is set up, with {result.user.get_username()} as its admin and the "
            "project demo. To sign in with a browser, restart `make run`: it prints a sign-in link."
        )
        if result.note:
            self.stdout.write(result.note)
