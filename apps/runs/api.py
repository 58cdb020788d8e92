"""API of runs: PUT and PATCH by the client's UUID, GET one or many."""

from typing import Any
from uuid import UUID

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema, inline_serializer
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from apps.accounts.authentication import Caller
from apps.accounts.permissions import caller, require
from apps.accounts.selectors import may_see_person, role_in
from apps.core.clock import now_us
from apps.core.errors import Conflict, Forbidden, LabCarbonError, NotFound
from apps.core.request_body import JsonBytesParser
from apps.fleet.selectors import node_of
from apps.runs.bulk_parsing import parse_rows
from apps.runs.choices import Source
from apps.runs.filters import FILTERS, PAGING, RunCursorPagination, filter_runs
from apps.runs.selectors import run_of, siblings_of
from apps.runs.serializers import CanSee, RunBody, RunChange, RunDetail, RunReply
from apps.runs.services.bulk_import import import_runs
from apps.runs.services.messages import PATCH, PUT, apply_patch, apply_put, keep_refused


def os_user_visibility(who: Caller) -> CanSee:
    """Return a function that says whether the caller may see the OS user of a run of a user id
    (None: unknown).
    """
    role = role_in(who.lab, who.user) if who.user else ""
    everybody = who.node_uuid is not None or may_see_person(role, who.lab.person_view, own=False)
    return lambda user_id: everybody or (who.user is not None and user_id == who.user.pk)


def _source_of_request(request: Request) -> Source:
    is_collector = request.headers.get("User-Agent", "").startswith("labcarbon-collect/")
    return Source.COLLECTOR if is_collector else Source.API


def _refused(
    who: Caller, uuid: UUID, verb: str, body: Any, error: LabCarbonError, now: int
) -> LabCarbonError:
    """Return the error of a refused message. That of a node is stored until a manager decides."""
    node = node_of(who.lab, who.node_uuid) if who.node_uuid else None
    if node is None:
        return error
    return keep_refused(node=node, run_uuid=uuid, verb=verb, body=body, error=error, now=now)


class RunView(APIView):
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
        who, now = caller(request), now_us()
        try:
            run, warning = apply_put(
                lab=who.lab,
                uuid=uuid,
                body=request.data,
                by=who.user,
                bound_node=who.node_uuid,
                now=now,
                reported_by=_source_of_request(request),
            )
        except (Forbidden, NotFound, Conflict) as error:
            raise _refused(who, uuid, PUT, request.data, error, now) from error
        return Response(
            RunReply(run, context={"warning": warning, "sees": os_user_visibility(who)}).data
        )

    @extend_schema(request=RunChange, responses=RunReply)
    def patch(self, request: Request, uuid: UUID) -> Response:
        """Record state, end, exit code and closing energy of a run, or later facts."""
        who, now = caller(request), now_us()
        try:
            run = apply_patch(
                lab=who.lab, uuid=uuid, body=request.data, bound_node=who.node_uuid, now=now
            )
        except (Forbidden, NotFound, Conflict) as error:
            raise _refused(who, uuid, PATCH, request.data, error, now) from error
        return Response(RunReply(run, context={"sees": os_user_visibility(who)}).data)


class BulkRunsView(APIView):
    permission_classes = (require("runs:write"),)
    parser_classes = (JsonBytesParser,)

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
