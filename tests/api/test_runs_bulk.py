"""POST /api/v1/runs/bulk/: history of a scheduler, an answer a row."""

import uuid
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from apps.accounts.services.labs import issue_node_token
from apps.core.clock import now_us
from apps.energy.models import LedgerEntry
from apps.fleet.services import register_node
from apps.ingest.models import EnergyWindow
from apps.ingest.window_rules import job_run
from apps.runs.models import Run
from tests.api.conftest import Caller, Labs
from tests.builders import T0

Refused = Callable[..., dict[str, Any]]


def row(job_id: int, **change: Any) -> dict[str, Any]:
    job = {
        "cluster": "hpc",
        "id": str(job_id),
        "account": "vision,nlp",
        "partition": "gpu",
        "nodes": "gpu1",
        "state": "COMPLETED",
        "exit": "0:0",
        "reserved_gpus": 2,
        "consumed_energy_j": 99,
    }
    return {
        "name": "train",
        "user": "ada",
        "started_at": "2026-11-02T08:00:00Z",
        "ended_at": "2026-11-02T09:00:00Z",
        "state": "finished",
        "exit_code": 0,
        "job": {**job, **change.pop("job", {})},
        **change,
    }


def answers(caller: Caller, *rows: Any) -> list[list[str]]:
    reply = caller("POST", "runs/bulk/", {"runs": list(rows)})
    assert reply.status_code == 200, reply.content
    return list(reply.json()["results"])


def test_rows_become_runs_without_energy(labs: Labs) -> None:
    assert answers(labs.member, row(1), row(2, state="killed", job={"state": "TIMEOUT"})) == [
        ["created"],
        ["created"],
    ]
    run = Run.objects.get(uuid=job_run("hpc/1"))
    assert (run.os_user, run.account, run.state, run.started_us) == (
        "ada",
        "vision,nlp",
        "finished",
        T0,
    )
    assert run.user is None, "who imports is not whose job it was"
    assert run.job_facts["reserved_gpus"] == 2
    assert run.job_facts["consumed_energy_j"] == 99
    assert run.reported_energy_mj is None
    assert not EnergyWindow.objects.exists()
    assert not LedgerEntry.objects.exists()


def test_saying_it_again_changes_nothing(labs: Labs) -> None:
    answers(labs.member, row(1), row(2))
    before = list(Run.objects.order_by("pk").values())
    assert answers(labs.member, row(1), row(2)) == [["unchanged"], ["unchanged"]]
    assert list(Run.objects.order_by("pk").values()) == before
    assert answers(labs.member, row(1), row(2, state="failed", exit_code=1)) == [
        ["unchanged"],
        ["changed"],
    ]
    assert Run.objects.count() == 2


def test_a_row_twice_in_a_request_is_one_run(labs: Labs) -> None:
    answers(labs.member, row(1), row(1, state="failed"), row(1, state="failed"))
    assert [run.state for run in Run.objects.all()] == ["failed"]


@pytest.mark.parametrize(
    ("wrong", "where"),
    [
    ({"state": "sleeping"}, "state"), ({"name": ""}, "name"), ({"name": "a\x00"}, "NUL"),
    ({"started_at": "x"}, "started_at"), ({"started_at": "2026-11-02T08:00:00"}, "started_at"),
    ({"started_at": "1850-01-01T00:00:00Z"}, "started_at"),
    ({"ended_at": "2026-11-02T07:00:00Z"}, "end before"), ({"exit_code": 999}, "exit_code"),
    ({"colour": 1}, "colour"), ({"job": {"id": "x"}}, "job.id"),
    ({"job": {"cluster": "a/b"}}, "job.cluster"), ({"job": {"scheduler": "cron"}}, "cron"),
    ({"user": "u" * 101}, "user"), ({"energy_mj": 5}, "energy_mj"),
],
)  # fmt: skip
def test_a_bad_row_is_refused_alone(labs: Labs, wrong: dict[str, Any], where: str) -> None:
    first, second, third = answers(labs.member, row(1), row(2, **wrong), row(3))
    assert (first, third) == (["created"], ["created"])
    assert second[0] == "refused"
    assert where in second[1]
    assert Run.objects.count() == 2


@pytest.mark.parametrize("value", [None, 7, "x", [], {"name": "x"}])
def test_what_is_no_row_is_refused_alone(labs: Labs, value: Any) -> None:
    assert [answer[0] for answer in answers(labs.member, value, row(3))] == ["refused", "created"]


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"{}", b'{"runs": 1}', b'{"runs": [], "more": 1}', b'{"runs": [NaN]}'],
)
def test_a_bad_body_is_refused_as_a_whole(labs: Labs, refused: Refused, body: bytes) -> None:
    refused(labs.member("POST", "runs/bulk/", body), 400)


def test_no_more_than_a_thousand_rows(labs: Labs, refused: Refused) -> None:
    refused(labs.member("POST", "runs/bulk/", {"runs": [row(1)] * 1001}), 400)
    assert not Run.objects.exists()


def test_who_may(labs: Labs, refused: Refused) -> None:
    refused(labs.nobody("POST", "runs/bulk/", {"runs": [row(1)]}), 401)
    refused(labs.viewer("POST", "runs/bulk/", {"runs": [row(1)]}), 403)
    for method in ("GET", "PUT", "PATCH", "DELETE"):
        refused(labs.member(method, "runs/bulk/", None), 405)
    assert not Run.objects.exists()
    assert answers(labs.node, row(1)) == [["created"]]


def test_labs_do_not_meet(labs: Labs) -> None:
    answers(labs.member, row(1))
    assert answers(labs.outsider, row(1, user="eve")) == [["created"]]
    assert set(Run.objects.values_list("lab__name", "os_user")) == {
        ("Ours", "ada"),
        ("Theirs", "eve"),
    }


def test_a_nodes_token_changes_not_whose_job_another_node_told(labs: Labs) -> None:
    node = register_node(
        lab=labs.ours.lab, uuid=uuid.uuid4(), hostname="gpu2", facts={}, site=labs.ours.site, now=T0
    )
    second = Caller(issue_node_token(lab=labs.ours.lab, node_uuid=node.uuid, now=now_us()))
    answers(labs.node, row(1))
    (answer,) = answers(second, row(1, user="eve"))
    assert (answer[0], Run.objects.get().os_user) == ("refused", "ada")
    (answer,) = answers(second, row(1, state="failed"))
    assert (answer[0], Run.objects.get().state) == ("refused", "finished")
    assert answers(labs.member, row(1, user="eve")) == [["changed"]], (
        "a person's import corrects it"
    )


def test_history_joins_what_the_nodes_told(labs: Labs) -> None:
    """A run that a node made keeps its node and its GPUs; a stale row does not set it running
    again.
    """
    facts = {
        "name": "train",
        "started_at": "2026-11-02T08:00:00Z",
        "user": "ada",
        "job": {"cluster": "hpc", "id": "1", "account": "vision,nlp", "gpus": {"gpu1": ["GPU-a"]}},
    }
    labs.node("PUT", f"runs/{job_run('hpc/1')}/", facts)
    assert answers(labs.member, row(1)) == [["changed"]]
    assert answers(labs.member, row(1, state="running", ended_at=None))[0][0] in {
        "changed",
        "unchanged",
    }
    run = Run.objects.get()
    assert (run.node, run.job_facts["gpus"], run.state) == (
        labs.ours.node,
        {"gpu1": ["GPU-a"]},
        "finished",
    )


def test_statements_do_not_grow_with_rows_but_by_what_sqlite_takes_in_one(labs: Labs) -> None:
    def queries(first: int, count: int) -> int:
        with CaptureQueriesContext(connection) as counted:
            answers(labs.member, *(row(first + i) for i in range(count)))
        return len(counted)

    queries(1, 1)
    few = queries(10, 2)
    in_one = connection.features.max_query_params or 200 * len(Run._meta.concrete_fields)
    assert queries(100, 200) <= few + 200 // (in_one // len(Run._meta.concrete_fields))
    assert queries(100, 200) <= few, "what is there already is only looked at"
