"""Import of assets over the API: upload of a CSV file, preview, and confirmation."""

from typing import Any
from uuid import UUID

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.parsers import BaseParser
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from apps.accounts.permissions import caller, require
from apps.assets.choices import ImportState
from apps.assets.models import RegisterImport
from apps.assets.services.csv_import import confirm, import_of, upload
from apps.assets.spreadsheets.csv_reader import MAX_BYTES
from apps.assets.spreadsheets.rows import Options
from apps.core.clock import now_us
from apps.core.errors import InvalidInput

PARAMETERS = ("file_name", "currency", "bought_on", "confirm")


class CsvParser(BaseParser):
    """Parser that returns the bytes of a CSV file.

    It reads at most one byte above the size limit.
    """

    media_type = "*/*"

    def parse(  # type: ignore[override]
        self, stream: Any, media_type: str | None = None, parser_context: Any = None
    ) -> bytes:
        return bytes(stream.read(MAX_BYTES + 1))


class ImportChange(serializers.Serializer[Any]):
    """A value of the register that a line changes."""

    field = serializers.CharField()
    before = serializers.CharField()
    after = serializers.CharField()


class ImportLine(serializers.Serializer[Any]):
    """What a line becomes: new, changed, known, left_out or wrong. ``embodied_ug`` null: not
    known, which is not zero.
    """

    line = serializers.IntegerField()
    outcome = serializers.CharField()
    name = serializers.CharField()
    kind = serializers.CharField()
    model = serializers.CharField()
    by = serializers.CharField(
        help_text="where embodied carbon comes from: model, category, file, or nothing"
    )
    embodied_ug = serializers.IntegerField(allow_null=True)
    low_ug = serializers.IntegerField(allow_null=True)
    high_ug = serializers.IntegerField(allow_null=True)
    why = serializers.CharField()
    asset = serializers.IntegerField(allow_null=True)
    built_into_line = serializers.IntegerField(allow_null=True)
    message = serializers.CharField()
    field = serializers.CharField()
    hint = serializers.CharField()
    changes = serializers.SerializerMethodField()

    @extend_schema_field(ImportChange(many=True))
    def get_changes(self, line: dict[str, Any]) -> Any:
        """Return the changes, none for files read by an earlier version."""
        return ImportChange(line.get("changes", []), many=True).data


class ImportReply(serializers.Serializer[Any]):
    """An import. ``rows`` are its first lines, ``wrong`` those that hinder it."""

    uuid = serializers.UUIDField()
    state = serializers.ChoiceField(choices=ImportState.choices)
    lines = serializers.IntegerField()
    lines_done = serializers.IntegerField()
    origin = serializers.CharField()
    ignored = serializers.ListField(child=serializers.CharField())
    counts = serializers.DictField(child=serializers.IntegerField())
    by = serializers.DictField(child=serializers.IntegerField())
    total_ug = serializers.IntegerField(allow_null=True)
    rows = ImportLine(many=True)
    wrong = ImportLine(many=True)
    error = serializers.CharField()


def _import_response(row: RegisterImport) -> Response:
    summary = row.summary
    body = {
        "uuid": row.uuid,
        "state": row.state,
        "lines": row.lines,
        "lines_done": row.lines_done,
        "origin": summary.get("origin", ""),
        "ignored": summary.get("ignored", []),
        "counts": summary.get("counts", {}),
        "by": summary.get("by", {}),
        "total_ug": summary.get("total_ug"),
        "rows": summary.get("rows", []),
        "wrong": summary.get("wrong", []),
        "error": summary.get("error", ""),
    }
    busy = row.state in {ImportState.READING, ImportState.WRITING}
    return Response(ImportReply(body).data, status=202 if busy else 200)


class ImportsView(APIView):
    permission_classes = (require("assets:write"),)
    parser_classes = (CsvParser,)

    @extend_schema(
        parameters=[OpenApiParameter(name, OpenApiTypes.STR) for name in PARAMETERS],
        request={"text/csv": OpenApiTypes.BINARY},
        responses={200: ImportReply, 202: ImportReply},
        operation_id="assets_import",
    )
    def post(self, request: Request) -> Response:
        """Upload a CSV file of assets and return a preview. ``confirm=yes`` registers a file of
        up to 500 lines at once, all or none. A longer file is read by a job. Poll and confirm it
        at its own address.
        """
        unknown = sorted(set(request.query_params) - set(PARAMETERS))
        if unknown:
            hint = f"Known: {', '.join(PARAMETERS)}."
            raise InvalidInput(f"{unknown[0]!r} is not a known name.", field=unknown[0], hint=hint)
        import_params = {name: request.query_params.get(name, "") for name in PARAMETERS}
        if import_params["confirm"] not in {"", "yes", "no"}:
            raise InvalidInput(
                "confirm must be yes or no.", field="confirm", hint="Leave it out for a preview."
            )
        who = caller(request)
        content: Any = request.data
        options = Options(import_params["currency"], import_params["bought_on"])
        row = upload(
            lab=who.lab,
            file_name=import_params["file_name"] or "api.csv",
            content=content or b"",
            options=options,
            by=who.user,
            now=now_us(),
        )
        if import_params["confirm"] == "yes" and row.state == ImportState.READ:
            confirm(row=row, by=who.user, now=now_us())
        return _import_response(row)


class ImportView(APIView):
    permission_classes = (require("assets:write"),)

    @extend_schema(
        responses={200: ImportReply, 202: ImportReply}, operation_id="assets_import_retrieve"
    )
    def get(self, request: Request, uuid: UUID) -> Response:
        """Return the state of an import."""
        return _import_response(import_of(caller(request).lab, uuid))

    @extend_schema(
        request=None,
        responses={200: ImportReply, 202: ImportReply},
        operation_id="assets_import_confirm",
    )
    def post(self, request: Request, uuid: UUID) -> Response:
        """Register the assets of an import, all or none."""
        who = caller(request)
        row = import_of(who.lab, uuid)
        confirm(row=row, by=who.user, now=now_us())
        return _import_response(row)
