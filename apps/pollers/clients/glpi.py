"""Computers, monitors and other hardware of GLPI, REST API (apirest.php).

Written from its published documentation (apirest.md of GLPI). Names of its lists are shown instead
of numbers (``expand_dropdowns``); an empty one is "&nbsp;" or 0.
"""

import re
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from apps.core.http_client import HttpResponse
from apps.pollers.clients.connection import (
    MAX_ROWS,
    PAGE_ROWS,
    Connection,
    PollError,
    RemoteRow,
    RowList,
    html_text_of,
)

API = "/apirest.php"


@dataclass(frozen=True)
class ItemType:
    """A type of items. ``words``: category of its items, before the name of their own type."""

    name: str
    words: str = ""

    @property
    def column(self) -> str:
        """Return the beginning of the columns of model and type."""
        return self.name.lower()


# The numbers of stored rows follow from this order: add further types at its end.
ITEM_TYPES = (
    ItemType("Computer"),
    ItemType("Monitor", "Monitor"),
    ItemType("NetworkEquipment", "Network"),
    ItemType("Printer", "Printer"),
    ItemType("Peripheral", "Peripheral"),
    ItemType("Phone", "Phone"),
)
_TYPE_STEP = 1 << 48
_RANGE = re.compile(r"(?:items )?\d+-\d+/(\d+)")


def read_glpi(connection: Connection) -> list[RemoteRow]:
    """Return all items that the profile of the token may read; computers are required. Raises
    PollError. The session is closed at the end.
    """
    app = {"App-Token": connection.app_token} if connection.app_token else {}
    reply, _ = connection.get(
        f"{API}/initSession/", {}, {"Authorization": f"user_token {connection.token}", **app}
    )
    session = reply.get("session_token") if isinstance(reply, dict) else None
    if not isinstance(session, str) or not re.fullmatch(r"[\w-]{1,200}", session, re.ASCII):
        raise connection.unusable("the server opens no session")
    headers = {"Session-Token": session, **app}
    try:
        rows = _read_items(connection, headers, ITEM_TYPES[0])
        for item_type in ITEM_TYPES[1:]:
            try:
                rows += _read_items(connection, headers, item_type)
            except PollError as error:
                if error.status != HTTPStatus.FORBIDDEN:  # the profile may not read this type
                    raise
        if len(rows) > MAX_ROWS:
            raise connection.unusable(f"it has more than {MAX_ROWS} rows")
        return rows
    finally:
        _close_session(connection, headers)


def _close_session(connection: Connection, headers: dict[str, str]) -> None:
    try:
        connection.get(f"{API}/killSession/", {}, headers)
    except PollError:
        return  # its response is empty; a session that stays open ends by itself


def _read_items(
    connection: Connection, headers: dict[str, str], item_type: ItemType
) -> list[RemoteRow]:
    """Return all items of a type. Raises PollError."""
    rows = RowList(connection)
    while True:
        first = rows.received
        query = {
            "range": f"{first}-{first + PAGE_ROWS - 1}",
            "expand_dropdowns": "true",
            "get_hateoas": "false",
        }
        page, response = connection.get(f"{API}/{item_type.name}/", query, headers)
        items = rows.add_page(page)
        for item in items:
            if item.get("is_template") or item.get("is_deleted"):
                rows.skipped += 1
            else:
                rows.add(_number_of(connection, item, item_type), cells_of(item, item_type))
        total = _total(connection, response, rows.received)
        if not items or rows.received >= total:
            return rows.complete(total)


def _number_of(connection: Connection, item: dict[str, Any], item_type: ItemType) -> int:
    """Return the number of an item, unique among all types."""
    number = item.get("id")
    if not isinstance(number, int) or isinstance(number, bool) or not 0 < number < _TYPE_STEP:
        raise connection.unusable("a row has no number")
    return number + ITEM_TYPES.index(item_type) * _TYPE_STEP


def _total(connection: Connection, response: HttpResponse, received: int) -> int:
    """Return the number of all rows. A complete list (200) may come without a range."""
    match = _RANGE.fullmatch(response.headers.get("content-range", "").strip())
    if match:
        return int(match[1][:9])
    if response.status == 206:
        raise connection.unusable("it does not name its number of rows")
    return received


def cells_of(item: dict[str, Any], item_type: ItemType) -> dict[str, str]:
    """Return the cells of an item. Its users are not read."""

    def cell(name: str) -> str:
        text = html_text_of(item.get(name))
        return "" if text == "0" else text

    return {
        "name": cell("name"),
        "status": cell("states_id"),
        "location": cell("locations_id"),
        "manufacturer": cell("manufacturers_id"),
        "model": cell(f"{item_type.column}models_id"),
        "serial": cell("serial"),
        "tag": cell("otherserial"),
        "category": f"{item_type.words} {cell(f'{item_type.column}types_id')}".strip(),
        "note": cell("comment"),
    }
