"""Every address × every kind of visitor equals the reviewed table matrix.csv; an address without
rows fails.

``python -m pytest tests/attacks/test_matrix.py`` prints each address without rows, and each status
that differs. Cells are HTTP status codes; a page answers 302 (to the sign-in) where an API answers
401.
"""

import csv
from pathlib import Path

import pytest
from django.core.cache import cache

from tests.attacks.conftest import RUN, World
from tests.attacks.routes import address, routes

MATRIX = Path(__file__).with_name("matrix.csv")
VISITORS = (
    "anonymous", "node", "token", "viewer", "member", "admin", "pi", "outsider", "expired",
    "revoked", "removed",
)  # fmt: skip


def _rows() -> dict[tuple[str, str], dict[str, str]]:
    with MATRIX.open(newline="", encoding="utf-8") as file:
        return {(row["route"], row["method"]): row for row in csv.DictReader(file)}


ROWS = _rows()


def _ask(world: World, visitor: str, route: str, method: str) -> str:
    client = world.visitors[visitor]
    cache.clear()
    session = dict(client.cookies)
    path = address(route, world.ours, RUN)
    response = client.generic(
        method, path, b"" if method == "GET" else b"{}", content_type="application/json"
    )
    for name in set(client.cookies) - set(session):
        del client.cookies[name]
    return str(response.status_code)


def test_every_address_has_its_rows() -> None:
    known = {route for route, _ in ROWS}
    now = set(routes())
    assert now - known == set(), "these addresses have no reviewed row in tests/attacks/matrix.csv"
    assert known - now == set(), "these rows belong to no address any more"
    assert {(route, "GET") for route in now} <= set(ROWS)
    assert {(route, "POST") for route in now} <= set(ROWS)


@pytest.mark.django_db
def test_who_may(world: World) -> None:
    wrong: dict[str, str] = {}
    for route, method in sorted(
        ROWS, key=lambda row: ("logout" in row[0], row)
    ):  # signing out comes last
        for visitor in VISITORS:
            status = _ask(world, visitor, route, method)
            assert not status.startswith("5"), (method, route, visitor, status)
            if status != ROWS[route, method][visitor]:
                wrong[f"{method} {route} by {visitor}"] = (
                    f"{status}, not {ROWS[route, method][visitor]}"
                )
    assert wrong == {}


@pytest.mark.django_db
def test_an_outsider_sees_nothing_of_ours_on_any_page(world: World) -> None:
    secrets = (
        RUN,
        str(world.ours.node.uuid),
        "our-secret-run.py",
        "GPU-0000-1111",
        world.ours.owner.username,
    )
    for route in routes():
        if "logout" in route:
            continue
        response = world.visitors["outsider"].get(address(route, world.ours, RUN))
        text = b"".join(response.streaming_content) if response.streaming else response.content  # type: ignore[attr-defined]
        asked_for = address(route, world.ours, RUN)
        for secret in secrets:
            if secret not in asked_for:
                assert secret.encode() not in text, (route, secret)
