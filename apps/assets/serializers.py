"""Payloads and responses of the API for assets and their lifecycle events. Embodied carbon is
integer µg, times UTC.
"""

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any
from uuid import UUID

from django.db.models import Model, QuerySet
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from apps.accounts.models import Lab
from apps.assets.choices import Amortisation, AssetState, EndOfLife, EventKind, PartsAction
from apps.assets.models import Asset, LifecycleEvent
from apps.assets.services.events import MOST_ASSETS
from apps.assets.services.validation import (
    MOST_MASS_G,
    Draft,
    Embodied,
    Entry,
    Facts,
    default_life_hours,
    embodied_of_configuration,
)
from apps.assets.spreadsheets.catalog_match import Matcher
from apps.catalog.choices import HardwareKind
from apps.catalog.models import HardwareModel
from apps.catalog.selectors import model_of
from apps.core.api import StrictSerializer
from apps.core.clock import utc
from apps.core.errors import InvalidInput
from apps.core.intervals import datetime_to_us
from apps.core.units import INT64_MAX, US_PER_HOUR

_UG: dict[str, Any] = {
    "required": False,
    "allow_null": True,
    "min_value": 0,
    "max_value": INT64_MAX,
}
_PARTS = ("low_ug", "high_ug", "manufacture_ug", "transport_ug", "end_of_life_ug")


class EmbodiedBody(StrictSerializer):
    """Embodied carbon, µg CO2e, with its range and the parts that are stated separately."""

    total_ug = serializers.IntegerField(min_value=0, max_value=INT64_MAX)
    low_ug = serializers.IntegerField(**_UG)
    high_ug = serializers.IntegerField(**_UG)
    manufacture_ug = serializers.IntegerField(**_UG)
    transport_ug = serializers.IntegerField(**_UG)
    end_of_life_ug = serializers.IntegerField(**_UG)
    includes_end_of_life = serializers.BooleanField(required=False, allow_null=True)
    source = serializers.CharField(max_length=500, required=False, allow_blank=True)  # type: ignore[assignment]


class EventBody(StrictSerializer):
    """A lifecycle event. Leave out values that its kind does not have."""

    kind = serializers.ChoiceField(choices=EventKind.choices)
    at = serializers.DateTimeField(help_text="takes effect from the start of its UTC hour")
    embodied = EmbodiedBody(
        required=False,
        allow_null=True,
        help_text="purchase only. Left out: the catalogue's figure. null: unknown",
    )
    life_hours = serializers.IntegerField(
        required=False, allow_null=True, min_value=1, max_value=876_000
    )
    life_end_at = serializers.DateTimeField(required=False, allow_null=True)
    amortisation = serializers.ChoiceField(choices=Amortisation.choices, required=False)
    project = serializers.SlugField(
        max_length=60, required=False, allow_null=True, help_text="owner or borrower"
    )
    parent = serializers.IntegerField(  # type: ignore[assignment]
        required=False,
        allow_null=True,
        min_value=1,
        max_value=INT64_MAX,
        help_text="the machine that it is a part of",
    )
    site = serializers.CharField(
        max_length=200, required=False, allow_null=True, help_text="a site's name"
    )
    counterpart = serializers.CharField(max_length=200, required=False, allow_blank=True)
    evidence = serializers.CharField(max_length=300, required=False, allow_blank=True)
    note = serializers.CharField(max_length=500, required=False, allow_blank=True)
    end_of_life = serializers.ChoiceField(
        choices=EndOfLife.choices, required=False, help_text="disposal: how it left the lab"
    )
    mass_g = serializers.IntegerField(
        required=False,
        allow_null=True,
        min_value=1,
        max_value=MOST_MASS_G,
        help_text="disposal: with the default factor of its end of life, if there is one",
    )
    parts = serializers.ChoiceField(
        choices=PartsAction.choices,
        required=False,
        help_text="disposal of a machine with parts: dispose of them too, or take them out",
    )


class BulkEventBody(StrictSerializer):
    """One lifecycle event for many assets, recorded for all or none."""

    assets = serializers.ListField(
        child=serializers.IntegerField(min_value=1, max_value=INT64_MAX),
        allow_empty=False,
        max_length=MOST_ASSETS,
    )
    event = EventBody()
    preview = serializers.BooleanField(
        required=False, default=False, help_text="true: return the effect and record nothing"
    )


class FactsBody(StrictSerializer):
    """Facts about an asset. ``model`` is the name of a model of this kind in the catalogue."""

    name = serializers.CharField(max_length=200)
    kind = serializers.ChoiceField(choices=HardwareKind.choices)
    model = serializers.CharField(max_length=200, required=False, allow_null=True)
    serial = serializers.CharField(max_length=120, required=False, allow_blank=True)
    tag = serializers.CharField(max_length=60, required=False, allow_blank=True)
    supplier = serializers.CharField(max_length=200, required=False, allow_blank=True)
    price_ucurrency = serializers.IntegerField(
        required=False,
        allow_null=True,
        min_value=0,
        max_value=INT64_MAX - 1,
        help_text="millionths of the currency",
    )
    currency = serializers.CharField(max_length=3, required=False, allow_blank=True)
    warranty_until = serializers.DateField(required=False, allow_null=True)
    location = serializers.CharField(max_length=200, required=False, allow_blank=True)
    note = serializers.CharField(max_length=1000, required=False, allow_blank=True)
    order_number = serializers.CharField(max_length=100, required=False, allow_blank=True)
    contact = serializers.CharField(max_length=200, required=False, allow_blank=True)


class ConfigurationBody(StrictSerializer):
    """Parts of a server, from which its embodied carbon is computed (formulas of BoaviztAPI)."""

    cpus = serializers.IntegerField()
    cores = serializers.IntegerField(help_text="cores of one CPU")
    memory_modules = serializers.IntegerField()
    module_gb = serializers.IntegerField(help_text="capacity of one memory module")
    ssds = serializers.IntegerField(required=False)
    ssd_gb = serializers.IntegerField(required=False, help_text="capacity of one SSD")
    hdds = serializers.IntegerField(required=False)
    power_supplies = serializers.IntegerField(required=False, help_text="2 when left out")
    gpus = serializers.IntegerField(required=False)
    gpu_model = serializers.CharField(
        max_length=200, required=False, help_text="name of a GPU in the catalogue with a figure"
    )


class AssetBody(FactsBody):
    """An asset to register: facts, purchase, start of use, and meter."""

    opening = EventBody()
    configuration = ConfigurationBody(
        required=False,
        help_text="server or workstation, purchased new: computes the embodied carbon; leave out "
        "``opening.embodied``",
    )
    in_use_since = serializers.DateTimeField(required=False, allow_null=True)
    device = serializers.CharField(
        max_length=255, required=False, allow_null=True, help_text="the key of its own device"
    )
    node = serializers.UUIDField(
        required=False, allow_null=True, help_text="the node whose devices measure its use"
    )


class ReversalBody(StrictSerializer):
    note = serializers.CharField(max_length=500, required=False, allow_blank=True)


class AssetReply(serializers.ModelSerializer[Asset]):
    """An asset."""

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
            "id", "name", "kind", "state", "model", "serial", "tag", "supplier", "price_ucurrency",
            "currency", "warranty_until", "location", "note", "order_number", "contact", "owner",
            "borrower", "site", "parent", "added_at",
        )  # fmt: skip

    def get_added_at(self, asset: Asset) -> str:
        return utc(asset.added_us).isoformat()


class AccountReply(serializers.Serializer[Any]):
    """Embodied carbon of an asset to date, µg: ``charged + balance + written_off = total``."""

    known = serializers.BooleanField(
        help_text="false: its embodied carbon is unknown, which is not zero"
    )
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
    """A recorded lifecycle event. A reversed event stays, with the id of its reversal."""

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
            "id", "kind", "at", "total_ug", *_PARTS, "includes_end_of_life", "source", "life_hours",
            "life_end_at", "amortisation", "project", "parent", "site", "counterpart", "evidence",
            "note", "end_of_life", "mass_g", "reverses", "cause", "reversed_by", "recorded_at",
        )  # fmt: skip

    def get_at(self, event: LifecycleEvent) -> str:
        return utc(event.hour * US_PER_HOUR).isoformat()

    def get_life_end_at(self, event: LifecycleEvent) -> str | None:
        return (
            None
            if event.life_end_hour is None
            else utc(event.life_end_hour * US_PER_HOUR).isoformat()
        )

    def get_recorded_at(self, event: LifecycleEvent) -> str:
        return utc(event.recorded_us).isoformat()

    def get_reversed_by(self, event: LifecycleEvent) -> int | None:
        undoing = getattr(event, "reversed_by", None)
        return undoing.pk if undoing else None


class SumsReply(serializers.Serializer[Any]):
    """Sums over assets with known embodied carbon and their parts, to date, µg."""

    total_ug = serializers.IntegerField()
    charged_ug = serializers.IntegerField()
    written_off_ug = serializers.IntegerField()
    balance_ug = serializers.IntegerField()


class BulkEventReply(serializers.Serializer[Any]):
    """The events of a bulk event, and the books before and after it.

    ``events`` are those of the assets, without those that they cause at parts. A preview has none.
    """

    preview = serializers.BooleanField()
    events = EventReply(many=True)
    before = SumsReply()
    after = SumsReply()


Body = Mapping[str, Any]


def _named(rows: QuerySet[Any], field: str, value: Any, name: str) -> Any:
    """Return the record of the lab named ``value``, or None.

    Raises InvalidInput naming the field.
    """
    if value is None:
        return None
    record: Model | None = rows.filter(**{field: value}).first()
    if record is None:
        raise InvalidInput(
            f"No such {name} in this lab.", field=name, hint="Use a record of this lab."
        )
    return record


def entry_of(lab: Lab, body: Body) -> Entry:
    """Return the lifecycle event of a payload."""
    embodied = body.get("embodied")
    end = body.get("life_end_at")
    return Entry(
        body["kind"],
        datetime_to_us(body["at"]),
        embodied=Embodied(**embodied) if embodied else None,
        life_hours=body.get("life_hours"),
        life_end_us=datetime_to_us(end) if end else None,
        amortisation=body.get("amortisation", ""),
        project=_named(lab.projects.all(), "slug", body.get("project"), "project"),
        parent=_named(
            Asset.objects.filter(lab=lab).select_related("parent"),
            "pk",
            body.get("parent"),
            "parent",
        ),
        site=_named(lab.sites.all(), "name", body.get("site"), "site"),
        **{
            name: body.get(name, "")
            for name in ("counterpart", "evidence", "note", "parts", "end_of_life")
        },
        mass_g=body.get("mass_g"),
    )


def facts_of(lab: Lab, body: Body, before: Asset | None = None) -> Facts:
    """Return the facts of a payload. Missing facts keep their value from ``before``."""
    values = {field.name: getattr(before, field.name) for field in fields(Facts)} if before else {}
    values |= {
        name: value
        for name, value in body.items()
        if name in {field.name for field in fields(Facts)}
    }
    if "model" in body:
        values["model"] = _model(lab, str(values["kind"]), body["model"])
    return Facts(**values)


def _model(lab: Lab, kind: str, name: str | None) -> HardwareModel | None:
    if name is None:
        return None
    hardware_model = model_of(kind, name, lab)
    if hardware_model is None:
        raise InvalidInput(
            f"The catalogue has no {kind} {name[:60]!r}.",
            field="model",
            hint="Leave it out, or add the model first.",
        )
    return hardware_model


def _computed(lab: Lab, kind: str, opening: Body, configuration: dict[str, Any]) -> Embodied:
    """Return the embodied carbon of a configuration. Raises InvalidInput with another value."""
    if "embodied" in opening or opening["kind"] != EventKind.PURCHASE:
        raise InvalidInput(
            "A configuration is for a new purchase without a value of its own.",
            field="configuration",
            hint="Leave out opening.embodied and use the kind purchase, or leave it out.",
        )
    gpu_model = configuration.pop("gpu_model", "")
    return embodied_of_configuration(lab, kind, configuration, gpu_model)


def draft_of(lab: Lab, body: Body) -> Draft:
    """Return the asset of a payload. Without embodied carbon, the catalogue figure is used."""
    facts = facts_of(lab, body)
    opening_body: Body = body["opening"]
    opening = entry_of(lab, {"life_hours": default_life_hours(facts.kind), **opening_body})
    configuration: dict[str, Any] | None = body.get("configuration")
    if configuration is not None:
        opening = replace(
            opening, embodied=_computed(lab, facts.kind, opening_body, dict(configuration))
        )
    elif opening_body["kind"] != EventKind.SECOND_HAND and "embodied" not in opening_body:
        names = (facts.model.name,) if facts.model else ()
        known = Matcher(lab).known(facts.kind, names, "", None)
        opening = replace(opening, embodied=known.embodied)
    used = body.get("in_use_since")
    node: UUID | None = body.get("node")
    return Draft(
        facts,
        opening,
        datetime_to_us(used) if used else None,
        device=_named(lab.devices.all(), "key", body.get("device"), "device"),
        node=_named(lab.nodes.all(), "uuid", node, "node"),
    )
