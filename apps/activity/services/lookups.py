"""Reads that the activities of one file or transaction share, each once."""

from apps.accounts.models import Lab, Project
from apps.accounts.selectors import project_by_slug
from apps.activity.declared_rows import DeclaredRow
from apps.activity.services.declared_sites import node_of_use
from apps.carbon.factors import factors_of_zone
from apps.catalog.choices import HardwareKind
from apps.catalog.selectors import Match, match
from apps.core.errors import InvalidInput
from apps.fleet.choices import Control
from apps.fleet.models import Node
from apps.fleet.zones import resolve_zone


class Lookups:
    """Projects, zones, GPUs and nodes of a lab by the words of activities.

    One that writes nodes is used in one transaction only.
    """

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self._projects: dict[str, Project | None] = {}
        self._zones: dict[str, InvalidInput | None] = {}
        self._gpus: dict[str, Match] = {}
        self._nodes: dict[tuple[str, int | None, int, Control], Node] = {}

    def project(self, slug: str) -> Project | None:
        if slug not in self._projects:
            self._projects[slug] = project_by_slug(self.lab, slug)
        return self._projects[slug]

    def slugs(self) -> list[str]:
        """Return the short names of the first projects of the lab."""
        return list(self.lab.projects.values_list("slug", flat=True)[:20])

    def zone_problem(self, zone: str) -> InvalidInput | None:
        """Return why a zone cannot be used, or None."""
        if zone not in self._zones:
            self._zones[zone] = self._problem(zone)
        return self._zones[zone]

    def gpu(self, name: str) -> Match:
        if name not in self._gpus:
            self._gpus[name] = match(HardwareKind.GPU, name, self.lab)
        return self._gpus[name]

    def node(self, row: DeclaredRow, now: int, control: Control) -> Node:
        """Return the node of declared use; a missing one is created."""
        key = (row.zone, row.ug_per_kwh, row.pue_ppm, control)
        if key not in self._nodes:
            self._nodes[key] = node_of_use(self.lab, row, now, control)
        return self._nodes[key]

    def _problem(self, name: str) -> InvalidInput | None:
        try:
            zone = resolve_zone(name)
        except InvalidInput as error:
            return InvalidInput(error.message, field="zone", hint=error.hint)
        if factors_of_zone(self.lab, zone):
            return None
        return InvalidInput(
            f"no {self.lab.basis} factor for zone {name!r}.",
            field="zone",
            hint="Enter a country code such as DE, or g_per_kwh.",
        )
