"""API of the greenest start of a job, for ``labcarbon-collect run --wait-greenest``."""

from typing import Any
from uuid import UUID

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from apps.accounts.models import Lab
from apps.accounts.permissions import caller, require
from apps.carbon.choices import IntensitySource
from apps.carbon.figures.figure_query import iso_hour
from apps.carbon.greener_hours.forecast import GreenerHours, greener_hours
from apps.carbon.greener_hours.starts import Start
from apps.carbon.providers.readings import parse_time
from apps.core.clock import now_us
from apps.core.errors import InvalidInput
from apps.core.units import hour_of
from apps.fleet.models import Site
from apps.fleet.selectors import node_of, placement_of, sites_of, zone_at

MAX_DURATION_HOURS = 168
MAX_WAIT_HOURS = 168
DEFAULT_WAIT_HOURS = 24
_PARAMETERS = [
    OpenApiParameter("node", OpenApiTypes.UUID, description="the node that runs the job"),
    OpenApiParameter("site", OpenApiTypes.INT, description="number of the site, without a node"),
    OpenApiParameter(
        "duration_hours",
        OpenApiTypes.INT,
        description=f"length of the job, 1 to {MAX_DURATION_HOURS}; 1 when left out",
    ),
    OpenApiParameter(
        "latest_start",
        OpenApiTypes.STR,
        description="last time at which the job may start, with a time zone: "
        "2026-11-27T18:00+01:00; 24 hours from now when left out, at most 7 days",
    ),
]
_NAMES = {parameter.name for parameter in _PARAMETERS}


class StartReply(serializers.Serializer[Any]):
    start = serializers.CharField(help_text="UTC hour")
    ug_per_kwh = serializers.IntegerField(help_text="mean over the hours of the job")
    sources = serializers.ListField(child=serializers.ChoiceField(IntensitySource.choices))


class HourReply(serializers.Serializer[Any]):
    hour = serializers.CharField(help_text="UTC")
    ug_per_kwh = serializers.IntegerField()
    source = serializers.ChoiceField(IntensitySource.choices)  # type: ignore[assignment]


class GreenerHoursReply(serializers.Serializer[Any]):
    site = serializers.CharField()
    zone = serializers.CharField(allow_null=True, help_text="null: the site has no grid zone")
    time_zone = serializers.CharField(help_text="of the lab")
    duration_hours = serializers.IntegerField()
    now = StartReply(allow_null=True, help_text="a start in this hour; null: unknown")
    best = StartReply(allow_null=True, help_text="the greenest start; null: unknown")
    hours = HourReply(many=True, help_text="coming hours with a known intensity")


class GreenerHoursView(APIView):
    permission_classes = (require("reports:read"),)

    @extend_schema(parameters=_PARAMETERS, responses=GreenerHoursReply)
    def get(self, request: Request) -> Response:
        """Return the expected grid intensity of the coming hours, and the start with the least of
        it for a job. It is advice: no figure uses it.
        """
        lab, now = caller(request).lab, now_us()
        values = request.query_params
        unknown = sorted(set(values) - _NAMES)
        if unknown:
            raise InvalidInput(
                f"{unknown[0]!r} is not a known name.",
                field=unknown[0],
                hint=f"Known: {', '.join(sorted(_NAMES))}.",
            )
        site = _site(lab, values.get("node", ""), values.get("site", ""), hour_of(now))
        duration_hours = _duration(values.get("duration_hours", "1"))
        first_hour = hour_of(now)
        last_hour = _last_hour(values.get("latest_start", ""), now)
        zone = zone_at(site, first_hour)
        result = (
            greener_hours(
                lab,
                zone,
                first_hour=first_hour,
                last_hour=last_hour,
                duration_hours=duration_hours,
                now=now,
            )
            if zone
            else GreenerHours("", [], None, None)
        )
        return Response(
            {
                "site": site.name,
                "zone": zone or None,
                "time_zone": lab.time_zone,
                "duration_hours": duration_hours,
                "now": _start(result, result.now, duration_hours),
                "best": _start(result, result.best, duration_hours),
                "hours": [
                    {
                        "hour": iso_hour(each.hour),
                        "ug_per_kwh": each.ug_per_kwh,
                        "source": each.source,
                    }
                    for each in result.hours
                ],
            }
        )


def _start(result: GreenerHours, start: Start | None, duration_hours: int) -> dict[str, Any] | None:
    if start is None:
        return None
    return {
        "start": iso_hour(start.hour),
        "ug_per_kwh": start.ug_per_kwh,
        "sources": result.sources_of(start, duration_hours),
    }


def _site(lab: Lab, node_text: str, site_text: str, hour: int) -> Site:
    """Return the site of a node or by number, else the only site of the lab."""
    if node_text:
        try:
            node = node_of(lab, UUID(node_text))
        except ValueError:
            node = None
        if node is None:
            raise InvalidInput(
                "There is no such node in this lab.",
                field="node",
                hint="Use the UUID of its page.",
            )
        placement = placement_of(node, hour)
        if placement is None:
            raise InvalidInput(
                "This node has no site.", field="node", hint="Move it to a site on its page."
            )
        return placement.site
    sites = list(sites_of(lab))
    if site_text:
        found = [site for site in sites if str(site.pk) == site_text]
        if not found:
            raise InvalidInput(
                "There is no such site in this lab.",
                field="site",
                hint="Use the number in the address of its page.",
            )
        return found[0]
    if len(sites) != 1:
        listed = ", ".join(f"{site.pk} ({site.name})" for site in sites[:10]) or "none"
        raise InvalidInput(
            "Name the node or the site.", field="site", hint=f"Sites of this lab: {listed}."
        )
    return sites[0]


def _duration(text: str) -> int:
    is_number = text.isascii() and text.isdecimal() and len(text) <= 3
    if not is_number or not 1 <= int(text) <= MAX_DURATION_HOURS:
        raise InvalidInput(
            "duration_hours is not a possible length.",
            field="duration_hours",
            hint=f"Enter whole hours from 1 to {MAX_DURATION_HOURS}.",
        )
    return int(text)


def _last_hour(text: str, now: int) -> int:
    if not text:
        return hour_of(now) + DEFAULT_WAIT_HOURS
    time_us = parse_time(text)
    if time_us is None:
        raise InvalidInput(
            "latest_start is not a time with a time zone.",
            field="latest_start",
            hint="Write it like 2026-11-27T18:00+01:00.",
        )
    last_hour = hour_of(time_us)
    if not hour_of(now) <= last_hour <= hour_of(now) + MAX_WAIT_HOURS:
        raise InvalidInput(
            "latest_start is in the past or more than 7 days ahead.",
            field="latest_start",
            hint="Enter a time within the next 7 days.",
        )
    return last_hour
