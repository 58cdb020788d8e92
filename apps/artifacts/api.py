"""Artifacts over the API: told in bulk, found, one with its copies and runs, its lineage."""

from typing import Any

from django.http import QueryDict
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema, inline_serializer
from rest_framework import serializers
from rest_framework.pagination import CursorPagination
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from apps.accounts.permissions import caller, require
from apps.artifacts.choices import ArtifactState, CopyState, Kind
from apps.artifacts.models import Artifact
from apps.artifacts.parsing import parse_artifacts, parse_gone
from apps.artifacts.search import FIELDS, Search, search_of
from apps.artifacts.searching import by_metric, found_of, metric_values
from apps.artifacts.selectors import Wanted, artifact_of, lineage
from apps.artifacts.serializers import artifact_detail, artifact_rows, lineage_reply
from apps.artifacts.services.copies import note_found
from apps.artifacts.services.register import node_told, register
from apps.core.clock import now_us
from apps.core.errors import InvalidInput, NotFound
from apps.core.text import unstorable
from apps.ingest.api import RawParser
from apps.runs.metric_summary import less_is_better

FILTERS = ("digest", "text", "kind", "state", "file_format", "project", "copies", *FIELDS)
_CHOICES = {"kind": Kind.values, "state": ArtifactState.values, "copies": [*CopyState.values, "twice"]}


class Found(CursorPagination):
    """Pages of artifacts by number, the latest first, or the best by a metric first."""

    page_size = 50
    page_size_query_param = "page_size"
    max_page_size = 500

    def __init__(self, search: Search) -> None:
        sign = "" if less_is_better(search.metric) else "-"
        self.ordering = (f"{sign}metric_value", f"{sign}id") if search.metric else ("-registered_us", "-id")


class ArtifactsView(APIView):
    parser_classes = (RawParser,)

    def get_permissions(self) -> list[Any]:
        return [require("runs:read" if self.request.method == "GET" else "runs:write")()]

    @extend_schema(
        request=OpenApiTypes.OBJECT,
        responses=inline_serializer(
            "ArtifactsTold",
            {
                "results": serializers.ListField(
                    child=serializers.ListField(child=serializers.CharField()),
                    help_text="one answer a row, in order: created, changed, unchanged or refused, and a word where needed",
                )
            },
        ),
        operation_id="artifacts_tell",
    )
    def post(self, request: Request) -> Response:
        """Tell of up to 1000 artifacts, where they lie and which runs made or read them (docs/artifacts.md). Idempotent."""
        who = caller(request)
        body: Any = request.data
        node, rows = parse_artifacts(body or b"")  # DRF makes a dict of an empty body
        answers = register(lab=who.lab, rows=rows, node_uuid=node, by=who.user, bound_node=who.node_uuid, now=now_us())
        return Response({"results": answers})

    @extend_schema(
        parameters=[OpenApiParameter(name, OpenApiTypes.STR) for name in FILTERS],
        responses=OpenApiTypes.OBJECT,
        operation_id="artifacts_list",
    )
    def get(self, request: Request) -> Response:
        """Return artifacts, the latest first, in pages by cursor; with ``metric`` those that have it, the best first.

        ``digest``: SHA-256, a payload's, MD5 or XXH3-128. All filters: docs/artifacts.md.
        """
        lab = caller(request).lab
        wanted, search = _asked(request.query_params)
        rows: Any = by_metric(lab, wanted, search) if search.metric else found_of(lab, wanted, search)
        if digest := request.query_params.get("digest", ""):
            one = artifact_of(lab, digest)
            rows = rows.filter(pk=one.pk if one else 0)
        rows = rows if search.metric else rows.values("id", "registered_us")
        pages = Found(search)
        try:
            listed: list[Any] = pages.paginate_queryset(rows, request, view=self) or []
        except ValueError as error:
            raise InvalidInput(
                "This is no cursor of this list.", field="cursor", hint="Follow 'next', or leave it out."
            ) from error
        page = [row["id"] for row in listed]
        return Response({
            "next": pages.get_next_link(), "previous": pages.get_previous_link(),
            "results": artifact_rows(page, search.metric, metric_values(page, search)),
        })  # fmt: skip


class ArtifactView(APIView):
    permission_classes = (require("runs:read"),)

    @extend_schema(responses=OpenApiTypes.OBJECT, operation_id="artifact")
    def get(self, request: Request, digest: str) -> Response:
        """Return one artifact with its copies and the runs that made or read it."""
        return Response(artifact_detail(_found(request, digest), now_us()))


class LineageView(APIView):
    permission_classes = (require("runs:read"),)

    @extend_schema(responses=OpenApiTypes.OBJECT, operation_id="artifact_lineage")
    def get(self, request: Request, digest: str) -> Response:
        """Return what an artifact came of and what came of it: runs, artifacts, edges."""
        return Response(lineage_reply(lineage(_found(request, digest))))


class CopiesView(APIView):
    permission_classes = (require("runs:write"),)
    parser_classes = (RawParser,)

    @extend_schema(
        request=OpenApiTypes.OBJECT,
        responses=inline_serializer("CopiesTold", {"changed": serializers.IntegerField()}),
        operation_id="artifacts_copies",
    )
    def post(self, request: Request) -> Response:
        """Tell that copies are missing, corrupt or there again, as a scan found them."""
        who = caller(request)
        body: Any = request.data
        told = parse_gone(body or b"")
        node = node_told(who.lab, told.node, who.node_uuid)
        return Response({"changed": note_found(lab=who.lab, node=node, rows=told.copies, now=now_us())})


def _found(request: Request, digest: str) -> Artifact:
    artifact = artifact_of(caller(request).lab, digest)
    if artifact is None:
        raise NotFound("There is no such artifact in this lab.", hint="GET artifacts/?text=<words of its name>")
    return artifact


def _asked(params: QueryDict) -> tuple[Wanted, Search]:
    unknown = sorted(set(params) - {*FILTERS, "cursor", "page_size"})
    if unknown:
        raise InvalidInput(f"{unknown[0]!r} is not a filter.", field=unknown[0], hint=f"Known: {', '.join(FILTERS)}.")
    for name, value in params.items():
        if unstorable(str(value)):
            raise InvalidInput("A filter holds a character that no artifact can.", field=name)
        if name in _CHOICES and value and value not in _CHOICES[name]:
            raise InvalidInput(f"{value[:40]!r} is no {name}.", field=name, hint=f"Use one of {', '.join(_CHOICES[name])}.")
    text, kind, state, form, project, copies = (params.get(name, "") for name in FILTERS[1:7])
    return Wanted(text, kind, state, form, project, copies), search_of({name: str(value) for name, value in params.items()})
