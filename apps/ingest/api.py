"""The upload endpoint of collectors."""

from typing import Any

from django.conf import settings
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema, inline_serializer
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.throttling import SimpleRateThrottle
from rest_framework.views import APIView

from apps.accounts.authentication import Caller
from apps.accounts.permissions import caller, require
from apps.core.api import StrictSerializer
from apps.core.clock import now_us
from apps.core.erasure.names import erased_names
from apps.core.errors import Forbidden
from apps.core.request_body import BatchParser
from apps.fleet.models import Node
from apps.fleet.selectors import node_of
from apps.fleet.services import record_start_problem
from apps.fleet.services.retirement import retired_error
from apps.ingest.parsing import parse_batch
from apps.ingest.selectors import last_batch_us
from apps.ingest.services import accept_batch


def own_node(who: Caller) -> Node:
    """Return the node of a token."""
    node = node_of(who.lab, who.node_uuid) if who.node_uuid else None
    if node is None:
        raise Forbidden(
            "Only the token of a node can upload energy.",
            hint=f"Run `labcarbon-collect enrol {settings.SITE_URL}` on the machine.",
        )
    if node.retired_us is not None:  # a process that has not noticed yet that the token ended
        raise retired_error(node)
    return node


class ProblemThrottle(SimpleRateThrottle):
    """Twelve reports per minute and node: a service manager restarts a collector every few
    seconds.
    """

    scope = "start_problems"
    rate = "12/min"

    def get_cache_key(self, request: Request, view: APIView) -> str:
        return f"start_problems:{caller(request).node_uuid}"


class ProblemBody(StrictSerializer):
    message = serializers.CharField(max_length=300, help_text="why the collector does not measure")

    def validate_message(self, message: str) -> str:
        return " ".join(message.split())


class NodeProblemView(APIView):
    permission_classes = (require("ingest:write"),)
    throttle_classes = (ProblemThrottle,)

    @extend_schema(
        request=ProblemBody,
        responses=inline_serializer(
            "NodeProblem",
            {
                "since": serializers.IntegerField(
                    help_text="when this problem was first reported, µs since 1970 UTC"
                )
            },
        ),
    )
    def post(self, request: Request) -> Response:
        """Record why the collector of the token's node does not measure, until its next upload."""
        node = own_node(caller(request))
        body = ProblemBody(data=request.data)
        body.is_valid(raise_exception=True)
        message = body.validated_data["message"]
        if node.lab.has_erased_names:
            message = erased_names(node.lab_id).text(message)[:300]
        since_us = record_start_problem(node=node, message=message, now=now_us())
        return Response({"since": since_us})


class IngestView(APIView):
    permission_classes = (require("ingest:write"),)
    parser_classes = (BatchParser,)

    @extend_schema(
        request=OpenApiTypes.OBJECT,
        responses=inline_serializer(
            "IngestReply",
            {
                "server_time": serializers.IntegerField(help_text="µs since 1970 UTC"),
                "received": serializers.IntegerField(
                    allow_null=True, help_text="when the node's last stored batch arrived, µs"
                ),
                "previous": serializers.IntegerField(
                    allow_null=True,
                    help_text=(
                        "when the last batch arrived that was stored before and is not newer than "
                        "`acknowledged` of the request, µs. If it is older than `acknowledged`, "
                        "the server was restored from a backup: send again what it received since."
                    ),
                ),
                "results": serializers.ListField(
                    child=serializers.ListField(child=serializers.CharField()),
                    help_text=(
                        "one result per window, in order: accepted, duplicate, quarantined or "
                        "rejected, with reason"
                    ),
                ),
            },
        ),
    )
    def post(self, request: Request) -> Response:
        """Store a batch of windows of a node (docs/collector.md). Returns one result per window,
        in order.
        """
        received_us = now_us()
        node = own_node(caller(request))
        body: Any = request.data
        batch = parse_batch(body or b"")  # DRF makes a dict of an empty body
        if batch.header.node != node.uuid:
            raise Forbidden(
                "This token belongs to another node.",
                field="node",
                hint="Enrol this machine separately.",
            )
        if node.lab.has_erased_names:
            names = erased_names(node.lab_id)
            batch.header.health = names.replace(batch.header.health)
            batch.header.device_facts = names.replace(batch.header.device_facts)
        previous_us = last_batch_us(node, up_to_us=batch.header.acknowledged)
        results = accept_batch(node=node, batch=batch, received_us=received_us)
        return Response(
            {
                "server_time": now_us(),
                "received": last_batch_us(node),
                "previous": previous_us,
                "results": results,
            }
        )
