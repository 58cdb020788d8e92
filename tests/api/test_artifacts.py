"""/api/v1/artifacts/: told in bulk, found, one with copies and runs, lineage; what scans do not
find any more.
"""

import gzip
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from apps.artifacts.models import Artifact, Copy
from tests.api.conftest import Labs
from tests.artifacts.support import digest, edge, register_artifact, row

Refused = Callable[..., dict[str, Any]]
RUN = "7f1d3b52-2222-4333-8444-555566667777"
NEXT = "7f1d3b52-2222-4333-8444-555566667778"
FACTS: dict[str, Any] = {
    "name": "train.py",
    "started_at": "2026-11-02T08:00:00Z",
    "project": "demo",
}
PATH = "artifacts/"


def tell(labs: Labs, *rows: dict[str, Any], **more: Any) -> Any:
    reply = labs.member("POST", PATH, {"node": str(labs.ours.node.uuid), "artifacts": rows, **more})
    assert reply.status_code == 200, reply.content
    return reply.json()["results"]  # type: ignore[attr-defined]


def get(labs: Labs, path: str = PATH) -> Any:
    reply = labs.viewer("GET", path)
    assert reply.status_code == 200, reply.content
    return reply.json()  # type: ignore[attr-defined]


def test_told_and_found(labs: Labs) -> None:
    labs.member("PUT", f"runs/{RUN}/", FACTS)
    weights = row(
        "best.safetensors",
        kind="model",
        format="safetensors",
        payload=digest("tensors"),
        aliases={"md5": "0" * 32},
        licence="MIT",
        facts={"parameters": 5},
        tags={"task": "cats"},
        runs=[edge(RUN)],
        copies=[
            {
                "path": "/data/best.safetensors",
                "medium": "ssd",
                "modified_at": "2026-11-02T09:00:00Z",
            }
        ],
    )
    assert tell(labs, weights) == [["created"]]
    assert tell(labs, weights) == [["unchanged"]]
    (listed,) = get(labs)["results"]
    assert (listed["digest"], listed["state"], listed["project"]) == (
        digest("best.safetensors"),
        "stored",
        "demo",
    )
    for same in (digest("best.safetensors"), digest("tensors"), "0" * 32):
        assert get(labs, f"{PATH}{same}/")["name"] == "best.safetensors"
        assert len(get(labs, f"{PATH}?digest={same}")["results"]) == 1
    one = get(labs, f"{PATH}{digest('best.safetensors')}/")
    assert one["copies"][0]["path"] == "/data/best.safetensors"
    assert one["runs"] == [{"run": RUN, "name": "train.py", "role": "produced", "way": "told"}]
    assert (one["licence"], one["facts"], one["tags"], one["pin"]) == (
        "MIT",
        {"parameters": 5},
        {"task": "cats"},
        None,
    )


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("kind=model", ["m"]),
        ("state=stored", ["d"]),
        ("project=~none", ["m"]),
        ("project=demo", ["d"]),
        ("text=D", ["d"]),
        ("copies=present", ["d"]),
        ("copies=twice", ["d"]),
        ("copies=missing", []),
        ("file_format=torch", ["m"]),
        (f"digest={'f' * 64}", []),
        ("kind=", ["d", "m"]),
        (f"text={digest('m')[:12]}", ["m"]),
    ],
)
def test_filters(labs: Labs, query: str, names: list[str]) -> None:
    tell(labs, row("m", kind="model", format="torch"))
    tell(labs, row("d", kind="dataset", project="demo", copies=[{"path": "/d"}, {"path": "/e"}]))
    assert [each["name"] for each in get(labs, f"{PATH}?{query}")["results"]] == names


def test_a_node_tells_of_itself_alone(labs: Labs, refused: Refused) -> None:
    told = {"artifacts": [row("a", copies=[{"path": "/a"}])]}
    assert labs.node("POST", PATH, told).json() == {"results": [["created"]]}  # type: ignore[attr-defined]
    assert Copy.objects.get().node == labs.ours.node
    reply = labs.node("POST", PATH, {**told, "node": str(labs.theirs.node.uuid)})
    assert "limited to its own node" in refused(reply, 403)["message"]
    reply = labs.member("POST", PATH, {**told, "node": str(labs.theirs.node.uuid)})
    assert "no such node" in refused(reply, 400)["message"]
    assert labs.member("POST", PATH, told).json()["results"] == [  # type: ignore[attr-defined]
        ["refused", "A path needs its node. Add 'node'."]
    ]


def test_labs_know_nothing_of_each_other(labs: Labs, refused: Refused) -> None:
    tell(labs, row("a", copies=[{"path": "/a"}]))
    assert labs.outsider("GET", PATH).json()["results"] == []  # type: ignore[attr-defined]
    for path in (f"{PATH}{digest('a')}/", f"{PATH}{digest('a')}/lineage/"):
        assert "no such artifact" in refused(labs.outsider("GET", path), 404)["message"]
    reply = labs.outsider("POST", PATH, {"artifacts": [row("a")]})
    assert reply.json() == {"results": [["created"]]}  # type: ignore[attr-defined]
    assert Artifact.objects.count() == 2
    gone = {"copies": [{"path": "/a", "state": "missing"}], "node": str(labs.theirs.node.uuid)}
    assert labs.outsider("POST", f"{PATH}copies/", gone).json() == {"changed": 0}  # type: ignore[attr-defined]


@pytest.mark.parametrize("path", [PATH, f"{PATH}copies/"])
def test_a_request_is_bounded_by_its_bytes(labs: Labs, refused: Refused, path: str) -> None:
    """On the wire, and unpacked: rows alone bound neither, as paths may be long."""
    packed = {"Content-Encoding": "gzip"}
    long = {
        "node": str(labs.ours.node.uuid),
        "copies": [{"path": "/" + "x" * 4000, "state": "missing"}] * 3000,
    }
    body = msgspec.json.encode(
        long if path.endswith("copies/") else {"artifacts": [row("a" * 200)] * 40_000}
    )
    assert len(body) > 8 << 20
    refused(labs.member("POST", path, gzip.compress(body), **packed), 413)
    refused(labs.member("POST", path, b" " * ((1 << 20) + 1)), 413)


def test_lineage_goes_both_ways(labs: Labs) -> None:
    for run in (RUN, NEXT):
        labs.member("PUT", f"runs/{run}/", FACTS)
    tell(
        labs,
        row("cats", kind="dataset", runs=[edge(RUN, "used")]),
        row("base", kind="model", runs=[edge(RUN), edge(NEXT, "initialised_from")]),
        row("tuned", kind="model", runs=[edge(NEXT)]),
        row("alone"),
    )
    for name in ("cats", "base", "tuned"):
        found = get(labs, f"{PATH}{digest(name)}/lineage/")
        assert {each["name"] for each in found["artifacts"]} == {"cats", "base", "tuned"}
        assert len(found["runs"]) == 2
        assert len(found["edges"]) == 4
        assert not found["is_cut"]
    assert get(labs, f"{PATH}{digest('alone')}/lineage/")["edges"] == []


def test_a_circle_in_what_is_told_ends(labs: Labs) -> None:
    labs.member("PUT", f"runs/{RUN}/", FACTS)
    tell(labs, row("a", runs=[edge(RUN), edge(RUN, "used")]))
    assert len(get(labs, f"{PATH}{digest('a')}/lineage/")["edges"]) == 2


@pytest.mark.parametrize(
    ("body", "words"),
    [
    (b"{", "must be JSON"), (b"[]", "Expected"), ({"artifacts": {}}, "Expected"),
    ({}, "missing required"), ({"artifacts": [], "colour": 1}, "unknown field"),
    ({"artifacts": [1] * 1001}, "length"), (b'{"artifacts":' + b"[" * 100_000, "32 levels"),
    (b"", "must be JSON"),
],
)  # fmt: skip
def test_what_is_no_body_is_refused_whole(
    labs: Labs, refused: Refused, body: Any, words: str
) -> None:
    assert words in refused(labs.member("POST", PATH, body), 400)["message"]


def test_bad_questions(labs: Labs, refused: Refused) -> None:
    assert "not a filter" in refused(labs.viewer("GET", f"{PATH}?colour=red"), 400)["message"]
    assert "Unknown kind" in refused(labs.viewer("GET", f"{PATH}?kind=thing"), 400)["message"]
    assert "Invalid character" in refused(labs.viewer("GET", f"{PATH}?text=%00"), 400)["message"]
    for bad in ("xyz", "%00", "a" * 65, "..%2F"):
        assert labs.viewer("GET", f"{PATH}{bad}/").status_code == 404
    reply = labs.member("POST", f"{PATH}copies/", {"copies": [{"path": "/a", "state": "deleted"}]})
    assert "A scan cannot report" in refused(reply, 400)["message"]


def test_rights(labs: Labs, refused: Refused) -> None:
    for path in (PATH, f"{PATH}copies/"):
        refused(labs.viewer("POST", path, {}), 403)
        refused(labs.nobody("POST", path, {}), 401)
    refused(labs.node("GET", PATH), 403)
    refused(labs.nobody("GET", PATH), 401)


def test_queries_do_not_grow(labs: Labs) -> None:
    def queries(path: str) -> int:
        with CaptureQueriesContext(connection) as captured:
            get(labs, path)
        return len(captured)

    labs.member("PUT", f"runs/{RUN}/", FACTS)
    one = register_artifact(labs.ours, "a", copies=[{"path": "/a"}], runs=[edge(RUN)])
    register_artifact(labs.ours, "b", project="demo", runs=[edge(RUN, "used")])
    paths = (PATH, f"{PATH}{one.digest}/", f"{PATH}{one.digest}/lineage/")
    get(labs)  # the first use of a token is noted
    before = [queries(path) for path in paths]
    for i in range(9):
        register_artifact(labs.ours, f"b{i}", project="demo", runs=[edge(RUN, "used")])
        register_artifact(labs.ours, "a", copies=[{"path": f"/a{i}"}])
    assert [queries(path) for path in paths] == before
