"""Recognise the format of a spreadsheet: our own, NetBox devices, or Snipe-IT assets. Pure.

Header names: NetBox dcim/tables/devices.py and its import form; Snipe-IT
app/Presenters/AssetPresenter.php, its custom report and its importer's
sample_csvs/assets-sample.csv.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from apps.core.errors import InvalidInput

OWN = (
    "name", "kind", "model", "serial", "tag", "supplier", "price", "currency", "bought_on",
    "in_use_since", "life_years", "owner", "site", "parent", "warranty_until", "location", "note",
    "capacity_tb", "embodied_kg", "embodied_low_kg", "embodied_high_kg", "embodied_source",
    "embodied_manufacture_kg", "embodied_transport_kg", "embodied_end_of_life_kg",
    "embodied_includes_end_of_life", "second_hand", "amortisation", "retired_on", "disposed_on",
    "order_number", "contact",
)  # fmt: skip
_NETBOX = {
    "name": "name", "status": "status", "site": "site", "location": "location", "rack": "rack",
    "manufacturer": "manufacturer", "device_type": "model", "type": "model", "serial": "serial",
    "serial_number": "serial", "asset_tag": "tag", "role": "category", "device_role": "category",
    "parent": "parent", "parent_device": "parent", "comments": "note", "description": "note",
}  # fmt: skip
_SNIPE_IT = {
    "asset_name": "name", "item_name": "name", "name": "name", "asset_tag": "tag",
    "serial": "serial", "serial_number": "serial", "model": "model", "model_name": "model",
    "category": "category", "status": "status", "manufacturer": "manufacturer",
    "purchase_date": "bought_on", "purchased": "bought_on", "purchase_cost": "price",
    "cost": "price", "supplier": "supplier", "location": "location", "default_location": "location",
    "warranty": "warranty_months", "warranty_months": "warranty_months",
    "warranty_expires": "warranty_until", "notes": "note", "asset_notes": "note",
    "order_number": "order_number",
}  # fmt: skip
# “contact” is a column of other programs too.
_OWN_ALONE = frozenset(OWN) - set(_NETBOX) - set(_SNIPE_IT) - {"contact"}
_SIGN_OF_SNIPE_IT = frozenset(
    {"asset_name", "item_name", "purchase_cost", "purchase_date", "model_no", "checked_out_to"}
)
_SIGN_OF_NETBOX = frozenset({"device_type", "device_role", "role", "serial_number", "rack", "type"})


@dataclass(frozen=True)
class Header:
    """The first line of a file: format, field of each column ('' ignored), ignored columns."""

    origin: str
    fields: tuple[str, ...]
    ignored: tuple[str, ...]

    @property
    def foreign(self) -> bool:
        return self.origin != "LabCarbon"


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", name.strip().lower()).strip("_")


def recognise(cells: Sequence[str]) -> Header:
    """Return the header of a file's first line.

    Unknown columns are ignored in a foreign format and refused in our own. Raises InvalidInput
    naming the column.
    """
    names = [_plain(cell) for cell in cells]
    present = set(names) - {""}
    if not present & {
        "name",
        "asset_name",
        "item_name",
        "model",
        "model_name",
        "device_type",
        "type",
        "asset_tag",
        "tag",
    }:
        raise InvalidInput(
            "The first line names no column that is known here.",
            field="file",
            hint=(
                f"It names columns out of: {', '.join(OWN)}; or is an export of NetBox's "
                "devices or Snipe-IT's assets."
            ),
        )
    if not present & _OWN_ALONE:
        if present & _SIGN_OF_SNIPE_IT or {"model", "category"} <= present:
            return _foreign("Snipe-IT", cells, names, _SNIPE_IT)
        if present & _SIGN_OF_NETBOX:
            return _foreign("NetBox", cells, names, _NETBOX)
    return _own(cells, names)


def _foreign(
    origin: str, cells: Sequence[str], names: Sequence[str], known: dict[str, str]
) -> Header:
    ignored = tuple(
        cell.strip()[:60]
        for cell, name in zip(cells, names, strict=True)
        if name not in known and cell.strip()
    )
    return Header(origin, tuple(known.get(name, "") for name in names), ignored)


def _own(cells: Sequence[str], names: Sequence[str]) -> Header:
    for cell, name in zip(cells, names, strict=True):
        if name not in OWN:
            raise InvalidInput(
                f"Unknown column {cell.strip()[:40]!r}.",
                field="file",
                hint=f"The first line names columns out of: {', '.join(OWN)}.",
            )
        if names.count(name) > 1:
            raise InvalidInput(
                f"The column {name!r} is there twice.", field="file", hint="Take one of them out."
            )
    return Header("LabCarbon", tuple(names), ())


IN_USE = frozenset({"active", "deployed", "in use", "deployable (deployed)"})
OVER = frozenset({"archived", "decommissioning", "retired", "disposed", "lost", "stolen", "broken"})


def state_of(status: str) -> str:
    """Return "use", "over" or "stock" for a status of NetBox or Snipe-IT.

    A status can contain more text ("Deployed to …").
    """
    text = re.sub(r"[^a-z]+", " ", status.lower()).strip()
    if any(text == word or text.startswith(f"{word} ") for word in OVER) or text.endswith(
        "archived"
    ):
        return "over"
    in_use = any(text == word or text.startswith(f"{word} ") for word in IN_USE) or text.endswith(
        "deployed"
    )
    return "use" if in_use else "stock"
