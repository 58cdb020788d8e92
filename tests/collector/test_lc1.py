"""Types, names, dropped parameters, seeds, batch sizes and sums: the pure part of the
fingerprint.
"""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from labcarbon_collect import lc1

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=12,
)
NAMES = st.from_regex(r"[a-z]{1,6}(\.[a-z]{1,6}){0,2}", fullmatch=True)


@pytest.mark.parametrize(
    ("text", "value"),
    [
    ("0.10", 0.1), ("1e-1", 0.1), (".1", 0.1), ("3", 3), ("+3", 3), ("-0.5", -0.5), ("1E5", 1e5),
    (" 3 ", 3), ("True", True), ("false", False), ("None", None), ("null", None), ("007", "007"),
    ("1_000", "1_000"), ("", ""), ("[64, 64]", [64, 64]), ("(1, 2)", [1, 2]),
    ("[relu, 64]", ["relu", 64]), ("{'a': 1}", {"a": 1}), ('{"a": true}', {"a": True}),
    ("[true, null]", [True, None]), ("'quoted'", "quoted"), ("[unclosed", "[unclosed"),
    ("{not: closed]", "{not: closed]"), ("1e999x", "1e999x"), ("resnet50", "resnet50"),
    ("2024-01-02", "2024-01-02"),
],
)  # fmt: skip
def test_text_gets_its_type(text: str, value: Any) -> None:
    found = lc1.parse_value(text)
    assert (found, type(found)) == (value, type(value))


@given(VALUES)
def test_every_value_has_one_canonical_form(value: Any) -> None:
    assert isinstance(lc1.canonical(value), bytes)
    assert len(lc1.param_hash("x", value)) == 32


@given(st.integers(-(2**52), 2**52))
def test_a_whole_float_is_its_integer(value: int) -> None:
    assert lc1.param_hash("x", value) == lc1.param_hash("x", float(value))


def test_values_outside_json_stay_distinct() -> None:
    odd = [math.inf, -math.inf, math.nan, 2**60, 2**60 + 1, "2", 2, True, 1.5, None, "None", ""]
    assert len({lc1.param_hash("x", each) for each in odd}) == len(odd)


def test_unicode_has_one_form() -> None:
    assert lc1.param_hash("x", "e\u0301") == lc1.param_hash("x", "é")
    assert len(lc1.param_hash("x", "\ud800")) == 32


@given(st.dictionaries(NAMES, VALUES, max_size=8), st.randoms())
def test_the_order_of_keys_does_not_matter(params: dict[str, Any], random: Any) -> None:
    mixed = list(params.items())
    random.shuffle(mixed)
    one, other = lc1.sort_params(params), lc1.sort_params(dict(mixed))
    assert {name: lc1.param_hash(name, value) for name, value in one.params.items()} == {
        name: lc1.param_hash(name, value) for name, value in other.params.items()
    }


@given(st.dictionaries(NAMES, st.integers(), min_size=1, max_size=8), st.data())
def test_runs_that_differ_in_one_parameter_share_a_sum(
    params: dict[str, int], data: st.DataObject
) -> None:
    name = data.draw(st.sampled_from(sorted(params)))
    other = {**params, name: params[name] + 1}
    mine = {each: lc1.param_hash(each, value) for each, value in params.items()}
    theirs = {each: lc1.param_hash(each, value) for each, value in other.items()}
    assert lc1.recipe(mine.values()) != lc1.recipe(theirs.values())
    shared = [
        each for each in mine if lc1.leave_one_out(mine)[each] == lc1.leave_one_out(theirs)[each]
    ]
    assert shared == [name]


@pytest.mark.parametrize(
    "name",
    [
    "output_dir", "out", "--out-dir", "log_dir", "trainer.default_root_dir", "checkpoint_dir",
    "port", "master_port", "local_rank", "log_every", "logging_steps",
    "save_freq", "print_freq", "num_workers", "data.num_workers", "wandb_mode", "timestamp",
    "gpu_id", "device", "hydra.run_dir", "save_total_limit", "verbose",
],
)  # fmt: skip
def test_what_cannot_change_a_result_is_dropped(name: str) -> None:
    found = lc1.sort_params({name: "x"})
    assert (found.params, found.seeds, list(found.dropped.values())) == ({}, {}, ["x"])


@pytest.mark.parametrize(
    "name",
    ["run_name", "name", "--experiment", "group", "tags", "notes", "run.name", "output.run_name",
     "wandb_project", "mlflow_run_name", "logger.name", "env.RUN_NAME"],
)  # fmt: skip
def test_labels_are_neither_compared_as_parameters_nor_dropped(name: str) -> None:
    found = lc1.sort_params({name: "x"})
    assert (found.params, found.dropped, list(found.labels.values())) == ({}, {}, ["x"])


@pytest.mark.parametrize(
    "name", ["model.name", "dataset.name", "experiment.lr", "rank", "lora.rank"]
)
def test_names_of_parts_of_the_work_are_parameters(name: str) -> None:
    found = lc1.sort_params({name: "x"}, rank="0")
    assert (list(found.params.values()), found.labels, found.dropped) == (["x"], {}, {})


def test_rank_is_irrelevant_if_it_is_the_launchers() -> None:
    assert lc1.sort_params({"rank": "3"}, rank="3").dropped == {"rank": 3}
    assert lc1.sort_params({"rank": "4"}, rank="3").params == {"rank": 4}
    assert lc1.sort_params({"model.rank": "3"}, rank="3").params == {"model.rank": 3}


def test_a_default_of_the_code_is_the_same_as_no_value() -> None:
    defaults = {"lr": 0.1, "optimizer": "sgd", "seed": 7}
    given = lc1.sort_params({"--lr": "1e-1", "--optimizer": "sgd"}, defaults=defaults)
    assert given.params == {}
    assert given.seeds == lc1.sort_params({}, defaults=defaults).seeds == {"seed": 7}
    assert lc1.sort_params({"--lr": "0.2"}, defaults=defaults).params == {"lr": 0.2}
    assert lc1.sort_params({"--seed": "8"}, defaults=defaults).seeds == {"seed": 8}


def test_no_value_of_a_seed_is_no_seed() -> None:
    assert lc1.sort_params({"seed": None}).seeds == {}
    assert lc1.sort_params({"--seed": ""}).seeds == {}
    assert lc1.sort_params({"--seed": "null"}, defaults={"seed": 7}).seeds == {}


def test_default_factors_belong_to_the_global_batch() -> None:
    defaults = {"batch_size": 2, "accumulate": 1}
    by_processes = lc1.sort_params({}, world_size=2, defaults=defaults).params
    by_accumulation = lc1.sort_params({"accumulate": 2}, defaults=defaults).params
    assert by_processes == by_accumulation == {"global_batch_size": 4}


def test_an_irrelevant_name_with_which_the_code_computes_is_a_label() -> None:
    assert lc1.sort_params({"num_workers": 4}, used={"num_workers"}).labels == {"num_workers": 4}
    assert lc1.sort_params({"num_workers": 4}, used={"lr"}).dropped == {"num_workers": 4}
    assert lc1.sort_params({"log_every": 4}, used={"log_every"}).dropped == {"log_every": 4}


@pytest.mark.parametrize(
    "name",
    [
    "lr", "model.name", "dataset.name", "optimizer.name", "out_features", "gpus", "max_time",
    "save_best", "hosting", "seedling", "warmup_steps", "eval_steps", "output_dim", "cache_size",
    "fold", "epoch_size", "ranking", "context",
],
)  # fmt: skip
def test_what_may_change_a_result_counts(name: str) -> None:
    assert lc1.sort_params({name: "x"}).params == {name: "x"}


@pytest.mark.parametrize(
    "name",
    ["seed", "--seed", "random_state", "data.seed", "split_seed", "seed_everything", "rng-seed"],
)
def test_seeds_are_separated(name: str) -> None:
    found = lc1.sort_params({name: "3"})
    assert (found.params, list(found.seeds.values())) == ({}, [3])


def test_aliases_are_one_name_unless_a_run_has_both() -> None:
    assert lc1.sort_params({"--learning-rate": "1e-3"}).params == {"lr": 0.001}
    assert lc1.sort_params({"optim.learning_rate": 0.1}).params == {"optim.lr": 0.1}
    assert lc1.sort_params({"lr": 1, "learning_rate": 2}).params == {"lr": 1, "learning_rate": 2}
    assert lc1.sort_params({"learning_rate": 2, "lr": 1}).params == {"lr": 1, "learning_rate": 2}


def test_nested_mappings_are_dotted_names() -> None:
    assert lc1.sort_params(
        {"optim": {"learning_rate": "0.1", "betas": [0.9, 0.99]}, "model/depth": 3}
    ).params == {
        "optim.lr": 0.1,
        "optim.betas": [0.9, 0.99],
        "model.depth": 3,
    }


@pytest.mark.parametrize(
    ("given_", "world", "batch"),
    [
        (
            {"per_device_train_batch_size": 8, "gradient_accumulation_steps": 4, "world_size": 2},
            None,
            64,
        ),
        ({"per_device_train_batch_size": 16, "gradient_accumulation_steps": 2}, 2, 64),
        ({"batch_size": 16, "accumulate_grad_batches": 4}, None, 64),
        ({"batch_size": "64"}, 1, 64),
        ({"batch_size": 32}, 2, 64),
        ({"global_batch_size": 64, "per_device_train_batch_size": 8, "grad_accum": 8}, None, 64),
    ],
)
def test_the_batch_as_a_whole_replaces_its_parts(
    given_: dict[str, Any], world: int | None, batch: int
) -> None:
    assert lc1.sort_params(given_, world_size=world).params == {"global_batch_size": batch}


def test_a_batch_that_is_not_a_number_stays_as_it_is() -> None:
    given_ = {"batch_size": "auto", "gradient_accumulation_steps": 4}
    assert lc1.sort_params(given_).params == given_
    assert lc1.sort_params({"batch_size": 32}).params == {"batch_size": 32}
