"""Computers of GLPI, REST API (apirest.php).

Written from its published documentation (apirest.md of GLPI). Names of its lists are shown instead
of numbers (``expand_dropdowns``); an empty one is "&nbsp;" or 0.
"""

import re
from typing import Any

from apps.core.http_client import HttpResponse
from apps.pollers.clients.connection import (
    PAGE_ROWS,
    Connection,
    PollError,
    RemoteRow,
    RowList,
    html_text_of,
)

API = "/apirest.php"
_RANGE = re.compile(r"(?:items )?\d+-\d+/(\d+)")


def read_glpi(connection: Connection) -> list[RemoteRow]:
    """Return all computers. Raises PollError. The session is closed at the end."""
    app = {"App-Token": connection.app_token} if connection.app_token else {}
    reply, _ = connection.get(
        f"{API}/initSession/", {}, {"Authorization": f"user_token {connection.token}", **app}
    )
    session = reply.get("session_token") if isinstance(reply, dict) else None
    if not isinstance(session, str) or not re.fullmatch(r"[\w-]{1,200}", session, re.ASCII):
        raise connection.unusable("the server opens no session")
    headers = {"Session-Token": session, **app}
    try:
        return _read_computers(connection, headers)
    finally:
        _close_session(connection, headers)


def _close_session(connection: Connection, headers: dict[str, str]) -> None:
    try:
        connection.get(f"{API}/killSession/", {}, headers)
    except PollError:
        return  # its response is empty; a session that stays open ends by itself


def _read_computers(connection: Connection, headers: dict[str, str]) -> list[RemoteRow]:
    rows = RowList(connection)
    while True:
        first = rows.received
        query = {
            "range": f"{first}-{first + PAGE_ROWS - 1}",
            "expand_dropdowns": "true",
            "get_hateoas": "false",
        }
        page, response = connection.get(f"{API}/Computer/", query, headers)
        computers = rows.add_page(page)
        for computer in computers:
            if computer.get("is_template") or computer.get("is_deleted"):
                rows.skipped += 1
            else:
                rows.add(computer.get("id"), cells_of(computer))
        total = _total(connection, response, rows.received)
        if not computers or rows.received >= total:
            return rows.complete(total)


def _total(connection: Connection, response: HttpResponse, received: int) -> int:
    """Return the number of all rows. A complete list (200) may come without a range."""
    match = _RANGE.fullmatch(response.headers.get("content-range", "").strip())
    if match:
        return int(match[1][:9])
    if response.status == 206:
        raise connection.unusable("it does not name its number of rows")
    return received


def cells_of(computer: dict[str, Any]) -> dict[str, str]:
    """Return the cells of a computer. Its users are not read."""

    def cell(name: str) -> str:
        text = html_text_of(computer.get(name))
        return "" if text == "0" else text

    return {
        "name": cell("name"),
        "status": cell("states_id"),
        "location": cell("locations_id"),
        "manufacturer": cell("manufacturers_id"),
        "model": cell("computermodels_id"),
        "serial": cell("serial"),
        "tag": cell("otherserial"),
        "category": cell("computertypes_id"),
        "note": cell("comment"),
    }
