"""API of activities: record and list."""

from datetime import UTC, datetime
from typing import Any

from django.http import QueryDict
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from apps.accounts.permissions import caller, require
from apps.activity.selectors import Filters, activities_of
from apps.activity.serializers import ActivityBody, ActivityReply, activity_reply, draft_of
from apps.activity.services import record_activity
from apps.core.api import NumberCursorPagination
from apps.core.clock import now_us
from apps.core.errors import Forbidden, InvalidInput
from apps.core.intervals import datetime_to_us
from apps.core.text import is_unstorable

FILTERS = ("kind", "project", "from", "to")


class LatestFirst(NumberCursorPagination):
    ordering = "-id"  # many activities of a file have the same start
    page_size = 50
    page_size_query_param = "page_size"
    max_page_size = 500


class ActivitiesView(APIView):
    def get_permissions(self) -> list[Any]:
        return [require("reports:read" if self.request.method == "GET" else "runs:write")()]

    @extend_schema(
        parameters=[
            OpenApiParameter(name, OpenApiTypes.STR) for name in (*FILTERS, "cursor", "page_size")
        ],
        responses=ActivityReply(many=True),
        operation_id="activity_list",
    )
    def get(self, request: Request) -> Response:
        """List activities, the latest recorded first, by pages. Withdrawn ones are included."""
        filters = _parse_filters(request.query_params)
        pages = LatestFirst()
        page = pages.paginate_queryset(
            activities_of(caller(request).lab, filters), request, view=self
        )
        return pages.get_paginated_response([activity_reply(row) for row in page or []])

    @extend_schema(
        request=ActivityBody,
        responses={200: ActivityReply, 201: ActivityReply},
        operation_id="activity_record",
    )
    def post(self, request: Request) -> Response:
        """Record an activity without a collector. 201: it is new. 200: its external id exists with
        equal content, and nothing changed.
        """
        who = caller(request)
        if who.node_uuid:
            raise Forbidden(
                "The token of a node cannot record activities.", hint="Use a personal token."
            )
        body = ActivityBody(data=request.data)
        body.is_valid(raise_exception=True)
        activity, created = record_activity(
            lab=who.lab, draft=draft_of(body.validated_data), by=who.user, now=now_us()
        )
        return Response(activity_reply(activity), status=201 if created else 200)


def _parse_filters(params: QueryDict) -> Filters:
    unknown = sorted(set(params) - {*FILTERS, "cursor", "page_size"})
    if unknown:
        raise InvalidInput(
            f"{unknown[0][:40]!r} is not a filter.",
            field=unknown[0],
            hint=f"Known: {', '.join(FILTERS)}.",
        )
    for name, value in params.items():
        if is_unstorable(str(value)):
            raise InvalidInput("Invalid character in filter.", field=name)
    return Filters(
        project=params.get("project", ""),
        kind=params.get("kind", ""),
        from_us=_parse_time(params, "from"),
        to_us=_parse_time(params, "to"),
    )


def _parse_time(params: QueryDict, name: str) -> int | None:
    text = params.get(name, "")
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise InvalidInput(
            f"{text[:40]!r} is not a time.", field=name, hint="Use 2026-11-01 or 2026-11-01T08:00Z."
        ) from error
    return datetime_to_us(moment if moment.tzinfo else moment.replace(tzinfo=UTC))
