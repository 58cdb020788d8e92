"""API of energy that a tracker measured for a run."""

from typing import Any
from uuid import UUID

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema, inline_serializer
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from apps.accounts.permissions import caller, require
from apps.core.clock import now_us
from apps.core.request_body import JsonBytesParser
from apps.trackers.reported_energy import parse_intervals, report_energy


class RunEnergyView(APIView):
    permission_classes = (require("runs:write"),)
    parser_classes = (JsonBytesParser,)

    @extend_schema(
        request=OpenApiTypes.OBJECT,
        responses=inline_serializer(
            "RunEnergyReply",
            {
                "results": serializers.ListField(
                    child=serializers.ListField(child=serializers.CharField()),
                    help_text=(
                        "one result for each interval, in order: accepted, duplicate, quarantined "
                        "or rejected, and the reason"
                    ),
                )
            },
        ),
        operation_id="run_energy_add",
    )
    def post(self, request: Request, uuid: UUID) -> Response:
        """Store up to 1000 intervals of energy that a tracker measured (docs/runs.md).
        Idempotent.
        """
        who = caller(request)
        body: Any = request.data
        results = report_energy(
            lab=who.lab,
            uuid=uuid,
            intervals=parse_intervals(body or b""),
            bound_node=who.node_uuid,
            now=now_us(),
        )
        return Response({"results": results})
