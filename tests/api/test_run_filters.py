"""GET /api/v1/runs/: filters, order and pages."""

import uuid
from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from apps.accounts.choices import PersonView
from tests.api.conftest import Labs

Refused = Callable[..., dict[str, Any]]


def put(labs: Labs, name: str, hour: int, **more: Any) -> str:
    run = str(uuid.uuid4())
    body = {"name": name, "started_at": f"2026-11-02T{hour:02}:00:00Z", **more}
    reply = labs.member("PUT", f"runs/{run}/", body)
    assert reply.status_code == 200, reply.content
    return run


@pytest.fixture
def three(labs: Labs) -> Labs:
    put(
        labs,
        "alpha",
        1,
        params={"lr": 0.1, "opt__imizer": "adam", "seed": 1},
        intent="debug",
        host="ws-1",
    )
    put(
        labs,
        "beta",
        2,
        params={"lr": "1e-2", "model.depth": 18},
        sweep="s1",
        node=str(labs.ours.node.uuid),
    )
    put(labs, "gamma", 3, params={"lr": 0.01}, sweep="s1", project="demo")
    return labs


def names(labs: Labs, **query: str) -> list[str]:
    reply = labs.viewer("GET", f"runs/?{urlencode(query)}")
    assert reply.status_code == 200, reply.content
    return [run["name"] for run in reply.json()["results"]]  # type: ignore[attr-defined]


def test_filters(three: Labs, refused: Refused) -> None:
    assert names(three, intent="debug") == ["alpha"]
    assert names(three, sweep="s1") == ["gamma", "beta"]
    assert names(three, host="ws-1") == ["beta", "alpha"], "by its own word, else by its node's"
    assert names(three, node=str(three.ours.node.uuid)) == ["beta"]
    refused(three.viewer("GET", f"runs/?node={three.theirs.node.uuid}"), 400)
    assert names(three, **{"from": "2026-11-02T02:00:00Z", "to": "2026-11-02T03:00:00Z"}) == [
        "beta"
    ]
    assert names(three, sweep="s1", project="demo") == ["gamma"]


def test_parameters_by_value_whatever_way_it_is_written(three: Labs) -> None:
    assert names(three, **{"param.lr": "0.010"}) == ["gamma", "beta"]
    assert names(three, **{"param.learning-rate": "1e-1"}) == ["alpha"]
    assert names(three, **{"param.opt__imizer": "adam"}) == ["alpha"]
    assert names(three, **{"param.model.depth": "18", "param.lr": "0.01"}) == ["beta"]
    assert names(three, **{"param.seed": "1"}) == ["alpha"]
    assert names(three, **{"param.lr": "0.3"}) == []
    assert names(three, **{"param.'; --": "1"}) == []


def test_values_that_were_never_told_are_found_by_their_hash(three: Labs) -> None:
    from tests.runs.fingerprints import told

    put(three, "secret", 4, fingerprint=told(told=None))
    assert names(three, **{"param.arch": "resnet18"}) == ["secret"]


@pytest.mark.parametrize(
    ("sort", "expected"),
    [
        ("started", "abc"),
        ("-started", "cba"),
        ("name", "abc"),
        ("-name", "cba"),
        ("ended", "bac"),
        ("-ended", "cab"),
    ],
)
def test_every_order_is_paged_without_loss(labs: Labs, sort: str, expected: str) -> None:
    runs = [put(labs, name, hour) for hour, name in enumerate("abc")]
    for run, ended in ((runs[0], 9), (runs[1], 5)):
        labs.member(
            "PATCH",
            f"runs/{run}/",
            {"state": "finished", "ended_at": f"2026-11-02T{ended:02}:00:00Z"},
        )
    found, path = "", f"runs/?sort={sort}&page_size=1"
    while path:
        reply = labs.viewer("GET", path).json()  # type: ignore[attr-defined]
        found += "".join(run["name"] for run in reply["results"])
        path = reply["next"].split("/api/v1/", 1)[1] if reply["next"] else ""
    assert found == expected


def test_by_person_where_the_lab_shows_persons(three: Labs, refused: Refused) -> None:
    from apps.runs.models import Run

    viewer, member = (
        three.viewer,
        Run.objects.filter(name="alpha").values_list("user__username", flat=True).get(),
    )
    three.ours.lab.person_view = PersonView.OWN
    three.ours.lab.save()
    refused(viewer("GET", f"runs/?person={member}"), 403)
    assert names_by(three.member, person="me") == ["gamma", "beta", "alpha"]
    assert names_by(three.member, person=str(member)) == ["gamma", "beta", "alpha"]
    assert names_by(three.viewer, person="me") == []
    three.ours.lab.person_view = PersonView.LAB
    three.ours.lab.save()
    assert names(three, person=str(member)) == ["gamma", "beta", "alpha"]
    assert refused(three.viewer("GET", "runs/?person=nobody"), 400)["field"] == "person"


def names_by(who: Any, **query: str) -> list[str]:
    return [run["name"] for run in who("GET", f"runs/?{urlencode(query)}").json()["results"]]


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("sort=mass", "sort"),
        ("intent=fun", "intent"),
        ("node=ws-1", "node"),
        ("from=yesterday", "from"),
        ("to=2026-11-02", "to"),
        ("param.=1", "param."),
        ("param.output_dir=x", "param.output_dir"),
        ("param.a%00=1", "param.a\x00"),
        ("&".join(f"param.p{i}=1" for i in range(11)), "param.p10"),
    ],
)
def test_bad_questions_are_named(three: Labs, refused: Refused, query: str, field: str) -> None:
    assert refused(three.viewer("GET", f"runs/?{query}"), 400)["field"] == field


def test_another_labs_runs_are_in_no_answer(three: Labs) -> None:
    for query in ("", "param.lr=0.1", "sweep=s1", "host=ws-1"):
        assert three.outsider("GET", f"runs/?{query}").json()["results"] == []  # type: ignore[attr-defined]


def test_the_cost_does_not_grow_with_rows(three: Labs) -> None:
    def queries() -> int:
        with CaptureQueriesContext(connection) as counted:
            names(three, **{"param.lr": "0.01"})
        return len(counted)

    queries()
    few = queries()
    first = put(three, "parent", 5)
    for hour in range(6, 16):
        put(three, f"run {hour}", hour, params={"lr": 0.01}, parent=first)
    assert queries() == few
