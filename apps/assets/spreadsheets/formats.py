"""Recognise the format of a spreadsheet by its headings. Pure.

Our own columns, exports of NetBox, Snipe-IT, GLPI and OCS Inventory by their signature columns, or
own columns that a person assigns (see ``headings``).

Header names: NetBox dcim/tables/devices.py and its import form; Snipe-IT
app/Presenters/AssetPresenter.php, its custom report and its importer's
sample_csvs/assets-sample.csv; GLPI src/Computer.php and src/Infocom.php (search options); OCS
Inventory's list "All computers".
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from apps.assets.spreadsheets.headings import guess, guesses
from apps.core.errors import InvalidInput
from apps.core.spreadsheets.columns import Column, columns_of, plain
from apps.fleet.choices import CURRENCIES

OWN = (
    "name", "kind", "model", "serial", "tag", "supplier", "price", "currency", "bought_on",
    "in_use_since", "life_years", "owner", "site", "parent", "warranty_until", "location", "note",
    "capacity_tb", "embodied_kg", "embodied_low_kg", "embodied_high_kg", "embodied_source",
    "embodied_manufacture_kg", "embodied_transport_kg", "embodied_end_of_life_kg",
    "embodied_includes_end_of_life", "second_hand", "amortisation", "retired_on", "disposed_on",
    "end_of_life", "mass_kg", "recipient", "end_of_life_kg", "end_of_life_source", "leased",
    "lessor", "order_number", "contact",
)  # fmt: skip
OWN_COLUMNS = "own columns"
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
_GLPI = {
    "name": "name", "nom": "name", "nombre": "name", "status": "status", "statut": "status",
    "estado": "status", "manufacturer": "manufacturer", "manufacturers": "manufacturer",
    "hersteller": "manufacturer", "fabricant": "manufacturer", "fabricante": "manufacturer",
    "serial_number": "serial", "seriennummer": "serial", "numero_de_serie": "serial",
    "inventory_number": "tag", "inventarnummer": "tag", "numero_d_inventaire": "tag",
    "numero_de_inventario": "tag", "type": "category", "types": "category", "typ": "category",
    "tipo": "category", "model": "model", "models": "model", "modell": "model",
    "modele": "model", "modelo": "model", "location": "location", "standort": "location",
    "lieu": "location", "localizacion": "location", "comments": "note", "value": "price",
    "valeur": "price", "valor": "price", "supplier": "supplier", "startup_date": "in_use_since",
    "warranty_duration": "warranty_months", "warranty_expiration_date": "warranty_until",
}  # fmt: skip
_OCS = {
    "computer": "name", "name": "name", "computer_name": "name", "account_info_tag": "tag",
    "tag": "tag", "serial_number": "serial", "serial": "serial", "bios_serial": "serial",
    "manufacturer": "manufacturer", "smanufacturer": "manufacturer", "model": "model",
    "smodel": "model", "type": "category", "chassis_type": "category", "description": "note",
}  # fmt: skip
_GLPI_FINANCIAL = re.compile(
    r"^(financial_and_administrative_information|infocom|informations_financieres[a-z_]*?"
    r"|finanz[a-z_]*?informationen|informacion_financiera[a-z_]*?)_(?=[a-z])"
)
# In known formats: fields that further columns (custom fields) may mean by their heading.
_FURTHER = {
    "bought_on", "price", "currency", "ended_on", "in_use_since", "supplier", "quantity",
    "warranty_until", "capacity", "capacity_tb", "capacity_gb", "life_years", "embodied_kg",
    "end_of_life", "mass_kg", "mass_g", "recipient", "leased", "lessor", "lease_start", "lease_end",
}  # fmt: skip
# A custom field "End of life" usually contains the date on which support by the maker ends.
_TWO_MEANINGS = {"end_of_life"}


@dataclass(frozen=True)
class Header:
    """The first line of a file: format, field of each column ('' ignored), ignored columns.

    ``assigned`` False: a person has to assign the columns; ``fields`` are a guess. ``currency``:
    that of the heading of the price.
    """

    origin: str
    fields: tuple[str, ...]
    ignored: tuple[str, ...]
    columns: tuple[Column, ...] = ()
    assigned: bool = True
    currency: str = ""

    @property
    def foreign(self) -> bool:
        return self.origin != "LabCarbon"


def _origin_of(present: set[str]) -> str:
    """Return the program that wrote columns of these names, '' if none is recognised."""
    has_financial = any(_GLPI_FINANCIAL.match(name) for name in present)
    if has_financial or (
        present & {"entity", "entite", "entidad", "entitat"}
        and present & {"name", "nom", "nombre"}
        and present & {"last_update", "derniere_modification", "letzte_anderung", "status"}
    ):
        return "GLPI"
    if "account_info_tag" in present or (
        {"last_inventory", "operating_system"} <= present and present & {"computer", "name"}
    ):
        return "OCS Inventory"
    if present & {"asset_name", "item_name"} or (
        "asset_tag" in present
        and present & {"purchase_cost", "model_no", "model_number", "checked_out_to", "category"}
    ):
        return "Snipe-IT"
    if "device_type" in present or (
        present & {"role", "device_role"} and present & {"type", "status", "site"}
    ):
        return "NetBox"
    return ""


_KNOWN = {"NetBox": _NETBOX, "Snipe-IT": _SNIPE_IT, "GLPI": _GLPI, "OCS Inventory": _OCS}


def recognise(cells: Sequence[str], assigned: Mapping[str, str] | None = None) -> Header:
    """Return the header of a file's first line.

    ``assigned``: the field of each column by its key, as a person assigned them. Raises
    InvalidInput if no column has a heading.
    """
    columns = columns_of(cells)
    names = [plain(cell) for cell in cells]
    present = set(names) - {""}
    if not present:
        raise InvalidInput(
            "The first line names no columns.",
            field="file",
            hint="Add a line with headings above the rows.",
        )
    own = present <= set(OWN)
    if own and len(present) == len(names) and assigned is None:
        return Header("LabCarbon", tuple(names), (), tuple(columns))
    origin = _origin_of(present) if not own else ""
    if assigned is not None:
        fields = [assigned.get(column.key, "") for column in columns]
    elif origin:
        fields = _known_fields(columns, names, _KNOWN[origin])
    else:
        by_key = guesses(columns)
        fields = [by_key[column.key] for column in columns]
    ignored = (
        column.heading
        for column, field in zip(columns, fields, strict=True)
        if not field and column.heading
    )
    return Header(
        origin or OWN_COLUMNS,
        tuple(fields),
        tuple(ignored),
        tuple(columns),
        assigned=assigned is not None or bool(origin),
        currency=_currency(columns, fields),
    )


def _known_fields(
    columns: Sequence[Column], names: Sequence[str], known: Mapping[str, str]
) -> list[str]:
    fields = [known.get(_GLPI_FINANCIAL.sub("", name), "") for name in names]
    for position, column in enumerate(columns):
        heading = _GLPI_FINANCIAL.sub("", plain(column.heading))
        further = "" if heading in _TWO_MEANINGS else guess(heading)
        if not fields[position] and further in _FURTHER and further not in fields:
            fields[position] = further
    return fields


def _currency(columns: Sequence[Column], fields: Sequence[str]) -> str:
    """Return the currency that the heading of the price names ("Preis (EUR)", "Prix €")."""
    headings = [
        column.heading for column, field in zip(columns, fields, strict=True) if field == "price"
    ]
    text = " ".join(headings).replace("€", " EUR ").replace("£", " GBP ")
    return next((word for word in re.findall(r"\b[A-Z]{3}\b", text) if word in CURRENCIES), "")


def heading_score(cells: Sequence[str]) -> int:
    """Return how many of a line's cells are headings that are known here."""
    known = {heading for names in _KNOWN.values() for heading in names} | set(OWN)
    return sum(plain(cell) in known or bool(guess(cell)) for cell in cells if cell.strip())
