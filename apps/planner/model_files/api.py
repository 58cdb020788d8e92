"""API of model files: an ONNX file becomes model costs. Nothing is stored."""

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
from apps.planner.model_files.onnx_costs import OnnxCosts, input_text, unknown_text
from apps.planner.model_files.process import read_file
from apps.planner.model_files.uploads import parse_inputs, store_upload
from apps.planner.permissions import CanPlan

_PARAMETERS = ("input",)


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
            )
        ],
        request={"application/octet-stream": OpenApiTypes.BINARY},
        responses=OnnxCostsReply,
        operation_id="plan_onnx",
    )
    def post(self, request: Request) -> Response:
        """Return the parameters and operations of an ONNX model, by layer (docs/planner.md). The
        body is the file, of at most 64 MiB. It is not stored.
        """
        unknown = sorted(set(request.query_params) - set(_PARAMETERS))
        if unknown:
            raise InvalidInput(
                f"{unknown[0]!r} is not a known name.", field=unknown[0], hint="Known: input."
            )
        inputs = parse_inputs(request.query_params.getlist("input"))
        file: Any = request.data
        if not file:
            raise InvalidInput("The file is empty.", field="file", hint="Send an ONNX file.")
        with file:
            return Response(_reply(read_file(file, inputs)))


def _reply(costs: OnnxCosts) -> dict[str, Any]:
    return {
        **msgspec.to_builtins(costs),
        "input": input_text(costs),
        "message": unknown_text(costs),
    }
