"""Schemas of activities in the API."""

from typing import Any

from rest_framework import serializers

from apps.activity.choices import ActivityKind
from apps.activity.declared_rows import MAX_PUE
from apps.activity.models import Activity
from apps.activity.services import Draft
from apps.core.api import StrictSerializer
from apps.core.clock import utc
from apps.core.intervals import datetime_to_us
from apps.core.text import parse_decimal
from apps.core.units import PPM, UG_PER_G


class PlainDecimalField(serializers.DecimalField):
    """A decimal number. As a text it contains plain digits only, as in forms and files."""

    def to_internal_value(self, data: Any) -> Any:
        if isinstance(data, str) and parse_decimal(data) is None:
            self.fail("invalid")
        return super().to_internal_value(data)


class ActivityBody(StrictSerializer):
    """An activity as entered. ``from`` is a Python keyword: see get_fields."""

    kind = serializers.ChoiceField(choices=ActivityKind.choices)
    name = serializers.CharField(max_length=200)
    to = serializers.DateTimeField(help_text="UTC, not included")
    inputs = serializers.DictField(help_text="values of the kind: docs/activities.md")
    project = serializers.CharField(max_length=60, required=False, default="", allow_blank=True)
    zone = serializers.CharField(
        max_length=80,
        required=False,
        default="",
        allow_blank=True,
        help_text="grid zone or cloud region; or g_per_kwh",
    )
    g_per_kwh = PlainDecimalField(
        max_digits=10, decimal_places=6, required=False, default=None, allow_null=True, min_value=0
    )
    pue = PlainDecimalField(
        max_digits=8,
        decimal_places=6,
        required=False,
        default=None,
        allow_null=True,
        min_value=1,
        max_value=MAX_PUE,
        help_text="default of the kind when left out",
    )
    external_id = serializers.CharField(
        max_length=200,
        required=False,
        default="",
        allow_blank=True,
        help_text="your id: the same id with equal content changes nothing",
    )

    def get_fields(self) -> dict[str, Any]:
        """Return the fields with ``from``."""
        field = serializers.DateTimeField(help_text="UTC, included")
        return {**super().get_fields(), "from": field}


class ActivityReply(serializers.Serializer[Any]):
    id = serializers.UUIDField(help_text="that of its run")
    kind = serializers.ChoiceField(choices=ActivityKind.choices)
    name = serializers.CharField()
    project = serializers.CharField(allow_null=True)
    external_id = serializers.CharField()
    to = serializers.DateTimeField()
    zone = serializers.CharField(allow_null=True)
    factor_ug_per_kwh = serializers.IntegerField(
        allow_null=True, help_text="factor that the lab states; null: that of the zone"
    )
    pue_ppm = serializers.IntegerField()
    inputs = serializers.DictField(child=serializers.CharField())
    energy_mj = serializers.IntegerField(help_text="without the facility")
    energy_low_mj = serializers.IntegerField(help_text="P5")
    energy_high_mj = serializers.IntegerField(help_text="P95")
    equation = serializers.CharField()
    source = serializers.CharField()  # type: ignore[assignment]
    embodied_ug = serializers.IntegerField(
        allow_null=True, help_text="share of GPUs, in no total; null: unknown"
    )
    withdrawn = serializers.DateTimeField(allow_null=True)
    withdrawn_reason = serializers.CharField()

    def get_fields(self) -> dict[str, Any]:
        """Return the fields with ``from``."""
        return {**super().get_fields(), "from": serializers.DateTimeField()}


def draft_of(values: dict[str, Any]) -> Draft:
    """Return the draft of a valid body."""
    grams, pue = values["g_per_kwh"], values["pue"]
    return Draft(
        kind=values["kind"],
        name=values["name"],
        start_us=datetime_to_us(values["from"]),
        end_us=datetime_to_us(values["to"]),
        inputs=values["inputs"],
        project=values["project"],
        zone=values["zone"],
        ug_per_kwh=None if grams is None else int(grams * UG_PER_G),
        pue_ppm=None if pue is None else int(pue * PPM),
        external_id=values["external_id"],
    )


def activity_reply(activity: Activity) -> dict[str, Any]:
    """Return an activity as the API sends it."""
    withdrawn_us = activity.withdrawn_us
    return {
        "id": str(activity.uuid),
        "kind": activity.kind,
        "name": activity.name,
        "project": activity.project.slug if activity.project else None,
        "external_id": activity.external_id,
        "from": utc(activity.start_us).isoformat(),
        "to": utc(activity.end_us).isoformat(),
        "zone": activity.zone or None,
        "factor_ug_per_kwh": activity.ug_per_kwh,
        "pue_ppm": activity.pue_ppm,
        "inputs": activity.inputs,
        "energy_mj": activity.energy_mj,
        "energy_low_mj": activity.low_mj,
        "energy_high_mj": activity.high_mj,
        "equation": activity.equation,
        "source": activity.source,
        "embodied_ug": activity.embodied_ug,
        "withdrawn": None if withdrawn_us is None else utc(withdrawn_us).isoformat(),
        "withdrawn_reason": activity.withdrawn_reason,
    }
