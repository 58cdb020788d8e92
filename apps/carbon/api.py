"""API of figures: the same queries as on pages and on /explain/."""

from typing import Any

from django.conf import settings
from django.db.models import IntegerChoices
from django.urls import reverse
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from apps.accounts.models import Lab
from apps.accounts.permissions import caller, require
from apps.carbon.figures.combined import CombinedFigure, answer, group_figures, split_query
from apps.carbon.figures.embodied import charge_rows
from apps.carbon.figures.energy import applied_factor, entries, normal, require_subject
from apps.carbon.figures.figure_query import COST, ENERGY_METRICS, FigureQuery, iso_hour
from apps.carbon.figures.query_parsing import parse_query
from apps.carbon.figures.visibility import Visibility, visibility_for
from apps.carbon.serializers import (
    GROUP_BY,
    OFFSET,
    QUERY_PARAMETERS,
    ChargeRow,
    ConfigReply,
    ExplainReply,
    FigureReply,
    LedgerRow,
)
from apps.core.clock import now_us
from apps.core.errors import InvalidInput
from apps.core.units import hour_of
from apps.fleet.selectors import placement_of, zone_at
from apps.ingest.api import own_node
from apps.ingest.choices import EnergyQuality, PlacementQuality, ShareQuality

UNITS = {**dict.fromkeys(ENERGY_METRICS, "mJ"), COST: "ucurrency"}
_QUALITIES: dict[str, type[IntegerChoices]] = {
    "energy_quality": EnergyQuality,
    "share_quality": ShareQuality,
    "placement_quality": PlacementQuality,
}


def _query(request: Request, lab: Lab, also: set[str]) -> FigureQuery:
    known = {parameter.name for parameter in QUERY_PARAMETERS} | also
    unknown = sorted(set(request.query_params) - known)
    if unknown:
        raise InvalidInput(
            f"{unknown[0]!r} is not a known name.",
            field=unknown[0],
            hint=f"Known: {', '.join(sorted(known))}.",
        )
    query = parse_query(
        request.query_params.dict(),
        basis=lab.basis,
        profile=lab.profile,
        currency=lab.currency,
    )
    require_subject(lab, query)
    if query.personal:
        visibility_for(lab, caller(request).user).check(query)
    return query


def _figure_response(combined: CombinedFigure) -> dict[str, Any]:
    query = combined.query
    body = {
        "value": combined.value,
        "unit": UNITS.get(query.metric, "ug CO2e"),
        "entries": combined.entries,
        "without_factor_mj": combined.without_factor_mj,
        "explain": f"{settings.SITE_URL}{reverse('explain')}?{query.to_query_string()}",
    }
    if query.metric == COST:
        body["currency"], body["without_price_mj"] = query.currency, combined.without_price_mj
    if combined.coverage is not None:
        body["assets_known"], body["assets"] = combined.coverage.known, combined.coverage.assets
    return body


class FiguresView(APIView):
    permission_classes = (require("reports:read"),)

    @extend_schema(parameters=[*QUERY_PARAMETERS, GROUP_BY], responses=FigureReply)
    def get(self, request: Request) -> Response:
        """Return one figure as an exact integer, and its parts when ``group_by`` is given; the
        parts sum to it.
        """
        lab, now = caller(request).lab, now_us()
        query = _query(request, lab, {"group_by"})
        group = request.query_params.get("group_by", "")
        parts = group_figures(lab, query, group, now) if group else {}
        body = {"query": query.to_query_string(), **_figure_response(answer(lab, query, now))}
        if group:
            body["groups"] = [
                {"group": iso_hour(key) if group == "hour" else key, "value": value}
                for key, value in parts.items()
            ]
        return Response(body)


class ExplainView(APIView):
    permission_classes = (require("reports:read"),)

    @extend_schema(parameters=[*QUERY_PARAMETERS, OFFSET], responses=ExplainReply)
    def get(self, request: Request) -> Response:
        """Return a figure and what it is the sum of, 500 at a time: entries of the energy
        ledger, charges of hardware.
        """
        lab, now = caller(request).lab, now_us()
        query = _query(request, lab, {"offset"})
        text = request.query_params.get("offset", "0")
        if not text.isdecimal() or int(text) > 10**9:
            raise InvalidInput("offset is a whole number.", field="offset")
        use, hardware = split_query(query)
        body = {"query": query.to_query_string(), **_figure_response(answer(lab, query, now))}
        if use:
            body["ledger"] = _ledger(lab, use, int(text), visibility_for(lab, caller(request).user))
        if hardware:
            body["charges"] = _charges(lab, hardware, now, int(text))
        return Response(body)


def _ledger(
    lab: Lab, query: FigureQuery, offset: int, visibility: Visibility
) -> list[dict[str, Any]]:
    listed = []
    for entry in entries(lab, query, limit=500, offset=offset):
        entry["consumer"] = visibility.consumer(entry["consumer"])
        entry["hour"] = iso_hour(entry["hour"])
        entry["run"], entry["node"] = normal(entry["run"], "run"), normal(entry["node"], "node")
        for name, choices in _QUALITIES.items():
            entry[name] = choices(entry[name]).name
        listed.append({name: entry[name] for name in map(str, LedgerRow().fields)})
    return listed


def _charges(lab: Lab, query: FigureQuery, now: int, offset: int) -> list[dict[str, Any]]:
    listed = []
    for row in charge_rows(lab, query, now, limit=500, offset=offset):
        row["from"], row["to"] = iso_hour(row["from_hour"]), iso_hour(row["to_hour"])
        listed.append({name: row[name] for name in map(str, ChargeRow().fields)})
    return listed


class ConfigView(APIView):
    permission_classes = (require("ingest:write"),)

    @extend_schema(responses=ConfigReply)
    def get(self, request: Request) -> Response:
        """Return what a collector needs to know: interval, its site, and the factor for its
        closing line.
        """
        now = now_us()
        node = own_node(caller(request))
        placement = placement_of(node, hour_of(now))
        applied = applied_factor(node, node.lab.basis, hour_of(now))
        factor = applied.factor if applied else None
        return Response(
            {
                "server_time": now,
                "interval_s": 60,
                "url": settings.SITE_URL,
                "site": {
                    "name": placement.site.name,
                    "zone": zone_at(placement.site, hour_of(now)) or None,
                    "pue_ppm": applied.pue_ppm if applied else None,
                }
                if placement
                else None,
                "factor": {
                    "ug_per_kwh": factor.ug_per_kwh,
                    "zone": factor.zone,
                    "year": factor.year,
                    "edition": factor.edition,
                    "source": factor.source,
                }
                if factor
                else None,
            }
        )
