"""/api/v1/artifacts/copies/space/: which bytes copies share."""

from collections.abc import Callable
from typing import Any

import pytest

from apps.artifacts.models import Copy, SharedBytes
from tests.api.conftest import Labs
from tests.artifacts.support import digest, row

Refused = Callable[..., dict[str, Any]]
PATH = "artifacts/copies/space/"
KEY = "a" * 64


@pytest.fixture
def node(labs: Labs) -> str:
    node = str(labs.ours.node.uuid)
    rows = [row(name, bytes=100, copies=[{"path": f"/{name}"}]) for name in ("a", "b")]
    assert labs.member("POST", "artifacts/", {"node": node, "artifacts": rows}).status_code == 200
    return node


def space(path: str, own: int | None, *shared: tuple[int, int | None]) -> dict[str, Any]:
    groups = [
        {"key": f"{number:064x}", "bytes": size, "copies": copies}
        for number, (size, copies) in enumerate(shared)
    ]
    return {"path": path, "own_bytes": own, "shared": groups}


def report(labs: Labs, node: str, *copies: dict[str, Any]) -> int:
    reply = labs.member("POST", PATH, {"node": node, "copies": copies})
    assert reply.status_code == 200, reply.content
    return int(reply.json()["changed"])  # type: ignore[attr-defined]


def stored() -> list[tuple[str, int | None, list[tuple[int, int | None]]]]:
    return [
        (
            copy.path,
            copy.own_bytes,
            list(copy.shared_bytes.order_by("key").values_list("bytes", "copies")),
        )
        for copy in Copy.objects.order_by("path")
    ]


def test_the_space_of_copies_is_stored_and_replaced(labs: Labs, node: str) -> None:
    both = (space("/a", 10, (60, 2), (30, None)), space("/b", 40, (60, 2)))
    assert report(labs, node, *both, space("/unknown", 1)) == 2
    assert stored() == [("/a", 10, [(60, 2), (30, None)]), ("/b", 40, [(60, 2)])]
    assert report(labs, node, *both) == 0
    reply = labs.viewer("GET", f"artifacts/{digest('a')}/").json()  # type: ignore[attr-defined]
    assert (reply["copies"][0]["own_bytes"], reply["copies"][0]["shared_bytes"]) == (10, 90)
    assert report(labs, node, space("/b", None)) == 1
    assert stored() == [("/a", 10, [(60, 2), (30, None)]), ("/b", None, [])]


def test_a_space_larger_than_the_artifact_is_ignored(labs: Labs, node: str) -> None:
    assert report(labs, node, space("/a", 41, (60, 2))) == 0
    assert stored()[0] == ("/a", None, [])


def test_other_content_at_the_path_shares_nothing_known(labs: Labs, node: str) -> None:
    report(labs, node, space("/a", 10, (90, 2)))
    again = {"node": node, "artifacts": [row("a", bytes=100, copies=[{"path": "/a"}])]}
    assert labs.member("POST", "artifacts/", again).status_code == 200
    assert stored()[0] == ("/a", 10, [(90, 2)])
    other = {"node": node, "artifacts": [row("c", bytes=5, copies=[{"path": "/a"}])]}
    assert labs.member("POST", "artifacts/", other).status_code == 200
    assert stored()[0] == ("/a", None, [])
    assert not SharedBytes.objects.exists()


def test_a_node_reports_its_own_copies_only(labs: Labs, node: str, refused: Refused) -> None:
    body = {"copies": [space("/a", 10, (90, 2))]}
    assert labs.node("POST", PATH, body).json() == {"changed": 1}  # type: ignore[attr-defined]
    refused(labs.node("POST", PATH, {**body, "node": str(labs.theirs.node.uuid)}), 403)
    assert labs.member("POST", PATH, body).json() == {"changed": 0}  # type: ignore[attr-defined]


def test_labs_are_separate(labs: Labs, node: str, refused: Refused) -> None:
    refused(labs.outsider("POST", PATH, {"node": node, "copies": [space("/a", 1)]}), 400)
    assert stored()[0] == ("/a", None, [])


@pytest.mark.parametrize("method", ["GET", "PUT", "PATCH", "DELETE"])
def test_wrong_method(labs: Labs, refused: Refused, method: str) -> None:
    refused(labs.member(method, PATH), 405)


def test_read_only(labs: Labs, node: str, refused: Refused) -> None:
    refused(labs.viewer("POST", PATH, {"node": node, "copies": [space("/a", 1)]}), 403)
    refused(labs.nobody("POST", PATH, {"node": node, "copies": [space("/a", 1)]}), 401)
    assert stored()[0] == ("/a", None, [])


GROUP = {"key": KEY, "bytes": 1, "copies": 2}


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"own_bytes": -1}, "own_bytes"),
        ({"own_bytes": 1.5}, "own_bytes"),
        ({"own_bytes": None}, "own_bytes"),
        ({"shared": [{**GROUP, "copies": 1}]}, "copies"),
        ({"shared": [{**GROUP, "key": "x"}]}, "key"),
        ({"shared": [{**GROUP, "bytes": 2**63}]}, "bytes"),
        ({"shared": [GROUP, GROUP]}, "shared"),
        ({"path": ""}, "path"),
        ({"path": "\ud800"}, ""),
        ({"other": 1}, ""),
    ],
)
def test_invalid_input(
    labs: Labs, node: str, refused: Refused, change: dict[str, Any], field: str
) -> None:
    copy = {"path": "/a", "own_bytes": 1, "shared": [GROUP], **change}
    try:
        body: Any = {"node": node, "copies": [copy]}
        reply = labs.member("POST", PATH, body)
    except UnicodeEncodeError:
        reply = labs.member("POST", PATH, b'{"copies": [{"path": "\\ud800"}]}')
    assert field in (refused(reply, 400)["field"] or "")
    assert stored()[0] == ("/a", None, [])
