"""POST /api/v1/plan/job/: time, energy, emissions and cost of a training before it runs."""

import uuid
from collections.abc import Callable
from typing import Any

import pytest

from apps.planner.models import Estimate
from apps.planner.services import OPEN_US
from apps.runs.choices import Intent
from tests.api.conftest import Labs
from tests.planner.support import A100, finished
from tests.preflight.support import metric
from tests.runs.fingerprints import told

Refused = Callable[..., dict[str, Any]]
PATH = "plan/job/"
JOB = {
    "model": {"preset": "resnet50"},
    "work": {"samples": 1_281_167, "epochs": 90, "batch": 256},
    "place": {"gpu": A100},
}


def plan(labs: Labs, who: str = "member", **change: Any) -> dict[str, Any]:
    reply = getattr(labs, who)("POST", PATH, {**JOB, **change})
    assert reply.status_code == 200, reply.content
    return reply.json()  # type: ignore[no-any-return]


def test_an_order_of_magnitude_from_the_catalogue(labs: Labs) -> None:
    reply = plan(labs, place={"node": str(labs.ours.node.uuid), "gpu": A100})
    assert reply["basis"] == "catalogue"
    assert reply["is_order_of_magnitude"] is True
    time_us = reply["time_us"]
    assert time_us["low"] < time_us["likely"] < time_us["high"] <= reply["reserve_us"]
    assert reply["gpu_energy_mj"]["likely"] < reply["node_energy_mj"]["likely"]
    assert reply["emission_ug"]["likely"] > 0
    assert reply["conditions"]["factor"]["name"].startswith("Germany")
    assert reply["cost_ucurrency"] is None
    assert reply["conditions"]["price_missing"] == "The site has no electricity price."
    assert (reply["estimate"], reply["expires_at"], reply["serving"]) == (None, None, None)
    assert Estimate.objects.count() == 0


def test_it_is_stored_on_demand(labs: Labs) -> None:
    reply = plan(labs, store=True)
    row = Estimate.objects.get(uuid=reply["estimate"])
    assert row.lab == labs.ours.lab
    assert row.person is not None
    assert row.expires_us - row.created_us == OPEN_US
    assert row.time_high_us == reply["time_us"]["high"]
    assert row.node_energy_low_mj == reply["node_energy_mj"]["low"]


def test_own_runs_by_fingerprint_and_by_run(labs: Labs) -> None:
    run = finished(labs.ours, minute=0, gpu_mj=3_600_000, params={"epochs": 10})
    reply = plan(labs, model=None, work={"epochs": 30}, fingerprint=told())
    assert reply["basis"] == "own_runs"
    assert reply["facts"]["runs"] == 1
    assert reply["gpu_energy_mj"]["likely"] == 3 * 3_600_000
    like = plan(labs, model=None, work={}, like_run=str(run.uuid))
    assert like["gpu_energy_mj"]["likely"] == 3_600_000
    by_node = labs.node("POST", PATH, {"fingerprint": told(), "work": {"epochs": 30}})
    assert by_node.json()["basis"] == "own_runs"


def test_the_result_of_a_probe(labs: Labs) -> None:
    probe = {
        "version": 1, "run": str(uuid.uuid4()), "measured_us": 61_000_000, "warm_up_us": 30_000_000,
        "steps": {
            "seen": 200, "measured": 122, "p10_us": 490_000, "p50_us": 500_000, "p90_us": 510_000,
            "mean_us": 500_000, "first_epoch_us": None, "evaluation_steps": 100,
            "variation_ppm": 2_000, "startup_us": 4_000_000, "source": "lines", "name": "step",
            "epoch_steps": None, "evaluations_us": [9_000_000, 11_000_000],
        },
        "power_mw": {"gpu": {"mean": 250_000, "p10": 1, "p90": 2}, "run": {"mean": 300_000}},
        "whole": None, "notes": [],
    }  # fmt: skip
    reply = plan(labs, probe=probe, work={"steps": 1000})
    assert reply["basis"] == "probe"
    assert reply["time_us"]["likely"] == 4_000_000 + 500_000_000 + 10 * 10_000_000
    assert reply["gpu_energy_mj"]["likely"] == 250 * 604_000
    assert reply["node_energy_mj"]["likely"] == 300 * 604_000


def test_models_by_layers_and_by_costs(labs: Labs) -> None:
    layers = {"text": "conv 8 3x3\nrelu\nlinear 10", "input": "3x32x32"}
    assert plan(labs, model={"layers": layers})["basis"] == "catalogue"
    costs = {"parameters": 10**6, "macs": 10**9, "layers": [], "saved_bytes": {"fp32": 4}}
    assert plan(labs, model={"costs": costs})["facts"]["is_large"] is True


def test_no_basis_is_no_number(labs: Labs) -> None:
    reply = plan(labs, place={})
    assert reply["basis"] == "none"
    assert "The GPU is unknown." in reply["missing"]
    for name in ("time_us", "reserve_us", "gpu_energy_mj", "node_energy_mj", "emission_ug"):
        assert reply[name] is None


def test_serving(labs: Labs) -> None:
    month = plan(labs, serving={"requests_per_day": 1_000_000, "benchmark": "bert-99"})["serving"]
    assert month["basis"] == "mlperf"
    assert "Server" in month["source"]
    # 0.12586 J a request
    assert month["monthly_energy_mj"]["likely"] == round(125.86 * 1_000_000 * 1461 / 48)
    assert month["monthly_energy_mj"]["high"] == month["monthly_energy_mj"]["likely"] * 10
    service = finished(labs.ours, minute=0, gpu_mj=6_000_000, intent=Intent.SERVICE)
    serving = {"requests_per_day": 100, "run": str(service.uuid)}
    missing = plan(labs, serving=serving)["serving"]
    assert (missing["basis"], missing["monthly_energy_mj"]) == ("none", None)
    metric(service, "requests", 3000)
    month = plan(labs, serving=serving)["serving"]
    assert month["basis"] == "own_service"
    assert month["monthly_energy_mj"]["likely"] == 2_000 * 100 * 1461 // 48
    assert plan(labs, serving={"requests_per_day": 5})["serving"]["basis"] == "none"


def test_nothing_of_another_lab(labs: Labs, refused: Refused) -> None:
    finished(labs.theirs, minute=0, gpu_mj=1000)
    run = finished(labs.ours, minute=0, gpu_mj=1000)
    for change, field in (
        ({"place": {"node": str(labs.ours.node.uuid)}}, "place.node"),
        ({"place": {"site": labs.ours.site.pk}}, "place.site"),
        ({"like_run": str(run.uuid)}, "like_run"),
        ({"serving": {"requests_per_day": 1, "run": str(run.uuid)}}, "serving.run"),
    ):
        assert refused(labs.outsider("POST", PATH, {**JOB, **change}), 400)["field"] == field


def test_a_viewer_computes_and_does_not_store(labs: Labs, refused: Refused) -> None:
    assert plan(labs, "viewer")["basis"] == "catalogue"
    refused(labs.viewer("POST", PATH, {**JOB, "store": True}), 403)
    assert Estimate.objects.count() == 0


def test_a_node_reads_no_single_run(labs: Labs, refused: Refused) -> None:
    run = finished(labs.ours, minute=0, gpu_mj=1000)
    refused(labs.node("POST", PATH, {**JOB, "like_run": str(run.uuid)}), 403)
    stored = labs.node("POST", PATH, {**JOB, "store": True}).json()["estimate"]
    assert Estimate.objects.get(uuid=stored).person is None


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"model": {"preset": "resnet9000"}}, "model.preset"),
        ({"model": {}}, "model.non_field_errors"),
        ({"model": {"preset": "resnet50", "costs": {"parameters": 1, "macs": 1}}}, "model"),
        ({"model": {"costs": {"parameters": 1, "macs": 0}}}, "model.costs.macs"),
        ({"model": {"layers": {"text": "warp 9", "input": "3x32x32"}}}, "model.layers"),
        ({"work": {"epochs": 0}}, "work.epochs"),
        ({"work": {"epochs": 1, "steps": 1}}, "work.steps"),
        ({"work": {"samples": 10**15, "epochs": 10**9}}, "work"),
        ({"training": {"precision": "fp4"}}, "training.precision"),
        ({"training": {"trainable": "all"}}, "training.trainable"),
        ({"place": {"gpu": "\x00"}}, "place"),
        ({"place": {"node": "x"}}, "place.node"),
        ({"project": "nothing"}, "project"),
        ({"fingerprint": {"version": "lc9"}}, "fingerprint.version"),
        ({"probe": {"steps": None}}, "probe.measured_us"),
        ({"serving": {"requests_per_day": 0}}, "serving.requests_per_day"),
        ({"serving": {"requests_per_day": 1, "benchmark": "x"}}, "serving.benchmark"),
        ({"hours": 3}, "hours"),
        ({"store": "perhaps"}, "store"),
    ],
)
def test_invalid_input(labs: Labs, refused: Refused, change: dict[str, Any], field: str) -> None:
    body = refused(labs.member("POST", PATH, {**JOB, **change}), 400)
    assert body["field"].startswith(field)


def test_anonymous(labs: Labs, refused: Refused) -> None:
    refused(labs.nobody("POST", PATH, JOB), 401)


@pytest.mark.parametrize("method", ["GET", "PUT", "PATCH", "DELETE"])
def test_wrong_method(labs: Labs, refused: Refused, method: str) -> None:
    refused(labs.member(method, PATH), 405)
