"""The catalogue over the API: models on offer, and one with all its figures."""

from typing import Any

from django.conf import settings
from django.urls import reverse
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from apps.accounts.models import Lab
from apps.accounts.permissions import caller, require
from apps.catalog.choices import HardwareKind
from apps.catalog.models import EmbodiedFigure, HardwareModel
from apps.catalog.packs import notices
from apps.catalog.selectors import best_figures, figures_of_model, model_by_id, parse_search, search
from apps.catalog.serializers import CatalogueReply, ModelReply
from apps.core.errors import InvalidInput, NotFound

ROWS = 50


def _figure(figure: EmbodiedFigure) -> dict[str, Any]:
    years = figure.lifetime_years_typical
    return {
        "id": figure.pk,
        "method": figure.method,
        "unit": figure.unit,
        "manufacture_ug": figure.manufacture_ug,
        "transport_ug": figure.transport_ug,
        "end_of_life_ug": figure.end_of_life_ug,
        "total_ug": figure.total_ug,
        "low_ug": figure.low_ug,
        "high_ug": figure.high_ug,
        "includes_end_of_life": figure.includes_end_of_life,
        "lifetime_years_typical": None if years is None else str(years),
        "source": figure.source,
        "source_year": figure.source_year,
        "licence": figure.licence,
        "pack": figure.pack,
        "confidence": figure.confidence,
        "note": figure.note,
        "own": figure.lab_id is not None,
        "holds": figure.superseded_us is None,
    }


def _model(model: HardwareModel, best: EmbodiedFigure | None) -> dict[str, Any]:
    return {
        "id": model.pk,
        "kind": model.kind,
        "category": model.category,
        "name": model.name,
        "vendor": model.vendor,
        "release_year": model.release_year,
        "tdp_mw": model.tdp_mw,
        "memory_mib": model.memory_mib,
        "cores": model.cores,
        "threads": model.threads,
        "source": model.source,
        "licence": model.licence,
        "own": model.lab_id is not None,
        "used": _figure(best) if best else None,
        "page": f"{settings.SITE_URL}{reverse('catalog-model', args=[model.pk])}",
    }


def _notices(names: set[str]) -> list[dict[str, str]]:
    return [
        {
            "pack": pack.name,
            "licence": pack.licence,
            "licence_url": pack.licence_url,
            "notice": pack.notice,
        }
        for pack in notices(names)
    ]


def _offset(request: Request) -> int:
    text = request.query_params.get("offset", "0")
    if not (text.isascii() and text.isdecimal()) or len(text) > 9:
        raise InvalidInput(
            "offset is a whole number.", field="offset", hint="Take next_offset of the page before."
        )
    return int(text)


def _known(request: Request, *names: str) -> None:
    unknown = sorted(set(request.query_params) - set(names))
    if unknown:
        hint = f"Known: {', '.join(names)}." if names else "This address takes no parameter."
        raise InvalidInput(
            f"{unknown[0][:40]!r} is not a known name.", field=unknown[0][:40], hint=hint
        )


class CatalogueView(APIView):
    permission_classes = (require("reports:read"),)

    @extend_schema(
        parameters=[
            OpenApiParameter(
                "kind",
                str,
                enum=HardwareKind.values,
                description="one kind of hardware; left out: all",
            ),
            OpenApiParameter("q", str, description="words that the name holds"),
            OpenApiParameter("offset", int, description="how many to skip"),
        ],
        responses=CatalogueReply,
        operation_id="catalog_list",
    )
    def get(self, request: Request) -> Response:
        """Return the models on offer, 50 at a time by name, each with the figure that is used
        for it.
        """
        _known(request, "kind", "q", "offset")
        lab, offset = caller(request).lab, _offset(request)
        kind, words = parse_search(
            request.query_params.get("kind", ""), request.query_params.get("q", "")
        )
        rows = list(search(lab, kind, words)[offset : offset + ROWS + 1])
        page_models = rows[:ROWS]
        best = best_figures([model.pk for model in page_models], lab)
        return Response(
            {
                "results": [_model(model, best.get(model.pk)) for model in page_models],
                "next_offset": offset + ROWS if len(rows) > ROWS else None,
                "notices": _notices(
                    {figure.pack for figure in best.values()}
                    | {model.pack for model in page_models}
                ),
            }
        )


class ModelView(APIView):
    permission_classes = (require("reports:read"),)

    @extend_schema(responses=ModelReply)
    def get(self, request: Request, model: int) -> Response:
        """Return a model with all figures the lab can see, the most trusted first; superseded
        ones last.
        """
        _known(request)
        lab: Lab = caller(request).lab
        hardware_model = model_by_id(lab, model)
        if hardware_model is None:
            raise NotFound(
                "There is no such model in the catalogue of this lab.",
                hint="GET /api/v1/catalog/ lists them.",
            )
        figures = figures_of_model(hardware_model, lab)
        best = next((figure for figure in figures if figure.superseded_us is None), None)
        body = _model(hardware_model, best)
        body["figures"] = [_figure(figure) for figure in figures]
        body["notices"] = _notices({figure.pack for figure in figures} | {hardware_model.pack})
        return Response(body)
