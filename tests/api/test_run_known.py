"""PUT and PATCH /api/v1/runs/<uuid>/: fingerprint, intent, sweep, parent, tags, ids elsewhere,
failure.
"""

import uuid
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from apps.runs.models import ExternalId, Fingerprint, Run, TierKey
from tests.api.conftest import Labs
from tests.runs.fingerprints import hex64, told

Refused = Callable[..., dict[str, Any]]
RUN = "7f1d3b52-2222-4333-8444-555566667777"
OTHER = "7f1d3b52-2222-4333-8444-555566668888"
FACTS: dict[str, Any] = {
    "name": "train.py",
    "started_at": "2026-11-02T08:00:00Z",
    "project": "demo",
}


def put(labs: Labs, run: str = RUN, **more: Any) -> dict[str, Any]:
    reply = labs.member("PUT", f"runs/{run}/", {**FACTS, **more})
    assert reply.status_code == 200, reply.content
    return reply.json()  # type: ignore[no-any-return,attr-defined]


def get(labs: Labs, run: str = RUN) -> dict[str, Any]:
    return labs.viewer("GET", f"runs/{run}/").json()  # type: ignore[no-any-return,attr-defined]


def test_everything_is_stored_and_told_back(labs: Labs) -> None:
    put(labs, OTHER)
    put(
        labs,
        fingerprint=told(),
        intent="ablation",
        sweep="sweep-7",
        parent=OTHER,
        tags={"team": "vision"},
        external={"tool": "mlflow", "value": "0123"},
    )
    found = get(labs)
    assert (found["intent"], found["sweep"], found["parent"], found["tags"]) == (
        "ablation",
        "sweep-7",
        OTHER,
        {"team": "vision"},
    )
    assert found["external_ids"] == [{"tool": "mlflow", "value": "0123"}]
    assert found["fingerprint"]["parts"] == dict.fromkeys(
        ("code", "params", "data", "start", "seeds"), "verified"
    )
    assert found["fingerprint"]["hashes"]["code"] == hex64("code")
    assert found["fingerprint"]["told"] == {"lr": 0.1}
    assert found["teller"] == "api"
    assert get(labs, OTHER)["children"] == {"count": 1, "first": [RUN]}


def test_a_run_of_which_little_is_known_says_so(labs: Labs) -> None:
    put(labs, fingerprint={"version": "lc2", "data": {"weak": hex64("stat")}, "seeds": {}})
    parts = get(labs)["fingerprint"]["parts"]
    assert parts == {
        "code": "unknown",
        "params": "unknown",
        "data": "weak",
        "start": "unknown",
        "seeds": "unset",
    }
    put(labs, OTHER)
    assert get(labs, OTHER)["fingerprint"] is None


def test_params_without_a_fingerprint_are_the_recipe(labs: Labs) -> None:
    put(labs, params={"lr": "0.10", "seed": 1})
    put(labs, OTHER, params={"learning_rate": 0.1, "seed": "1"})
    one, other = Fingerprint.objects.order_by("pk")
    assert one.recipe == other.recipe != ""
    assert get(labs)["fingerprint"]["parts"]["params"] == "verified"
    assert not TierKey.objects.exists(), "unknown data matches nothing"


def test_params_of_the_body_do_not_undo_a_fingerprint(labs: Labs) -> None:
    put(labs, params={"lr": 1}, fingerprint=told())
    before = set(TierKey.objects.values_list("tier", "key"))
    put(labs, params={"lr": 2})
    assert set(TierKey.objects.values_list("tier", "key")) == before


def test_siblings_are_counted(labs: Labs) -> None:
    put(labs, fingerprint=told())
    for seed in ("1", "2"):
        put(labs, str(uuid.uuid4()), fingerprint=told(seeds={"seed": seed * 32}))
    put(labs, OTHER, fingerprint=told())
    found = get(labs)["siblings"]
    assert (found["f1"], found["f2"], found["f3"]) == (1, 3, 3)
    labs.outsider("PUT", f"runs/{uuid.uuid4()}/", {**FACTS, "fingerprint": told()})
    assert get(labs)["siblings"] == found, "another lab's runs are no siblings"


def test_patch_makes_it_better_known(labs: Labs) -> None:
    put(labs, fingerprint=told(data={"weak": hex64("stat")}))
    change = {
        "fingerprint": {"version": "lc2", "data": {"verified": hex64("content")}},
        "tags": {"best": "yes"},
        "failure": {"class": "cuda_memory", "point": "ab" * 8, "text": "out of memory"},
    }
    reply = labs.member("PATCH", f"runs/{RUN}/", change)
    assert reply.status_code == 200, reply.content
    found = get(labs)
    assert found["fingerprint"]["parts"]["data"] == "verified"
    assert found["fingerprint"]["hashes"]["data_weak"] == hex64("stat")
    assert (found["failure"], found["failure_point"], found["failure_text"]) == (
        "cuda_memory",
        "ab" * 8,
        "out of memory",
    )
    assert found["state"] == "running"
    labs.member("PATCH", f"runs/{RUN}/", {"tags": {"best": None, "a": "b"}})
    assert get(labs)["tags"] == {"a": "b"}


def test_put_again_forgets_nothing(labs: Labs) -> None:
    put(labs, fingerprint=told(), intent="debug", tags={"a": "b"}, sweep="s")
    before = get(labs)
    put(labs)
    again = get(labs)
    assert {**again, "seen_at": None} == {**before, "seen_at": None}


def test_the_same_id_elsewhere_is_the_same_run(labs: Labs) -> None:
    external = {"tool": "codecarbon", "value": "abc"}
    put(labs, external=external)
    again = put(labs, OTHER, external=external, name="told again")
    assert again["uuid"] == RUN
    assert "codecarbon 'abc'" in again["warning"]
    assert again["name"] == "train.py"
    assert Run.objects.count() == ExternalId.objects.count() == 1


def test_the_same_id_in_another_lab_is_another_run(labs: Labs) -> None:
    external = {"tool": "codecarbon", "value": "abc"}
    put(labs, external=external)
    reply = labs.outsider("PUT", f"runs/{OTHER}/", {**FACTS, "external": external})
    assert reply.json()["uuid"] == OTHER  # type: ignore[attr-defined]


def test_two_runs_that_are_here_cannot_have_one_id(labs: Labs, refused: Refused) -> None:
    external = {"tool": "mlflow", "value": "1"}
    put(labs, external=external)
    put(labs, OTHER)
    for method, body in (
        ("PUT", {**FACTS, "external": external}),
        ("PATCH", {"external": external}),
    ):
        error = refused(labs.member(method, f"runs/{OTHER}/", body), 409, "conflict")
        assert RUN in error["message"]
        assert error["field"] == "external"


def test_a_parent_may_come_later(labs: Labs) -> None:
    assert put(labs, parent=OTHER)["parent"] == OTHER
    assert Run.objects.get().parent is None
    put(labs, OTHER)
    assert Run.objects.get(uuid=RUN).parent == Run.objects.get(uuid=OTHER)
    assert get(labs, OTHER)["children"]["first"] == [RUN]


def test_a_parent_of_another_lab_is_none(labs: Labs) -> None:
    labs.outsider("PUT", f"runs/{OTHER}/", FACTS)
    put(labs, parent=OTHER)
    assert Run.objects.get(uuid=RUN).parent is None


def test_nobody_is_an_ancestor_of_himself(labs: Labs, refused: Refused) -> None:
    put(labs)
    put(labs, OTHER, parent=RUN)
    refused(labs.member("PATCH", f"runs/{RUN}/", {"parent": RUN}), 400)
    assert (
        refused(labs.member("PATCH", f"runs/{RUN}/", {"parent": OTHER}), 400)["field"] == "parent"
    )


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"fingerprint": {"version": "lc9"}}, "fingerprint.version"),
        ({"fingerprint": {"version": "lc2", "code": {"hash": "x"}}}, "fingerprint.code.hash"),
        ({"fingerprint": "lc2"}, "fingerprint"),
        ({"fingerprint": {}}, "fingerprint.version"),
        ({"fingerprint": told(told={"lr": {"a": "\ud800"}})}, "fingerprint"),
        ({"intent": "fun"}, "intent"),
        ({"sweep": "s" * 101}, "sweep"),
        ({"parent": "mother"}, "parent"),
        ({"tags": {f"t{i}": "x" for i in range(101)}}, "tags"),
        ({"tags": {"a": {"b": 1}}}, "tags.a"),
        ({"tags": {"": "x"}}, "tags"),
        ({"tags": {"t" * 201: "x"}}, "tags"),
        ({"tags": {"a": "x" * 1001}}, "tags.a"),
        ({"external": {"tool": "ML flow", "value": "1"}}, "external.tool"),
        ({"external": {"tool": "mlflow"}}, "external.value"),
        ({"external": {"tool": "mlflow", "value": ""}}, "external.value"),
    ],
)
def test_bad_input_is_named(
    labs: Labs, refused: Refused, change: dict[str, Any], field: str
) -> None:
    import json

    body = json.dumps({**FACTS, **change}).encode()  # also what no strict encoder would write
    assert refused(labs.member("PUT", f"runs/{RUN}/", body), 400)["field"] == field
    assert not Run.objects.exists()
    put(labs)
    assert (
        refused(labs.member("PATCH", f"runs/{RUN}/", json.dumps(change).encode()), 400)["field"]
        == field
    )


@pytest.mark.parametrize(
    ("failure", "field"),
    [
        ({"class": "bad luck"}, "failure.class"),
        ({"point": "line 7"}, "failure.point"),
        ({"text": "x" * 16_001}, "failure.text"),
        ({"mood": "x"}, "failure.mood"),
    ],
)
def test_bad_failures_are_named(
    labs: Labs, refused: Refused, failure: dict[str, Any], field: str
) -> None:
    put(labs)
    assert (
        refused(labs.member("PATCH", f"runs/{RUN}/", {"failure": failure}), 400)["field"] == field
    )


def test_numbers_beyond_the_database_are_refused(labs: Labs, refused: Refused) -> None:
    body = b'{"name": "r", "started_at": "2026-11-02T08:00:00Z", "params": {"lr": 1e400}}'
    assert refused(labs.member("PUT", f"runs/{RUN}/", body), 400)["field"] == "params"


def test_a_run_is_not_called_lost_by_others(labs: Labs, refused: Refused) -> None:
    put(labs)
    assert refused(labs.member("PATCH", f"runs/{RUN}/", {"state": "lost"}), 400)["field"] == "state"


def test_a_nodes_token_tells_only_of_its_own(labs: Labs, refused: Refused) -> None:
    put(labs, external={"tool": "mlflow", "value": "1"})
    refused(labs.node("PATCH", f"runs/{RUN}/", {"tags": {"a": "b"}}), 404)
    body = {**FACTS, "external": {"tool": "mlflow", "value": "1"}}
    refused(labs.node("PUT", f"runs/{OTHER}/", body), 409)
    assert labs.node("PUT", f"runs/{OTHER}/", {**FACTS, "fingerprint": told()}).status_code == 200
    assert labs.node("PATCH", f"runs/{OTHER}/", {"tags": {"a": "b"}}).status_code == 200


def test_outsiders_and_viewers(labs: Labs, refused: Refused) -> None:
    put(labs, fingerprint=told())
    refused(labs.outsider("PATCH", f"runs/{RUN}/", {"tags": {"a": "b"}}), 404)
    refused(labs.viewer("PATCH", f"runs/{RUN}/", {"tags": {"a": "b"}}), 403)
    assert get(labs)["tags"] == {}


def test_the_teller_is_who_told_of_it_first(labs: Labs) -> None:
    labs.node("PUT", f"runs/{RUN}/", FACTS, **{"User-Agent": "labcarbon-collect/0.1"})
    assert put(labs)["teller"] == "collector"


def test_the_cost_of_a_put_does_not_grow_with_parameters(labs: Labs) -> None:
    def queries(count: int) -> int:
        params = {f"p{i}": "0" * 31 + "1" for i in range(count)}
        body = {**FACTS, "fingerprint": told(params=params)}
        with CaptureQueriesContext(connection) as counted:
            assert labs.member("PUT", f"runs/{uuid.uuid4()}/", body).status_code == 200
        return len(counted)

    queries(1)
    assert queries(100) == queries(2)


def test_the_cost_of_a_run_does_not_grow_with_children(labs: Labs) -> None:
    def queries() -> int:
        with CaptureQueriesContext(connection) as counted:
            get(labs)
        return len(counted)

    put(labs, fingerprint=told())
    queries()
    few = queries()
    for _ in range(5):
        put(labs, str(uuid.uuid4()), parent=RUN, fingerprint=told())
    assert queries() == few
