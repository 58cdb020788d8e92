"""Replacement analysis in the API, with the result of the page."""

from fractions import Fraction
from typing import Any
from zoneinfo import ZoneInfo

from django.conf import settings
from django.urls import reverse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from apps.accounts.permissions import caller, require
from apps.catalog.packs import notices
from apps.catalog.serializers import NoticeReply
from apps.core.clock import now_us, utc
from apps.core.errors import InvalidInput, NotFound
from apps.replacement.payback import Payback, Unknown
from apps.replacement.performance import MEASURES
from apps.replacement.query import DAYS, OWN, PARAM_OF, PARAMETERS, parse
from apps.replacement.services import (
    IMPOSSIBLE,
    ReplacementAnalysis,
    analyse_replacement,
    asset_for_analysis,
    in_years,
)
from apps.replacement.summary_text import sentence

_DESCRIPTIONS = {
    "new": "number of the new model in the catalogue",
    "days": f"use measured over so many days: {' or '.join(map(str, DAYS))} (365 when left out)",
    "by": f"the measure of work: {', '.join(MEASURES)}; left out: the mean of those known of both",
    "life_years": "service life of the new card in years (default: that of its kind)",
    "wait_years": "replace-later scenario: years until the replacement (default 2)",
    **{
        name: f"{own.label}{', ' + own.unit if own.unit else ''}: in place of what is known"
        for name, own in OWN.items()
    },
}
_PARAMETERS = [
    OpenApiParameter(name, OpenApiTypes.STR, description=_DESCRIPTIONS[name]) for name in PARAMETERS
]


class KeepEnd(serializers.Serializer[Any]):
    years = serializers.CharField(allow_null=True, help_text="four decimals; null: never")
    at = serializers.CharField(
        allow_null=True, help_text="UTC; null: never, or beyond the year 9000"
    )


class KeepBreakEven(serializers.Serializer[Any]):
    value = KeepEnd()
    low = KeepEnd()
    high = KeepEnd()


class KeepInput(serializers.Serializer[Any]):
    input = serializers.CharField(
        help_text="the unit ends the name: mW, hours a year, ppm, ug, ug per kWh, MiB"
    )
    parameter = serializers.CharField(help_text="query parameter that replaces the value")
    value = serializers.IntegerField()
    low = serializers.IntegerField()
    high = serializers.IntegerField()
    origin = serializers.CharField(help_text="yours, measured, catalogue, lab or assumed")
    source = serializers.CharField()  # type: ignore[assignment]  # a field of this name, not the attribute of a field
    licence = serializers.CharField()
    pack = serializers.CharField()


class KeepWays(serializers.Serializer[Any]):
    year = serializers.IntegerField()
    keep_ug = serializers.IntegerField()
    replace_ug = serializers.IntegerField()
    wait_ug = serializers.IntegerField()


class KeepOld(serializers.Serializer[Any]):
    total_ug = serializers.IntegerField()
    charged_ug = serializers.IntegerField()
    balance_ug = serializers.IntegerField(
        help_text="would be written off at disposal now, not part of any scenario"
    )


class KeepRequirement(serializers.Serializer[Any]):
    requirement = serializers.CharField(help_text="hours, memory or form_factor")
    state = serializers.CharField(
        help_text="met, unmet, uncertain (met in the middle of the range only, or the deciding "
        "value is not measured) or unknown (not compared)"
    )
    compared = serializers.CharField(help_text="the values that were compared")


class KeepReply(serializers.Serializer[Any]):
    asset = serializers.IntegerField()
    new = serializers.IntegerField(allow_null=True)
    verdict = serializers.CharField(
        help_text="replace, keep, never, open (the range runs from within the new card's life to "
        "never, or a requirement is uncertain), impossible (a requirement is not met), unknown, "
        "choose (no new model) or gone (disposed of)"
    )
    sentence = serializers.CharField()
    open = serializers.BooleanField(
        help_text="the range includes payback times within and beyond the new card's life"
    )
    life_years = serializers.IntegerField()
    wait_years = serializers.IntegerField()
    requirements = KeepRequirement(many=True, help_text="what the new card must meet")
    break_even = KeepBreakEven(
        allow_null=True, help_text="null: an input is missing, or the replacement is impossible"
    )
    missing = serializers.ListField(
        child=serializers.CharField(), help_text="parameters without a known value"
    )
    inputs = KeepInput(many=True)
    ways = KeepWays(many=True, help_text="cumulative emissions from today by scenario")
    old = KeepOld(allow_null=True)
    use = serializers.URLField(allow_null=True, help_text="figure query of the measured inputs")
    notices = NoticeReply(many=True)
    page = serializers.URLField()


def _end(years: Fraction | None, now: int) -> dict[str, str | None]:
    moment = in_years(years, now)
    far = years is None or years > 6900
    at = None if far or moment is None else utc(moment).strftime("%Y-%m-%dT%H:%MZ")
    return {"years": None if years is None else f"{float(years):.4f}", "at": at}


def reply(analysis: ReplacementAnalysis, now: int) -> dict[str, Any]:
    """Return a result as an API response."""
    result, account = analysis.result, analysis.account
    missing = result.missing if isinstance(result, Unknown) else ()
    ends = None
    if isinstance(result, Payback) and analysis.verdict != IMPOSSIBLE:
        ends = {
            "value": _end(result.years, now),
            "low": _end(result.low, now),
            "high": _end(result.high, now),
        }
    return {
        "asset": analysis.asset.pk,
        "new": analysis.new.pk if analysis.new else None,
        "verdict": analysis.verdict,
        "sentence": sentence(analysis, now, ZoneInfo(analysis.asset.lab.time_zone)),
        "open": analysis.open,
        "life_years": analysis.life_years,
        "wait_years": analysis.query.wait_years,
        "requirements": [
            {"requirement": each.name, "state": each.state, "compared": each.clause}
            for each in analysis.requirements
        ],
        "break_even": ends,
        "missing": [PARAM_OF[name] for name in missing],
        "inputs": [
            {
                "input": name,
                "parameter": PARAM_OF[name],
                "value": each.needed.value,
                "low": each.needed.low,
                "high": each.needed.high,
                "origin": each.origin,
                "source": each.source,
                "licence": each.licence,
                "pack": each.pack,
            }
            for name, each in analysis.inputs.items()
        ],
        "ways": [
            {
                "year": way.year,
                "keep_ug": way.keep_ug,
                "replace_ug": way.replace_ug,
                "wait_ug": way.wait_ug,
            }
            for way in analysis.ways
        ],
        "old": account
        and {name: getattr(account, name) for name in ("total_ug", "charged_ug", "balance_ug")},
        "use": f"{settings.SITE_URL}{reverse('explain')}?{analysis.use.to_query_string()}"
        if analysis.use
        else None,
        "notices": [
            {
                "pack": pack.name,
                "licence": pack.licence,
                "licence_url": pack.licence_url,
                "notice": pack.notice,
            }
            for pack in notices({each.pack for each in analysis.inputs.values()})
        ],
        "page": f"{settings.SITE_URL}{reverse('asset-replacement', args=[analysis.asset.pk])}",
    }


class ReplacementView(APIView):
    permission_classes = (require("reports:read"),)

    @extend_schema(parameters=_PARAMETERS, responses=KeepReply)
    def get(self, request: Request, asset: int) -> Response:
        """Return the payback time of replacing an asset by a new model, with range, inputs and
        sources.
        """
        unknown = sorted(set(request.query_params) - set(PARAMETERS))
        if unknown:
            name = unknown[0][:40]
            raise InvalidInput(
                f"{name!r} is not a known name.",
                field=name,
                hint=f"Known: {', '.join(PARAMETERS)}.",
            )
        lab, now = caller(request).lab, now_us()
        asset_for_query = asset_for_analysis(lab, asset)
        if asset_for_query is None:
            raise NotFound("There is no such asset in this lab.", hint="Use an asset of your lab.")
        return Response(
            reply(
                analyse_replacement(
                    lab=lab,
                    asset=asset_for_query,
                    query=parse(request.query_params.dict()),
                    now=now,
                ),
                now,
            )
        )
