"""API of artifacts: registration, search, details, lineage, copies and fine-tuning candidates."""

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
from apps.artifacts.parsing import parse_artifacts, parse_copy_spaces, parse_copy_states
from apps.artifacts.reuse.candidates import ORDERS, Candidate, find_candidates
from apps.artifacts.search import (
    SEARCH_FIELDS,
    Search,
    metric_values,
    parse_search,
    rank_by_metric,
    search_artifacts,
)
from apps.artifacts.selectors import ArtifactFilter, artifact_by_digest, load_lineage
from apps.artifacts.serializers import (
    artifact_detail,
    artifact_row,
    artifact_rows,
    lineage_response,
)
from apps.artifacts.services.copies import record_copy_states
from apps.artifacts.services.copy_spaces import record_copy_spaces
from apps.artifacts.services.register import register, resolve_node
from apps.core.clock import now_us
from apps.core.errors import InvalidInput, NotFound
from apps.core.request_body import JsonBytesParser
from apps.core.text import is_unstorable
from apps.runs.metric_summary import is_lower_better

FILTERS = ("digest", "text", "kind", "state", "file_format", "project", "copies", *SEARCH_FIELDS)
_CHOICES = {
    "kind": Kind.values,
    "state": ArtifactState.values,
    "copies": [*CopyState.values, "twice"],
}


class ArtifactCursor(CursorPagination):
    """Cursor pagination: the latest first, or the best by a metric first."""

    page_size = 50
    page_size_query_param = "page_size"
    max_page_size = 500

    def __init__(self, search: Search) -> None:
        sign = "" if is_lower_better(search.metric) else "-"
        self.ordering = (
            (f"{sign}metric_value", f"{sign}id") if search.metric else ("-registered_us", "-id")
        )


class ArtifactsView(APIView):
    parser_classes = (JsonBytesParser,)

    def get_permissions(self) -> list[Any]:
        return [require("runs:read" if self.request.method == "GET" else "runs:write")()]

    @extend_schema(
        request=OpenApiTypes.OBJECT,
        responses=inline_serializer(
            "ArtifactsTold",
            {
                "results": serializers.ListField(
                    child=serializers.ListField(child=serializers.CharField()),
                    help_text=(
                        "one result per row, in order: created, changed, unchanged or "
                        "refused, with notes if any"
                    ),
                )
            },
        ),
        operation_id="artifacts_tell",
    )
    def post(self, request: Request) -> Response:
        """Register up to 1000 artifacts with their copies and runs (docs/artifacts.md).
        Idempotent.
        """
        api_caller = caller(request)
        body: Any = request.data
        node, rows = parse_artifacts(body or b"")  # DRF makes a dict of an empty body
        results = register(
            lab=api_caller.lab,
            rows=rows,
            node_uuid=node,
            by=api_caller.user,
            bound_node=api_caller.node_uuid,
            now=now_us(),
        )
        return Response({"results": results})

    @extend_schema(
        parameters=[OpenApiParameter(name, OpenApiTypes.STR) for name in FILTERS],
        responses=OpenApiTypes.OBJECT,
        operation_id="artifacts_list",
    )
    def get(self, request: Request) -> Response:
        """Return artifacts, the latest first, in pages by cursor. With ``metric``: those that have
        it, the best first.

        ``digest``: SHA-256, payload digest, MD5 or XXH3-128. All filters: docs/artifacts.md.
        """
        lab = caller(request).lab
        filters, search = _parse_query(request.query_params)
        rows: Any = (
            rank_by_metric(lab, filters, search)
            if search.metric
            else search_artifacts(lab, filters, search)
        )
        if digest := request.query_params.get("digest", ""):
            match = artifact_by_digest(lab, digest)
            rows = rows.filter(pk=match.pk if match else 0)
        rows = rows if search.metric else rows.values("id", "registered_us")
        pages = ArtifactCursor(search)
        try:
            page_rows: list[Any] = pages.paginate_queryset(rows, request, view=self) or []
        except ValueError as error:
            raise InvalidInput(
                "Invalid cursor.", field="cursor", hint="Follow 'next', or omit it."
            ) from error
        page = [row["id"] for row in page_rows]
        return Response(
            {
                "next": pages.get_next_link(),
                "previous": pages.get_previous_link(),
                "results": artifact_rows(page, search.metric, metric_values(page, search)),
            }
        )


class ArtifactView(APIView):
    permission_classes = (require("runs:read"),)

    @extend_schema(responses=OpenApiTypes.OBJECT, operation_id="artifact")
    def get(self, request: Request, digest: str) -> Response:
        """Return one artifact with its copies and the runs that produced or read it."""
        return Response(artifact_detail(_artifact_or_404(request, digest), now_us()))


class LineageView(APIView):
    permission_classes = (require("runs:read"),)

    @extend_schema(responses=OpenApiTypes.OBJECT, operation_id="artifact_lineage")
    def get(self, request: Request, digest: str) -> Response:
        """Return the ancestors and descendants of an artifact: runs, artifacts, edges."""
        return Response(lineage_response(load_lineage(_artifact_or_404(request, digest))))


class CopiesView(APIView):
    permission_classes = (require("runs:write"),)
    parser_classes = (JsonBytesParser,)

    @extend_schema(
        request=OpenApiTypes.OBJECT,
        responses=inline_serializer("CopiesTold", {"changed": serializers.IntegerField()}),
        operation_id="artifacts_copies",
    )
    def post(self, request: Request) -> Response:
        """Report copies that a scan found missing, corrupt or present again."""
        api_caller = caller(request)
        body: Any = request.data
        payload = parse_copy_states(body or b"")
        node = resolve_node(api_caller.lab, payload.node, api_caller.node_uuid)
        return Response(
            {
                "changed": record_copy_states(
                    lab=api_caller.lab, node=node, rows=payload.copies, now=now_us()
                )
            }
        )


class CopySpacesView(APIView):
    permission_classes = (require("runs:write"),)
    parser_classes = (JsonBytesParser,)

    @extend_schema(
        request=OpenApiTypes.OBJECT,
        responses=inline_serializer("CopySpaces", {"changed": serializers.IntegerField()}),
        operation_id="artifacts_copies_space",
    )
    def post(self, request: Request) -> Response:
        """Report which bytes of copies are their own and which they share with other copies."""
        api_caller = caller(request)
        body: Any = request.data
        payload = parse_copy_spaces(body or b"")
        node = resolve_node(api_caller.lab, payload.node, api_caller.node_uuid)
        changed = record_copy_spaces(lab=api_caller.lab, node=node, rows=payload.copies)
        return Response({"changed": changed})


def _artifact_or_404(request: Request, digest: str) -> Artifact:
    artifact = artifact_by_digest(caller(request).lab, digest)
    if artifact is None:
        raise NotFound(
            "There is no such artifact in this lab.",
            hint="Search with GET artifacts/?text=<part of its name>.",
        )
    return artifact


def _parse_query(params: QueryDict) -> tuple[ArtifactFilter, Search]:
    unknown = sorted(set(params) - {*FILTERS, "cursor", "page_size"})
    if unknown:
        raise InvalidInput(
            f"{unknown[0]!r} is not a filter.",
            field=unknown[0],
            hint=f"Use one of {', '.join(FILTERS)}.",
        )
    for name, value in params.items():
        if is_unstorable(str(value)):
            raise InvalidInput("Invalid character in filter.", field=name)
        if name in _CHOICES and value and value not in _CHOICES[name]:
            raise InvalidInput(
                f"Unknown {name} {value[:40]!r}.",
                field=name,
                hint=f"Use one of {', '.join(_CHOICES[name])}.",
            )
    text, kind, state, form, project, copies = (params.get(name, "") for name in FILTERS[1:7])
    return ArtifactFilter(text, kind, state, form, project, copies), parse_search(
        {name: str(value) for name, value in params.items()}
    )


_MAX_LENGTH = 200
_UNKNOWN = (
    "Data and purpose of this artifact are unknown. Add a tag such as task=cats, or report its "
    "run with a fingerprint."
)


class CandidatesView(APIView):
    permission_classes = (require("runs:read"),)

    @extend_schema(
        parameters=[
            OpenApiParameter("by", OpenApiTypes.STR, enum=list(ORDERS)),
            OpenApiParameter("metric", OpenApiTypes.STR),
        ],
        responses=OpenApiTypes.OBJECT,
        operation_id="artifact_candidates",
    )
    def get(self, request: Request, digest: str) -> Response:
        """Return up to 20 models of this lab that can be fine-tuned instead of an artifact, each
        with the reason.

        ``by``: likeness (default), metric, bytes (smallest first), energy (of training, highest
        first) or licence (known licences first). ``metric``: the metric to compare by.
        """
        by, metric = _candidate_query(request.query_params)
        artifact = artifact_by_digest(caller(request).lab, digest)
        if artifact is None:
            raise NotFound(
                "There is no such artifact in this lab.",
                hint="Search with GET artifacts/?text=<part of its name>.",
            )
        result = find_candidates(artifact, by=by, metric=metric)
        return Response(
            {
                "metric": result.metric or None,
                "word": "" if result.is_known else _UNKNOWN,
                "results": [_candidate_row(candidate) for candidate in result.candidates],
            }
        )


def _candidate_query(params: QueryDict) -> tuple[str, str]:
    unknown = sorted(set(params) - {"by", "metric"})
    if unknown:
        raise InvalidInput(
            f"{unknown[0][:40]!r} is not a parameter.",
            field=unknown[0][:40],
            hint="Use by or metric.",
        )
    by, metric = params.get("by") or "likeness", params.get("metric", "")
    if by not in ORDERS:
        raise InvalidInput(
            f"Unknown order {by[:40]!r}.", field="by", hint=f"Use one of {', '.join(ORDERS)}."
        )
    if is_unstorable(metric) or len(metric) > _MAX_LENGTH:
        raise InvalidInput(
            "Invalid name of a metric.", field="metric", hint="Enter a name such as val_acc."
        )
    return by, metric


def _candidate_row(candidate: Candidate) -> dict[str, Any]:
    offer, figure = candidate.model.similarity, candidate.span[0] if candidate.span else None
    return {
        **artifact_row(candidate.model.artifact),
        "why": candidate.why,
        "shares": [kind.label for kind in offer.shared],
        "words": list(offer.words),
        "has_same_start": candidate.has_same_start,
        "is_made_from_it": candidate.is_derived,
        "made_by": str(candidate.model.producing_run.uuid)
        if candidate.model.producing_run
        else None,
        "metric": {"name": candidate.metric[0], "value": candidate.metric[1]}
        if candidate.metric
        else None,
        "energy_mj": figure.energy_mj if figure else None,
        "emission_ug": None if figure is None or figure.without_factor_mj else figure.emission_ug,
    }
