"""Content of the list of emission factors: the zones of the lab's sites, then all others."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from django.urls import reverse

from apps.accounts.choices import Basis
from apps.accounts.models import Lab
from apps.carbon.basis import check_basis
from apps.carbon.factor_levels import LEVELS, Level, ZoneLevels, levels_of_zones
from apps.core.errors import InvalidInput
from apps.core.text import is_unstorable
from apps.core.units import hour_of
from apps.dashboard.formatting import grams_per_kwh, grouped
from apps.fleet.models import Site
from apps.fleet.selectors import sites_of, zones_at
from apps.fleet.zones import Zone, zones

PAGE_ROWS = 50
NONE = "none"  # filter: zones without a factor


@dataclass(frozen=True)
class ZoneRow:
    """A zone with the factor that applies to it now. ``sites``: those of the lab there."""

    zone: Zone
    levels: ZoneLevels
    sites: Sequence[Site] = ()

    @property
    def applied(self) -> Level | None:
        return self.levels.applied

    @property
    def value(self) -> str:
        return grams_per_kwh(self.applied.ug_per_kwh) if self.applied else ""

    @property
    def other_zone(self) -> str:
        """Return the zone of the factor if it is that of a parent, else ''."""
        if self.applied is None or self.applied.factor.zone == self.zone.code:
            return ""
        return self.applied.factor.zone


@dataclass(frozen=True)
class Filters:
    """Filters of the list. ``basis``: of the factors; ``resolution``: '' for all."""

    search_text: str
    basis: Basis
    resolution: str

    def params(self, lab: Lab) -> dict[str, str]:
        """Return the query parameters that select them."""
        values = {
            "q": self.search_text,
            "basis": "" if self.basis == lab.basis else self.basis.value,
            "resolution": self.resolution,
        }
        return {name: value for name, value in values.items() if value}


@dataclass(frozen=True)
class FactorsPage:
    """A page of the list. ``used``: the zones of the lab's sites. ``count``: of the other zones."""

    filters: Filters
    used: list[ZoneRow]
    rows: list[ZoneRow]
    count: int
    resolutions: list[tuple[str, str]]
    earlier: str
    later: str
    csv: str

    @property
    def number(self) -> str:
        return grouped(self.count)


def parse_filters(params: Mapping[str, str], lab: Lab) -> Filters:
    """Return the filters of a request. Raises InvalidInput."""
    search_text = " ".join(params.get("q", "").split())
    if is_unstorable(search_text) or len(search_text) > 200:
        raise InvalidInput(
            "The search text is too long or has an invalid character.",
            field="q",
            hint="Enter a part of the name or code of a zone, such as DE.",
        )
    resolution = params.get("resolution", "")
    if resolution not in ("", NONE, *LEVELS):
        raise InvalidInput(
            f"{resolution[:40]!r} is not a resolution.",
            field="resolution",
            hint=f"Use one of {', '.join((*LEVELS, NONE))}.",
        )
    return Filters(search_text, check_basis(params.get("basis") or lab.basis), resolution)


def zone_rows(lab: Lab, filters: Filters, now: int) -> list[ZoneRow]:
    """Return the filtered zones, those of the lab's sites first. At most six queries."""
    hour = hour_of(now)
    zone_of_site = zones_at(lab, hour)
    sites: dict[str, list[Site]] = {}
    for site in sites_of(lab):
        sites.setdefault(zone_of_site.get(site.pk, ""), []).append(site)
    typed = filters.search_text.casefold()
    listed = {
        code: zone for code, zone in zones().items() if not typed or typed in zone.label.casefold()
    }
    levels = levels_of_zones(lab, listed, hour, filters.basis)
    rows = [ZoneRow(zone, levels[code], sites.get(code, ())) for code, zone in listed.items()]
    rows = [row for row in rows if _has_resolution(row, filters.resolution)]
    return sorted(rows, key=lambda row: (not row.sites, row.zone.name.casefold(), row.zone.code))


def _has_resolution(row: ZoneRow, resolution: str) -> bool:
    if not resolution:
        return True
    if resolution == NONE:
        return row.applied is None
    return row.applied is not None and row.applied.resolution == resolution


def factors_page(*, lab: Lab, params: Mapping[str, str], now: int) -> FactorsPage:
    """Return a page of the list. The number of queries does not depend on the number of rows."""
    filters = parse_filters(params, lab)
    number = page_number(params)
    rows = zone_rows(lab, filters, now)
    others = [row for row in rows if not row.sites]
    query = filters.params(lab)

    def address(page: int) -> str:
        return "?" + urlencode({**query, "page": page})

    return FactorsPage(
        filters=filters,
        used=[row for row in rows if row.sites],
        rows=others[(number - 1) * PAGE_ROWS : number * PAGE_ROWS],
        count=len(others),
        resolutions=[
            *((level.value, str(level.label)) for level in LEVELS),
            (NONE, "no factor"),
        ],
        earlier=address(number - 1) if number > 1 else "",
        later=address(number + 1) if number * PAGE_ROWS < len(others) else "",
        csv=reverse("factors-csv") + ("?" + urlencode(query) if query else ""),
    )


def page_number(params: Mapping[str, str]) -> int:
    """Return the number of a page, 1 without one. Raises InvalidInput."""
    text = params.get("page", "1")
    if not (text.isascii() and text.isdecimal()) or not 1 <= len(text) <= 7 or int(text) < 1:
        raise InvalidInput(
            f"Invalid page number {text[:20]!r}.", field="page", hint="Use a whole number from 1."
        )
    return int(text)
