"""Hardware of Snipe-IT, REST API v1.

Written from its published documentation (snipe-it.readme.io, API reference) and its
AssetsTransformer. Its texts are escaped for HTML.
"""

import re
from typing import Any

from apps.pollers.clients.connection import (
    PAGE_ROWS,
    Connection,
    RemoteRow,
    RowList,
    count_of,
    html_text_of,
    text_of,
)

PATH = "/api/v1/hardware"
_TAG = re.compile(r"<[^>]*>")


def read_snipe_it(connection: Connection) -> list[RemoteRow]:
    """Return all assets. Raises PollError."""
    headers = {"Authorization": f"Bearer {connection.token}"}
    rows = RowList(connection)
    while True:
        query = {"limit": PAGE_ROWS, "offset": rows.received, "sort": "id", "order": "asc"}
        page, _ = connection.get(PATH, query, headers)
        if not isinstance(page, dict):
            raise connection.unusable("a page is not an object")
        if page.get("status") == "error":  # Snipe-IT reports errors with status 200
            messages = text_of(page.get("messages"))[:120]
            raise connection.unusable(f"the server reports “{messages or 'an error'}”")
        total = count_of(connection, page.get("total"))
        assets = rows.add_page(page.get("rows"))
        for asset in assets:
            rows.add(asset.get("id"), cells_of(asset))
        if not assets or rows.received >= total:
            return rows.complete(total)


def cells_of(asset: dict[str, Any]) -> dict[str, str]:
    """Return the cells of an asset. The person to whom it is checked out is not read."""
    label = asset.get("status_label")
    status: dict[str, Any] = label if isinstance(label, dict) else {}
    bought = asset.get("purchase_date")
    notes = asset.get("notes")
    return {
        "name": html_text_of(asset.get("name")),
        "tag": html_text_of(asset.get("asset_tag")),
        "serial": html_text_of(asset.get("serial")),
        "model": html_text_of(asset.get("model")),
        "category": html_text_of(asset.get("category")),
        "status": html_text_of(status.get("status_meta") or status.get("name")),
        "manufacturer": html_text_of(asset.get("manufacturer")),
        "bought_on": text_of(bought.get("date") if isinstance(bought, dict) else bought),
        "price": html_text_of(asset.get("purchase_cost")),
        "supplier": html_text_of(asset.get("supplier")),
        "location": html_text_of(asset.get("location") or asset.get("rtd_location")),
        "warranty_months": html_text_of(asset.get("warranty_months")),
        "order_number": html_text_of(asset.get("order_number")),
        "note": html_text_of(_TAG.sub(" ", notes) if isinstance(notes, str) else ""),
    }
