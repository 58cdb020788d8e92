"""Schemas of figures in the API."""

from typing import Any

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema_field
from rest_framework import serializers

from apps.carbon.figures.combined import groups_of
from apps.carbon.figures.figure_query import CONSUMERS, METRICS, QUALITIES, WASTES
from apps.carbon.figures.scopes import PROFILES, SCOPES

_DESCRIPTIONS = {
    "metric": "which figure: energy, emissions of use (emission_ug), its cost (cost_ucurrency), "
    "embodied carbon of hardware as "
    "spread over use "
    "(embodied_ug) or as bought (embodied_inventory_ug; the two are never added), use and "
    "hardware by either "
    "(carbon_ug, carbon_inventory_ug)",
    "subject": "lab, project:<slug>, person:<number>, run:<uuid>, runs:<uuid>,<uuid> (up to 50), "
    "node:<uuid>, device:<key> "
    "or asset:<number>; lab when left out",
    "from": "UTC, included: 2026-11-01 or 2026-11-01T08:00Z; whole hours",
    "to": "UTC, not included",
    "accounting": "location",
    "basis": "the lab's basis; another is refused",
    "profile": "how activities are read as scopes; the lab's when left out",
    "currency": "of a cost, as EUR; prices in another one are left out; the lab's when left out",
    "scope": "only what is in one scope or category of the profile",
    "quality": "only energy of one quality",
    "waste": "only energy that could have been saved: of duplicate runs (confirmed, or open and "
    "verified), of failed runs that are no duplicates, of idle devices, or any of them",
    "project": "only what was charged to one project; - is: to none",
    "os_user": "only what one OS user used; - is: unknown. Other people's by the lab's policy",
    "program": "only what was used with one program; - is: unknown",
    "use": "only what one consumer used, such as job:hpc/17",
    "consumer": "only energy without a user (idle), a project's share of it "
    "(idle_share), of node overhead "
    "(overhead), of system processes without a project (system), "
    "or of no known project (unattributed); of hardware: used, idle, idle_share, unmeasured, "
    "held, lent, end_of_life, "
    "written_off, unattributed",
}
_ENUMS: dict[str, list[object]] = {
    "metric": list(METRICS),
    "quality": list(QUALITIES),
    "consumer": list(CONSUMERS),
    "waste": list(WASTES),
    "profile": list(PROFILES),
    "scope": [*sorted({scope for scopes in SCOPES.values() for scope in scopes})],
}
_GROUPS = sorted({group for metric in METRICS for group in groups_of(metric)})
QUERY_PARAMETERS = [
    OpenApiParameter(
        name,
        OpenApiTypes.STR,
        required=name in {"metric", "from", "to"},
        description=text,
        enum=_ENUMS.get(name),
    )
    for name, text in _DESCRIPTIONS.items()
]
GROUP_BY = OpenApiParameter(
    "group_by",
    OpenApiTypes.STR,
    enum=_GROUPS,
    description=(
        "parts that sum to the figure; asset and kind are of hardware, charge and project of both"
    ),
)
OFFSET = OpenApiParameter(
    "offset", OpenApiTypes.INT, description="how many entries, and how many charges, to pass over"
)


@extend_schema_field(OpenApiTypes.ANY)
class AnyField(serializers.Field[Any, Any, Any, Any]):
    """Text, number or null."""


class GroupPart(serializers.Serializer[Any]):
    group = AnyField(
        help_text="a slug, UUID, device key, hour or number, by group_by; null: none known"
    )
    value = serializers.IntegerField()


class FigureReply(serializers.Serializer[Any]):
    query = serializers.CharField(help_text="the figure's query: the same string on /explain/")
    value = serializers.IntegerField(help_text="exact")
    unit = serializers.CharField(help_text="mJ, ug CO2e, or ucurrency: millionths of currency")
    entries = serializers.IntegerField(help_text="ledger entries and charges summed")
    without_factor_mj = serializers.IntegerField(
        help_text="energy without an emission factor, not in the value"
    )
    currency = serializers.CharField(
        required=False, help_text="of a cost; empty: the lab has no price"
    )
    without_price_mj = serializers.IntegerField(
        required=False, help_text="of a cost: energy without a price in the currency, not in it"
    )
    explain = serializers.URLField()
    assets_known = serializers.IntegerField(
        required=False, help_text="of hardware: assets whose figure is known"
    )
    assets = serializers.IntegerField(
        required=False, help_text="of hardware: assets held; the others are in no sum"
    )
    groups = GroupPart(many=True, required=False)


class LedgerRow(serializers.Serializer[Any]):
    hour = serializers.CharField()
    device = serializers.CharField()
    device_name = serializers.CharField()
    node = serializers.UUIDField()
    hostname = serializers.CharField()
    consumer = serializers.CharField()
    run = serializers.UUIDField(allow_null=True)
    run_name = serializers.CharField(allow_null=True)
    project = serializers.CharField(allow_null=True)
    energy_quality = serializers.CharField()
    share_quality = serializers.CharField()
    placement_quality = serializers.CharField()
    energy_mj = serializers.IntegerField()
    facility_energy_mj = serializers.IntegerField(allow_null=True)
    emission_ug = serializers.IntegerField(allow_null=True)
    pue_ppm = serializers.IntegerField(allow_null=True)
    factor_ug_per_kwh = serializers.IntegerField(allow_null=True)
    cost_ucurrency = serializers.IntegerField(
        allow_null=True, help_text="millionths of currency; null: no price is known"
    )
    price_ucurrency_per_kwh = serializers.IntegerField(allow_null=True)
    currency = serializers.CharField(allow_null=True)


class ChargeRow(serializers.Serializer[Any]):
    asset_id = serializers.IntegerField()
    asset = serializers.CharField()
    asset_kind = serializers.CharField()
    kind = serializers.CharField(
        help_text="reason of the charge, or in the inventory the kind of the event"
    )
    project = serializers.CharField(allow_null=True)
    to = serializers.CharField(help_text="UTC, not included")
    amount_ug = serializers.IntegerField(help_text="the whole charge")
    part_ug = serializers.IntegerField(help_text="part of the charge in the period")

    def get_fields(self) -> dict[str, Any]:
        """Return the fields. ``from`` is a Python keyword, so it cannot be a class attribute."""
        fields = dict(super().get_fields())
        return {**fields, "from": serializers.CharField(help_text="UTC, included")}


class ExplainReply(FigureReply):
    groups = None  # type: ignore[assignment]
    ledger = LedgerRow(many=True, required=False)
    charges = ChargeRow(many=True, required=False)


class ConfigSite(serializers.Serializer[Any]):
    name = serializers.CharField()
    zone = serializers.CharField(allow_null=True)
    pue_ppm = serializers.IntegerField(allow_null=True)


class ConfigFactor(serializers.Serializer[Any]):
    ug_per_kwh = serializers.IntegerField()
    zone = serializers.CharField()
    year = serializers.IntegerField()
    edition = serializers.IntegerField()
    source = serializers.CharField()  # type: ignore[assignment]


class ConfigReply(serializers.Serializer[Any]):
    server_time = serializers.IntegerField(help_text="µs since 1970 UTC")
    interval_s = serializers.IntegerField()
    url = serializers.URLField()
    site = ConfigSite(allow_null=True)
    factor = ConfigFactor(allow_null=True)
