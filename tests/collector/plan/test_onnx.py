"""``plan --onnx``: the real server counts a graph that has no weights."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper

from apps.accounts.models import Membership, User
from apps.accounts.services.labs import issue_user_token
from apps.core.clock import now_us
from tests.builders import small_lab
from tests.collector.plan.conftest import Plan
from tests.planner.model_files.graphs import Network, lenet, model, sizes, value, weight
from tests.serialized_server import serialize_requests

pytestmark = pytest.mark.django_db(transaction=True)
Write = Callable[[ModelProto | bytes], str]


@pytest.fixture
def online(live_server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A logged-in viewer."""
    serialize_requests(monkeypatch)
    lab = small_lab().lab
    user = User.objects.create_user(username="eva", password="correct horse battery")
    Membership.objects.create(lab=lab, user=user, role="viewer")
    monkeypatch.setenv("LABCARBON_URL", live_server.url)
    monkeypatch.setenv("LABCARBON_TOKEN", issue_user_token(lab=lab, user=user, now=now_us()))


@pytest.fixture
def write(folder: Path) -> Write:
    """Write a model file; return its path."""

    def write_file(content: ModelProto | bytes) -> str:
        data = content if isinstance(content, bytes) else content.SerializeToString()
        (folder / "model.onnx").write_bytes(data)
        return "model.onnx"

    return write_file


def with_numbers(built: ModelProto) -> ModelProto:
    """Fill the weights of a model."""
    for tensor in built.graph.initializer:
        if tensor.data_type == TensorProto.FLOAT:
            tensor.raw_data = np.ones(tuple(tensor.dims), "float32").tobytes()
    return built


@pytest.mark.usefixtures("online")
def test_the_text_has_costs_memory_and_layers(plan: Plan, write: Write) -> None:
    code, output, errors = plan("--onnx", write(with_numbers(lenet())), "--batch", "64")
    assert code == 0, errors
    lines = output.splitlines()
    assert lines[0] == "lenet, input 1x28x28, ONNX file"
    assert "  Parameters                41.09 k" in lines
    assert "295.70 k per sample" in output  # the operations of the lesson
    assert "Largest layer output" in output
    assert "Memory of a training step, batch 64, adam, fp32" in output
    assert "labcarbon-collect plan --model" in output
    assert "  layer  kind" in output
    assert "uploaded without weights" in errors


@pytest.mark.usefixtures("online")
def test_json_has_the_costs_of_the_planner(plan: Plan, write: Write) -> None:
    path = write(with_numbers(lenet()))
    code, output, errors = plan("--onnx", path, "--json", "--optimiser", "sgd", "--batch", "2")
    assert code == 0, errors
    result = json.loads(output)
    parameters = 6 * 25 + 6 + 16 * 150 + 16 + 256 * 120 + 120 * 60 + 60 * 10
    assert result["model"]["parameters"] == parameters
    assert result["model"]["source"] == "ONNX file"
    assert result["operations"] == 295_700
    parts = result["memory"]["parts"]
    assert sum(part["likely"] for part in parts) == result["memory"]["total"]["likely"]
    assert {"weights", "runtime"} <= {part["key"] for part in parts}
    assert "optimiser" not in {part["key"] for part in parts}


@pytest.mark.usefixtures("online")
@pytest.mark.parametrize("size", ["3x32x32", "x=3x32x32", "1x3x32x32", "x=1x3x32x32"])
def test_an_input_is_stated_with_or_without_batch_and_name(
    plan: Plan, write: Write, size: str
) -> None:
    net = Network("open", 3, 32, 32).conv(8, 3).build()
    for dimension in net.graph.input[0].type.tensor_type.shape.dim[1:]:
        dimension.Clear()
        dimension.dim_param = "any"
    net.graph.input[0].type.tensor_type.shape.dim[1].dim_value = 3
    path = write(with_numbers(net))
    code, _, errors = plan("--onnx", path)
    assert code == 1
    assert "--input x=1x3x224x224" in errors
    code, output, errors = plan("--onnx", path, "--input", size, "--json")
    assert code == 0, errors
    assert json.loads(output)["model"]["input"] == "3x32x32"


@pytest.mark.usefixtures("online")
def test_tokens_and_names_with_dots(plan: Plan, write: Write) -> None:
    ids = value("input.1", "batch", "length", kind=TensorProto.INT64)
    nodes = [helper.make_node("Gather", ["w", "input.1"], ["y"])]
    path = write(with_numbers(model(nodes, [ids], weights=[weight("w", 100, 8)])))
    for form in ("tokens:16", "tokens:16:vocab=100", "input.1=16", "input.1=tokens:16"):
        code, output, errors = plan("--onnx", path, "--input", form, "--json")
        assert code == 0, errors
        assert json.loads(output)["model"]["layer_outputs"] == 16 * 8
    code, _, errors = plan("--onnx", path, "--input", "other=16")
    assert code == 1
    assert "Its inputs: input.1" in errors


@pytest.mark.usefixtures("online")
def test_shapes_from_integers_stay_known(plan: Plan, write: Write) -> None:
    nodes = [
        helper.make_node("Reshape", ["x", "shape"], ["r"]),
        helper.make_node("MatMul", ["r", "w"], ["y"]),
    ]
    weights = [sizes("shape", 1, 4, 6), weight("w", 6, 5)]
    path = write(with_numbers(model(nodes, [value("x", 1, 24)], weights=weights)))
    code, output, errors = plan("--onnx", path, "--json")
    assert code == 0, errors
    assert json.loads(output)["model"]["macs"] == 4 * 6 * 5


@pytest.mark.usefixtures("online")
def test_weights_in_other_files_are_not_needed(plan: Plan, write: Write) -> None:
    built = lenet()
    for tensor in built.graph.initializer:
        tensor.data_location = TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value="../../etc/passwd")
    code, output, errors = plan("--onnx", write(built), "--json")
    assert code == 0, errors
    assert json.loads(output)["operations"] == 295_700


@pytest.mark.usefixtures("online")
def test_unknown_operators_are_named(plan: Plan, write: Write) -> None:
    nodes = [helper.make_node("Foo", ["x"], ["y"], domain="lab")]
    code, output, errors = plan("--onnx", write(model(nodes, [value("x", 1, 4)], domains=["lab"])))
    assert code == 0, errors
    assert "Not counted: 1 operator of unknown cost: lab.Foo." in output


@pytest.mark.usefixtures("online")
def test_parts_that_are_trained(plan: Plan, write: Write) -> None:
    path = write(with_numbers(lenet()))
    trained = {}
    for part in ("all", "head", "lora=2"):
        code, output, errors = plan("--onnx", path, "--json", "--trainable", part)
        assert code == 0, errors
        trained[part] = json.loads(output)["memory"]["trained_parameters"]
    assert trained["head"] == 600
    assert trained["lora=2"] < trained["all"]
    code, _, errors = plan("--onnx", path, "--trainable", "last-blocks=1")
    assert code == 1
    assert "a graph has no blocks" in errors


def test_without_a_login(plan: Plan, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LABCARBON_TOKEN", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", "/nonexistent")
    code, _, errors = plan("--onnx", write(lenet()))
    assert code == 1
    assert "You are not logged in" in errors


def test_a_server_without_the_planner(
    plan: Plan, write: Write, live_server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LABCARBON_URL", f"{live_server.url}/elsewhere")
    monkeypatch.setenv("LABCARBON_TOKEN", "lc_user_fake")
    code, _, errors = plan("--onnx", write(lenet()))
    assert code == 1
    assert "Update the server" in errors
