"""The upload endpoint of collectors."""

import zlib
from typing import Any

from django.conf import settings
from django.db import OperationalError
from django.http import HttpRequest
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema, inline_serializer
from rest_framework import serializers
from rest_framework.parsers import BaseParser
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from apps.accounts.authentication import Caller
from apps.accounts.permissions import caller, require
from apps.core.clock import now_us
from apps.core.errors import Forbidden, InvalidInput, LabCarbonError, TooLarge
from apps.fleet.models import Node
from apps.fleet.selectors import node_of
from apps.ingest.parsing import parse_batch
from apps.ingest.services import accept_batch

MAX_WIRE = 1 << 20
MAX_BODY = 8 << 20
_CHUNK = 64 << 10


class Unavailable(LabCarbonError):
    """The database is not writable now. The collector keeps the batch."""

    status = 503
    code = "unavailable"
    retry_after_s = 5


class RawParser(BaseParser):
    """Return the bytes of the body, limited in size."""

    media_type = "*/*"

    def parse(  # type: ignore[override]
        self, stream: Any, media_type: str | None = None, parser_context: Any = None
    ) -> bytes:
        return bounded_body(stream)


def bounded_body(request: HttpRequest, stream: Any = None) -> bytes:
    """Return the body, unpacked if it is gzip, within the size limits. ``stream``: source other
    than the request.
    """
    length = request.headers.get("Content-Length", "")
    if length.isdecimal() and int(length) > MAX_WIRE:
        raise _too_large()
    packed: bytes = (request if stream is None else stream).read(MAX_WIRE + 1)
    if len(packed) > MAX_WIRE:
        raise _too_large()
    encoding = request.headers.get("Content-Encoding", "identity").lower()
    if encoding == "identity":
        return packed
    if encoding != "gzip":
        raise InvalidInput(
            f"Unsupported Content-Encoding {encoding!r}.", hint="Use gzip, or no encoding."
        )
    return _unpack(packed)


def _too_large() -> TooLarge:
    return TooLarge(
        f"A batch is at most {MAX_WIRE >> 20} MiB on the wire and {MAX_BODY >> 20} MiB unpacked.",
        hint="Send fewer windows.",
    )


def _unpack(packed: bytes) -> bytes:
    unpacker = zlib.decompressobj(wbits=31)
    parts: list[bytes] = []
    size = 0
    data = packed
    try:
        while data and not unpacker.eof:
            part = unpacker.decompress(data, _CHUNK)
            size += len(part)
            if size > MAX_BODY:
                raise _too_large()
            parts.append(part)
            data = unpacker.unconsumed_tail
            if not part and not data:
                break
    except zlib.error as error:
        raise InvalidInput(f"The body is not gzip: {error}", code="bad_batch") from error
    if not unpacker.eof or unpacker.unused_data:
        raise InvalidInput(
            "The gzip body is incomplete, or has additional data at its end.", code="bad_batch"
        )
    return b"".join(parts)


def own_node(who: Caller) -> Node:
    """Return the node of a token."""
    node = node_of(who.lab, who.node_uuid) if who.node_uuid else None
    if node is None:
        raise Forbidden(
            "Only the token of a node can upload energy.",
            hint=f"Run `labcarbon-collect enrol {settings.SITE_URL}` on the machine.",
        )
    return node


class IngestView(APIView):
    permission_classes = (require("ingest:write"),)
    parser_classes = (RawParser,)

    @extend_schema(
        request=OpenApiTypes.OBJECT,
        responses=inline_serializer(
            "IngestReply",
            {
                "server_time": serializers.IntegerField(help_text="µs since 1970 UTC"),
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
        try:
            results = accept_batch(node=node, batch=batch, received_us=received_us)
        except OperationalError as error:
            raise Unavailable(
                "The database is not writable now.", hint="The collector retries automatically."
            ) from error
        return Response({"server_time": now_us(), "results": results})
