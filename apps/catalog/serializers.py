"""Schemas of the catalogue's endpoints.

Amounts are µg CO2e for one ``unit``. Null: unknown, not zero.
"""

from drf_spectacular.utils import inline_serializer
from rest_framework import serializers

from apps.catalog.choices import Confidence, FigureMethod, FigureUnit, HardwareKind


class EmbodiedFigureReply(serializers.Serializer[object]):
    id = serializers.IntegerField()
    method = serializers.ChoiceField(choices=FigureMethod.choices)
    unit = serializers.ChoiceField(choices=FigureUnit.choices)
    manufacture_ug = serializers.IntegerField(allow_null=True)
    transport_ug = serializers.IntegerField(allow_null=True)
    end_of_life_ug = serializers.IntegerField(allow_null=True)
    total_ug = serializers.IntegerField(help_text="the whole that the source gives")
    low_ug = serializers.IntegerField()
    high_ug = serializers.IntegerField()
    includes_end_of_life = serializers.BooleanField(
        allow_null=True, help_text="of the whole; null: the source does not say"
    )
    lifetime_years_typical = serializers.CharField(allow_null=True)
    source = serializers.CharField()  # type: ignore[assignment]  # DRF's own attribute of this name is of the base class
    source_year = serializers.IntegerField(allow_null=True)
    licence = serializers.CharField()
    pack = serializers.CharField(
        help_text="the data pack, empty: the project's own tables or the lab's own"
    )
    confidence = serializers.ChoiceField(choices=Confidence.choices)
    note = serializers.CharField()
    own = serializers.BooleanField(help_text="uploaded by this lab")
    holds = serializers.BooleanField(help_text="false: superseded or withdrawn")


class HardwareModelReply(serializers.Serializer[object]):
    id = serializers.IntegerField()
    kind = serializers.ChoiceField(choices=HardwareKind.choices)
    category = serializers.CharField()
    name = serializers.CharField()
    vendor = serializers.CharField()
    release_year = serializers.IntegerField(allow_null=True)
    tdp_mw = serializers.IntegerField(allow_null=True)
    memory_mib = serializers.IntegerField(allow_null=True)
    cores = serializers.IntegerField(allow_null=True)
    threads = serializers.IntegerField(allow_null=True)
    source = serializers.CharField()  # type: ignore[assignment]  # DRF's own attribute of this name is of the base class
    licence = serializers.CharField()
    own = serializers.BooleanField(help_text="added by this lab, seen by it alone")
    used = EmbodiedFigureReply(
        allow_null=True, help_text="the figure used for it; null: none is known"
    )
    page = serializers.URLField()


class NoticeReply(serializers.Serializer[object]):
    pack = serializers.CharField()
    licence = serializers.CharField()
    licence_url = serializers.URLField()
    notice = serializers.CharField(help_text="to be shown wherever these figures are")


class ModelReply(HardwareModelReply):
    figures = EmbodiedFigureReply(many=True)
    notices = NoticeReply(many=True)


CatalogueReply = inline_serializer(
    "CatalogueReply",
    {
        "results": HardwareModelReply(many=True),
        "next_offset": serializers.IntegerField(allow_null=True),
        "notices": NoticeReply(many=True),
    },
)
