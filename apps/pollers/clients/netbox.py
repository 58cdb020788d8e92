"""Devices of NetBox, REST API of NetBox 3 and 4.

Written from its published documentation (docs.netbox.dev, REST API overview) and its device
serializer.
"""

from typing import Any

from apps.pollers.clients.connection import (
    PAGE_ROWS,
    Connection,
    RemoteRow,
    RowList,
    count_of,
    joined,
    text_of,
)

PATH = "/api/dcim/devices/"


def read_netbox(connection: Connection) -> list[RemoteRow]:
    """Return all devices. Raises PollError. The links to further pages are not followed: they
    could name another server.
    """
    # Tokens of version 2 (NetBox 4.5) have a prefix and another scheme.
    scheme = "Bearer" if connection.token.startswith("nbt_") else "Token"
    headers = {"Authorization": f"{scheme} {connection.token}"}
    rows = RowList(connection)
    while True:
        query = {
            "limit": PAGE_ROWS,
            "offset": rows.received,
            "ordering": "id",
            "exclude": "config_context",
        }
        page, _ = connection.get(PATH, query, headers)
        if not isinstance(page, dict):
            raise connection.unusable("a page is not an object")
        total = count_of(connection, page.get("count"))
        devices = rows.add_page(page.get("results"))
        for device in devices:
            rows.add(device.get("id"), cells_of(device))
        if not devices or rows.received >= total:
            return rows.complete(total)


def cells_of(device: dict[str, Any]) -> dict[str, str]:
    """Return the cells of a device."""
    kind = device.get("device_type")
    device_type: dict[str, Any] = kind if isinstance(kind, dict) else {}
    status = device.get("status")
    rack = text_of(device.get("rack"))
    return {
        "name": text_of(device.get("name")),
        "status": text_of(status.get("value") if isinstance(status, dict) else status),
        "site": text_of(device.get("site")),
        "location": joined([text_of(device.get("location")), f"rack {rack}" if rack else ""]),
        "manufacturer": text_of(device_type.get("manufacturer")),
        "model": text_of(device_type.get("model")),
        "serial": text_of(device.get("serial")),
        "tag": text_of(device.get("asset_tag")),
        # called device_role before NetBox 4
        "category": text_of(device.get("role") or device.get("device_role")),
        "parent": text_of(device.get("parent_device")),
        "note": joined([text_of(device.get("description")), text_of(device.get("comments"))]),
    }
