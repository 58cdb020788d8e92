"""Runs over the API: PUT and PATCH by the client's UUID, GET one or many."""

from collections.abc import Callable
from io import BytesIO
from typing import Any
from uuid import UUID

from django.http import QueryDict
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_field, inline_serializer
from rest_framework import serializers
from rest_framework.pagination import CursorPagination
from rest_framework.parsers import JSONParser
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from apps.accounts.authentication import Caller
from apps.accounts.permissions import caller, require
from apps.accounts.selectors import may_see_person, role_in
from apps.core.api import StrictSerializer
from apps.core.clock import now_us, utc
from apps.core.errors import InvalidInput, NotFound
from apps.core.intervals import us_of
from apps.core.text import unstorable
from apps.core.units import INT64_MAX
from apps.ingest.api import RawParser, bounded_body
from apps.runs.choices import RunState
from apps.runs.history import import_runs
from apps.runs.models import Run
from apps.runs.parsing import parse_job, parse_job_end, parse_rows
from apps.runs.selectors import run_of, runs_of
from apps.runs.services import RunFacts, change_run, put_run

_MAX_PARAMS = 500


class RunBody(StrictSerializer):
    name = serializers.CharField(max_length=200)
    started_at = serializers.DateTimeField()
    project = serializers.CharField(max_length=60, required=False, allow_null=True)
    command = serializers.ListField(child=serializers.CharField(max_length=256), max_length=64, required=False)
    params = serializers.DictField(required=False)
    node = serializers.UUIDField(required=False, allow_null=True)
    user = serializers.CharField(max_length=100, required=False, allow_blank=True)
    host = serializers.CharField(max_length=255, required=False, allow_blank=True)
    job = serializers.DictField(required=False, allow_null=True, help_text="the scheduler's job: docs/slurm.md")

    def validate_params(self, params: dict[str, Any]) -> dict[str, Any]:
        if len(params) > _MAX_PARAMS:
            raise serializers.ValidationError(f"At most {_MAX_PARAMS} parameters.")
        for name, value in params.items():
            if isinstance(value, dict | list) or len(str(name)) > 256 or len(str(value)) > 1024:
                raise serializers.ValidationError(f"{name!r}: a parameter is one text, number, true, false or null.")
            if unstorable(f"{name}{value}"):
                raise serializers.ValidationError(f"{name!r}: NUL and half characters cannot be stored.")
        return params


class RunChange(StrictSerializer):
    state = serializers.ChoiceField(choices=RunState.choices)
    ended_at = serializers.DateTimeField(required=False, allow_null=True)
    exit_code = serializers.IntegerField(required=False, allow_null=True, min_value=-255, max_value=255)
    energy_mj = serializers.IntegerField(required=False, allow_null=True, min_value=0, max_value=INT64_MAX)
    provisional = serializers.BooleanField(required=False)
    job = serializers.DictField(required=False, allow_null=True, help_text="state, exit, consumed_energy_j of its job")


class PackedJSONParser(JSONParser):
    """JSON, also packed with gzip as collectors send what is longer than a line."""

    def parse(self, stream: Any, media_type: str | None = None, parser_context: Any = None) -> dict[str, Any]:
        body = bounded_body(parser_context["request"], stream)
        parsed: dict[str, Any] = super().parse(BytesIO(body), media_type, parser_context)
        return parsed


class RunReply(serializers.ModelSerializer[Run]):
    """A run as told to others. Its energy is asked from /figures/ with subject=run:<uuid>."""

    project = serializers.SlugRelatedField[Any](slug_field="slug", read_only=True, allow_null=True)
    charged_project = serializers.SlugRelatedField[Any](slug_field="slug", read_only=True, allow_null=True)
    node = serializers.SlugRelatedField[Any](slug_field="uuid", read_only=True, allow_null=True)
    os_user = serializers.SerializerMethodField()
    started_at = serializers.SerializerMethodField()
    ended_at = serializers.SerializerMethodField()
    warning = serializers.SerializerMethodField()

    class Meta:
        model = Run
        fields = (
            "uuid", "name", "project", "charged_project", "charge_way", "node", "os_user", "host",
            "scheduler", "cluster", "job_id", "account", "partition", "job_facts", "command", "params", "state",
            "started_at", "ended_at", "exit_code", "reported_energy_mj", "warning",
        )  # fmt: skip

    @extend_schema_field({"type": "string", "nullable": True, "description": "null: not yours to know"})
    def get_os_user(self, run: Run) -> str | None:
        return run.os_user if self.context["sees"](run.user_id) else None

    def get_started_at(self, run: Run) -> str:
        return utc(run.started_us).isoformat()

    def get_ended_at(self, run: Run) -> str | None:
        return utc(run.ended_us).isoformat() if run.ended_us is not None else None

    def get_warning(self, run: Run) -> str:
        return str(self.context.get("warning", ""))


def _sees(who: Caller) -> Callable[[int | None], bool]:
    """Return whether a caller may know the OS user of a run that somebody (by account, None: unknown) started."""
    role = role_in(who.lab, who.user) if who.user else ""
    everybody = who.node_uuid is not None or may_see_person(role, who.lab.person_view, own=False)
    return lambda user_id: everybody or (who.user is not None and user_id == who.user.pk)


class RunView(APIView):
    parser_classes = (PackedJSONParser,)

    def get_permissions(self) -> list[Any]:
        return [require("runs:read" if self.request.method == "GET" else "runs:write")()]

    @extend_schema(responses=RunReply)
    def get(self, request: Request, uuid: UUID) -> Response:
        """Return one run."""
        run = run_of(caller(request).lab, uuid)
        if run is None:
            raise NotFound("There is no such run in this lab.")
        return Response(RunReply(run, context={"sees": _sees(caller(request))}).data)

    @extend_schema(request=RunBody, responses=RunReply)
    def put(self, request: Request, uuid: UUID) -> Response:
        """Create or renew a run by the UUID that its client made. Idempotent."""
        body = RunBody(data=request.data)
        body.is_valid(raise_exception=True)
        data, who = body.validated_data, caller(request)
        facts = RunFacts(
            name=data["name"],
            started_us=us_of(data["started_at"]),
            project=data.get("project"),
            command=data.get("command", []),
            params=data.get("params", {}),
            os_user=data.get("user", ""),
            host=data.get("host", ""),
            node_uuid=data.get("node"),
            job=parse_job(data["job"]) if data.get("job") else None,
        )
        run, warning = put_run(lab=who.lab, uuid=uuid, facts=facts, by=who.user, bound_node=who.node_uuid)
        return Response(RunReply(run, context={"warning": warning, "sees": _sees(who)}).data)

    @extend_schema(request=RunChange, responses=RunReply)
    def patch(self, request: Request, uuid: UUID) -> Response:
        """Record a run's state, end, exit code and closing energy."""
        body = RunChange(data=request.data)
        body.is_valid(raise_exception=True)
        data, who = body.validated_data, caller(request)
        ended_at = data.get("ended_at")
        run = change_run(
            lab=who.lab,
            uuid=uuid,
            state=RunState(data["state"]),
            ended_us=us_of(ended_at) if ended_at else None,
            exit_code=data.get("exit_code"),
            reported_energy_mj=data.get("energy_mj"),
            bound_node=who.node_uuid,
            job_facts=parse_job_end(data["job"]) if data.get("job") else None,
        )
        return Response(RunReply(run, context={"sees": _sees(caller(request))}).data)


class HistoryView(APIView):
    permission_classes = (require("runs:write"),)
    parser_classes = (RawParser,)

    @extend_schema(
        request=OpenApiTypes.OBJECT,
        responses=inline_serializer(
            "HistoryReply",
            {
                "results": serializers.ListField(
                    child=serializers.ListField(child=serializers.CharField()),
                    help_text="one answer a row, in order: created, changed, unchanged, or refused and why",
                )
            },
        ),
        operation_id="runs_bulk",
    )
    def post(self, request: Request) -> Response:
        """Store up to 1000 finished jobs of a scheduler (docs/slurm.md); answers for each row in order. Idempotent."""
        who = caller(request)
        body: Any = request.data
        rows = parse_rows(body or b"")  # DRF makes a dict of an empty body
        return Response({"results": import_runs(lab=who.lab, rows=rows, bound_node=who.node_uuid, now=now_us())})


class NewestFirst(CursorPagination):
    ordering = ("-started_us", "-id")
    page_size = 50
    page_size_query_param = "page_size"
    max_page_size = 500


def _known_filters(params: QueryDict) -> None:
    unknown = sorted(set(params) - {"project", "state", "text", "cursor", "page_size"})
    if unknown:
        raise InvalidInput(f"{unknown[0]!r} is not a filter.", field=unknown[0], hint="Known: project, state, text.")
    for name, value in params.items():
        if unstorable(str(value)):
            raise InvalidInput("A filter holds a character that no run can.", field=name)
    if params.get("state") and params["state"] not in RunState.values:
        raise InvalidInput(
            f"{params['state']!r} is not a state.", field="state", hint=f"Use one of {', '.join(RunState.values)}."
        )


class RunsView(APIView):
    permission_classes = (require("runs:read"),)

    @extend_schema(
        parameters=[
            OpenApiParameter(name, OpenApiTypes.STR) for name in ("project", "state", "text", "cursor", "page_size")
        ],
        responses=RunReply(many=True),
        operation_id="runs_list",
    )
    def get(self, request: Request) -> Response:
        """List runs, newest first, by pages."""
        _known_filters(request.query_params)
        params = request.query_params
        pages = NewestFirst()
        found = runs_of(
            caller(request).lab,
            project=params.get("project", ""),
            state=params.get("state", ""),
            text=params.get("text", ""),
        )
        page = pages.paginate_queryset(found, request, view=self)
        return pages.get_paginated_response(RunReply(page, many=True, context={"sees": _sees(caller(request))}).data)
