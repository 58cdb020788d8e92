"""POST /api/v1/plan/sweep/ ."""

import json
import uuid
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from labcarbon_collect.lc1 import param_hash

from apps.carbon.figures.energy import figures_of_runs
from apps.core.jobs import run_until_idle
from apps.fleet.services import set_price
from apps.runs.choices import Intent, RunState
from apps.runs.models import IgnoredParameter, Run
from tests.api.conftest import Caller, Labs
from tests.builders import T0
from tests.preflight.support import seeds, spend, stored
from tests.runs.fingerprints import told

Refused = Callable[..., dict[str, Any]]
GRID = {"lr": [0.1, 0.01, 0.001], "epochs": [10, 20]}


def post(caller: Caller, sweep: Any, **more: Any) -> Any:
    text = sweep if isinstance(sweep, str) else json.dumps(sweep)
    return caller("POST", "plan/sweep/", {"format": "json", "text": text, **more})


def answer(caller: Caller, sweep: Any, **more: Any) -> dict[str, Any]:
    response = post(caller, sweep, **more)
    assert response.status_code == 200, response.content
    return dict(msgspec.json.decode(response.content))


def params(**values: Any) -> dict[str, Any]:
    """Return the parts of a fingerprint with other parameters than the example."""
    all_values = {"lr": 0.1, "epochs": 10, "arch": "resnet18", **values}
    return {"params": {name: param_hash(name, value) for name, value in all_values.items()}}


def numbers(rows: list[dict[str, Any]]) -> list[int]:
    return [row["run"] for row in rows]


def test_finished_runs_are_found_and_the_others_are_summed(labs: Labs) -> None:
    base = stored(labs.ours)
    other = stored(labs.ours, minutes=5, wire=params(lr=0.01, epochs=20))
    spend(labs.ours, base, 3_600_000)
    spend(labs.ours, other, 7_200_000, minute=5)
    plan = answer(labs.member, GRID, base=str(base.uuid))
    assert (plan["runs"], plan["duplicate_runs"], plan["done_runs"]) == (6, 0, 2)
    assert (plan["new_runs"], plan["possible_runs"], plan["family_runs"]) == (4, 0, 2)
    assert [(row["run"], row["uuid"]) for row in plan["done"]] == [
        (1, str(base.uuid)),
        (4, str(other.uuid)),
    ]
    assert plan["done"][1]["params"] == {"lr": 0.01, "epochs": 20}
    assert plan["done"][0]["url"].endswith(f"/runs/{base.uuid}/")
    energy = plan["totals"]["energy_mj"]
    assert energy == {
        "measured": 2, "likely": 4 * 5_400_000, "low": 4 * 3_600_000, "high": 4 * 7_200_000,
    }  # fmt: skip
    assert plan["totals"]["emission_ug"]["measured"] == 2
    assert (plan["unknown"], plan["new_params"], plan["ends_early"]) == ([], [], False)


def test_a_fingerprint_replaces_the_base(labs: Labs) -> None:
    run = stored(labs.ours)
    plan = answer(labs.member, GRID, fingerprint=told(**params(lr=5)))
    assert [row["uuid"] for row in plan["done"]] == [str(run.uuid)]


def test_money_and_emissions_are_those_of_the_runs(labs: Labs) -> None:
    run = stored(labs.ours)
    spend(labs.ours, run, 3_600_000)
    grid = {"lr": [1, 2]}
    totals = answer(labs.member, grid, base=str(run.uuid))["totals"]
    assert totals["cost_ucurrency"] is None
    figure = figures_of_runs(labs.ours.lab, [run.uuid])[run.uuid]
    assert totals["emission_ug"] == {
        "measured": 1, "likely": 2 * figure.emission_ug, "low": None, "high": None,
    }  # fmt: skip
    labs.ours.lab.currency = "EUR"
    labs.ours.lab.save(update_fields=["currency"])
    set_price(
        site=labs.ours.site,
        ucurrency_per_kwh=300_000_000_000,
        currency="EUR",
        from_us=T0,
        by=None,
        now=T0,
    )
    run_until_idle(worker="test")
    figure = figures_of_runs(labs.ours.lab, [run.uuid])[run.uuid]
    assert figure.cost_ucurrency > 0
    totals = answer(labs.member, grid, base=str(run.uuid))["totals"]
    assert totals["cost_ucurrency"]["likely"] == 2 * figure.cost_ucurrency


def test_without_a_base_nothing_is_known_but_the_duplicates(labs: Labs) -> None:
    stored(labs.ours)
    plan = answer(labs.member, {"lr": [0.1, "1e-1", 0.2], "run_name": ["a"], "workers": [1, 2]})
    assert (plan["runs"], plan["new_runs"], plan["duplicate_runs"]) == (6, 2, 4)
    assert [(row["run"], row["of"]) for row in plan["duplicates"]] == [
        (2, 1), (3, 1), (4, 1), (6, 5),
    ]  # fmt: skip
    assert (plan["done_runs"], plan["unknown"]) == (None, ["base"])
    assert plan["family_runs"] is None
    assert plan["totals"] == {"energy_mj": None, "emission_ug": None, "cost_ucurrency": None}


def test_an_unmeasured_family_has_no_number(labs: Labs) -> None:
    run = stored(labs.ours)
    plan = answer(labs.member, GRID, base=str(run.uuid))
    assert plan["family_runs"] == 0
    assert plan["totals"] == {"energy_mj": None, "emission_ug": None, "cost_ucurrency": None}


def test_a_duplicate_with_another_label_is_possible(labs: Labs) -> None:
    plan = answer(labs.member, [{"lr": 1, "run_name": "a"}, {"lr": 1.0, "run_name": "b"}])
    assert [(row["run"], row["of"], row["possible"]) for row in plan["duplicates"]] == [
        (2, 1, True)
    ]


def test_only_finished_runs_of_the_same_seed_count(labs: Labs) -> None:
    base = stored(labs.ours, state=RunState.FAILED)
    stored(labs.ours, minutes=1, state=RunState.RUNNING, wire=params(lr=0.01))
    stored(labs.ours, minutes=2, wire={**params(lr=0.001), "seeds": seeds(2)})
    stored(labs.ours, minutes=3, wire=params(epochs=20), intent=Intent.PROBE)
    stored(labs.theirs)
    assert answer(labs.member, GRID, base=str(base.uuid))["done_runs"] == 0
    by_seed = answer(labs.member, {"lr": [0.001], "seed": [1, 2, 3]}, base=str(base.uuid))
    assert numbers(by_seed["done"]) == [2]


@pytest.mark.parametrize(
    "wire",
    [
        {"seeds": {}},
        {"labels": {"run_name": param_hash("run_name", "a")}},
        {"not_compared": ["programs that the code starts"]},
    ],
)
def test_a_run_that_may_differ_is_possible(labs: Labs, wire: dict[str, Any]) -> None:
    run = stored(labs.ours, wire=wire)
    given = {"seeds": {}} if "seeds" in wire else {}
    plan = answer(labs.member, {"lr": [0.1]}, fingerprint=told(**given))
    assert [(row["uuid"], row["possible"]) for row in plan["done"]] == [(str(run.uuid), True)]


@pytest.mark.parametrize(("part", "name"), [("data", "data"), ("seeds", "seeds")])
def test_an_unknown_part_of_the_base_is_named(labs: Labs, part: str, name: str) -> None:
    stored(labs.ours)
    plan = answer(labs.member, GRID, fingerprint=told(**{part: None}))
    assert (plan["done_runs"], plan["unknown"], plan["new_runs"]) == (None, [name], 6)


def test_a_factor_of_the_global_batch_size_is_not_guessed(labs: Labs) -> None:
    merged = {"params": {"global_batch_size": param_hash("global_batch_size", 64)}}
    plan = answer(labs.member, {"batch_size": [32, 64]}, fingerprint=told(**merged))
    assert (plan["done_runs"], plan["unknown"]) == (None, ["global_batch_size"])
    single = answer(labs.member, {"per_device_train_batch_size": [8]}, fingerprint=told())
    assert single["unknown"] == ["global_batch_size"]
    assert answer(labs.member, {"seed": [-1, 1]}, fingerprint=told())["unknown"] == ["seed"]


def test_a_default_of_the_base_is_dropped_from_the_point(labs: Labs) -> None:
    by_default = {
        "params": {"arch": param_hash("arch", "resnet18")},
        "dropped": {"lr": param_hash("lr", 0.1)},
    }
    run = stored(labs.ours, wire=by_default)
    plan = answer(labs.member, {"lr": [0.1, 0.2]}, base=str(run.uuid))
    assert (numbers(plan["done"]), plan["new_params"]) == ([1], [])


def test_a_parameter_that_the_base_lacks_is_named(labs: Labs) -> None:
    run = stored(labs.ours)
    plan = answer(labs.member, {"optim.lr": [0.1], "lr": [0.1]}, base=str(run.uuid))
    assert (plan["new_params"], plan["done_runs"]) == (["optim.lr"], 0)


def test_ignored_parameters_of_the_project_do_not_count(labs: Labs) -> None:
    project = labs.ours.lab.projects.get(slug="demo")
    IgnoredParameter.objects.create(project=project, name="epochs", since_us=0)
    run = stored(labs.ours, project=project)
    for more in ({"base": str(run.uuid)}, {"fingerprint": told(), "project": project.slug}):
        plan = answer(labs.member, GRID, **more)
        assert (plan["duplicate_runs"], numbers(plan["done"])) == (3, [1])


def test_smaller_sweeps_avoid_new_runs_only(labs: Labs) -> None:
    base = stored(labs.ours)
    spend(labs.ours, base, 1000)
    grid = {"lr": [0.1, 0.2, 0.3, 0.4, 0.5], "epochs": [10, 20]}
    plan = answer(labs.member, grid, base=str(base.uuid))
    coarser, random = plan["alternatives"]
    assert (coarser["kind"], coarser["runs"], coarser["new_runs"]) == ("coarser", 6, 5)
    assert coarser["values"] == {"lr": [0.1, 0.3, 0.5], "epochs": [10, 20]}
    assert (coarser["saved_runs"], coarser["saved"]["energy_mj"]["likely"]) == (4, 4000)
    assert (random["kind"], random["runs"]) == ("random", 5)
    assert {point["lr"] for point in random["points"]} == set(grid["lr"])
    assert {point["epochs"] for point in random["points"]} == {10, 20}
    assert random["saved_runs"] == 9 - random["new_runs"]
    more = answer(labs.member, grid, random_runs=7)["alternatives"][1]
    assert len(more["points"]) == 7
    assert answer(labs.member, [{"lr": 1}])["alternatives"] == []


def test_hydra_and_wandb(labs: Labs) -> None:
    plan = answer(labs.member, "lr=0.1,0.01 arch=a,b", format="hydra")
    assert (plan["runs"], plan["new_runs"]) == (4, 4)
    base = stored(labs.ours)
    spend(labs.ours, base, 1000)
    text = "method: bayes\nearly_terminate: {type: hyperband}\nparameters: {lr: {min: 0, max: 1.0}}"
    plan = answer(labs.member, text, format="wandb", runs=20, base=str(base.uuid))
    assert (plan["runs"], plan["new_runs"], plan["ends_early"]) == (20, 20, True)
    assert (plan["duplicate_runs"], plan["done_runs"]) == (None, None)
    assert (plan["unknown"], plan["alternatives"]) == (["points"], [])
    assert plan["totals"]["energy_mj"]["likely"] == 20_000


def test_a_node_gets_no_link_and_names_no_run(labs: Labs, refused: Refused) -> None:
    run = stored(labs.ours)
    plan = answer(labs.node, GRID, fingerprint=told())
    assert [(row["uuid"], row["url"]) for row in plan["done"]] == [(None, None)]
    assert refused(post(labs.node, GRID, base=str(run.uuid)), 403)["field"] == "base"


def test_the_method_is_post(labs: Labs) -> None:
    for method in ("GET", "PUT", "PATCH", "DELETE"):
        assert labs.member(method, "plan/sweep/").status_code == 405


def test_runs_of_another_lab_are_not_found(labs: Labs, refused: Refused) -> None:
    run = stored(labs.theirs)
    assert refused(post(labs.member, GRID, base=str(run.uuid)), 404)["field"] == "base"
    assert refused(post(labs.member, GRID, base=str(uuid.uuid4())), 404)["field"] == "base"
    assert answer(labs.member, GRID, fingerprint=told())["done_runs"] == 0


def test_a_viewer_may_plan_and_nobody_else(labs: Labs, refused: Refused) -> None:
    assert answer(labs.viewer, GRID)["runs"] == 6
    refused(post(labs.nobody, GRID), 401)
    assert Run.objects.count() == 0


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"format": "xml"}, "format"),
        ({"text": ""}, "text"),
        ({"text": None}, "text"),
        ({"text": "{"}, "text"),
        ({"odd": 1}, "odd"),
        ({"base": "x"}, "base"),
        ({"fingerprint": {"version": "lc9"}}, "fingerprint.version"),
        ({"base": str(uuid.uuid4()), "fingerprint": {"version": "lc2"}}, "base"),
        ({"project": "nope"}, "project"),
        ({"project": "\ud83d"}, None),
        ({"runs": 5}, "runs"),
        ({"runs": 0}, "runs"),
        ({"random_runs": 2}, "random_runs"),
        ({"random_runs": 7}, "random_runs"),
        ({"text": '[{"a": 1}]', "random_runs": 1}, "random_runs"),
        (
            {
                "format": "wandb",
                "text": "method: random\nrun_cap: 3\nparameters: {a: {value: 1}}",
                "random_runs": 1,
            },
            "random_runs",
        ),
    ],
)
def test_invalid_input_names_its_field(
    labs: Labs, refused: Refused, change: dict[str, Any], field: str | None
) -> None:
    if field is None:
        body = b'{"format": "json", "text": "{\\"a\\": [1]}", "project": "\\ud83d"}'
        error = refused(labs.member("POST", "plan/sweep/", body), 400)
        assert error["field"] == "project"
        return
    error = refused(post(labs.member, **{"sweep": GRID, **change}), 400)
    assert error["field"] == field


def test_a_run_without_fingerprint_is_no_base(labs: Labs, refused: Refused) -> None:
    run = stored(labs.ours)
    run.fingerprint.delete()
    assert refused(post(labs.member, GRID, base=str(run.uuid)), 400)["field"] == "base"


def test_long_texts_and_large_sweeps_are_refused(labs: Labs, refused: Refused) -> None:
    assert refused(post(labs.member, "a" * 65_537, format="hydra"), 413)["field"] == "text"
    huge = {"a": list(range(101)), "b": list(range(100))}
    assert refused(post(labs.member, huge), 413)["field"] == "text"


def test_queries_do_not_depend_on_the_number_of_runs(labs: Labs) -> None:
    base = stored(labs.ours)
    spend(labs.ours, base, 1000)

    def count(runs: int) -> int:
        with CaptureQueriesContext(connection) as queries:
            plan = answer(labs.member, {"lr": list(range(runs))}, base=str(base.uuid))
        assert plan["runs"] == runs
        return len(queries)

    count(1)  # fills caches of the process
    few = count(1)
    stored(labs.ours, minutes=3, wire=params(lr=3))
    assert count(3000) == few <= 12


def test_the_largest_sweep(labs: Labs) -> None:
    base = stored(labs.ours)
    grid = {name: list(range(10)) for name in ("lr", "epochs", "depth", "width")}
    plan = answer(labs.member, grid, base=str(base.uuid))
    assert (plan["runs"], plan["new_runs"]) == (10_000, 10_000)
    assert plan["new_params"] == ["depth", "width"]
