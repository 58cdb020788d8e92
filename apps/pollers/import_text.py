"""Rows of an asset source as the text of a file that the import of assets reads. Pure."""

import csv
from collections.abc import Sequence
from io import StringIO

from apps.pollers.choices import System
from apps.pollers.clients.connection import RemoteRow

# Columns of an export of NetBox's devices, by cell.
_NETBOX = {
    "name": "Name",
    "status": "Status",
    "site": "Site",
    "location": "Location",
    "manufacturer": "Manufacturer",
    "model": "Type",
    "serial": "Serial number",
    "tag": "Asset tag",
    "category": "Role",
    "parent": "Parent device",
    "note": "Comments",
}
# Columns of an export of Snipe-IT's assets, by cell.
_SNIPE_IT = {
    "name": "Asset Name",
    "tag": "Asset Tag",
    "serial": "Serial",
    "model": "Model",
    "category": "Category",
    "status": "Status",
    "manufacturer": "Manufacturer",
    "bought_on": "Purchase Date",
    "price": "Purchase Cost",
    "supplier": "Supplier",
    "location": "Location",
    "warranty_months": "Warranty",
    "order_number": "Order Number",
    "note": "Notes",
}
# The items of GLPI have the cells of NetBox's devices.
_COLUMNS = {System.NETBOX: _NETBOX, System.SNIPE_IT: _SNIPE_IT, System.GLPI: _NETBOX}
FIRST_LINE = 2


def import_text(system: System, rows: Sequence[RemoteRow]) -> str:
    """Return the text: one line per row, from line 2 on."""
    columns = _COLUMNS[system]
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns.values())
    writer.writerows([row.cells.get(name, "") for name in columns] for row in rows)
    return text.getvalue()
