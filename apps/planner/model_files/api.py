"""API of model files: an ONNX file becomes model costs. Nothing is stored."""

from dataclasses import asdict
from typing import IO, Any

import msgspec
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.parsers import BaseParser
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from apps.core.errors import InvalidInput
from apps.planner.formulas.memory import compute_memory
from apps.planner.formulas.training_setup import Training, TrainingError
from apps.planner.model_files.onnx_costs import OnnxCosts, input_text, model_costs, unknown_text
from apps.planner.model_files.process import read_file
from apps.planner.model_files.training_query import TrainingQuery, parse_training
from apps.planner.model_files.uploads import parse_inputs, store_upload
from apps.planner.permissions import CanPlan

MAX_COUNT = (1 << 63) - 1


class ModelFileParser(BaseParser):
    """Parser that stores the body in a temporary file, whatever its content type."""

    media_type = "*/*"

    def parse(  # type: ignore[override]
        self, stream: Any, media_type: str | None = None, parser_context: Any = None
    ) -> IO[bytes]:
        return store_upload(stream)


class LayerReply(serializers.Serializer[Any]):
    name = serializers.CharField(help_text="of the node, else of its first output")
    kind = serializers.CharField(help_text="operator of ONNX")
    parameters = serializers.IntegerField(help_text="a shared weight counts at its first layer")
    macs = serializers.IntegerField()
    operations = serializers.IntegerField(help_text="MACs, biases and element-wise operations")
    input_elements = serializers.IntegerField(help_text="without weights")
    output_elements = serializers.IntegerField()


class UnknownReply(serializers.Serializer[Any]):
    kind = serializers.CharField()
    reason = serializers.ChoiceField(
        choices=[("operator", "unknown operator"), ("shape", "unknown shape")],
        help_text="operator: LabCarbon has no count of it; shape: the shape depends on values",
    )
    nodes = serializers.IntegerField()
    parameters = serializers.IntegerField()


class InputReply(serializers.Serializer[Any]):
    name = serializers.CharField()
    shape = serializers.ListField(child=serializers.IntegerField())


class BytesReply(serializers.Serializer[Any]):
    low = serializers.IntegerField()
    likely = serializers.IntegerField()
    high = serializers.IntegerField()


class MemoryPartReply(BytesReply):
    key = serializers.CharField(help_text="weights, optimiser, working, runtime, …")


class MemoryReply(serializers.Serializer[Any]):
    """Memory of one GPU by the refined formula (docs/planner.md)."""

    parts = MemoryPartReply(many=True, help_text="sum to the total")
    total = BytesReply()
    trained_parameters = serializers.IntegerField()
    assumptions = serializers.ListField(
        child=serializers.CharField(), help_text="keys of what is not known exactly"
    )


class OnnxCostsReply(serializers.Serializer[Any]):
    """Costs of one sample. Totals are without the nodes of ``unknown``, except parameters."""

    name = serializers.CharField(help_text="of the graph in the file")
    input = serializers.CharField(help_text="shape of one sample, such as 3x224x224")
    inputs = InputReply(many=True)
    parameters = serializers.IntegerField()
    macs = serializers.IntegerField(help_text="of a forward pass; 1 MAC = 2 FLOPs")
    operations = serializers.IntegerField()
    layer_outputs = serializers.IntegerField()
    parameter_layer_outputs = serializers.IntegerField()
    input_elements = serializers.IntegerField()
    buffer_elements = serializers.IntegerField(help_text="statistics of batch normalisation")
    largest_output = serializers.IntegerField(allow_null=True)
    layers = LayerReply(many=True)
    unknown = UnknownReply(many=True)
    message = serializers.CharField(help_text="operators of unknown cost; empty without any")
    memory = MemoryReply(allow_null=True, help_text="null without batch")


class OnnxView(APIView):
    permission_classes = (CanPlan,)
    parser_classes = (ModelFileParser,)

    @extend_schema(
        parameters=[
            OpenApiParameter(
                "input",
                OpenApiTypes.STR,
                many=True,
                description="shape of an input for one sample: name=1x3x224x224",
            ),
            TrainingQuery,
        ],
        request={"application/octet-stream": OpenApiTypes.BINARY},
        responses=OnnxCostsReply,
        operation_id="plan_onnx",
    )
    def post(self, request: Request) -> Response:
        """Return the parameters and operations of an ONNX model, by layer (docs/planner.md), and
        the memory of a training with ``batch``. The body is the file, of at most 64 MiB. It is not
        stored.
        """
        training = parse_training(request.query_params)
        inputs = parse_inputs(request.query_params.getlist("input"))
        file: Any = request.data
        if not file:
            raise InvalidInput("The file is empty.", field="file", hint="Send an ONNX file.")
        with file:
            return Response(_reply(read_file(file, inputs), training))


def _reply(costs: OnnxCosts, training: Training | None) -> dict[str, Any]:
    return {
        **msgspec.to_builtins(costs),
        "input": input_text(costs),
        "message": unknown_text(costs),
        "memory": None if training is None else _memory(costs, training),
    }


def _memory(costs: OnnxCosts, training: Training) -> dict[str, Any]:
    try:
        memory = compute_memory(model_costs(costs, name=""), training)
    except TrainingError as error:
        raise InvalidInput(
            "The model has no layer with parameters, so it has no head.",
            field="trainable",
            hint="Choose full, lora or inference.",
        ) from error
    if memory.total.high > MAX_COUNT:
        raise InvalidInput(
            "The memory of this training exceeds 64 bits.",
            field="batch",
            hint="State a smaller batch.",
        )
    return {
        "parts": [
            {"key": part.key, **asdict(part.bytes)} for part in memory.parts if part.bytes.high
        ],
        "total": asdict(memory.total),
        "trained_parameters": memory.trained_parameters,
        "assumptions": list(memory.assumptions),
    }
