"""GET /api/v1/plan/estimates/<uuid>/, and the estimate that a registration of a run names."""

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest

from apps.planner.models import Estimate
from apps.planner.outcomes.scores import score_estimates
from apps.planner.outcomes.states import FIRST_SCORE_US
from tests.api.conftest import Labs
from tests.builders import MINUTE, T0
from tests.planner.support import A100, finished

Refused = Callable[..., dict[str, Any]]
JOB = {
    "model": {"preset": "resnet50"},
    "work": {"samples": 1_281_167, "epochs": 90, "batch": 256},
    "project": "demo",
    "store": True,
}


def planned(labs: Labs, **change: Any) -> dict[str, Any]:
    place = {"node": str(labs.ours.node.uuid), "gpu": A100}
    reply = labs.member("POST", "plan/job/", {**JOB, "place": place, **change})
    assert reply.status_code == 200, reply.content
    return reply.json()  # type: ignore[no-any-return]


def path_of(uuid: Any) -> str:
    return f"plan/estimates/{uuid}/"


def test_an_open_estimate(labs: Labs) -> None:
    plan = planned(labs)
    reply = labs.member("GET", path_of(plan["estimate"]))
    assert reply.status_code == 200, reply.content
    body = reply.json()
    for name in (
        "basis", "facts", "time_us", "gpu_energy_mj", "node_energy_mj", "emission_ug",
        "cost_ucurrency", "currency", "conditions",
    ):  # fmt: skip
        assert body[name] == plan[name], name
    assert body["uuid"] == plan["estimate"]
    assert body["project"] == "demo"
    assert body["input"]["work"]["epochs"] == 90
    assert (body["run"], body["attached_at"]) == (None, None)
    assert body["outcome"] == {
        "state": "open", "reason": None, "scored_at": None, "time_us": None,
        "gpu_energy_mj": None, "node_energy_mj": None,
    }  # fmt: skip


def test_a_run_names_it_and_its_outcome(labs: Labs) -> None:
    estimate, run = planned(labs)["estimate"], str(uuid4())
    facts = {"name": "train.py", "started_at": "2126-11-02T08:00:00Z", "estimate": estimate}
    reply = labs.member("PUT", f"runs/{run}/", facts)
    assert "had expired" in reply.json()["warning"]
    facts["started_at"] = "2026-11-02T08:00:00Z"
    reply = labs.member("PUT", f"runs/{run}/", facts)
    assert (reply.status_code, reply.json()["warning"]) == (200, "")
    body = labs.viewer("GET", path_of(estimate)).json()
    assert body["run"] == run
    assert body["attached_at"] is not None
    assert body["outcome"]["state"] == "running"
    reply = labs.member("PUT", f"runs/{uuid4()}/", facts)
    assert reply.status_code == 200
    assert "belongs to another run" in reply.json()["warning"]
    labs.member("PATCH", f"runs/{run}/", {"state": "failed", "ended_at": "2026-11-02T09:00:00Z"})
    outcome = labs.viewer("GET", path_of(estimate)).json()["outcome"]
    assert (outcome["state"], outcome["reason"]) == ("not_scored", "failed")


def test_a_scored_estimate(labs: Labs) -> None:
    estimate = planned(labs)["estimate"]
    run = finished(labs.ours, minute=0, gpu_mj=500, cpu_mj=70)
    Estimate.objects.filter(uuid=estimate).update(run=run, attached_us=T0)
    score_estimates(now=T0 + MINUTE + FIRST_SCORE_US)
    outcome = labs.viewer("GET", path_of(estimate)).json()["outcome"]
    assert outcome.pop("scored_at") is not None
    assert outcome == {
        "state": "scored", "reason": None, "time_us": MINUTE, "gpu_energy_mj": 500,
        "node_energy_mj": 570,
    }  # fmt: skip


def test_without_a_basis_there_is_no_number(labs: Labs) -> None:
    estimate = planned(labs, model=None)["estimate"]
    body = labs.member("GET", path_of(estimate)).json()
    assert body["basis"] == "none"
    assert body["time_us"] is None
    assert body["facts"]["missing"]


def test_another_lab(labs: Labs, refused: Refused) -> None:
    refused(labs.outsider("GET", path_of(planned(labs)["estimate"])), 404)


def test_a_viewer_reads_and_a_node_does_not(labs: Labs, refused: Refused) -> None:
    path = path_of(planned(labs)["estimate"])
    assert labs.viewer("GET", path).status_code == 200
    refused(labs.node("GET", path), 403)
    refused(labs.nobody("GET", path), 401)


def test_invalid_input(labs: Labs, refused: Refused) -> None:
    refused(labs.member("GET", path_of(uuid4())), 404)
    refused(labs.member("GET", path_of("first")), 404)
    facts = {"name": "a", "started_at": "2026-11-02T08:00:00Z", "estimate": "first"}
    error = refused(labs.member("PUT", f"runs/{uuid4()}/", facts), 400)
    assert error["field"] == "estimate"


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_wrong_method(labs: Labs, refused: Refused, method: str) -> None:
    refused(labs.member(method, path_of(uuid4())), 405)
