"""Models of the catalogue: hardware models, their aliases, and their embodied figures."""

from django.db import models
from django.db.models import F, Q

from apps.accounts.models import Lab, User
from apps.catalog.choices import Confidence, FigureMethod, FigureUnit, HardwareKind

SHIPPED = Q(lab__isnull=True)
CURRENT = Q(superseded_us__isnull=True)


class HardwareModel(models.Model):
    """A product with its specification, source and licence.

    ``lab`` null: shipped, else visible to that lab only. ``category`` is the finer category of the
    source ("desktop", "hdd"). ``pack`` is the data pack of a shipped model ('' = the project's own
    tables). ``retired_us``: no longer shipped, or withdrawn by its lab. Assets may still refer to
    it.
    """

    lab = models.ForeignKey(
        Lab, on_delete=models.CASCADE, null=True, blank=True, related_name="hardware_models"
    )
    kind = models.CharField(max_length=16, choices=HardwareKind)
    category = models.CharField(max_length=40, blank=True, default="")
    name = models.CharField(max_length=200)
    match_key = models.CharField(max_length=200, db_index=True)
    vendor = models.CharField(max_length=60, blank=True, default="")
    architecture = models.CharField(max_length=80, blank=True, default="")
    release_year = models.IntegerField(null=True, blank=True)
    tdp_mw = models.BigIntegerField(null=True, blank=True)
    memory_mib = models.BigIntegerField(null=True, blank=True)
    cores = models.IntegerField(null=True, blank=True)
    threads = models.IntegerField(null=True, blank=True)
    source = models.CharField(max_length=300)
    licence = models.CharField(max_length=120)
    pack = models.CharField(max_length=60, blank=True, default="")
    added_by = models.ForeignKey(
        User, on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )
    added_us = models.BigIntegerField(null=True, blank=True)
    retired_us = models.BigIntegerField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["kind", "name"], condition=SHIPPED, name="shipped_model_once"
            ),
            models.UniqueConstraint(
                fields=["lab", "kind", "name"],
                condition=~SHIPPED & Q(retired_us__isnull=True),
                name="own_model_once_per_lab",
            ),
            models.CheckConstraint(condition=~Q(name=""), name="model_has_a_name"),
            models.CheckConstraint(condition=SHIPPED | Q(pack=""), name="own_model_in_no_pack"),
            models.CheckConstraint(
                condition=~Q(source="") & ~Q(licence=""), name="model_has_source_and_licence"
            ),
        ]

    def __str__(self) -> str:
        return self.name


class HardwareAlias(models.Model):
    """Another name of a model in drivers and shops, as :func:`~apps.catalog.matching.match_key`."""

    model = models.ForeignKey(HardwareModel, on_delete=models.CASCADE, related_name="aliases")
    match_key = models.CharField(max_length=200, db_index=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["model", "match_key"], name="alias_once_per_model")
        ]

    def __str__(self) -> str:
        return self.match_key


_PARTS = ("manufacture_ug", "transport_ug", "end_of_life_ug")


def _known_and_not_negative(name: str) -> Q:
    return Q(**{f"{name}__isnull": True}) | Q(**{f"{name}__gte": 0})


class EmbodiedFigure(models.Model):
    """Emissions of one ``unit`` of a model before and after use, in µg CO2e.

    Never edited: superseded. ``total_ug`` is the total of the source. The parts are those that the
    source states separately (null: not stated, which is not zero). No part is larger than the
    total. ``includes_end_of_life``: whether the total includes the end of life, which need not be
    stated separately (null: the source does not state it). ``lab`` null: shipped, else the figure
    of that lab, for a shipped model or its own. ``pack``: the data pack ('' = the project's own
    tables).
    """

    model = models.ForeignKey(HardwareModel, on_delete=models.CASCADE, related_name="figures")
    lab = models.ForeignKey(
        Lab, on_delete=models.CASCADE, null=True, blank=True, related_name="embodied_figures"
    )
    method = models.CharField(max_length=12, choices=FigureMethod)
    unit = models.CharField(max_length=12, choices=FigureUnit, default=FigureUnit.ITEM)
    manufacture_ug = models.BigIntegerField(null=True, blank=True)
    transport_ug = models.BigIntegerField(null=True, blank=True)
    end_of_life_ug = models.BigIntegerField(null=True, blank=True)
    total_ug = models.BigIntegerField()
    low_ug = models.BigIntegerField()
    high_ug = models.BigIntegerField()
    includes_end_of_life = models.BooleanField(null=True, blank=True)
    lifetime_years_typical = models.DecimalField(
        max_digits=4, decimal_places=1, null=True, blank=True
    )
    source = models.CharField(max_length=500)
    source_year = models.IntegerField(null=True, blank=True)
    licence = models.CharField(max_length=160)
    pack = models.CharField(max_length=60, blank=True, default="")
    confidence = models.CharField(max_length=12, choices=Confidence)
    note = models.CharField(max_length=500, blank=True, default="")
    uploaded_by = models.ForeignKey(
        User, on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )
    uploaded_us = models.BigIntegerField()
    superseded_us = models.BigIntegerField(null=True, blank=True)
    superseded_by = models.ForeignKey(
        User, on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["model", "pack", "method", "unit"],
                condition=SHIPPED & CURRENT,
                name="shipped_figure_once",
            ),
            models.UniqueConstraint(
                fields=["lab", "model", "method", "unit"],
                condition=~SHIPPED & CURRENT,
                name="own_figure_once_per_lab",
            ),
            models.CheckConstraint(
                condition=Q(low_ug__gte=0, low_ug__lte=F("total_ug"), high_ug__gte=F("total_ug")),
                name="figure_within_its_range",
            ),
            *(
                models.CheckConstraint(
                    condition=_known_and_not_negative(part), name=f"figure_{part}_not_negative"
                )
                for part in _PARTS
            ),
            *(
                models.CheckConstraint(
                    condition=Q(**{f"{part}__isnull": True}) | Q(**{f"{part}__lte": F("total_ug")}),
                    name=f"figure_{part}_in_the_whole",
                )
                for part in _PARTS
            ),
            models.CheckConstraint(  # a check passes if it is NULL: null is excluded by name
                condition=Q(end_of_life_ug__isnull=True)
                | Q(includes_end_of_life__isnull=False, includes_end_of_life=True),
                name="end_of_life_part_is_inside",
            ),
            models.CheckConstraint(condition=SHIPPED | Q(pack=""), name="own_figure_in_no_pack"),
            models.CheckConstraint(
                condition=~Q(source="") & ~Q(licence=""), name="figure_has_source_and_licence"
            ),
        ]
        indexes = [
            models.Index(fields=["model"], condition=CURRENT, name="figure_current_of_model")
        ]

    def __str__(self) -> str:
        return f"{self.model}: {self.total_ug / 1e9:g} kg CO2e per {self.get_unit_display()}"


class Evidence(models.Model):
    """The original document of an uploaded figure.

    Separate from the figure: lists never read it.
    """

    figure = models.OneToOneField(EmbodiedFigure, on_delete=models.CASCADE, related_name="evidence")
    file_name = models.CharField(max_length=200)
    size_bytes = models.IntegerField()
    sha256 = models.CharField(max_length=64)
    content = models.BinaryField()

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(size_bytes__gt=0), name="evidence_not_empty")
        ]

    def __str__(self) -> str:
        return self.file_name
