"""What the API takes and tells of assets and the entries of their lives. Embodied carbon is integer µg, times UTC."""

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from apps.assets.choices import Amortisation, AssetState, EventKind
from apps.assets.models import Asset, LifecycleEvent
from apps.catalog.choices import HardwareKind
from apps.core.api import StrictSerializer
from apps.core.clock import utc
from apps.core.units import INT64_MAX, US_PER_HOUR

_UG: dict[str, Any] = {"required": False, "allow_null": True, "min_value": 0, "max_value": INT64_MAX}
_PARTS = ("low_ug", "high_ug", "manufacture_ug", "transport_ug", "end_of_life_ug")


class EmbodiedBody(StrictSerializer):
    """Embodied carbon, µg CO2e, with its range and the parts that are known apart."""

    total_ug = serializers.IntegerField(min_value=0, max_value=INT64_MAX)
    low_ug = serializers.IntegerField(**_UG)
    high_ug = serializers.IntegerField(**_UG)
    manufacture_ug = serializers.IntegerField(**_UG)
    transport_ug = serializers.IntegerField(**_UG)
    end_of_life_ug = serializers.IntegerField(**_UG)
    includes_end_of_life = serializers.BooleanField(required=False, allow_null=True)
    source = serializers.CharField(max_length=500, required=False, allow_blank=True)  # type: ignore[assignment]


class EventBody(StrictSerializer):
    """One entry of a life; what does not belong to its kind stays out."""

    kind = serializers.ChoiceField(choices=EventKind.choices)
    at = serializers.DateTimeField(help_text="takes effect with the whole UTC hour that holds it")
    embodied = EmbodiedBody(
        required=False, allow_null=True, help_text="bought: left out, the catalogue's figure; null: not known"
    )
    life_hours = serializers.IntegerField(required=False, allow_null=True, min_value=1, max_value=876_000)
    life_end_at = serializers.DateTimeField(required=False, allow_null=True)
    amortisation = serializers.ChoiceField(choices=Amortisation.choices, required=False)
    project = serializers.SlugField(max_length=60, required=False, allow_null=True, help_text="owner or borrower")
    parent = serializers.IntegerField(  # type: ignore[assignment]
        required=False, allow_null=True, min_value=1, max_value=INT64_MAX, help_text="the asset that it is built into"
    )
    site = serializers.CharField(max_length=200, required=False, allow_null=True, help_text="a site's name")
    counterpart = serializers.CharField(max_length=200, required=False, allow_blank=True)
    evidence = serializers.CharField(max_length=300, required=False, allow_blank=True)
    note = serializers.CharField(max_length=500, required=False, allow_blank=True)


class FactsBody(StrictSerializer):
    """What an asset is. ``model`` is a name that the catalogue knows, of this kind."""

    name = serializers.CharField(max_length=200)
    kind = serializers.ChoiceField(choices=HardwareKind.choices)
    model = serializers.CharField(max_length=200, required=False, allow_null=True)
    serial = serializers.CharField(max_length=120, required=False, allow_blank=True)
    tag = serializers.CharField(max_length=60, required=False, allow_blank=True)
    supplier = serializers.CharField(max_length=200, required=False, allow_blank=True)
    price_ucurrency = serializers.IntegerField(
        required=False, allow_null=True, min_value=0, max_value=INT64_MAX - 1, help_text="millionths of the currency"
    )
    currency = serializers.CharField(max_length=3, required=False, allow_blank=True)
    warranty_until = serializers.DateField(required=False, allow_null=True)
    location = serializers.CharField(max_length=200, required=False, allow_blank=True)
    note = serializers.CharField(max_length=1000, required=False, allow_blank=True)


class AssetBody(FactsBody):
    """An asset to register: what it is, how it was bought, since when it is used, and what meters it."""

    opening = EventBody()
    in_use_since = serializers.DateTimeField(required=False, allow_null=True)
    device = serializers.CharField(max_length=255, required=False, allow_null=True, help_text="the key of its own device")
    node = serializers.UUIDField(required=False, allow_null=True, help_text="the node whose devices tell its use")


class ReversalBody(StrictSerializer):
    note = serializers.CharField(max_length=500, required=False, allow_blank=True)


class AssetReply(serializers.ModelSerializer[Asset]):
    """An asset as told to others."""

    kind = serializers.ChoiceField(choices=HardwareKind.choices)
    state = serializers.ChoiceField(choices=AssetState.choices)
    model = serializers.SlugRelatedField[Any](slug_field="name", read_only=True, allow_null=True)
    owner = serializers.SlugRelatedField[Any](slug_field="slug", read_only=True, allow_null=True)
    borrower = serializers.SlugRelatedField[Any](slug_field="slug", read_only=True, allow_null=True)
    site = serializers.SlugRelatedField[Any](slug_field="name", read_only=True, allow_null=True)
    added_at = serializers.SerializerMethodField()

    class Meta:
        model = Asset
        fields = (
            "id", "name", "kind", "state", "model", "serial", "tag", "supplier", "price_ucurrency", "currency",
            "warranty_until", "location", "note", "owner", "borrower", "site", "parent", "added_at",
        )  # fmt: skip

    def get_added_at(self, asset: Asset) -> str:
        return utc(asset.added_us).isoformat()


class AccountReply(serializers.Serializer[Any]):
    """What became of an asset's embodied carbon until now, µg: ``charged + balance + written_off = total``."""

    known = serializers.BooleanField(help_text="false: nobody knows its embodied carbon, which is not zero")
    total_ug = serializers.IntegerField(allow_null=True)
    charged_ug = serializers.IntegerField(allow_null=True)
    written_off_ug = serializers.IntegerField(allow_null=True)
    balance_ug = serializers.IntegerField(allow_null=True)


class AssetDetail(AssetReply):
    """An asset with the account of its embodied carbon."""

    embodied = serializers.SerializerMethodField()

    class Meta(AssetReply.Meta):
        fields = (*AssetReply.Meta.fields, "embodied")  # type: ignore[assignment]

    @extend_schema_field(AccountReply)
    def get_embodied(self, asset: Asset) -> dict[str, Any]:
        return dict(self.context["account"])


class EventReply(serializers.ModelSerializer[LifecycleEvent]):
    """An entry of a life as it was recorded. One that was reversed stays, and names what reversed it."""

    kind = serializers.ChoiceField(choices=EventKind.choices)
    at = serializers.SerializerMethodField()
    life_end_at = serializers.SerializerMethodField()
    recorded_at = serializers.SerializerMethodField()
    project = serializers.SlugRelatedField[Any](slug_field="slug", read_only=True, allow_null=True)
    site = serializers.SlugRelatedField[Any](slug_field="name", read_only=True, allow_null=True)
    reversed_by = serializers.SerializerMethodField()

    class Meta:
        model = LifecycleEvent
        fields = (
            "id", "kind", "at", "total_ug", *_PARTS, "includes_end_of_life", "source", "life_hours", "life_end_at",
            "amortisation", "project", "parent", "site", "counterpart", "evidence", "note", "reverses", "reversed_by",
            "recorded_at",
        )  # fmt: skip

    def get_at(self, event: LifecycleEvent) -> str:
        return utc(event.hour * US_PER_HOUR).isoformat()

    def get_life_end_at(self, event: LifecycleEvent) -> str | None:
        return None if event.life_end_hour is None else utc(event.life_end_hour * US_PER_HOUR).isoformat()

    def get_recorded_at(self, event: LifecycleEvent) -> str:
        return utc(event.recorded_us).isoformat()

    def get_reversed_by(self, event: LifecycleEvent) -> int | None:
        undoing = getattr(event, "reversed_by", None)
        return undoing.pk if undoing else None
