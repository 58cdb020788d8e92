"""API of runs: PUT and PATCH by the client's UUID, GET one or many."""

from io import BytesIO
from typing import Any
from uuid import UUID

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema, inline_serializer
from rest_framework import serializers
from rest_framework.parsers import JSONParser
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from apps.accounts.authentication import Caller
from apps.accounts.permissions import caller, require
from apps.accounts.selectors import may_see_person, role_in
from apps.core.clock import now_us
from apps.core.errors import NotFound
from apps.core.intervals import datetime_to_us
from apps.ingest.api import RawParser, bounded_body
from apps.runs.bulk_parsing import parse_job, parse_job_end, parse_rows
from apps.runs.choices import RunState, Source
from apps.runs.filters import FILTERS, PAGING, RunCursorPagination, filter_runs
from apps.runs.selectors import run_of, siblings_of
from apps.runs.serializers import CanSee, RunBody, RunChange, RunDetail, RunReply
from apps.runs.services.bulk_import import import_runs
from apps.runs.services.runs import RunFacts, change_run, put_run


class PackedJSONParser(JSONParser):
    """Parser of JSON, optionally compressed with gzip."""

    def parse(
        self, stream: Any, media_type: str | None = None, parser_context: Any = None
    ) -> dict[str, Any]:
        body = bounded_body(parser_context["request"], stream)
        parsed: dict[str, Any] = super().parse(BytesIO(body), media_type, parser_context)
        return parsed


def os_user_visibility(who: Caller) -> CanSee:
    """Return a function that says whether the caller may see the OS user of a run of a user id
    (None: unknown).
    """
    role = role_in(who.lab, who.user) if who.user else ""
    everybody = who.node_uuid is not None or may_see_person(role, who.lab.person_view, own=False)
    return lambda user_id: everybody or (who.user is not None and user_id == who.user.pk)


def _source_of_request(request: Request, *, is_job: bool) -> Source:
    if is_job:
        return Source.SLURM
    return (
        Source.COLLECTOR
        if request.headers.get("User-Agent", "").startswith("labcarbon-collect/")
        else Source.API
    )


class RunView(APIView):
    parser_classes = (PackedJSONParser,)

    def get_permissions(self) -> list[Any]:
        return [require("runs:read" if self.request.method == "GET" else "runs:write")()]

    @extend_schema(responses=RunDetail)
    def get(self, request: Request, uuid: UUID) -> Response:
        """Return one run with its fingerprint, metrics, children and numbers of similar runs."""
        who = caller(request)
        run = run_of(who.lab, uuid)
        if run is None:
            raise NotFound("There is no such run in this lab.")
        return Response(
            RunDetail(
                run, context={"sees": os_user_visibility(who), "siblings": siblings_of(run)}
            ).data
        )

    @extend_schema(request=RunBody, responses=RunReply)
    def put(self, request: Request, uuid: UUID) -> Response:
        """Create or update a run by the UUID of the client. Idempotent."""
        body = RunBody(data=request.data)
        body.is_valid(raise_exception=True)
        data, who = body.validated_data, caller(request)
        facts = RunFacts(
            name=data["name"],
            started_us=datetime_to_us(data["started_at"]),
            project=data.get("project"),
            command=data.get("command", []),
            params=data.get("params", {}),
            os_user=data.get("user", ""),
            host=data.get("host", ""),
            node_uuid=data.get("node"),
            job=parse_job(data["job"]) if data.get("job") else None,
            known=body.to_update(),
        )
        teller = _source_of_request(
            request, is_job=facts.job is not None and facts.job.run_uuid == uuid
        )
        run, warning = put_run(
            lab=who.lab,
            uuid=uuid,
            facts=facts,
            by=who.user,
            bound_node=who.node_uuid,
            now=now_us(),
            reported_by=teller,
        )
        return Response(
            RunReply(run, context={"warning": warning, "sees": os_user_visibility(who)}).data
        )

    @extend_schema(request=RunChange, responses=RunReply)
    def patch(self, request: Request, uuid: UUID) -> Response:
        """Record state, end, exit code and closing energy of a run, or later facts."""
        body = RunChange(data=request.data)
        body.is_valid(raise_exception=True)
        data, who = body.validated_data, caller(request)
        ended_at = data.get("ended_at")
        run = change_run(
            lab=who.lab,
            uuid=uuid,
            state=RunState(data["state"]) if data.get("state") else None,
            ended_us=datetime_to_us(ended_at) if ended_at else None,
            exit_code=data.get("exit_code"),
            reported_energy_mj=data.get("energy_mj"),
            bound_node=who.node_uuid,
            job_facts=parse_job_end(data["job"]) if data.get("job") else None,
            update=body.to_update(),
            now=now_us(),
        )
        return Response(RunReply(run, context={"sees": os_user_visibility(who)}).data)


class BulkRunsView(APIView):
    permission_classes = (require("runs:write"),)
    parser_classes = (RawParser,)

    @extend_schema(
        request=OpenApiTypes.OBJECT,
        responses=inline_serializer(
            "HistoryReply",
            {
                "results": serializers.ListField(
                    child=serializers.ListField(child=serializers.CharField()),
                    help_text=(
                        "one answer a row, in order: created, changed, unchanged, or refused "
                        "and why"
                    ),
                )
            },
        ),
        operation_id="runs_bulk",
    )
    def post(self, request: Request) -> Response:
        """Store up to 1000 finished jobs of a scheduler (docs/slurm.md). The response has one
        entry per row. Idempotent.
        """
        who = caller(request)
        body: Any = request.data
        rows = parse_rows(body or b"")  # DRF makes a dict of an empty body
        return Response(
            {"results": import_runs(lab=who.lab, rows=rows, bound_node=who.node_uuid, now=now_us())}
        )


class RunsView(APIView):
    permission_classes = (require("runs:read"),)

    @extend_schema(
        parameters=[OpenApiParameter(name, OpenApiTypes.STR) for name in (*FILTERS, *PAGING)],
        responses=RunReply(many=True),
        operation_id="runs_list",
    )
    def get(self, request: Request) -> Response:
        """List runs by pages, newest first. ``param.<name>=<value>`` filters by parameters."""
        who = caller(request)
        pages = RunCursorPagination()
        page = pages.paginate_queryset(filter_runs(who, request.query_params), request, view=self)
        return pages.get_paginated_response(
            RunReply(page, many=True, context={"sees": os_user_visibility(who)}).data
        )
