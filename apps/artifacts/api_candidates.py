"""What could be adapted instead of an artifact, over the API."""

from typing import Any

from django.http import QueryDict
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from apps.accounts.permissions import caller, require
from apps.artifacts.reuse.candidates import ORDERS, Candidate, candidates_of
from apps.artifacts.selectors import artifact_of
from apps.artifacts.serializers import artifact_row
from apps.core.errors import InvalidInput, NotFound
from apps.core.text import unstorable

_LONGEST = 200
_UNKNOWN = (
    "Nothing is known of it that a model could share: tell a tag (task=cats), or the run that made it with its fingerprint."
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
        """Return up to 20 models of this lab that could be adapted instead of an artifact or beside it, each with why.

        ``by``: likeness (the usual one), metric, bytes (the smallest first), energy (what making it took, the most first) or
        licence (told ones first). ``metric``: which one to compare by.
        """
        by, metric = _asked(request.query_params)
        artifact = artifact_of(caller(request).lab, digest)
        if artifact is None:
            raise NotFound("There is no such artifact in this lab.", hint="GET artifacts/?text=<words of its name>")
        found = candidates_of(artifact, by=by, metric=metric)
        return Response({
            "metric": found.metric or None,
            "word": "" if found.is_known else _UNKNOWN,
            "results": [_told(each) for each in found.listed],
        })  # fmt: skip


def _asked(params: QueryDict) -> tuple[str, str]:
    unknown = sorted(set(params) - {"by", "metric"})
    if unknown:
        raise InvalidInput(f"{unknown[0][:40]!r} is not known here.", field=unknown[0][:40], hint="Known: by, metric.")
    by, metric = params.get("by") or "likeness", params.get("metric", "")
    if by not in ORDERS:
        raise InvalidInput(f"{by[:40]!r} is no order.", field="by", hint=f"Use one of {', '.join(ORDERS)}.")
    if unstorable(metric) or len(metric) > _LONGEST:
        raise InvalidInput("This names no metric.", field="metric", hint="Write it as runs tell it: val_acc.")
    return by, metric


def _told(each: Candidate) -> dict[str, Any]:
    offer, figure = each.found.offer, each.span[0] if each.span else None
    return {
        **artifact_row(each.found.artifact),
        "why": each.why,
        "shares": [kind.label for kind in offer.shared],
        "words": list(offer.words),
        "has_same_start": each.has_same_start,
        "is_made_from_it": each.is_made_from_it,
        "made_by": str(each.found.maker.uuid) if each.found.maker else None,
        "metric": {"name": each.metric[0], "value": each.metric[1]} if each.metric else None,
        "energy_mj": figure.energy_mj if figure else None,
        "emission_ug": None if figure is None or figure.without_factor_mj else figure.emission_ug,
    }
