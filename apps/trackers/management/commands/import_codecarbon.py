"""Imports emissions.csv of CodeCarbon."""

from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.urls import reverse

from apps.accounts.management.lab_option import selected_lab
from apps.accounts.models import Lab, Project
from apps.accounts.selectors import project_by_slug
from apps.accounts.services.labs import checked_time_zone
from apps.core.clock import now_us
from apps.core.errors import LabCarbonError
from apps.core.units import ENERGY, PPM, plain_amount
from apps.fleet.models import Node, Site
from apps.fleet.selectors import measured_nodes, sites_of
from apps.trackers.codecarbon.services.csv_import import FileErrors, import_file, read_file


class Command(BaseCommand):
    help = (
        "Import FILE, an emissions.csv of CodeCarbon, into a project. The import is all or "
        "nothing, and importing a file "
        "twice changes nothing. CodeCarbon's own carbon figure is stored separately, and its PUE "
        "is divided out."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path, metavar="FILE")
        parser.add_argument("--lab", help="short name of the lab (required with several labs)")
        parser.add_argument("--project", required=True, help="short name of the charged project")
        where = parser.add_mutually_exclusive_group()
        where.add_argument(
            "--node",
            help="host name of the node that wrote the file; its collector takes precedence",
        )
        where.add_argument(
            "--site",
            help=(
                "name of the site, for a machine without a collector (default: first site of "
                "the lab)"
            ),
        )
        parser.add_argument("--time-zone", help="time zone of the file (default: that of the lab)")
        parser.add_argument(
            "--client-pue",
            type=float,
            default=1.0,
            help="PUE of files without a column pue (default: 1)",
        )
        parser.add_argument(
            "--dry-run", action="store_true", help="print a summary without importing"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        path: Path = options["file"]
        try:
            lab = selected_lab(options["lab"])
            zone = ZoneInfo(checked_time_zone(options["time_zone"] or lab.time_zone))
            with path.open(newline="", encoding="utf-8-sig") as file:
                rows = read_file(
                    file, zone=zone, client_pue_ppm=self._pue_ppm(options["client_pue"])
                )
            project = self._project(lab, options["project"])
            node, site = self._place(lab, options["node"], options["site"])
            last = {
                row.run_id: row.reading.energy_mj for row in rows
            }  # rows of one run are its total so far
            summary = (
                f"{len(rows)} rows of {len(last)} runs, {plain_amount(sum(last.values()), ENERGY)}"
            )
            if options["dry_run"]:
                self.stdout.write(f"{summary} would be imported")
                return
            answers = import_file(
                lab=lab, rows=rows, project=project, node=node, site=site, now=now_us()
            )
        except OSError as error:
            raise CommandError(f"{path} cannot be read: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise CommandError(
                f"{path} is not UTF-8 text: save it as CSV UTF-8 and try again."
            ) from error
        except FileErrors as error:
            lines = [f"{row.message} {row.hint}" for row in error.errors]
            raise CommandError("\n".join([*lines, f"{error.message} {error.hint}"])) from error
        except LabCarbonError as error:
            raise CommandError(f"{error.message} {error.hint}") from error
        self.stdout.write(
            f"{summary}: "
            + ", ".join(f"{count} {answer}" for answer, count in answers.items() if count)
        )

    def _pue_ppm(self, pue: float) -> int:
        if not 1 <= pue <= 10:
            raise CommandError(
                "--client-pue must be from 1 to 10. Use 1 if CodeCarbon has no PUE setting."
            )
        return round(pue * PPM)

    def _project(self, lab: Lab, slug: str) -> Project:
        project = project_by_slug(lab, slug)
        if project is None:
            known = ", ".join(lab.projects.order_by("slug").values_list("slug", flat=True)[:20])
            raise CommandError(f"There is no project {slug!r}. Known: {known}.")
        return project

    def _place(
        self, lab: Lab, hostname: str | None, site_name: str | None
    ) -> tuple[Node | None, Site | None]:
        if hostname:
            nodes = list(measured_nodes(lab).filter(hostname=hostname)[:2])
            if len(nodes) != 1:
                raise CommandError(
                    f"{'Several machines are' if nodes else 'No machine is'} called {hostname!r}. "
                    f"See {reverse('nodes')}."
                )
            return nodes[0], None
        sites = sites_of(lab)
        site = sites.filter(name=site_name).first() if site_name else sites.first()
        if site is None:
            known = ", ".join(sites.values_list("name", flat=True)[:20])
            raise CommandError(f"There is no site {site_name!r}. Known: {known}.")
        return None, site
