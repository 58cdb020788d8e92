"""Grid zones, their parents, and the zones of cloud regions: shipped tables, read once. Pure."""

import csv
from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path

from apps.core.errors import InvalidInput

DATA = Path(__file__).parent / "data"
DECLARED = "declared:"  # prefix of the zone of a factor that a lab declares
_MAX_SUGGESTIONS = 4


@dataclass(frozen=True)
class Zone:
    """A grid zone. ``parent``: the zone whose factor applies if this one has none, '' for none."""

    code: str
    name: str
    parent: str

    @property
    def label(self) -> str:
        """Return the zone as offered in forms: 'Germany (DE)'."""
        return f"{self.name} ({self.code})"


@dataclass(frozen=True)
class CloudRegion:
    """A region of a cloud provider, and its grid zone."""

    provider: str
    region: str
    location: str
    zone: str

    @property
    def label(self) -> str:
        """Return the region as offered in forms: 'sa-east-1 (aws, South America)'."""
        return (
            f"{self.region} ({', '.join(part for part in (self.provider, self.location) if part)})"
        )


def _rows(name: str) -> list[dict[str, str]]:
    with (DATA / name).open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@lru_cache(maxsize=1)
def zones() -> dict[str, Zone]:
    """Return all grid zones by code."""
    return {
        row["zone"]: Zone(row["zone"], row["name"], row["parent"]) for row in _rows("zones.csv")
    }


@lru_cache(maxsize=1)
def cloud_regions() -> dict[str, CloudRegion]:
    """Return all cloud regions by name. No two providers use one name."""
    return {
        row["region"]: CloudRegion(row["provider"], row["region"], row["location"], row["zone"])
        for row in _rows("cloud_regions.csv")
    }


@lru_cache(maxsize=1)
def _spellings() -> dict[str, tuple[str, str]]:
    """Return {spelling: (zone, label)}. Zones win over cloud regions."""
    spellings: dict[str, tuple[str, str]] = {}
    for region in cloud_regions().values():
        for text in (
            region.region,
            region.label,
            *(f"{region.provider}{between}{region.region}" for between in (" ", ":", "/")),
        ):
            spellings[text.casefold()] = region.zone, region.label
    for zone in zones().values():
        for text in (zone.name, zone.label, zone.code):
            spellings.setdefault(text.casefold(), (zone.code, zone.label))
    for zone in zones().values():  # a code means its zone, whatever has the same name
        spellings[zone.code.casefold()] = zone.code, zone.label
    return spellings


def find_zone(text: str) -> str:
    """Return the grid zone of a code, a name, a label or a cloud region, '' if it is unknown."""
    typed = " ".join(text.split()).casefold()
    spellings = _spellings()
    found = spellings.get(typed) or spellings.get(typed.replace(" ", ""))
    return found[0] if found else ""


def resolve_zone(text: str) -> str:
    """Return the grid zone of a code, a name, a label or a cloud region, '' for an empty text.

    Raises InvalidInput with suggestions for an unknown zone.
    """
    if not text.strip():
        return ""
    zone = find_zone(text)
    if zone:
        return zone
    raise InvalidInput(
        f"{text.strip()[:60]!r} is not a grid zone or a cloud region.",
        field="zone",
        hint=_suggestion(text),
    )


def _suggestion(text: str) -> str:
    spellings = _spellings()
    near = get_close_matches(text.strip().casefold(), list(spellings), n=12, cutoff=0.45)
    offered = list(dict.fromkeys(spellings[key][1] for key in near))[:_MAX_SUGGESTIONS]
    if offered:
        return f"Did you mean {', '.join(offered)}?"
    return "Enter a country such as Germany, its code DE, or a cloud region such as eu-west-1."


def zone_chain(zone: str) -> list[str]:
    """Return the zones whose factors apply to a stored zone, the closest first.

    A cloud region, which earlier versions could store, counts as its grid zone. An unknown zone has
    no others: no country is guessed from its spelling.
    """
    chain = [zone]
    found = zones().get(zone)
    if found is None and (grid_zone := find_zone(zone)):
        found = zones()[grid_zone]
        chain = [found.code]
    while found is not None and found.parent:
        chain.append(found.parent)
        found = zones().get(found.parent)
    return chain
