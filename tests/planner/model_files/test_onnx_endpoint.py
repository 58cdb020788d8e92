"""POST /api/v1/plan/onnx/ ."""

from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

import msgspec
import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from onnx import ModelProto, helper

from apps.planner.formulas.model_costs import LayerCosts
from apps.planner.model_files import uploads
from apps.planner.model_files.onnx_costs import OnnxCosts, model_costs
from tests.api.conftest import Caller, Labs
from tests.planner.model_files.graphs import lenet, model, value

Refused = Callable[..., dict[str, Any]]
BINARY = "application/octet-stream"


def sequence() -> ModelProto:
    """Two inputs that share a dimension."""
    nodes = [helper.make_node("Add", ["ids", "mask"], ["a"]), helper.make_node("Foo", ["a"], ["b"],
             domain="lab"), helper.make_node("Relu", ["b"], ["y"])]  # fmt: skip
    inputs = [value("ids", "batch", "length"), value("mask", "batch", "length")]
    return model(nodes, inputs, domains=["lab"])


def post(caller: Caller, content: bytes, *inputs: str, kind: str = BINARY, **query: str) -> Any:
    text = urlencode([("input", each) for each in inputs] + list(query.items()))
    path = "plan/onnx/" + (f"?{text}" if text else "")
    return caller("POST", path, content, content_type=kind)


def costs_of(caller: Caller, content: bytes, *inputs: str) -> dict[str, Any]:
    response = post(caller, content, *inputs)
    assert response.status_code == 200, response.content
    return dict(msgspec.json.decode(response.content))


def test_a_file_gives_its_costs(labs: Labs) -> None:
    costs = costs_of(labs.member, lenet().SerializeToString())
    assert (costs["name"], costs["input"]) == ("lenet", "1x28x28")
    assert costs["operations"] == 295_700
    assert costs["parameters"] == 6 * 25 + 6 + 16 * 150 + 16 + 256 * 120 + 120 * 60 + 60 * 10
    assert costs["layers"][0] == {
        "name": "v0", "kind": "Conv", "parameters": 156, "macs": 86_400, "operations": 89_856,
        "input_elements": 784, "output_elements": 3_456,
    }  # fmt: skip
    assert costs["unknown"] == []
    assert costs["message"] == ""


def test_the_response_has_the_shape_that_all_sources_share(labs: Labs) -> None:
    body = costs_of(labs.member, lenet().SerializeToString())
    assert body.pop("memory") is None
    del body["input"], body["message"]
    costs = model_costs(msgspec.convert(body, OnnxCosts), name="")
    assert (costs.name, costs.input, costs.source) == ("lenet", "1x28x28", "ONNX file")
    assert costs.layer_outputs == sum(layer.output_elements for layer in costs.layers)
    assert isinstance(costs.layers[0], LayerCosts)


def test_unknown_operators_are_listed(labs: Labs) -> None:
    costs = costs_of(labs.member, sequence().SerializeToString(), "ids=1x128")
    assert costs["inputs"][1] == {"name": "mask", "shape": [1, 128]}  # shares its dimension
    assert costs["input"] == "ids 128, mask 128"
    assert costs["message"] == (
        "1 operator of unknown cost: lab.Foo. 1 node of unknown shape: Relu."
    )
    assert [layer["kind"] for layer in costs["layers"]] == ["Add"]


def test_an_unknown_dimension_is_an_error_that_names_the_input(
    labs: Labs, refused: Refused
) -> None:
    error = refused(post(labs.member, sequence().SerializeToString()), 400, "invalid")
    assert error["field"] == "input"
    assert error["message"] == "Dimension 2 of the input 'ids' is unknown (length)."
    assert "--input ids=1x128" in error["hint"]


def test_a_fixed_batch_has_to_be_confirmed(labs: Labs, refused: Refused) -> None:
    built = model([helper.make_node("Relu", ["x"], ["y"])], [value("x", 8, 10)])
    content = built.SerializeToString()
    error = refused(post(labs.member, content), 400, "invalid")
    assert "is 8, not one sample" in error["message"]
    assert costs_of(labs.member, content, "x=1x10")["layer_outputs"] == 10
    assert costs_of(labs.member, content, "x=8x10")["layer_outputs"] == 80


def test_nothing_is_stored_and_other_labs_change_nothing(labs: Labs) -> None:
    content = lenet().SerializeToString()
    labs.member("GET", "runs/")  # notes the use of the token
    with CaptureQueriesContext(connection) as queries:
        ours = costs_of(labs.member, content)
    texts = [each["sql"] for each in queries.captured_queries]
    assert [text for text in texts if not text.startswith("SELECT")] == []
    assert costs_of(labs.outsider, content) == ours


def test_viewers_and_nodes_may_plan_and_nobody_may_not(labs: Labs, refused: Refused) -> None:
    content = lenet().SerializeToString()
    assert costs_of(labs.viewer, content)["name"] == "lenet"
    assert costs_of(labs.node, content)["name"] == "lenet"
    refused(post(labs.nobody, content), 401, "not_authenticated")


def test_a_batch_gives_the_memory_of_a_training(labs: Labs) -> None:
    content = lenet().SerializeToString()
    response = post(labs.member, content, batch="64", optimiser="momentum", precision="mixed")
    assert response.status_code == 200, response.content
    body = msgspec.json.decode(response.content)
    memory = body["memory"]
    parts = {part["key"]: part for part in memory["parts"]}
    assert parts["weights"]["likely"] == parts["optimiser"]["likely"] == 4 * body["parameters"]
    assert parts["copy"]["likely"] == 2 * body["parameters"]
    for figure in ("low", "likely", "high"):
        assert sum(part[figure] for part in memory["parts"]) == memory["total"][figure]
    assert memory["trained_parameters"] == body["parameters"]
    assert "saved_bytes_from_layers" in memory["assumptions"]


@pytest.mark.parametrize(("query", "trained"), [
    ({"trainable": "head"}, 600),
    ({"trainable": "inference"}, 0),
    ({"trainable": "lora", "lora_rank": "1", "checkpointing": "true"}, None),
])  # fmt: skip
def test_what_is_trained(labs: Labs, query: dict[str, str], trained: int | None) -> None:
    response = post(labs.member, lenet().SerializeToString(), batch="8", **query)
    assert response.status_code == 200, response.content
    memory = msgspec.json.decode(response.content)["memory"]
    assert memory["trained_parameters"] == trained or (trained is None)
    assert ("checkpointing_estimated" in memory["assumptions"]) == ("checkpointing" in query)


@pytest.mark.parametrize(("query", "field"), [
    ({"batch": "0"}, "batch"),
    ({"batch": "x"}, "batch"),
    ({"optimiser": "adam"}, "batch"),
    ({"batch": "8", "optimiser": "magic"}, "optimiser"),
    ({"batch": "8", "precision": "fp1"}, "precision"),
    ({"batch": "8", "trainable": "last_blocks"}, "trainable"),
    ({"batch": "8", "lora_rank": "-1"}, "lora_rank"),
])  # fmt: skip
def test_an_invalid_training(
    labs: Labs, refused: Refused, query: dict[str, str], field: str
) -> None:
    response = post(labs.member, lenet().SerializeToString(), **query)
    assert refused(response, 400, "invalid")["field"] == field


def test_a_model_without_weights_has_no_head(labs: Labs, refused: Refused) -> None:
    built = model([helper.make_node("Relu", ["x"], ["y"])], [value("x", 1, 10)])
    response = post(labs.member, built.SerializeToString(), batch="8", trainable="head")
    assert refused(response, 400, "invalid")["field"] == "trainable"


@pytest.mark.parametrize("method", ["GET", "PUT", "PATCH", "DELETE"])
def test_wrong_method(labs: Labs, refused: Refused, method: str) -> None:
    refused(labs.member(method, "plan/onnx/"), 405, "method_not_allowed")


@pytest.mark.parametrize(("content", "inputs", "query", "field", "words"), [
    (b"", (), {}, "file", "empty"),
    (b"{}", (), {}, "file", "no ONNX model"),
    (b"PK\x03\x04", (), {}, "file", "ZIP archive"),
    (b"\x08\x0a", (), {}, "file", "no ONNX graph"),
    (b"\x08\x0a", ("x=axb",), {}, "input", "not valid"),
    (b"\x08\x0a", ("x=0x3",), {}, "input", "not valid"),
    (b"\x08\x0a", ("x=1x3", "x=1x4"), {}, "input", "given twice"),
    (b"\x08\x0a", (), {"name": "a"}, "name", "not a known name"),
])  # fmt: skip
def test_invalid_input(
    labs: Labs, refused: Refused, content: bytes, inputs: tuple[str, ...], query: dict[str, str],
    field: str, words: str,
) -> None:  # fmt: skip
    error = refused(post(labs.member, content, *inputs, **query), 400, "invalid")
    assert error["field"] == field
    assert words in error["message"]
    assert error["hint"]


@pytest.mark.parametrize("inputs", [("z=1x3",), ("x=1x3",), ("x=1x3x224x225\x00",)])
def test_shapes_that_do_not_fit_the_model(
    labs: Labs, refused: Refused, inputs: tuple[str, ...]
) -> None:
    response = post(labs.member, lenet().SerializeToString(), *inputs)
    assert refused(response, 400, "invalid")["field"] == "input"


def test_a_file_above_the_limit(
    labs: Labs, refused: Refused, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uploads, "MAX_FILE_BYTES", 1 << 20)
    content = lenet().SerializeToString() + b"\x00" * (1 << 20)
    error = refused(post(labs.member, content), 413, "too_large")
    assert "labcarbon-collect plan --onnx" in error["hint"]


def test_any_content_type_is_read_as_bytes(labs: Labs) -> None:
    content = lenet().SerializeToString()
    for kind in ("application/json", "application/x-www-form-urlencoded", "text/plain"):
        assert post(labs.member, content, kind=kind).status_code == 200
