"""/api/v1/runs/ and /api/v1/runs/<uuid>/: PUT, PATCH and GET by the client's UUID, and the list."""

import uuid
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from apps.accounts.services.labs import issue_node_token
from apps.core.clock import now_us
from apps.fleet.services import register_node
from apps.ingest.window_rules import job_run
from apps.runs.models import RefusedMessage, Run
from apps.runs.scheduler_jobs import count_nodes
from apps.runs.services import messages as run_messages
from tests.api.conftest import Caller, Labs
from tests.builders import T0

Refused = Callable[..., dict[str, Any]]
RUN = "7f1d3b52-2222-4333-8444-555566667777"
FACTS: dict[str, Any] = {
    "name": "train.py",
    "started_at": "2026-11-02T08:00:00.123456Z",
    "project": "demo",
    "command": ["python", "train.py"],
    "params": {"lr": 0.1, "amp": True, "note": None},
    "user": "ada",
    "host": "ws-1",
}


def test_put_twice_is_one_run(labs: Labs) -> None:
    first = labs.member("PUT", f"runs/{RUN}/", FACTS)
    assert first.status_code == 200, first.content
    told = first.json()
    assert told["project"] == "demo"
    assert told["started_at"] == "2026-11-02T08:00:00.123456+00:00"
    assert told["state"] == "running"
    assert told["ended_at"] is None
    again = labs.member("PUT", f"runs/{RUN}/", FACTS).json()
    assert again["seen_at"] > told["seen_at"]  # every word counts
    assert {**again, "seen_at": None} == {**told, "seen_at": None}
    assert Run.objects.count() == 1
    seen = labs.viewer("GET", f"runs/{RUN}/").json()
    assert {name: seen[name] for name in again} == {**again, "os_user": None}  # not theirs to know


def test_patch_ends_it(labs: Labs) -> None:
    labs.member("PUT", f"runs/{RUN}/", FACTS)
    change = {
        "state": "failed",
        "ended_at": "2026-11-02T09:00:00Z",
        "exit_code": -9,
        "energy_mj": 5,
        "provisional": True,
    }
    told = labs.member("PATCH", f"runs/{RUN}/", change)
    assert told.status_code == 200, told.content
    assert (told.json()["state"], told.json()["exit_code"], told.json()["reported_energy_mj"]) == (
        "failed",
        -9,
        5,
    )
    again = labs.member("PATCH", f"runs/{RUN}/", {"state": "failed"}).json()
    assert again["ended_at"] == "2026-11-02T09:00:00+00:00"


def test_saying_put_again_after_the_end_keeps_the_end(labs: Labs) -> None:
    labs.member("PUT", f"runs/{RUN}/", FACTS)
    labs.member(
        "PATCH",
        f"runs/{RUN}/",
        {"state": "finished", "ended_at": "2026-11-02T09:00:00Z", "exit_code": 0},
    )
    told = labs.member("PUT", f"runs/{RUN}/", FACTS).json()
    assert (told["state"], told["exit_code"]) == ("finished", 0)


def test_an_unknown_project_is_said_and_loses_nothing(labs: Labs) -> None:
    told = labs.member("PUT", f"runs/{RUN}/", {**FACTS, "project": "nope"}).json()
    assert told["project"] is None
    assert "nope" in told["warning"]
    assert "demo" in told["warning"]
    assert Run.objects.get().requested_project == "nope"


def test_a_project_of_another_lab_is_unknown_here(labs: Labs) -> None:
    from apps.accounts.services.labs import create_project

    create_project(lab=labs.theirs.lab, slug="secret", name="Secret", now=1)
    told = labs.member("PUT", f"runs/{RUN}/", {**FACTS, "project": "secret"}).json()
    assert told["project"] is None
    assert "known: demo" in told["warning"]


def test_a_nodes_token_writes_runs_of_its_node_and_reads_none(labs: Labs, refused: Refused) -> None:
    told = labs.node("PUT", f"runs/{RUN}/", FACTS)
    assert told.status_code == 200, told.content
    assert told.json()["node"] == str(labs.ours.node.uuid)
    refused(labs.node("GET", f"runs/{RUN}/"), 403)
    refused(labs.node("GET", "runs/"), 403)
    refused(
        labs.node("PUT", f"runs/{uuid.uuid4()}/", {**FACTS, "node": str(labs.theirs.node.uuid)}),
        403,
    )
    assert labs.node("PATCH", f"runs/{RUN}/", {"state": "finished"}).status_code == 200


def test_a_nodes_token_changes_no_run_of_another_node(labs: Labs, refused: Refused) -> None:
    labs.member("PUT", f"runs/{RUN}/", FACTS)
    refused(labs.node("PATCH", f"runs/{RUN}/", {"state": "finished"}), 404)
    assert Run.objects.get().state == "running"


def test_a_refused_message_of_a_node_is_stored_once(labs: Labs, refused: Refused) -> None:
    elsewhere = {**FACTS, "node": str(labs.theirs.node.uuid)}
    for _ in range(2):
        error = refused(labs.node("PUT", f"runs/{RUN}/", elsewhere), 403, "pending_decision")
        assert f"/nodes/{labs.ours.node.uuid}/" in error["hint"]
    labs.member("PUT", f"runs/{RUN}/", FACTS)
    refused(labs.node("PATCH", f"runs/{RUN}/", {"state": "finished"}), 404, "pending_decision")
    stored = RefusedMessage.objects.order_by("pk")
    assert [(row.verb, str(row.run_uuid)) for row in stored] == [("PUT", RUN), ("PATCH", RUN)]
    assert stored[0].body == elsewhere
    assert stored[0].node == labs.ours.node


def test_a_refused_message_of_a_person_is_not_stored(labs: Labs, refused: Refused) -> None:
    refused(labs.member("PATCH", f"runs/{RUN}/", {"state": "finished"}), 404, "not_found")
    refused(labs.viewer("PUT", f"runs/{RUN}/", FACTS), 403)
    assert not RefusedMessage.objects.exists()


@pytest.mark.parametrize("name", ["nul \x00", "long " + "x" * 66_000])
def test_a_message_that_cannot_be_stored_stays_with_the_collector(
    labs: Labs, refused: Refused, name: str
) -> None:
    body = {"failure": {"text": "x"}, "tags": {"note": name}}
    answer = labs.node("PATCH", f"runs/{RUN}/", body)
    assert answer.status_code in (400, 404)
    assert answer.json()["error"]["code"] != "pending_decision"
    assert not RefusedMessage.objects.exists()


def test_the_number_of_refused_messages_of_a_node_is_limited(
    labs: Labs, refused: Refused, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_messages, "MAX_MESSAGES_PER_NODE", 2)
    ends = [{"state": "failed", "exit_code": code} for code in (1, 2, 3)]
    for end in ends[:2]:
        refused(labs.node("PATCH", f"runs/{RUN}/", end), 404, "pending_decision")
    refused(labs.node("PATCH", f"runs/{RUN}/", ends[2]), 404, "not_found")
    refused(labs.node("PATCH", f"runs/{RUN}/", ends[0]), 404, "pending_decision")
    assert RefusedMessage.objects.count() == 2


def _other_node(labs: Labs, hostname: str) -> Caller:
    node = register_node(
        lab=labs.ours.lab,
        uuid=uuid.uuid4(),
        hostname=hostname,
        facts={},
        site=labs.ours.site,
        now=T0,
    )
    return Caller(issue_node_token(lab=labs.ours.lab, node_uuid=node.uuid, now=now_us()))


@pytest.mark.parametrize(
    ("nodes", "is_refused"), [("gpu1", True), ("", True), ("gpu[1-2]", False), ("gpu1,gpu7", False)]
)
def test_a_node_joins_a_job_only_while_the_job_has_more_nodes(
    labs: Labs, nodes: str, is_refused: bool
) -> None:
    uuid_ = job_run("hpc/7")
    facts = {
        "name": "train",
        "started_at": "2026-11-02T08:00:00Z",
        "user": "ada",
        "job": {"cluster": "hpc", "id": "7", "nodes": nodes},
    }
    assert labs.node("PUT", f"runs/{uuid_}/", facts).status_code == 200
    second, third = (_other_node(labs, name) for name in ("gpu2", "gpu3"))
    assert (second("PUT", f"runs/{uuid_}/", facts).status_code == 409) == is_refused
    ended = {"state": "failed"}
    assert (second("PATCH", f"runs/{uuid_}/", ended).status_code == 200) != is_refused
    assert third("PUT", f"runs/{uuid_}/", facts).status_code == 409
    assert third("PATCH", f"runs/{uuid_}/", ended).status_code in {403, 404, 409}
    assert labs.node("PUT", f"runs/{uuid_}/", facts).status_code == 200


@pytest.mark.parametrize(
    ("nodes", "count"),
    [
        ("", 1),
        ("gpu1", 1),
        ("gpu1,gpu2", 2),
        ("gpu[1-3]", 3),
        ("gpu[001-012,20],login", 14),
        ("r[1-2]n[1-4]", 8),
        ("gpu[3-1]", 1),
        ("gpu[1-99999999]", 1024),
        ("[[,", 1),
    ],
)
def test_nodes_of_a_job_are_counted(nodes: str, count: int) -> None:
    assert count_nodes(nodes) == count


def test_a_nodes_token_takes_over_no_run_that_a_person_made(labs: Labs) -> None:
    labs.member("PUT", f"runs/{RUN}/", FACTS)
    labs.node("PUT", f"runs/{RUN}/", {**FACTS, "name": "stolen"})
    run = Run.objects.get()
    assert run.user is not None


@pytest.mark.parametrize("method", ["GET", "PATCH"])
def test_an_outsider_finds_nothing(labs: Labs, refused: Refused, method: str) -> None:
    labs.member("PUT", f"runs/{RUN}/", FACTS)
    refused(
        labs.outsider(method, f"runs/{RUN}/", {"state": "failed"} if method == "PATCH" else None),
        404,
    )
    assert labs.outsider("GET", "runs/").json()["results"] == []
    assert Run.objects.get().state == "running"


def test_the_same_uuid_in_another_lab_is_another_run(labs: Labs) -> None:
    labs.member("PUT", f"runs/{RUN}/", FACTS)
    assert labs.outsider("PUT", f"runs/{RUN}/", {**FACTS, "name": "theirs"}).status_code == 200
    assert labs.member("GET", f"runs/{RUN}/").json()["name"] == "train.py"


def test_a_node_of_another_lab_cannot_be_named(labs: Labs) -> None:
    told = labs.member("PUT", f"runs/{RUN}/", {**FACTS, "node": str(labs.theirs.node.uuid)})
    assert told.status_code in {200, 400}
    assert Run.objects.filter(node=labs.theirs.node).count() == 0


def test_a_viewer_reads_only(labs: Labs, refused: Refused) -> None:
    refused(labs.viewer("PUT", f"runs/{RUN}/", FACTS), 403)
    refused(labs.viewer("PATCH", f"runs/{RUN}/", {"state": "failed"}), 403)
    assert not Run.objects.exists()


def test_anonymous(labs: Labs, refused: Refused) -> None:
    for method in ("GET", "PUT", "PATCH"):
        refused(labs.nobody(method, f"runs/{RUN}/", FACTS), 401)
    refused(labs.nobody("GET", "runs/"), 401)


@pytest.mark.parametrize("method", ["POST", "DELETE"])
def test_wrong_method(labs: Labs, refused: Refused, method: str) -> None:
    refused(labs.member(method, f"runs/{RUN}/"), 405)
    refused(labs.member(method, "runs/"), 405)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"name": ""}, "name"),
        ({"name": "n" * 201}, "name"),
        ({"name": "a\x00b"}, "name"),
        ({"started_at": "yesterday"}, "started_at"),
        ({"started_at": None}, "started_at"),
        ({"params": {"a": {"b": 1}}}, "params"),
        ({"params": {str(i): i for i in range(501)}}, "params"),
        ({"params": {"a": "\x00"}}, "params"),
        ({"command": ["x" * 257]}, "command"),
        ({"command": ["a\x00"]}, "command"),
        ({"command": "python"}, "command"),
        ({"node": "nobody"}, "node"),
        ({"state": "failed"}, "state"),
        ({"reported_energy_mj": 1}, "reported_energy_mj"),
        ({"user": "u" * 101}, "user"),
    ],
)
def test_bad_facts(labs: Labs, refused: Refused, change: dict[str, Any], field: str) -> None:
    error = refused(labs.member("PUT", f"runs/{RUN}/", {**FACTS, **change}), 400)
    assert error["field"].split(".")[0] == field
    assert not Run.objects.exists()


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"state": "sleeping"},
        {"state": "failed", "energy_mj": -1},
        {"state": "failed", "energy_mj": 2**63},
        {"state": "failed", "exit_code": 10**9},
        {"state": "failed", "ended_at": "2020-01-01T00:00Z"},
        {"state": "failed", "name": "other"},
    ],
)
def test_bad_changes(labs: Labs, refused: Refused, change: dict[str, Any]) -> None:
    labs.member("PUT", f"runs/{RUN}/", FACTS)
    refused(labs.member("PATCH", f"runs/{RUN}/", change), 400)
    assert Run.objects.get().state == "running"


def test_patch_before_put_says_what_to_do(labs: Labs, refused: Refused) -> None:
    error = refused(labs.member("PATCH", f"runs/{RUN}/", {"state": "failed"}), 404)
    assert "PUT" in error["hint"]


def _many(labs: Labs, count: int) -> None:
    for i in range(count):
        facts = {
            **FACTS,
            "name": f"run {i}",
            "started_at": f"2026-11-02T08:{i:02}:00Z",
            "project": "demo" if i % 2 else None,
        }
        assert labs.member("PUT", f"runs/{uuid.uuid4()}/", facts).status_code == 200


def test_the_list_is_newest_first_and_paged_without_loss(labs: Labs) -> None:
    _many(labs, 7)
    names: list[str] = []
    path: str | None = "runs/?page_size=3"
    while path:
        reply = labs.viewer("GET", path).json()
        names += [run["name"] for run in reply["results"]]
        path = reply["next"].split("/api/v1/", 1)[1] if reply["next"] else None
    assert names == [f"run {i}" for i in reversed(range(7))]


def test_filters(labs: Labs) -> None:
    _many(labs, 4)

    def names(query: str) -> list[str]:
        return [run["name"] for run in labs.viewer("GET", f"runs/?{query}").json()["results"]]

    assert names("project=demo") == ["run 3", "run 1"]
    assert names("project=~unattributed") == ["run 2", "run 0"]
    assert names("text=RUN+2") == ["run 2"]
    assert names("state=finished") == []
    assert names("text=%27%3B+DROP+TABLE+runs_run%3B--") == []
    assert len(names("page_size=1000000000")) == 4


def test_filters_that_do_not_exist_are_refused(labs: Labs, refused: Refused) -> None:
    assert refused(labs.viewer("GET", "runs/?colour=blue"), 400)["field"] == "colour"
    refused(labs.viewer("GET", "runs/?state=sleeping"), 400)
    refused(labs.viewer("GET", "runs/?cursor=nonsense"), 404)
    refused(labs.viewer("GET", "runs/?text=%00"), 400)


def test_the_list_costs_the_same_at_2_and_at_20_runs(labs: Labs) -> None:
    def queries() -> int:
        with CaptureQueriesContext(connection) as counted:
            assert labs.viewer("GET", "runs/").status_code == 200
        return len(counted)

    _many(labs, 2)
    queries()
    few = queries()
    _many(labs, 18)
    assert queries() == few
