"""Import of assets over the API: upload of a spreadsheet, its columns, preview, and
confirmation.
"""

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
from apps.assets.choices import RUNNING, EndOfLife, ImportState
from apps.assets.models import RegisterImport
from apps.assets.services.csv_import import assign_columns, confirm, import_of, upload
from apps.assets.services.file_columns import Answers
from apps.assets.spreadsheets.headings import FIELDS
from apps.assets.spreadsheets.rows import Options
from apps.core.clock import now_us
from apps.core.errors import InvalidInput
from apps.core.spreadsheets.notation import DATE_ORDERS, DECIMAL_SIGNS
from apps.core.spreadsheets.sources import MAX_BYTES

PARAMETERS = (
    "file_name", "currency", "bought_on", "date_order", "decimal", "encoding", "sheet", "confirm",
)  # fmt: skip


XLSX = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"


class FileParser(BaseParser):
    """Parser that returns the bytes of a file, whatever its content type.

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


class ImportRemark(serializers.Serializer[Any]):
    """What is odd about a line that can be registered."""

    code = serializers.CharField(
        help_text="default, unknown, quantity, capacity, kind, status, or ended"
    )
    text = serializers.CharField()


class ImportColumn(serializers.Serializer[Any]):
    """A column of a file and the field that it is assigned to, '' none."""

    key = serializers.CharField()
    heading = serializers.CharField()
    field = serializers.CharField()
    examples = serializers.ListField(child=serializers.CharField())


class ImportQuestions(serializers.Serializer[Any]):
    """What has to be confirmed before a file is read. Examples '': not asked."""

    origin = serializers.CharField()
    columns = ImportColumn(many=True)
    needs_columns = serializers.BooleanField()
    date_example = serializers.CharField()
    number_example = serializers.CharField()
    date_order = serializers.CharField()
    decimal = serializers.CharField()
    price_example = serializers.CharField(default="")
    currency = serializers.CharField(default="")


class ImportAnswers(serializers.Serializer[Any]):
    """The field of each column by its key (left out: as recognised), how dates and numbers that
    can be read two ways are read, and the currency of prices without one.
    """

    columns = serializers.DictField(
        child=serializers.ChoiceField(choices=list(FIELDS.items()), allow_blank=True),
        required=False,
        allow_null=True,
        default=None,
    )
    date_order = serializers.ChoiceField(
        choices=list(DATE_ORDERS), required=False, allow_blank=True, default=""
    )
    decimal = serializers.ChoiceField(
        choices=list(DECIMAL_SIGNS), required=False, allow_blank=True, default=""
    )
    currency = serializers.CharField(required=False, allow_blank=True, default="", max_length=10)


class ImportLine(serializers.Serializer[Any]):
    """What a line becomes: new, changed, known, left_out or wrong. ``embodied_ug`` (of each of
    ``items``) null: not known, which is not zero.
    """

    line = serializers.IntegerField()
    outcome = serializers.CharField()
    name = serializers.CharField()
    items = serializers.IntegerField()
    kind = serializers.CharField()
    model = serializers.CharField()
    by = serializers.CharField(
        help_text="where embodied carbon comes from: model, category, file, or nothing"
    )
    embodied_ug = serializers.IntegerField(allow_null=True)
    low_ug = serializers.IntegerField(allow_null=True)
    high_ug = serializers.IntegerField(allow_null=True)
    why = serializers.CharField()
    is_default = serializers.BooleanField(help_text="the figure is the average of a category")
    bought_on = serializers.CharField()
    ended_on = serializers.CharField()
    end_of_life = serializers.ChoiceField(choices=EndOfLife.choices, allow_blank=True, default="")
    mass_g = serializers.IntegerField(
        allow_null=True, default=None, help_text="mass at the end of life, null: unknown"
    )
    recipient = serializers.CharField(default="")
    is_leased = serializers.BooleanField(default=False)
    lessor = serializers.CharField(default="")
    price_ucurrency = serializers.IntegerField(allow_null=True)
    currency = serializers.CharField()
    owner = serializers.CharField()
    state = serializers.CharField()
    capacity_gb = serializers.IntegerField(allow_null=True)
    remarks = ImportRemark(many=True)
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
    """An import. ``rows`` are its first lines, ``wrong`` those that hinder it. ``questions``: what
    has to be confirmed at ``…/mapping/`` first, null: nothing. ``default_ug``: the part of the
    total that rests on averages of categories.
    """

    uuid = serializers.UUIDField()
    state = serializers.ChoiceField(choices=ImportState.choices)
    lines = serializers.IntegerField()
    lines_done = serializers.IntegerField()
    origin = serializers.CharField()
    ignored = serializers.ListField(child=serializers.CharField())
    counts = serializers.DictField(child=serializers.IntegerField())
    by = serializers.DictField(child=serializers.IntegerField())
    total_ug = serializers.IntegerField(allow_null=True)
    default_ug = serializers.IntegerField(allow_null=True)
    sheet = serializers.CharField()
    other_sheets = serializers.ListField(child=serializers.CharField())
    encoding = serializers.CharField()
    questions = ImportQuestions(allow_null=True)
    rows = ImportLine(many=True)
    wrong = ImportLine(many=True)
    error = serializers.CharField()


def import_response(row: RegisterImport) -> Response:
    """Return the response about an import: 202 while a job has to be waited for."""
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
        "default_ug": summary.get("default_ug"),
        "sheet": summary.get("sheet", ""),
        "other_sheets": summary.get("other_sheets", []),
        "encoding": row.options.get("encoding", ""),
        "questions": summary.get("questions"),
        "rows": summary.get("rows", []),
        "wrong": summary.get("wrong", []),
        "error": _error_of(row),
    }
    busy = row.state in {ImportState.READING, *RUNNING}
    return Response(ImportReply(body).data, status=202 if busy else 200)


def _error_of(row: RegisterImport) -> str:
    """Return why the file was rejected, or why the last job failed."""
    if row.task.get("error"):
        return f"{row.task['error']} {row.task['hint']}".strip()
    return str(row.summary.get("error", ""))


class ImportsView(APIView):
    permission_classes = (require("assets:write"),)
    parser_classes = (FileParser,)

    @extend_schema(
        parameters=[OpenApiParameter(name, OpenApiTypes.STR) for name in PARAMETERS],
        request={"text/csv": OpenApiTypes.BINARY, XLSX: OpenApiTypes.BINARY},
        responses={200: ImportReply, 202: ImportReply},
        operation_id="assets_import",
    )
    def post(self, request: Request) -> Response:
        """Upload a spreadsheet of assets (CSV or XLSX) and return a preview. A file whose columns,
        dates or numbers have to be confirmed waits in state ``mapping``. ``confirm=yes`` registers
        another file of up to 500 lines at once, all or none. A longer file is read by a job. Poll
        and confirm it at its own address.
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
        options = Options(
            currency=import_params["currency"],
            bought_on=import_params["bought_on"],
            date_order=import_params["date_order"],
            decimal=import_params["decimal"],
            encoding=import_params["encoding"],
            sheet=import_params["sheet"],
        )
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
        return import_response(row)


class ImportView(APIView):
    permission_classes = (require("assets:write"),)

    @extend_schema(
        responses={200: ImportReply, 202: ImportReply}, operation_id="assets_import_retrieve"
    )
    def get(self, request: Request, uuid: UUID) -> Response:
        """Return the state of an import."""
        return import_response(import_of(caller(request).lab, uuid))

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
        return import_response(row)


class ImportMappingView(APIView):
    permission_classes = (require("assets:write"),)

    @extend_schema(
        request=ImportAnswers,
        responses={200: ImportReply, 202: ImportReply},
        operation_id="assets_import_mapping",
    )
    def post(self, request: Request, uuid: UUID) -> Response:
        """State the field of each column, and how dates and numbers are read. The file is read
        again. Later files with these headings are read the same.
        """
        who = caller(request)
        row = import_of(who.lab, uuid)
        body = ImportAnswers(data=request.data)
        body.is_valid(raise_exception=True)
        assign_columns(row=row, answers=Answers(**body.validated_data), by=who.user, now=now_us())
        return import_response(row)
