"""Texts of sweeps become runs."""

import itertools
import json
from collections.abc import Callable
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from apps.core.errors import LabCarbonError
from apps.planner.sweeps.hydra import parse_hydra
from apps.planner.sweeps.json_text import parse_json
from apps.planner.sweeps.sweep import Sweep
from apps.planner.sweeps.wandb import parse_wandb

NAMES = st.text(alphabet="abcdefgh_", min_size=1, max_size=6)
WORDS = st.text(alphabet="uvwxyz", min_size=1, max_size=4)
VALUES = st.one_of(st.integers(-99, 99), WORDS)
AXES = st.dictionaries(NAMES, st.lists(VALUES, min_size=1, max_size=4), min_size=1, max_size=4)


def combinations(axes: dict[str, list[Any]]) -> list[dict[str, Any]]:
    """Return all combinations of values, the oracle of every format."""
    return [
        {name: values[place] for place, name in enumerate(axes)}
        for values in itertools.product(*axes.values())
    ]


def points(sweep: Sweep) -> list[Any]:
    assert sweep.points is not None
    assert sweep.runs == len(sweep.points)
    return list(sweep.points)


@given(AXES)
def test_a_grid_has_all_combinations_in_each_format(axes: dict[str, list[Any]]) -> None:
    expected = combinations(axes)
    assert points(parse_json(json.dumps(axes))) == expected
    overrides = (f"{name}={','.join(map(str, values))}" for name, values in axes.items())
    assert points(parse_hydra(" ".join(overrides))) == expected
    config = {
        "method": "grid",
        "parameters": {name: {"values": values} for name, values in axes.items()},
    }
    assert points(parse_wandb(yaml.safe_dump(config, sort_keys=False))) == expected


@given(st.lists(st.dictionaries(NAMES, VALUES, min_size=1), min_size=1, max_size=8))
def test_a_list_has_its_runs(runs: list[dict[str, Any]]) -> None:
    sweep = parse_json(json.dumps(runs))
    assert points(sweep) == runs
    assert sweep.axes is None


@given(st.integers(-50, 50), st.integers(-50, 50), st.integers(-7, 7).filter(bool))
def test_a_range_is_that_of_python(start: int, stop: int, step: int) -> None:
    expected = list(range(start, stop, step))
    text = f"a=range({start},{stop},{step})"
    if expected:
        assert [point["a"] for point in points(parse_hydra(text))] == expected
    else:
        with pytest.raises(LabCarbonError, match="'a' has no values"):
            parse_hydra(text)


@pytest.mark.parametrize(
    ("text", "axes"),
    [
        ("lr=0.1,0.01 model=a,b", {"lr": [0.1, 0.01], "model": ["a", "b"]}),
        ("-m lr=1e-3 +new=1 ++other=x", {"lr": [0.001], "new": [1], "other": ["x"]}),
        ("x=range(1,8,2)", {"x": [1, 3, 5, 7]}),
        ("x=range(3)", {"x": [0, 1, 2]}),
        ("x=range(stop=5, start=2)", {"x": [2, 3, 4]}),
        ("x=range(0.1,0.4,0.1)", {"x": [0.1, 0.2, 0.3]}),
        ("m=choice(a, 'b c', 2)", {"m": ["a", "b c", 2]}),
        ("t='a,b',c", {"t": ["a,b", "c"]}),
        (r"t='it\'s'", {"t": ["it's"]}),
        ("s=[1,2],[3,4]", {"s": ["[1,2]", "[3,4]"]}),
        ("d={a:1,b:2}", {"d": ["{a:1,b:2}"]}),
        ("'x=range(1, 3)' \"y=a,b\"", {"x": [1, 2], "y": ["a", "b"]}),
        ("optim.lr=1 db@src:dst=big", {"optim.lr": [1], "db@src:dst": ["big"]}),
        ("e='' n=null", {"e": [""], "n": ["null"]}),
    ],
)
def test_overrides_of_hydra(text: str, axes: dict[str, list[Any]]) -> None:
    assert parse_hydra(text).axes == axes


WANDB = """
program: train.py
method: grid
parameters:
  lr: {values: [0.1, 0.01]}
  layers: {min: 1, max: 3}
  drop: {distribution: q_uniform, min: 0, max: 0.3, q: 0.1}
  optim: {parameters: {name: {value: adam}, beta: {values: [0.9]}}}
"""


def test_a_grid_of_wandb() -> None:
    assert parse_wandb(WANDB).axes == {
        "lr": [0.1, 0.01],
        "layers": [1, 2, 3],
        "drop": [0.0, 0.1, 0.2],  # without the last, as W&B does
        "optim.name": ["adam"],
        "optim.beta": [0.9],
    }


@pytest.mark.parametrize("method", ["random", "bayes"])
def test_points_that_are_chosen_later_are_unknown(method: str) -> None:
    text = f"method: {method}\nrun_cap: 30\nparameters: {{lr: {{min: 0.0, max: 0.1}}}}\n"
    assert parse_wandb(text) == Sweep(30)
    without = text.replace("run_cap: 30\n", "early_terminate: {type: hyperband}\n")
    assert parse_wandb(without, runs=7) == Sweep(7, ends_early=True)
    with pytest.raises(LabCarbonError, match="number of runs is unknown") as error:
        parse_wandb(without)
    assert error.value.field == "runs"


def test_run_cap_ends_a_grid() -> None:
    capped = parse_wandb(f"run_cap: 5\n{WANDB}")
    assert (capped.runs, capped.points) == (5, None)
    assert parse_wandb(f"run_cap: 500\n{WANDB}").runs == 18


DEEP = "[" * 40_000
GRID = "method: grid\nparameters: {{a: {}}}"


@pytest.mark.parametrize(
    ("parse", "text", "words"),
    [
        (parse_json, "", "not JSON"),
        (parse_json, "{\n,", "error in line 2"),
        (parse_json, "3", "neither a grid"),
        (parse_json, "[1]", "neither a grid"),
        (parse_json, "{}", "no parameters"),
        (parse_json, "[]", "no runs"),
        (parse_json, "[{}]", "Run 1: There are no parameters"),
        (parse_json, '{"lr": []}', "'lr' has no values"),
        (parse_json, '{"optim": {"lr": [1]}}', "'optim' is an object"),
        (parse_json, '{"lr": [1], "lr": [2]}', "'lr' occurs twice"),
        (parse_json, '{"lr": [NaN]}', "NaN is not a number"),
        (parse_json, '{"lr": [1e999]}', "'lr' contains"),
        (parse_json, '{"": [1]}', "cannot be the name"),
        (parse_json, '{"a": ["\\u0000"]}', "'a' contains NUL"),
        (parse_json, '{"a": [[[[[[[[1]]]]]]]]}', "'a' is nested"),
        (parse_json, json.dumps({"a": ["x" * 1001]}), "'a' has more than 1000"),
        (parse_json, json.dumps({"a": [10**1500]}), "'a' has more than 1000"),
        (parse_json, "1" * 5000, "not JSON"),
        (parse_json, DEEP, "not JSON"),
        (parse_json, json.dumps({"a": list(range(101)), "b": list(range(100))}), "10000 runs: 101"),
        (parse_json, json.dumps([{"a": 1}] * 10_001), "10000 runs"),
        (parse_json, json.dumps({str(i): list(range(99)) for i in range(150)}), "10000 runs"),
        (parse_json, json.dumps({str(i): [1] for i in range(201)}), "200 parameters"),
        (parse_json, json.dumps({"x": list(range(9999)), **{str(i): 1 for i in range(11)}}),
         "parameters together"),
        (parse_hydra, "", "no parameters"),
        (parse_hydra, "train.py lr=1", "'train.py' has no ="),
        (parse_hydra, "~lr=1", "removes a parameter"),
        (parse_hydra, "lr=1 +lr=2", "'lr' occurs twice"),
        (parse_hydra, "lr=1,,2", "'lr' has an empty value"),
        (parse_hydra, "lr='a", "' is missing"),
        (parse_hydra, "lr=choice(a", r"\) is missing"),
        (parse_hydra, "lr=a)", r"\) has no opening"),
        (parse_hydra, "lr=interval(0,1)", "'lr': the function interval"),
        (parse_hydra, "lr=a,glob(*)", "'lr': the function glob"),
        (parse_hydra, "lr=range()", "'lr'"),
        (parse_hydra, "lr=range(start=1)", "'lr': the stop is missing"),
        (parse_hydra, "lr=range(1,2,0)", "'lr': the step is 0"),
        (parse_hydra, "lr=range(1,2,3,4)", "'lr': '4' is not expected"),
        (parse_hydra, "lr=range(a,b)", "'lr': start is not a number"),
        (parse_hydra, "lr=range(0,1e14,1e-14)", "10000 runs"),
        (parse_hydra, "lr=range(0,1,1e-999999)", "'lr': step is not a number"),
        (parse_wandb, "", "not the configuration"),
        (parse_wandb, "a: [", "error in line"),
        (parse_wandb, DEEP, "not YAML"),
        (parse_wandb, "a: !!python/object/apply:os.system [ls]", "not YAML"),
        (parse_wandb, "a: &x [1]\nb: *x", "Line 2 refers to an anchor"),
        (parse_wandb, "method: grid\nmethod: grid", "'method' occurs twice"),
        (parse_wandb, "? [a]\n: 1", "no text"),
        (parse_wandb, "parameters: {a: {value: 1}}", "'method' is missing"),
        (parse_wandb, "method: magic", "'method' is 'magic'"),
        (parse_wandb, "method: grid", "'parameters' has no parameters"),
        (parse_wandb, GRID.format("1"), "'a' has no values"),
        (parse_wandb, GRID.format("{min: 1}"), "'a' has no values"),
        (parse_wandb, GRID.format("{min: 0.0, max: 1}"), r"'a' \(uniform\) is continuous"),
        (parse_wandb, GRID.format("{min: 3, max: 1}"), "'a': min is above max"),
        (parse_wandb, GRID.format("{min: 1, max: 10_002}"), "10000 runs"),
        (parse_wandb, GRID.format("{distribution: q_uniform, min: 0, max: 1, q: 0}"), "'a': q is"),
        (parse_wandb, GRID.format("{distribution: q_uniform, min: x, max: 1}"), "'a': min is not"),
        (parse_wandb, GRID.format("{distribution: odd}"), "'a': distribution 'odd'"),
        (parse_wandb, GRID.format("{distribution: categorical}"), "'a' .categorical. has no"),
        (parse_wandb, GRID.format("{values: 1}"), "values of parameter 'a' are not a list"),
        (parse_wandb, GRID.format("{values: [.inf]}"), "'a' contains"),
        (parse_wandb, GRID.format("{values: [0x" + "f" * 9000 + "]}"), "'a' has more than"),
        (parse_wandb, GRID.format("{parameters: {}}"), "'parameters' of 'a'"),
        (parse_wandb, GRID.format("{min: 1, max: 0x" + "f" * 9000 + "}"), "'a': max is not"),
        (parse_wandb, "run_cap: 0\n" + GRID.format("{value: 1}"), "'run_cap'"),
        (parse_wandb, "run_cap: 0x" + "f" * 9000 + "\n" + GRID.format("{value: 1}"), "10000 runs"),
    ],
)  # fmt: skip
def test_an_error_names_the_parameter(parse: Callable[[str], Sweep], text: str, words: str) -> None:
    with pytest.raises(LabCarbonError, match=words) as error:
        parse(text)
    assert error.value.field in ("text", "runs")


def is_sweep_or_error(parse: Callable[[str], Sweep], text: str) -> bool:
    try:
        return parse(text).runs > 0
    except LabCarbonError as error:
        return bool(error.message)


@given(st.text(max_size=60))
def test_any_text_is_a_sweep_or_an_error(text: str) -> None:
    assert all(is_sweep_or_error(parse, text) for parse in (parse_json, parse_hydra, parse_wandb))


@given(st.text(alphabet="ab=,()[]{}'\" \\range1.0-+", max_size=40))
def test_odd_overrides_are_a_sweep_or_an_error(text: str) -> None:
    assert is_sweep_or_error(parse_hydra, text)


@given(st.text(alphabet="method: grid\nparamets{}[],&*!?|->#01.e", max_size=60))
def test_odd_configurations_are_a_sweep_or_an_error(text: str) -> None:
    assert is_sweep_or_error(parse_wandb, text)
    assert is_sweep_or_error(parse_wandb, f"method: grid\nparameters: {{a: {text}}}")
