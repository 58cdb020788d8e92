"""How a reported hardware name finds its row, how kilograms become micrograms, which figure is trusted. Pure."""

import re
from decimal import Decimal

from apps.catalog.choices import TRUST
from apps.core.units import UG_PER_KG

_NOISE = re.compile(r"nvidia|tesla|quadro|\(r\)|\(tm\)|cpu|processor|@.*$|[\s\-]", re.IGNORECASE)
_CORES = re.compile(r"\b\d+-cores?(?=\s*(?:processor|$))", re.IGNORECASE)
_GENERATION = re.compile(r"^\s*\d+(?:st|nd|rd|th) gen\b", re.IGNORECASE)
_GRAPHICS = re.compile(r"\bw(?:ith|/)\s+radeon.*$", re.IGNORECASE)


def match_key(name: str) -> str:
    """Return ``name`` as it is compared: lower case, without vendor words, core counts, clock rates, blanks and hyphens.

    What tells two products apart stays: "Ti", "SUPER", "D", the memory size, the letters behind a number.
    """
    for part in (_GENERATION, _GRAPHICS, _CORES, _NOISE):
        name = part.sub("", name)
    return name.lower()


def kg_to_ug(kg: Decimal) -> int:
    """Return ``kg`` of CO2e in µg, rounded half up."""
    return int((kg * UG_PER_KG * 2 + 1) // 2)


def trust(method: str, own: bool, source_year: int | None, pk: int) -> tuple[int, bool, int, int]:
    """Return the sort key of a figure, the most trusted first.

    The better method before the worse, the lab's own before the shipped, the newer source before the older, the later
    record before the earlier.
    """
    return TRUST.index(method), not own, -(source_year or 0), -pk
