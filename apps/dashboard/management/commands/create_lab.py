"""Creates another lab on a server that is set up. Labs are isolated from each other."""

from typing import Any

from django.conf import settings
from django.core.management.base import CommandError, CommandParser
from django.urls import reverse

from apps.accounts.choices import Basis, CodePurpose
from apps.accounts.selectors import is_set_up
from apps.accounts.services.labs import issue_code
from apps.core.clock import now_us
from apps.core.errors import LabCarbonError
from apps.core.management.base import MinimalCommand
from apps.dashboard.setup.services import SITE_KINDS, SetupResult, add_lab


class Command(MinimalCommand):
    help = (
        "Create another lab on this server with its first admin, a site and the project demo. "
        "Labs are isolated."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        kinds = [kind for kind, _ in SITE_KINDS]
        parser.add_argument("--name", required=True, help="name of the lab")
        parser.add_argument(
            "--user",
            required=True,
            help="user name of its first admin (must have an account on this server)",
        )
        parser.add_argument(
            "--new-account",
            action="store_true",
            help="create the account and print a one-time sign-in link",
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
        if not is_set_up():
            raise CommandError(
                "This server is not set up yet: open the setup link of `make run`, or use `make "
                "setup`."
            )
        now = now_us()
        try:
            result = add_lab(
                lab_name=options["name"],
                username=options["user"],
                new_account=options["new_account"],
                zone=options["zone"],
                basis=options["basis"],
                site_kind=options["site_kind"],
                time_zone=options["time_zone"],
                now=now,
            )
        except LabCarbonError as error:
            raise CommandError(f"{error.message} {error.hint}".strip()) from error
        self._report(result, options["new_account"], now)

    def _report(self, result: SetupResult, new_account: bool, now: int) -> None:
        self.stdout.write(
            f"{result.lab.name} is there, with {result.user.get_username()} as its admin and the "
            "project demo."
        )
        if result.note:
            self.stdout.write(result.note)
        if new_account:
            code = issue_code(
                purpose=CodePurpose.SIGN_IN, now=now, lab=result.lab, user=result.user
            )
            self.stdout.write(
                "Sign in (once, within 15 minutes): "
                f"{settings.SITE_URL}{reverse('sign-in')}?code={code}"
            )
