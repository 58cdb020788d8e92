"""Differences between the accepted and the present cells of a row. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass

# Facts about an asset that follow from a cell. A poll may update these. Any other cell is about
# the life of the asset or its figure: a person records an event or corrects the purchase.
FACTS_OF_CELL: dict[str, tuple[str, ...]] = {
    "name": ("name",),
    "serial": ("serial",),
    "tag": ("tag",),
    "location": ("location",),
    "supplier": ("supplier",),
    "price": ("price_ucurrency", "currency"),
    "warranty_months": ("warranty_until",),
    "order_number": ("order_number",),
    "note": ("note",),
}
MAX_LOST_PERCENT = 20


@dataclass(frozen=True)
class Difference:
    """A cell that changed. ``is_fact``: whether a poll may update it."""

    cell: str
    before: str
    after: str

    @property
    def is_fact(self) -> bool:
        return self.cell in FACTS_OF_CELL


def differences(accepted: Mapping[str, str], cells: Mapping[str, str]) -> list[Difference]:
    """Return the cells that differ, in the order of their names."""
    names = sorted({*accepted, *cells})
    pairs = [(name, accepted.get(name, ""), cells.get(name, "")) for name in names]
    return [Difference(*pair) for pair in pairs if pair[1] != pair[2]]


def loses_too_many(*, present: int, lost: int) -> bool:
    """Return whether a list lost more than a fifth of its rows."""
    return lost * 100 > present * MAX_LOST_PERCENT
