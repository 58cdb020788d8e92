"""Attachments of assets over the API: list, add, download and delete. PIs and admins only."""

from typing import Any
from uuid import UUID

from csp.decorators import csp_update
from django.http import HttpResponse
from django.utils.decorators import method_decorator
from django.utils.http import content_disposition_header
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.parsers import BaseParser
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from apps.accounts.permissions import caller, require
from apps.assets.api.assets import asset_of
from apps.assets.attachment_files import MAX_BYTES
from apps.assets.choices import MediaType
from apps.assets.models import Attachment
from apps.assets.services.attachments import (
    attach,
    attachment_of,
    attachments_of,
    content_of,
    delete_attachment,
)
from apps.core.clock import now_us, utc
from apps.core.errors import InvalidInput

# A browser that opens the file in spite of its headers runs nothing in it.
sandboxed = csp_update({"sandbox": ""})


class BytesParser(BaseParser):
    """Parser that returns the bytes of a file. It reads at most one byte above the limit."""

    media_type = "*/*"

    def parse(  # type: ignore[override]
        self, stream: Any, media_type: str | None = None, parser_context: Any = None
    ) -> bytes:
        return bytes(stream.read(MAX_BYTES + 1))


class AttachmentReply(serializers.ModelSerializer[Attachment]):
    """An attachment. ``type`` is recognised by its content."""

    type = serializers.ChoiceField(source="media_type", choices=MediaType.choices)
    added_at = serializers.SerializerMethodField()

    class Meta:
        model = Attachment
        fields = ("uuid", "name", "type", "bytes", "sha256", "added_at")

    @extend_schema_field(OpenApiTypes.DATETIME)
    def get_added_at(self, attachment: Attachment) -> str:
        return utc(attachment.added_us).isoformat()


def download(attachment: Attachment) -> HttpResponse:
    """Return the response that downloads an attachment. Raises StorageProblem."""
    response = HttpResponse(content_of(attachment), content_type=attachment.media_type)
    response["Content-Disposition"] = (
        content_disposition_header(as_attachment=True, filename=attachment.name) or "attachment"
    )
    response["Cache-Control"] = "private, no-store"
    response["X-Content-Type-Options"] = "nosniff"
    return response


class AttachmentsView(APIView):
    permission_classes = (require("assets:write"),)
    parser_classes = (BytesParser,)

    @extend_schema(responses=AttachmentReply(many=True), operation_id="asset_attachments_list")
    def get(self, request: Request, asset: int) -> Response:
        """List the attachments of an asset, the newest first."""
        stored_asset = asset_of(caller(request).lab, asset)
        return Response(AttachmentReply(attachments_of(stored_asset), many=True).data)

    @extend_schema(
        parameters=[OpenApiParameter("file_name", OpenApiTypes.STR)],
        request={"application/octet-stream": OpenApiTypes.BINARY},
        responses={201: AttachmentReply},
        operation_id="asset_attachments_add",
    )
    def post(self, request: Request, asset: int) -> Response:
        """Attach a PDF, PNG or JPEG of at most 10 MB. The body is the file."""
        unknown = sorted(set(request.query_params) - {"file_name"})
        if unknown:
            raise InvalidInput(
                f"{unknown[0]!r} is not a known name.", field=unknown[0], hint="Known: file_name."
            )
        who = caller(request)
        stored_asset = asset_of(who.lab, asset)
        content: Any = request.data
        row = attach(
            asset=stored_asset,
            file_name=request.query_params.get("file_name", ""),
            content=content or b"",
            by=who.user,
            now=now_us(),
        )
        return Response(AttachmentReply(row).data, status=201)


@method_decorator(sandboxed, name="dispatch")
class AttachmentView(APIView):
    permission_classes = (require("assets:write"),)

    @extend_schema(
        responses={(200, "application/octet-stream"): OpenApiTypes.BINARY},
        operation_id="asset_attachments_download",
    )
    def get(self, request: Request, asset: int, attachment: UUID) -> HttpResponse:
        """Download an attachment."""
        stored_asset = asset_of(caller(request).lab, asset)
        return download(attachment_of(stored_asset, attachment))

    @extend_schema(responses={204: None}, operation_id="asset_attachments_delete")
    def delete(self, request: Request, asset: int, attachment: UUID) -> Response:
        """Delete an attachment. Its bytes are erased by a job."""
        who = caller(request)
        stored_asset = asset_of(who.lab, asset)
        row = attachment_of(stored_asset, attachment)
        delete_attachment(attachment=row, by=who.user, now=now_us())
        return Response(status=204)
