"""Match hardware names, convert kilograms to micrograms, and rank figures by trust. Pure."""

import re
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction

from apps.catalog.choices import TRUST
from apps.core.errors import InvalidInput
from apps.core.units import UG_PER_KG

_NOISE = re.compile(r"nvidia|tesla|quadro|\(r\)|\(tm\)|cpu|processor|@.*$|[\s\-]", re.IGNORECASE)
_CORES = re.compile(r"\b\d+-cores?(?=\s*(?:processor|$))", re.IGNORECASE)
_GENERATION = re.compile(r"^\s*\d+(?:st|nd|rd|th) gen\b", re.IGNORECASE)
_GRAPHICS = re.compile(r"\bw(?:ith|/)\s+radeon.*$", re.IGNORECASE)


def match_key(name: str) -> str:
    """Return ``name`` for comparison.

    It is lower case, without vendor words, core counts, clock rates, blanks and hyphens.
    Distinguishing parts of product names stay: "Ti", "SUPER", "D", the memory size, the letters
    after a number.
    """
    for part in (_GENERATION, _GRAPHICS, _CORES, _NOISE):
        name = part.sub("", name)
    return name.lower()


def kg_to_ug(kg: Decimal) -> int:
    """Return ``kg`` of CO2e in µg, rounded half up."""
    return int((kg * UG_PER_KG * 2 + 1) // 2)


def trust(method: str, own: bool, source_year: int | None, pk: int) -> tuple[int, bool, int, int]:
    """Return the sort key of a figure, the most trusted first.

    Order: better method, the lab's own before shipped, newer source, later record.
    """
    return TRUST.index(method), not own, -(source_year or 0), -pk


MOST_KG = 1_000_000  # above any item of a lab
GENERIC_PERCENT = 30  # range of a figure whose source has none
_ROUNDING = Fraction(1, 100)  # allowed difference between parts and total of a source


@dataclass(frozen=True)
class Draft:
    """An embodied figure as stated by a user, in µg CO2e per ``unit``. None: not stated.

    See :func:`completed`.
    """

    method: str
    unit: str
    source: str
    manufacture_ug: int | None = None
    transport_ug: int | None = None
    end_of_life_ug: int | None = None
    total_ug: int | None = None
    low_ug: int | None = None
    high_ug: int | None = None
    includes_end_of_life: bool | None = None
    lifetime_years_typical: Decimal | None = None
    source_year: int | None = None
    note: str = ""

    @property
    def parts(self) -> dict[str, int]:
        """Return the stated parts by name."""
        parts = {
            "manufacture": self.manufacture_ug,
            "transport": self.transport_ug,
            "end of life": self.end_of_life_ug,
        }
        return {name: ug for name, ug in parts.items() if ug is not None}


def completed(draft: Draft) -> Draft:
    """Return ``draft`` with total, range and end-of-life flag filled in, or raise InvalidInput.

    A missing total is the sum of the stated parts. A missing range is the generic one, which the
    note states. The total includes the end of life if that is a part.
    """
    total = _total(draft)
    low, high, note = _range(draft, total)
    inside = draft.includes_end_of_life
    if draft.end_of_life_ug is not None:
        if inside is False:
            raise InvalidInput(
                "The end of life is stated, but not included in the total.",
                field="includes_end_of_life",
                hint="Set it to included, or leave the part empty.",
            )
        inside = True
    return replace(
        draft, total_ug=total, low_ug=low, high_ug=high, includes_end_of_life=inside, note=note
    )


def _total(draft: Draft) -> int:
    parts = draft.parts
    if draft.total_ug is None and not parts:
        raise InvalidInput(
            "The figure is missing.",
            field="total_kg",
            hint="Enter the total in kg CO2e, or at least one of its parts.",
        )
    total = sum(parts.values()) if draft.total_ug is None else draft.total_ug
    if not 0 < total <= MOST_KG * UG_PER_KG:
        raise InvalidInput(
            f"{_kg(total)} kg is out of range.",
            field="total_kg",
            hint=f"Enter kg above 0, up to {MOST_KG}.",
        )
    whole = sum(parts.values())
    if any(ug > total for ug in parts.values()) or whole - total > total * _ROUNDING:
        raise InvalidInput(
            f"The parts make {_kg(whole)} kg, more than the total of {_kg(total)} kg.",
            field="total_kg",
            hint="The total includes all parts. Leave it empty to use their sum.",
        )
    if len(parts) == 3 and total - whole > total * _ROUNDING:
        raise InvalidInput(
            f"The three parts make {_kg(whole)} kg, the total is {_kg(total)} kg.",
            field="total_kg",
            hint=(
                "Leave the total empty to use their sum, or leave out a part that the source "
                "does not state."
            ),
        )
    return total


def _range(draft: Draft, total: int) -> tuple[int, int, str]:
    if draft.low_ug is None and draft.high_ug is None:
        note = f"{draft.note} Range: the generic ±{GENERIC_PERCENT} %, none was given.".strip()
        return (
            total * (100 - GENERIC_PERCENT) // 100,
            -(-total * (100 + GENERIC_PERCENT) // 100),
            note,
        )
    low = total if draft.low_ug is None else draft.low_ug
    high = total if draft.high_ug is None else draft.high_ug
    if (
        draft.low_ug is None
        or draft.high_ug is None
        or not 0 <= low <= total <= high <= 10 * MOST_KG * UG_PER_KG
    ):
        raise InvalidInput(
            f"{_kg(low)} to {_kg(high)} kg is not a range around {_kg(total)} kg.",
            field="low_kg",
            hint="Enter both ends with the total between them, or none.",
        )
    return low, high, draft.note


def _kg(ug: int) -> str:
    return f"{(Decimal(ug) / UG_PER_KG).normalize():f}"
