"""Metrics of a run over the API: points in bulk, and curves back."""

import csv
from collections.abc import Iterator
from typing import Any
from uuid import UUID

from django.http import HttpResponseBase, StreamingHttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema, inline_serializer
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from apps.accounts.permissions import caller, require
from apps.core.clock import now_us, utc
from apps.core.errors import InvalidInput, NotFound
from apps.core.request_body import JsonBytesParser
from apps.runs.metric_parsing import Point, parse_points
from apps.runs.metric_summary import MAX_CURVE_POINTS, downsample
from apps.runs.models import Metric, Run
from apps.runs.selectors import run_of
from apps.runs.serializers import metric_summary
from apps.runs.services.metrics import add_points, curve

_PARAMS = [
    OpenApiParameter(
        "name", OpenApiTypes.STR, description="name of the metric whose curve is returned"
    ),
    OpenApiParameter(
        "shape",
        OpenApiTypes.STR,
        enum=["json", "csv"],
        description="csv: all points, requires name",
    ),
]


class MetricsView(APIView):
    parser_classes = (JsonBytesParser,)

    def get_permissions(self) -> list[Any]:
        return [require("runs:read" if self.request.method == "GET" else "runs:write")()]

    @extend_schema(
        request=inline_serializer(
            "Points", {"points": serializers.ListField(child=serializers.ListField())}
        ),
        responses=inline_serializer(
            "PointsReply", {"points": serializers.IntegerField(), "new": serializers.IntegerField()}
        ),
        operation_id="run_metrics_add",
    )
    def post(self, request: Request, uuid: UUID) -> Response:
        """Store up to 10 000 points ``[name, step, value, time or null]``. A repeated step
        replaces the value.
        """
        who, now = caller(request), now_us()
        body: Any = request.data
        points = parse_points(body or b"", now=now)  # DRF makes a dict of an empty body
        new = add_points(lab=who.lab, uuid=uuid, points=points, bound_node=who.node_uuid, now=now)
        return Response({"points": sum(map(len, points.values())), "new": new})

    @extend_schema(parameters=_PARAMS, responses=OpenApiTypes.OBJECT, operation_id="run_metrics")
    def get(self, request: Request, uuid: UUID) -> HttpResponseBase:
        """Return the metrics of a run. With ``name``: a curve of at most 2000 points with
        extremes, or all points as CSV.
        """
        params = request.query_params
        _check(params)
        run = run_of(caller(request).lab, uuid)
        if run is None:
            raise NotFound("There is no such run in this lab.")
        if "name" not in params:
            return Response(
                {"metrics": [metric_summary(row) for row in run.metrics.order_by("name")]}
            )
        metric = _metric(run, params["name"])
        points = curve(metric)
        if params.get("shape") == "csv":
            return StreamingHttpResponse(_csv(points), content_type="text/csv; charset=utf-8")
        curve_points = downsample(points, MAX_CURVE_POINTS)
        rows = [
            [point.step, point.special_value if point.value is None else point.value, _iso(point)]
            for point in curve_points
        ]
        return Response(
            {**metric_summary(metric), "thinned": len(curve_points) < len(points), "points": rows}
        )


def _check(params: Any) -> None:
    unknown = sorted(set(params) - {"name", "shape"})
    if unknown:
        raise InvalidInput(
            f"{unknown[0]!r} is not a known name.", field=unknown[0], hint="Known: name, shape."
        )
    shape = params.get("shape", "json")
    if shape not in {"json", "csv"}:
        raise InvalidInput(f"{shape[:40]!r} is no shape.", field="shape", hint="Use json or csv.")
    if shape == "csv" and "name" not in params:
        raise InvalidInput("CSV is of one metric.", field="name", hint="Add name=<metric>.")


def _metric(run: Run, name: str) -> Metric:
    metric = None if "\x00" in name else run.metrics.filter(name=name).first()
    if metric is None:
        known = ", ".join(run.metrics.order_by("name").values_list("name", flat=True)[:20])
        raise NotFound(
            f"This run has no metric {name[:100]!r}.",
            field="name",
            hint=f"It has: {known or 'none'}.",
        )
    return metric


def _iso(point: Point) -> str:
    return utc(point.at_us).isoformat()


class _Line:
    """Target of csv.writer that returns each line."""

    def write(self, line: str) -> str:
        return line


def _csv(points: list[Point]) -> Iterator[str]:
    writer = csv.writer(_Line())
    yield writer.writerow(["step", "at", "value"])
    for point in points:
        yield writer.writerow(
            [
                point.step,
                _iso(point),
                point.special_value if point.value is None else repr(point.value),
            ]
        )
